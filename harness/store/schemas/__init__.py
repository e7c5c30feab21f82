"""The JSON Schemas of every contract, and validation with messages for a person."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import jsonfile
from harness.errors import UsageError, nearest

if TYPE_CHECKING:  # imported late: it takes as long as a small command
    from jsonschema_rs import Draft202012Validator, KeywordValidator, Registry, ValidationError

FOLDER = Path(__file__).parent


def names() -> list[str]:
    """Return the name of every schema."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


@cache
def schema(name: str) -> dict[str, Any]:
    """Return a schema as parsed JSON."""
    document: dict[str, Any] = jsonfile.read(FOLDER / f"{name}.json")
    return document


class _WholeNumber:
    """A keyword next to the type "integer": JSON Schema's integers include 5.0, ours do not."""

    def __init__(self, _schema: object, _value: object, _path: object) -> None:
        pass

    def validate(self, instance: object) -> None:
        if isinstance(instance, float):
            raise ValueError(f'{instance} is not of type "integer"')


def _strict(node: Any) -> Any:
    """Return a schema in which each integer must be a whole number."""
    if isinstance(node, list):
        return [_strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    result = {key: _strict(value) for key, value in node.items()}
    types = node.get("type", ())
    whole = "integer" in ([types] if isinstance(types, str) else types)
    return result | ({"wholeNumber": True} if whole else {})


@cache
def _registry() -> Registry:
    from jsonschema_rs import Registry

    return Registry([(name, _strict(schema(name))) for name in names()])


@cache
def _validator(name: str) -> Draft202012Validator:
    from jsonschema_rs import Draft202012Validator

    keywords: dict[str, type[KeywordValidator]] = {"wholeNumber": _WholeNumber}
    return Draft202012Validator(_strict(schema(name)), registry=_registry(), keywords=keywords)


def validate(
    document: Any, name: str, source: str | Callable[[tuple[str | int, ...]], str]
) -> None:
    """UsageError naming the first thing in ``document`` that schema ``name`` refuses.

    ``source``: where the document came from, or a function from a path in it to
    such a text (a YAML file's line).
    """
    try:
        error = _error_of(document, name)
    except ValueError as unreadable:  # too many levels, or a value that JSON cannot have
        place = source(()) if callable(source) else source
        raise UsageError(place, str(unreadable)) from None
    if error is None:
        return
    where, context, do = _explain(error, name)
    do = do or "see docs/profiles.md"
    place = source(where) if callable(source) else f"{source} at {_dotted(where)}"
    raise UsageError(place, context, do)


def _error_of(document: Any, name: str) -> ValidationError | None:
    validator = _validator(name)

    def error_in(value: Any) -> ValidationError | None:
        return None if validator.is_valid(value) else _most_relevant(validator.iter_errors(value))

    try:
        return error_in(document)
    except ValueError as refused:  # numpy's numbers: floats for json, unknown to the validator
        try:
            plain = jsonfile.parse(json.dumps(document))
        except (RecursionError, TypeError):
            raise refused from None
        return error_in(plain)


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


def _most_relevant(errors: Iterable[ValidationError]) -> ValidationError:
    """Return the outermost error; of alternatives, the outermost error of the one meant."""

    def depth(error: ValidationError) -> tuple[int, bool]:
        return len(error.instance_path), error.kind.name == "oneOf"

    error = min(errors, key=depth)
    while alternatives := getattr(error.kind, "context", None):
        # An alternative of another type was not meant.
        meant = [
            branch
            for branch in alternatives
            if not any(
                e.kind.name == "type" and e.instance_path == error.instance_path for e in branch
            )
        ]
        if len(meant) != 1 or not meant[0]:
            return error
        error = min(meant[0], key=depth)
    return error


def _explain(error: ValidationError, name: str) -> tuple[tuple[str | int, ...], str, str]:
    where = tuple(error.instance_path)
    refused_by = _schema_at(name, error.evaluation_path[:-1])
    kind: Any = error.kind
    if kind.name == "additionalProperties":
        (unknown, *_), allowed = kind.unexpected, sorted(refused_by.get("properties", {}))
        context = f"unknown key {unknown!r}{nearest(unknown, allowed)}"
        do = f"valid keys here: {', '.join(allowed)}" if allowed else "remove it"
        return (*where, unknown), context, do
    context = f"{_dotted(where)}: {error.message}"
    if kind.name == "propertyNames":
        where = (*where, str(kind.error.instance))
        context = f"{kind.error.instance!r} is not a valid name here: {error.message}"
    return where, context, str(refused_by.get("description", ""))


def _schema_at(name: str, path: Iterable[Any]) -> Mapping[str, Any]:
    """Follow the path of an evaluation, references included, from the top of a schema."""
    node: Any = schema(name)
    for step in path:
        if step == "$ref":
            other, _, pointer = node["$ref"].partition("#")
            name = other or name
            node = _schema_at(name, filter(None, pointer.split("/")))
        elif isinstance(node, list) or step in node:
            node = node[step]
        else:  # that of a keyword of ours begins at the last reference
            return {}
    return node if isinstance(node, dict) else {}
