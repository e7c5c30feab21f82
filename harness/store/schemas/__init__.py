"""The JSON Schemas of every contract, and validation with messages for a person."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import jsonfile
from harness.errors import UsageError, nearest

if TYPE_CHECKING:  # imported late: a tenth of the time that a command starts in
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError
    from referencing import Registry

_FOLDER = Path(__file__).parent
#: Where what a person writes is explained, by its schema; profiles.md for all the others.
_DOCUMENTED = {"micro-suite": "docs/micro.md", "host-file": "docs/tiers.md"}


def names() -> list[str]:
    """Every schema there is."""
    return sorted(path.stem for path in _FOLDER.glob("*.json"))


@cache
def schema(name: str) -> dict[str, Any]:
    """One schema as parsed JSON."""
    document: dict[str, Any] = jsonfile.read(_FOLDER / f"{name}.json")
    return document


@cache
def fingerprint(roots: tuple[str, ...]) -> str:
    """Changes whenever one of these schemas does, or one that they refer to."""
    texts = {name: json.dumps(schema(name)) for name in names()}
    reached, pending = set[str](), list(roots)
    while pending:
        name = pending.pop()
        if name not in reached:
            reached.add(name)
            pending += [other for other in texts if f'"$ref": "{other}' in texts[name]]
    content = "".join(texts[name] for name in sorted(reached))
    return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()


@cache
def _registry() -> Registry[Any]:
    from referencing import Registry, Resource

    pairs = [(name, Resource.from_contents(schema(name))) for name in names()]
    return Registry().with_resources(pairs)


@cache
def _validator(name: str) -> Draft202012Validator:
    from jsonschema import Draft202012Validator, validators

    # JSON Schema takes 5.0 for an integer; code that indexes by it does not.
    checker = Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    )
    strict: Any = validators.extend(  # type: ignore[no-untyped-call]
        Draft202012Validator, type_checker=checker
    )
    found: Draft202012Validator = strict(schema(name), registry=_registry())
    return found


def validate(
    document: Any, name: str, source: str | Callable[[tuple[str | int, ...]], str]
) -> None:
    """UsageError naming the first thing in ``document`` that schema ``name`` refuses.

    ``source``: where the document came from, or a function from a path in it to
    such a text (a YAML file's line).
    """
    from jsonschema.exceptions import best_match

    try:
        error = best_match(_validator(name).iter_errors(document))
    except RecursionError:
        place = source(()) if callable(source) else source
        raise UsageError(place, "too many levels in one another") from None
    if error is None:
        return
    where, found, do = _explain(error)
    do = do or f"see {_DOCUMENTED.get(name, 'docs/profiles.md')}"
    place = source(where) if callable(source) else f"{source} at {_dotted(where)}"
    raise UsageError(place, found, do)


def read(path: Path, name: str) -> Any:
    """The document in ``path``, valid by schema ``name``.

    UsageError naming the file, but FileNotFoundError where there is none.
    """
    try:
        document = jsonfile.read(path)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise UsageError(str(path), f"it cannot be read: {error}") from error
    validate(document, name, source=str(path))
    return document


def _dotted(where: tuple[str | int, ...]) -> str:
    return ".".join(str(step) for step in where) or "the top level"


def _explain(error: ValidationError) -> tuple[tuple[str | int, ...], str, str]:
    where: tuple[str | int, ...] = tuple(error.absolute_path)
    refused_by: dict[str, Any] = error.schema if isinstance(error.schema, dict) else {}
    allowed = sorted(refused_by.get("properties", {}))
    if error.validator == "additionalProperties" and isinstance(error.instance, dict):
        unknown = next((str(key) for key in error.instance if key not in allowed), "")
        found = f"unknown key {unknown!r}{nearest(unknown, allowed)}"
        do = f"valid keys here: {', '.join(allowed)}" if allowed else "remove it"
        return (*where, unknown), found, do
    found = f"{_dotted(where)}: {error.message}"
    if "propertyNames" in error.absolute_schema_path:
        where = (*where, str(error.instance))
        found = f"{error.instance!r} is not a valid name here: {error.message}"
    return where, found, str(refused_by.get("description", ""))
