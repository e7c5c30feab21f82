"""What ``--json`` prints of dataclasses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any


def as_json(value: Any) -> Any:
    """A value as JSON: a dataclass by its ``to_json`` if it has one, else by its fields."""
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value):
        return attributes(value, *(field.name for field in fields(value)))
    if isinstance(value, Mapping):
        return {key: as_json(one) for key, one in value.items()}
    return [*map(as_json, value)] if isinstance(value, tuple | list) else value


def attributes(one: object, *names: str) -> dict[str, Any]:
    """These attributes of an object as JSON; all null where there is none."""
    return {name: None if one is None else as_json(getattr(one, name)) for name in names}
