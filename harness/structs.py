"""Structs: the one declaration of a document's keys, with their types, bounds and help.

The classes are msgspec's, with ``Meta`` for bounds and descriptions. :func:`convert` makes one of
a parsed document and names the key that does not fit; :func:`json_schema` describes it for other
programs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from copy import copy
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import Meta, field

from harness.errors import UsageError, nearest

#: A path into a document: keys and list positions.
Where = tuple[str | int, ...]

T = TypeVar("T")

#: msgspec's words for JSON's types, and ours.
_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "int | float": "a number",
    "str": "a text",
    "bool": "true or false",
    "object": "a mapping",
    "array": "a list",
    "null": "null",
}
#: msgspec names the place at the end of its messages.
_PLACE = re.compile(r" - at (`key` in )?`[^`]*`$")
_REGEX = re.compile(r"matching regex '(?:\^\(\?:)?(.*?)(?:\)\$\(\?!.*\))?'$")
_LONGEST_SHOWN = 60


class Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all documents and of their parts: immutable, and closed to unknown keys.

    ``documented``: the page that explains a document, for errors.
    """

    documented: ClassVar[str] = "docs/profiles.md"

    def to_json(self) -> dict[str, Any]:
        """Return it as a document of JSON's types: the inverse of :func:`convert`."""
        document: dict[str, Any] = _lists(msgspec.to_builtins(self, enc_hook=_plain_value))
        return document


class Misfit(ValueError):
    """Members that do not fit together: ``__post_init__`` raises it.

    ``key``: the member to blame, if it is one; ``hint``: how to mend it.
    """

    def __init__(self, context: str, hint: str = "", key: str = "") -> None:
        super().__init__(context)
        self.hint = hint
        self.key = key


def whole(pattern: str, description: str | None = None) -> Meta:
    """Demand a text that matches ``pattern`` from its begin to its end."""
    return Meta(pattern=f"{_WHOLE[0]}{pattern}{_WHOLE[1]}", description=description)


#: Python's ``$`` matches before a newline at the end, too.
_WHOLE = ("^(?:", r")$(?!\n)")


def convert(document: Any, kind: type[T], source: str | Callable[[Where], str]) -> T:
    """Make a value of type ``kind`` of a parsed document.

    UsageError names the outermost key that does not fit, with the nearest valid one. ``source``:
    where the document is from, or a function from a path in it to such a text (a YAML file's
    line).
    """
    try:
        return _converted(document, kind)
    except msgspec.ValidationError:
        refusal = _refusal(document, kind, ())
    except RecursionError:
        refusal = _Refusal((), "nested too deeply", "")
    place = source(refusal.where) if callable(source) else f"{source} at {_dotted(refusal.where)}"
    hint = refusal.hint or f"see {getattr(kind, 'documented', Struct.documented)}"
    raise UsageError(place, refusal.context, hint)


def written(default: T) -> T:
    """Declare a default that documents have, in a struct that leaves other defaults out.

    The struct is of ``omit_defaults``; msgspec compares with no result of a factory.
    """
    return field(default_factory=lambda: copy(default))


def _plain_value(value: Any) -> Any:
    """Return what msgspec does not know as JSON has it: other mappings, and numpy's numbers."""
    return dict(value) if isinstance(value, Mapping) else value.item()


def _lists(value: Any) -> Any:
    """Return a document with lists in the place of tuples, as it is read again."""
    if isinstance(value, dict):
        return {
            key: _lists(member) if type(member) in _CONTAINERS else member
            for key, member in value.items()
        }
    return [*map(_lists, value)] if isinstance(value, list | tuple) else value


_CONTAINERS = frozenset({dict, list, tuple})


