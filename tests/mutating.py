"""Mutations of files and of what programs print, and how tests have them read.

``MUTATIONS=500`` makes that many of each kind, reads them through the commands themselves, prints
how many were refused, and fails for a command that takes longer than 20 s.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from harness.cli.app import app
from harness.errors import HarnessError

MANY = int(os.environ.get("MUTATIONS", "0"))
#: Of a document of a run, which many commands read; of everything else.
ROUNDS = min(MANY, 60) or 6
COUNT = MANY or 40
LONGEST_S = 20
WORDS = ["", "null", "-1", "1e999", "NaN", "[]", "{}", '"x"', "true", "0" * 5000, "\0", "é", "\\",
         "*a", "&a [*a]", "<<", "../..", "[" * 3000]  # fmt: skip
VALUES: list[Any] = [None, [], {}, "", -1, 2**70, 1e308, True, "x" * 300, "a\0b", [[]], {"": {}}]


Read = Callable[[bytes], Any]
#: Valid contents, and what reads one of them.
Kind = tuple[list[bytes], Read]


def damaged(content: bytes, rng: random.Random) -> bytes:
    """The file cut, spliced or overwritten somewhere; as JSON also with another shape."""
    try:
        document = json.loads(content)
    except ValueError:
        document = None
    if document is not None and rng.random() < 0.6:
        return json.dumps(_reshaped(document, rng)).encode()
    start = rng.randrange(len(content))
    end = min(len(content), start + rng.choice([0, 1, 2, 20, 500]))
    middle = rng.choice(
        [b"", bytes([rng.randrange(256)]), rng.choice(WORDS).encode(), content[start:end] * 2]
    )
    tail = b"" if rng.random() < 0.1 else content[end:]
    return content[:start] + middle + tail


def _reshaped(document: Any, rng: random.Random) -> Any:
    """With one value, anywhere in it, replaced, removed or under another name."""
    if not isinstance(document, dict | list) or not document or rng.random() < 0.1:
        return rng.choice(VALUES)
    if isinstance(document, list):
        place = rng.randrange(len(document))
        return [*document[:place], _reshaped(document[place], rng), *document[place + 1 :]]
    key = rng.choice(sorted(document))
    rest = {name: value for name, value in document.items() if name != key}
    if rng.random() < 0.15:
        return rest | rng.choice([{}, {"": document[key]}, {f"{key}x": document[key]}])
    return document | {key: _reshaped(document[key], rng)}


def mutations(content: bytes, kind: str, count: int = ROUNDS) -> Iterator[bytes]:
    for number in range(count):
        yield damaged(content, random.Random(f"{kind} {number}"))


def refused(read: Callable[[], Any]) -> bool:
    """Whether it was refused in the harness's own words; any other exception is a failure."""
    try:
        read()
    except (HarnessError, SystemExit) as error:
        return not isinstance(error, SystemExit) or bool(error.code)
    return False


def command(*argv: object) -> Callable[[], Any]:
    return lambda: app([str(word) for word in argv])


def read_mutations(name: str, kind: Kind, capfd: pytest.CaptureFixture[str]) -> None:
    """Read each content as it is, then with mutations."""
    originals, read = kind
    count = wrong = 0
    slowest = 0.0
    for original in originals:
        read(original)
        for content in mutations(original, name, -(-COUNT // len(originals))):
            began = time.monotonic()
            count, wrong = count + 1, wrong + refused(partial(read, content))
            slowest = max(slowest, time.monotonic() - began)
            capfd.readouterr()
    if MANY:
        assert slowest < LONGEST_S
        with capfd.disabled():
            print(f"\n{name}: {count} mutations, {wrong} refused, slowest {slowest:.2f} s")
