"""Objects of any type made from its annotations alone: each member of a union, empty and longer
sequences, None. What a page can be handed, whether a run ever led to it or not."""

from __future__ import annotations

import copy
import dataclasses
import random
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from harness.errors import UsageError
from harness.store.schemas import validate

_T = TypeVar("_T")
Maker = Callable[["Generator"], Any]
_PLAIN: Mapping[Any, tuple[Any, ...]] = {
    bool: (False, True),
    int: (0, 1, 7),
    float: (0.0, 0.4, 1.0, 2.5, 3e9),
    str: ("", "text", "a <b> | `c`"),
    bytes: (b"",),
    type(None): (None,),
}


class Generator:
    """``makers``: of types whose members depend on one another, or that no annotation describes."""

    def __init__(self, seed: int, makers: Mapping[Any, Maker]) -> None:
        self._random = random.Random(seed)
        self._makers = makers

    def one_of(self, values: Any) -> Any:
        return self._random.choice(list(values))

    def make(self, hint: Any) -> Any:
        """An object of this type."""
        origin, inner = get_origin(hint), get_args(hint)
        if hint in self._makers:
            made = self._makers[hint](self)
        elif hint in _PLAIN or origin is Literal:
            made = self.one_of(_PLAIN.get(hint, inner))
        elif origin in (Union, types.UnionType):
            made = self.make(self.one_of(inner))
        elif origin is None:
            made = self.members(hint)
        elif origin is tuple and Ellipsis not in inner:
            made = tuple(map(self.make, inner))
        else:
            made = self._several(origin, [one for one in inner if one is not Ellipsis])
        return made

    def _several(self, of: Any, inner: Sequence[Any]) -> Any:
        made = [tuple(map(self.make, inner)) for _ in range(self.one_of((0, 1, 1, 2)))]
        if issubclass(of, Mapping):
            return dict(made)
        return (tuple if of is Sequence else of)(first for first, *_ in made)

    def members(self, of: type[_T], **known: Any) -> _T:
        """A dataclass with these members, and others made."""
        hints = get_type_hints(of)
        names = [field.name for field in dataclasses.fields(cast(Any, of)) if field.init]
        return of(**{name: self.make(hints[name]) for name in names if name not in known} | known)


def barest(document: Any, schema: str) -> Any:
    """A stored document without all that its schema does not require."""
    whole = copy.deepcopy(document)

    def strip(inside: Any) -> None:
        places = list(inside) if isinstance(inside, dict) else range(len(inside))
        for place in places:
            value = inside[place]
            if isinstance(inside, dict):
                del inside[place]
                if _valid(whole, schema):
                    continue
                inside[place] = value
            if isinstance(value, (dict, list)):
                strip(value)

    strip(whole)
    return whole


def _valid(document: Any, schema: str) -> bool:
    try:
        validate(document, schema, "")
    except UsageError:
        return False
    return True
