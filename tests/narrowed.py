"""Values of a narrower type than the product declares: a test fails where they are not."""

from typing import TypeVar

_T = TypeVar("_T")


def present(value: _T | None) -> _T:
    """Return the value, which must not be None."""
    assert value is not None
    return value


def of_kind(kind: type[_T], value: object) -> _T:
    """Return the value, which must be of this class."""
    assert isinstance(value, kind), value
    return value
