"""Pair queries: which observations are the two sides of a ratio, and which are alike.

An observation is a run, or a point of a microbenchmark: it has labels (a run's are the keys of a
selector, a point also has those of its device) and values of metrics. A paper's conclusions state
queries in YAML, the column ``derived`` of its ``published.csv`` in words. How the observations of
both sides are found is reports/pair_sides.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any, TypeAlias

from msgspec import Meta, field

from harness import structs
from harness.structs import Struct

#: Patterns of labels by name: shell patterns, of which several are separated by ``|``.
Having: TypeAlias = Mapping[str, str]
Names: TypeAlias = tuple[str, ...]
_OF_SIDES = ("over", "under")
_LISTS = ("apart", "each", "varied")


class PairQuery(Struct, frozen=True):
    """Observations of side A over observations of side B that are alike in all other labels."""

    documented = "docs/papers.md"
    metric: Annotated[
        str, Meta(description="what is compared; of runs the headline where it is left out")
    ] = ""
    labels: Annotated[Having, Meta(description="of both sides")] = field(default_factory=dict)
    over: Annotated[Having, Meta(description="of side A, in addition")] = field(
        default_factory=dict
    )
    under: Annotated[Having, Meta(description="of side B, in addition")] = field(
        default_factory=dict
    )
    apart: Annotated[
        Names, Meta(description="labels that may differ, besides those of over and under")
    ] = ()
    each: Annotated[
        Names, Meta(description="labels that name a ratio; pairs of one name have one ratio")
    ] = ()
    varied: Annotated[Names, Meta(description="labels of which each side has its best")] = ()
    every: Annotated[
        bool, Meta(description="each pair is a ratio of its own, whatever its name")
    ] = False
    more: Annotated[
        str, Meta(description="label of devices, or the metric, of which side A has more")
    ] = ""

    @property
    def sides(self) -> tuple[Having, Having]:
        """Return all labels of side A, and of side B."""
        return {**self.labels, **self.over}, {**self.labels, **self.under}

    @property
    def differing(self) -> Names:
        """Return the labels in which both observations of a pair may differ."""
        return tuple(dict.fromkeys((*self.over, *self.under, *self.apart)))


def meets(value_of: Callable[[str], str], having: Having) -> bool:
    """Return whether labels, by ``value_of``, match all of these patterns."""

    def fits(value: str, patterns: Sequence[str]) -> bool:
        return value in patterns or any(fnmatchcase(value, pattern) for pattern in patterns)

    return all(fits(value_of(name), patterns.split("|")) for name, patterns in having.items())


def read_metric(text: str) -> tuple[str, Having]:
    """Read ``index_lookup_ns[relation=orders]``: a metric and labels of its values."""
    name, _, labels = text.removesuffix("]").partition("[")
    return name, dict(label.split("=", 1) for label in labels.split(",") if label)


def read_words(words: Mapping[str, str], source: str) -> PairQuery:
    """Read a query from words: its members, and labels (``over.numa``: of side A).

    Lists are separated by commas. UsageError names the word that does not fit.
    """
    members: dict[str, Any] = {"labels": {}}
    for word, text in words.items():
        side, _, label = word.partition(".")
        if side in _OF_SIDES:
            members.setdefault(side, {})[label] = text
        elif word in _LISTS:
            members[word] = text.split(",")
        elif word == "every":
            members[word] = text == "yes"
        elif word in PairQuery.__struct_fields__:
            members[word] = text
        else:
            members["labels"][word] = text
    return structs.convert(members, PairQuery, source)
