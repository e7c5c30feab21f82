"""JSON that ndctl, daxctl and cxl print: nothing, one object, or an array.

ValueError names the object and the field that are malformed.
"""

from __future__ import annotations

import json
from typing import Any

Node = dict[str, Any]
#: Fields that name an object.
_NAMES = ("dev", "chardev", "memdev", "region", "decoder")


def listing(text: str) -> Any:
    """The document; an empty list where nothing was printed."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    try:
        return json.loads(text, parse_constant=refuse) if text.strip() else []
    except RecursionError:
        raise ValueError("too many levels in one another") from None


def count(node: Node, key: str, otherwise: int = 0, below: int = 1 << 63) -> int:
    """A size or number; null is as good as nothing."""
    value = node.get(key)
    if value is None:
        return otherwise
    if type(value) is not int or not 0 <= value < below:
        raise ValueError(f"{_name(node)}: {key} is {value!r:.40}")
    return value


def word(node: Node, key: str) -> str | None:
    """A name; None where it is missing or empty."""
    value = node.get(key)
    if value is not None and not (isinstance(value, str) and value.isprintable()):
        raise ValueError(f"{_name(node)}: {key} is {value!r:.40}")
    return value or None


def objects(node: Node, key: str) -> list[Node]:
    """An array of objects; empty where it is missing."""
    value = node.get(key) or []
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise ValueError(f"{_name(node)}: {key} is {value!r:.40}")
    return value


def _name(node: Node) -> Any:
    return next((node[name] for name in _NAMES if node.get(name)), None)
