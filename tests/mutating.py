"""Mutations of files and of what programs print."""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from harness.errors import HarnessError

_WORDS = ["", "null", "-1", "1e999", "NaN", "[]", "{}", '"x"', "true", "0" * 5000, "\0", "é", "\\",
          "*a", "&a [*a]", "<<", "../..", "[" * 3000]  # fmt: skip
_VALUES: list[Any] = [None, [], {}, "", -1, 2**70, 0.5, 1e308, True, "x" * 300, "a\0b", "\ud800",
                      "../..", [[]], {"": {}}]  # fmt: skip


def mutations(content: bytes, count: int) -> Iterator[bytes]:
    """The content cut, spliced or overwritten somewhere; JSON also with another shape."""
    for number in range(count):
        yield _damaged(content, random.Random(number))


def _damaged(content: bytes, rng: random.Random) -> bytes:
    try:
        document = json.loads(content)
    except ValueError:
        document = None
    if document is not None and rng.random() < 0.6:
        return json.dumps(_reshaped(document, rng)).encode()
    start = rng.randrange(len(content))
    end = min(len(content), start + rng.choice([0, 1, 2, 20, 500]))
    middle = rng.choice(
        [b"", bytes([rng.randrange(256)]), rng.choice(_WORDS).encode(), content[start:end] * 2]
    )
    tail = b"" if rng.random() < 0.1 else content[end:]
    return content[:start] + middle + tail


def _reshaped(document: Any, rng: random.Random) -> Any:
    """With one value, anywhere in it, replaced, removed or under another name."""
    if not isinstance(document, dict | list) or not document or rng.random() < 0.1:
        return rng.choice(_VALUES)
    if isinstance(document, list):
        place = rng.randrange(len(document))
        return [*document[:place], _reshaped(document[place], rng), *document[place + 1 :]]
    key = rng.choice(sorted(document))
    rest = {name: value for name, value in document.items() if name != key}
    if rng.random() < 0.15:
        return rest | rng.choice([{}, {"": document[key]}, {f"{key}x": document[key]}])
    return document | {key: _reshaped(document[key], rng)}


def refused(read: Callable[[], object]) -> bool:
    """Return whether the harness refused it by an error of its own; others are failures."""
    try:
        read()
    except (HarnessError, SystemExit) as error:
        return not isinstance(error, SystemExit) or bool(error.code)
    return False
