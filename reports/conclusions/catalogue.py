"""The papers' conclusions, as ``profiles/fidelity/`` has them: what each says and is tested on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from msgspec.structs import asdict

from harness.paper.catalogue import PaperFile, QueryStatement
from harness.paths import data_folder
from harness.store.runs import StoredRun
from harness.yamlfile import load_yaml
from reports.conclusions.comparisons import Compared, FewerOfMost, GainUnder, SpeedUp
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
from reports.conclusions.model import AnyOf, Conclusion, Evidence, Test
from reports.formatting import NOTHING, interval_text, times
from reports.statistics import Missing
from reports.trials import Trial, decided

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
        Conclusion(paper, **{**asdict(stated), "test": _test(stated.test)})
        for paper in papers
        if paper in PAPERS
        for stated in load_yaml(folder / f"{paper}.yml").to(PaperFile).conclusions
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


# What a paper says of single queries, next to each query's speed-up here --------------------
#
# A statement is a trial against a bound, as a conclusion's are (reports.trials): all statements of
# a table are one family. A query of which the paper says nothing has its speed-up alone.

QUERIES = ("measured", "query", "speed-up", "interval", "in the paper", "as in the paper")
_OUTCOMES = {"holds": "yes", "contrary": "no", "open": "open"}
_BOUND = 1.1


@dataclass(frozen=True)
class _Query:
    """The speed-up of one query; ``trial``: the statement about it, if the paper has one."""

    cells: tuple[str, ...]
    query: str
    statement: QueryStatement | None
    trial: Trial

    @property
    def row(self) -> tuple[str, ...]:
        if self.statement is None:
            return *self.cells, NOTHING, NOTHING
        outcome = _OUTCOMES[self.trial.outcome]
        why = f" ({self.trial.why})" if self.trial.outcome == "open" and self.trial.why else ""
        return *self.cells, self.statement.text, outcome + why


def query_rows(paper: str, figure: str, runs: Iterable[StoredRun]) -> tuple[tuple[str, ...], ...]:
    """The rows of ``QUERIES`` for one figure: each query, with what the paper says of it.

    None where the paper says nothing of queries, or that of another figure.
    """
    file = data_folder("profiles") / "fidelity" / f"{paper}.yml"
    said_of = load_yaml(file).to(PaperFile).queries if file.is_file() else None
    if said_of is None or said_of.figure != figure.partition(":")[0]:
        return ()
    evidence = Evidence.of(runs)
    found: list[_Query] = []
    for of, sides in said_of.compared.items():
        compared = Compared(**{key: _plain(value) for key, value in sides.items()})
        own = [one for one in said_of.statements if one.of == of]
        for speed_up in compared.speed_ups(evidence):
            found += _queries(speed_up, own)
    said = [one for one in found if one.statement]
    trials = iter(decided([one.trial for one in said]))
    made = (replace(one, trial=next(trials)) if one.statement else one for one in found)
    return tuple(one.row for one in made)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


def _queries(speed_up: SpeedUp, statements: Sequence[QueryStatement]) -> Iterator[_Query]:
    if isinstance(speed_up.group, Missing) or speed_up.group.unused:
        return
    engine = speed_up.group.a.runs[0].spec.engine
    for row in speed_up.group.rows:
        query = row.quantity.label("query")
        if row.quantity.name != "query_duration_ns" or query is None or row.estimate is None:
            continue
        cells = (speed_up.what, query, times(row.ratio), interval_text(row.estimate))
        own: Sequence[QueryStatement | None] = [
            one for one in statements if engine in one.engines and query in map(str, one.queries)
        ]
        for statement in own or (None,):
            trial = replace(
                speed_up.trial(_BOUND, row=row),
                expected=statement.expected if statement else "above",
            )
            yield _Query(cells, query, statement, trial)
