"""JSON that comes from a file, a program or another host, read within bounds.

Standard library only: also used inside the supervisor process.
"""

from __future__ import annotations

import binascii
import errno
import json
import math
import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

#: Of a file; the largest documents are the samples of monitors over hours.
MOST_BYTES = 256 << 20
#: Arrays and objects in one another: code that walks a document may recurse.
MOST_DEPTH = 128
#: DuckDB's sums have 128 bits, and any such number has a float next to it.
MOST_INTEGER = 2**128 - 1
#: What is neither a bracket nor a quote.
_OTHERS = bytes(set(range(256)) - set(b'[]{}"'))


def parse(content: bytes | str) -> Any:
    r"""The document; ValueError for what is no JSON, or exceeds the bounds.

    JSON has neither NaN nor infinite numbers, ``1e999`` included. Half a character (``\ud800``),
    which cannot be printed, becomes a question mark.
    """
    text = content.decode() if isinstance(content, bytes) else content
    try:
        document = _DECODER.decode(text)
    except RecursionError:
        raise ValueError(f"more than {MOST_DEPTH} levels") from None
    if text.count("[") + text.count("{") > MOST_DEPTH:
        _check_depth(text)
    if "\\ud" in text or "\\uD" in text:
        whole = json.dumps(document, ensure_ascii=False).encode(errors="replace")
        document = json.loads(whole)
    return document


def parse_among_notes(text: str) -> tuple[Any, str]:
    """The first object that begins a line, and the text around it: programs print notes, too.

    ValueError where there is none within the bounds.
    """
    decoder = json.JSONDecoder()
    for line in re.finditer(r"^\s*\{", text, re.MULTILINE):
        start = line.end() - 1
        with suppress(ValueError, RecursionError):
            _, end = decoder.raw_decode(text, start)
            return parse(text[start:end]), f"{text[:start].strip()}\n{text[end:].strip()}".strip()
    raise ValueError("no JSON object begins a line")


def log_line(document: Any) -> bytes:
    """Return a line of a log that is only appended to: a checksum and the document.

    ValueError for what JSON cannot express.
    """
    text = json.dumps(document, allow_nan=False).encode()
    return b"%08x %s\n" % (binascii.crc32(text), text)


def parse_log_line(line: bytes) -> Any:
    """Return the document of a :func:`log_line`; ValueError where the line is not as written."""
    checksum, text = line[:8], line[9:].removesuffix(b"\n")
    if checksum != b"%08x" % binascii.crc32(text):
        raise ValueError("its checksum differs")
    return parse(text)


def read(path: Path, most_bytes: int = MOST_BYTES) -> Any:
    """:func:`parse` of a file; OSError or ValueError where it cannot be read."""
    return parse(read_bytes(path, most_bytes))


def read_bytes(path: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """Content of a regular file; ValueError for anything else, and for a larger one."""
    # O_NONBLOCK: opening a FIFO would wait for its writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is not a regular file")
        if status.st_size > most_bytes:
            raise ValueError(f"it is larger than {most_bytes} bytes")
        content = bytearray()
        while len(content) <= status.st_size:
            if not (part := os.read(descriptor, status.st_size - len(content) + 1)):
                break
            content += part
    finally:
        os.close(descriptor)
    return bytes(content)


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


#: Made once: to read a line of the index takes less than to make a decoder.
_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite, parse_int=_integer)


def _check_depth(text: str) -> None:
    """ValueError for too many levels in valid JSON."""
    unescaped = text.replace("\\\\", "").replace('\\"', "").encode(errors="replace")
    brackets = re.sub(rb'"[^"]*"', b"", unescaped.translate(None, _OTHERS))
    brackets = brackets.translate(bytes.maketrans(b"{}", b"[]"))
    for _ in range(MOST_DEPTH):  # each pass removes the innermost level
        brackets = brackets.replace(b"[]", b"")
    if brackets:
        raise ValueError(f"more than {MOST_DEPTH} levels")
