"""Values of result rows as typed JSON, for worker processes and checkpoints."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any


def encode(value: Any) -> Any:
    """A JSON value for a Python value of a result row."""
    if value is None or isinstance(value, int | str):
        return value
    if isinstance(value, float):
        return {"f": value.hex()}
    if isinstance(value, Decimal):
        return {"n": str(value)}
    if type(value) is date:
        return {"d": value.isoformat()}
    return {"s": str(value)}


def decode(value: Any) -> Any:
    """The inverse of ``encode``; values of other types are returned as text."""
    if not isinstance(value, dict):
        return value
    (kind, text), *_ = value.items()
    if kind == "f":
        return float.fromhex(text)
    if kind == "n":
        return Decimal(text)
    return date.fromisoformat(text) if kind == "d" else text
