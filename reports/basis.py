"""What the certainty of a comparison rests on: facts with codes, alike wherever it is shown.

They are no score: how much each weighs is the reader's to decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from harness.store.runs import StoredRun
from harness.units import counted
from harness.warnings import RunWarning
from reports.run_configuration import emulations
from reports.statistics import Pairing

Code = Literal["pairs", "repeats", "answers-unknown", "emulated", "warnings"]


@dataclass(frozen=True)
class Fact:
    """One fact; ``values``: the numbers or names in it."""

    code: Code
    text: str
    values: tuple[str | float, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """``{code, text, values}``."""
        return asdict(self)


def basis(
    a: Sequence[StoredRun],
    b: Sequence[StoredRun],
    pairing: Pairing,
    warnings: Iterable[RunWarning],
) -> tuple[Fact, ...]:
    """Of the runs that are compared; ``warnings``: of the comparison itself."""
    return tuple(_facts(a, b, pairing, warnings))


def line(facts: Iterable[Fact]) -> str:
    """All of them."""
    return "; ".join(fact.text for fact in facts)


def _facts(
    a: Sequence[StoredRun],
    b: Sequence[StoredRun],
    pairing: Pairing,
    warnings: Iterable[RunWarning],
) -> Iterator[Fact]:
    if pairing == "paired":
        yield Fact("pairs", counted(len(a), "pair"), (len(a),))
    else:
        text = f"{len(a)} and {len(b)} repeats, not in pairs"
        yield Fact("repeats", text, (len(a), len(b)))
    runs = (*a, *b)
    if unknown := sum(run.run["status"] == "unknown" for run in runs):
        yield Fact("answers-unknown", f"answers unknown in {counted(unknown, 'run')}", (unknown,))
    if emulated := emulations(runs):
        yield Fact("emulated", f"EMULATED {', '.join(emulated)}", emulated)
    entries = [RunWarning.from_json(entry) for run in runs for entry in run.run["uncontrolled"]]
    codes = tuple(dict.fromkeys(one.code for one in (*warnings, *entries) if one.code))
    text = f"warnings {', '.join(codes)}" if codes else "no warning"
    yield Fact("warnings", text, codes)
