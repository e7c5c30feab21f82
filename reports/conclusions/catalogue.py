"""The papers' conclusions, as ``profiles/fidelity/`` has them: what each says and is tested on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from harness.paths import data_folder
from harness.yamlfile import load_yaml
from reports.conclusions.comparisons import Compared, FewerOfMost, GainUnder
from reports.conclusions.devices import (
    BelowDevice,
    IndexGain,
    Instructions,
    Points,
    Practice,
    PricePerformance,
    Tiers,
    Unflushed,
)
from reports.conclusions.model import AnyOf, Conclusion, Test

#: The papers whose conclusions are about engines, about good practice on devices, and on devices.
OF_ENGINES, OF_PRACTICE, OF_DEVICES = "nvm-for-databases", "empirical-guide", "perma-bench"
#: Those about primitives of storage, and about persistent indexes.
OF_PRIMITIVES, OF_INDEXES = "pmem-io-primitives", "bento"
PAPERS = (OF_ENGINES, OF_PRACTICE, OF_DEVICES, OF_PRIMITIVES, OF_INDEXES)
_TESTS: Mapping[str, Callable[..., Test]] = {
    "compared": Compared,
    "gain-under": GainUnder,
    "fewer-of-most": FewerOfMost,
    "below-device": BelowDevice,
    "practice": Practice,
    "tiers": Tiers,
    "points": Points,
    "index-gain": IndexGain,
    "instructions": Instructions,
    "unflushed": Unflushed,
    "price-performance": PricePerformance,
}


@cache
def conclusions_of(*papers: str) -> tuple[Conclusion, ...]:
    """Return the conclusions of these papers, in their order; none of an unknown paper."""
    folder = data_folder("profiles") / "fidelity"
    return tuple(
        Conclusion(paper, **{**one, "test": _test(one["test"])})
        for paper in papers
        if paper in PAPERS
        for one in load_yaml(folder / f"{paper}.yml", "paper").value["conclusions"]
    )


def _test(value: Mapping[str, Any]) -> Test:
    """Make the test of one key, which is its kind; ``any`` holds several."""
    ((kind, members),) = value.items()
    if kind == "any":
        return AnyOf(tuple(map(_test, members)))
    found = {name: _with_tuples(member) for name, member in members.items()}
    if "compared" in found:
        found["compared"] = Compared(**found["compared"])
    return _TESTS[kind](**found)


def _with_tuples(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _with_tuples(one) for name, one in value.items()}
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value