def json_schema(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of a document, for other programs."""
    return msgspec.json.schema(kind)


def _converted(document: Any, kind: type[T]) -> T:
    config = getattr(kind, "__struct_config__", None)
    version = config.tag_field if config else None
    if version and isinstance(document, Mapping) and version not in document:
        raise msgspec.ValidationError(version)  # msgspec demands it in unions only
    return msgspec.convert(document, kind)


# What does not fit -----------------------------------------------------------------


@dataclass(frozen=True)
class _Refusal:
    where: Where
    context: str
    hint: str


def _refusal(value: Any, kind: Any, where: Where) -> _Refusal:
    """Explain why a value is refused: the outermost reason on the way to the first one."""
    inner, description = _plain(kind, value)
    problem = _problem(value, inner, where)
    if problem is not None:
        return problem
    for key, child, child_kind in _children(value, inner):
        try:
            _converted(child, child_kind)
        except msgspec.ValidationError:
            return _refusal(child, child_kind, (*where, key))
    return _leaf(value, kind, where, description)


def _problem(value: Any, kind: Any, where: Where) -> _Refusal | None:
    """Return what is wrong with the keys of a mapping, None where nothing is."""
    if not isinstance(value, Mapping):
        return None
    if (strange := next((key for key in value if not isinstance(key, str)), None)) is not None:
        return _Refusal(where, f"the key {strange!r} is not a text", f"write it as '{strange}'")
    if _is_struct(kind):
        return _wrong_key(value, kind, where)
    key_kind = next(iter(_arguments(kind)), str)
    keys = get_args(key_kind) if get_origin(key_kind) is Literal else ()
    for key in value:
        if keys and key not in keys:
            return _unknown_key(key, keys, where)
        try:
            msgspec.convert(key, key_kind)
        except msgspec.ValidationError as error:
            context = f"{key!r} is not a valid name here: {_message(error)}"
            return _Refusal((*where, key), context, _plain(key_kind, key)[1])
    return None


def _wrong_key(value: Mapping[str, Any], kind: Any, where: Where) -> _Refusal | None:
    """Return the first key that a struct does not have, or lacks; None where there is none."""
    keys = _keys(kind)
    for key in value:
        if key not in keys and _is_closed(kind):
            return _unknown_key(key, keys, where)
    for key, (key_kind, is_required) in keys.items():
        if is_required and key not in value:
            description = _plain(key_kind, None)[1]
            context = f"{_dotted(where)}: the key {key!r} is missing"
            return _Refusal(where, context, f"{key}: {description}" if description else "")
    return None


def _unknown_key(key: str, keys: Collection[str], where: Where) -> _Refusal:
    hint = f"valid keys here: {', '.join(sorted(keys))}" if keys else "remove it"
    return _Refusal((*where, key), f"unknown key {key!r}{nearest(key, list(keys))}", hint)


def _leaf(value: Any, kind: Any, where: Where, description: str) -> _Refusal:
    try:
        _converted(value, kind)
    except msgspec.ValidationError as error:
        misfit = error.__cause__
        if isinstance(misfit, Misfit):
            where = (*where, misfit.key) if misfit.key else where
            return _Refusal(where, f"{_dotted(where)}: {misfit}", misfit.hint)
        message = _message(error)
    shown = json.dumps(value, ensure_ascii=False, default=str)
    plain = _plain(kind, value)[0]
    if get_origin(plain) is Literal:
        words = [str(word) for word in get_args(plain)]
        message = f"expected {'one of ' * (len(words) > 1)}{', '.join(words)}"
        message += nearest(str(value), words)
    if isinstance(value, str | int | float | None):
        shown = shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}…"
        return _Refusal(where, f"{_dotted(where)} {shown}: {message}", description)
    return _Refusal(where, f"{_dotted(where)}: {message}", description)


def _message(error: msgspec.ValidationError) -> str:
    """Return msgspec's message in our words: ``expected a whole number >= 1``."""
    text = _PLACE.sub("", str(error))
    text = _REGEX.sub(r"that matches \1", text)
    text = re.sub(r"`([a-z| ]+)`", lambda match: _words(match[1]), text)
    return text[:1].lower() + text[1:]


def _words(types: str) -> str:
    alternatives = [types] if types in _TYPES else types.split(" | ")
    return " or ".join(_TYPES.get(kind, kind) for kind in alternatives)


def _children(value: Any, kind: Any) -> Iterator[tuple[str | int, Any, Any]]:
    """Yield the key, the value and the type of each member of a mapping or a list."""
    origin, arguments = get_origin(kind) or kind, _arguments(kind)
    if isinstance(value, Mapping):
        if _is_struct(kind):
            keys = _keys(kind)
            yield from ((key, child, keys[key][0]) for key, child in value.items() if key in keys)
        elif len(arguments) == 2:
            yield from ((key, child, arguments[1]) for key, child in value.items())
    elif isinstance(value, list | tuple) and origin in (tuple, list) and arguments:
        several = origin is tuple and Ellipsis not in arguments
        kinds = arguments if several else arguments[:1] * len(value)
        yield from ((at, *pair) for at, pair in enumerate(zip(value, kinds, strict=False)))


def _arguments(kind: Any) -> tuple[Any, ...]:
    """Return the types of a mapping's or a list's members; a literal has values in their place."""
    return () if get_origin(kind) is Literal else get_args(kind)


def _plain(kind: Any, value: Any) -> tuple[Any, str]:
    """Return the type without bounds and alternatives of another shape, and its description."""
    description = ""
    while True:
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is Annotated:
            described = (meta.description for meta in arguments[1:] if isinstance(meta, Meta))
            description = next(filter(None, reversed([*described])), description)
            kind = arguments[0]
        elif origin in (Union, UnionType):
            fitting = [argument for argument in arguments if _has_shape(argument, value)]
            if len(fitting) != 1:
                return kind, description
            kind = fitting[0]
        else:
            return kind, description


def _has_shape(kind: Any, value: Any) -> bool:
    kind = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    origin = get_origin(kind) or kind
    if isinstance(value, Mapping):
        return _is_struct(kind) or (isinstance(origin, type) and issubclass(origin, Mapping))
    is_list = isinstance(origin, type) and issubclass(origin, list | tuple)
    if isinstance(value, list | tuple):
        return is_list
    return not is_list and origin not in (type(None), msgspec.UnsetType)


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and (issubclass(kind, msgspec.Struct) or is_dataclass(kind))


def _is_closed(kind: Any) -> bool:
    """Return whether a struct refuses unknown keys; dataclasses do not."""
    return issubclass(kind, msgspec.Struct) and kind.__struct_config__.forbid_unknown_fields


def keys_of(kind: Any) -> dict[str, Any]:
    """Return the type of each key that a struct or a dataclass has in a document."""
    return {key: key_kind for key, (key_kind, _) in _keys(kind).items()}


@cache
def _keys(kind: Any) -> Mapping[str, tuple[Any, bool]]:
    """Return the type of each key in the document, and whether it is required."""
    hints = get_type_hints(kind, include_extras=True)
    if is_dataclass(kind):
        return {
            member.name: (
                hints[member.name],
                member.default is MISSING and member.default_factory is MISSING,
            )
            for member in fields(kind)
        }
    config = kind.__struct_config__
    tag: dict[str, tuple[Any, bool]] = {}
    if config.tag_field is not None:
        tag = {config.tag_field: (Literal[config.tag], True)}
    return tag | {
        member.encode_name: (hints[member.name], member.required)
        for member in msgspec.structs.fields(kind)
    }


def _dotted(where: Where) -> str:
    return ".".join(map(str, where)) or "the top level"
