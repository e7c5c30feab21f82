"""JSON that comes from a file, a program or another host, read within bounds.

Standard library only: also used inside the supervisor process.
"""

from __future__ import annotations

import json
import math
import os
import stat
from pathlib import Path
from typing import Any

#: Of a file; the largest documents are the samples of monitors over hours.
MOST_BYTES = 256 << 20
#: Arrays and objects in one another: code that walks a document may recurse.
MOST_DEPTH = 128
#: DuckDB's sums have 128 bits, and any such number has a float next to it.
MOST_INTEGER = 2**128 - 1


def parse(content: bytes | str) -> Any:
    """The document; ValueError for what is no JSON, or exceeds the bounds.

    JSON has neither NaN nor infinite numbers, ``1e999`` included.
    """
    text = content.decode() if isinstance(content, bytes) else content
    try:
        document = json.loads(text, parse_constant=_refuse, parse_float=_finite, parse_int=_integer)
    except RecursionError:
        raise ValueError(f"more than {MOST_DEPTH} levels") from None
    if text.count("[") + text.count("{") > MOST_DEPTH:
        _check_depth(document)
    if "\\ud" in text or "\\uD" in text:  # half a character cannot be printed
        json.dumps(document, ensure_ascii=False).encode()
    return document


def read(path: Path, most_bytes: int = MOST_BYTES) -> Any:
    """:func:`parse` of a file; OSError or ValueError where it cannot be read."""
    return parse(read_bytes(path, most_bytes))


def read_bytes(path: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """Content of a regular file; ValueError for anything else, and for a larger one."""
    # O_NONBLOCK: opening a FIFO would wait for its writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is not a regular file")
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise ValueError(f"it is larger than {most_bytes} bytes")
    return content


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text[:20]} is too large a number")
    return number


def _integer(text: str) -> int:
    if len(text) > 40 or abs(number := int(text)) > MOST_INTEGER:
        raise ValueError(f"{text[:20]} is too large a number")
    return number


def _check_depth(document: Any) -> None:
    level = [document] if isinstance(document, dict | list) else []
    for _ in range(MOST_DEPTH):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, dict | list)
        ]
        if not level:
            return
    raise ValueError(f"more than {MOST_DEPTH} levels")
