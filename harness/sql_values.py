"""Values of SQL results as JSON, exactly."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from harness import jsonfile

#: How values of a type are encoded; the first type that fits.
_ENCODINGS: tuple[tuple[Any, str, Callable[[Any], str]], ...] = (
    (int, "n", str),  # larger than JSON takes
    (float, "f", float.hex),
    (Decimal, "n", str),
    (datetime, "t", datetime.isoformat),
    (date, "d", date.isoformat),
    ((bytes, bytearray, memoryview), "s", lambda value: f"\\x{value.hex()}"),
    (object, "s", str),
)


def encode(value: Any) -> Any:
    """A JSON value for a Python value of a result row."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int) and abs(value) <= jsonfile.MOST_INTEGER:
        return value
    return next({form: text(value)} for kind, form, text in _ENCODINGS if isinstance(value, kind))


def decode(value: Any) -> Any:
    """The inverse of ``encode``; values of other types are returned as text."""
    if not isinstance(value, dict):
        return value
    (kind, text), *_ = value.items()
    if kind == "f":
        return float.fromhex(text)
    if kind == "n":
        return Decimal(text)
    if kind == "t":
        return datetime.fromisoformat(text)
    return date.fromisoformat(text) if kind == "d" else text
