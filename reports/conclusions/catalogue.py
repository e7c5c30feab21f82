"""The papers' conclusions, as ``profiles/fidelity/`` has them: what each says and is tested on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import msgspec
from msgspec.structs import asdict

from harness import structs
from harness.paper.catalogue import PaperFile, QueryStatement
from harness.paper.pair_query import PairQuery
from harness.paths import data_folder
from harness.store.runs import StoredRun
from harness.yamlfile import load_yaml
from reports.conclusions.comparisons import (
    FewerOfMost,
    GainUnder,
    RunPairs,
    SpeedUp,
    gain_over,
    speed_ups,
)
from reports.conclusions.devices import (
    BelowDevice,
    IndexGain,
    PointPairs,
    PracticeTest,
    PricePerformance,
)
from reports.conclusions.model import AnyOf, Conclusion, Evidence, Test
from reports.formatting import NOTHING, interval_text, times
from reports.micro.point_ratios import WHOLE
from reports.statistics import Missing
from reports.trials import Trial, decided

#: The papers whose conclusions are about engines, about good practice on devices, and on devices.
OF_ENGINES, OF_PRACTICE, OF_DEVICES = "nvm-for-databases", "empirical-guide", "perma-bench"
#: Those about primitives of storage, and about persistent indexes.
OF_PRIMITIVES, OF_INDEXES = "pmem-io-primitives", "bento"
PAPERS = (OF_ENGINES, OF_PRACTICE, OF_DEVICES, OF_PRIMITIVES, OF_INDEXES)
_TESTS: Mapping[str, type[Test]] = {
    "gain-under": GainUnder,
    "fewer-of-most": FewerOfMost,
    "below-device": BelowDevice,
    "practice": PracticeTest,
    "index-gain": IndexGain,
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
    if kind != "pair":
        return structs.convert(members, _TESTS[kind], kind)
    query = structs.convert(members, PairQuery, kind)
    if not query.metric:
        return RunPairs(query)
    return PointPairs(
        msgspec.structs.replace(query, each=query.each or WHOLE, every=not query.varied)
    )


# What a paper says of single queries, next to each query's speed-up here --------------------
#
# A statement is a trial against a bound, as a conclusion's are (reports.trials): all statements of
# a table are one family. A query of which the paper says nothing has its speed-up alone.

QUERIES = ("measured", "query", "speed-up", "interval", "in the paper", "as in the paper")
_OUTCOMES = {"holds": "yes", "contrary": "no", "open": "open"}
_BOUND = 1.1


@dataclass(frozen=True)
class _QuerySpeedUp:
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
    entries: list[_QuerySpeedUp] = []
    for of, query in said_of.compared.items():
        statements = [statement for statement in said_of.statements if statement.of == of]
        for speed_up in speed_ups(query, evidence):
            entries += _queries(speed_up, statements)
    said = [entry for entry in entries if entry.statement]
    trials = iter(decided([entry.trial for entry in said]))
    made = (replace(entry, trial=next(trials)) if entry.statement else entry for entry in entries)
    return tuple(entry.row for entry in made)


def _queries(speed_up: SpeedUp, statements: Sequence[QueryStatement]) -> Iterator[_QuerySpeedUp]:
    if isinstance(speed_up.group, Missing) or speed_up.group.unused:
        return
    engine = speed_up.group.a.runs[0].spec.engine
    rows = {
        row.quantity.label("query"): row
        for row in speed_up.group.rows
        if row.quantity.name == "query_duration_ns" and row.estimate is not None
    }
    for query, row in rows.items():
        if query is None or row.estimate is None:
            continue
        cells = (speed_up.what, query, times(row.ratio), interval_text(row.estimate))
        stated: Sequence[QueryStatement | None] = [
            statement
            for statement in statements
            if engine in statement.engines and query in map(str, statement.queries)
            if statement.against is None or str(statement.against) in rows
        ]
        for statement in stated or (None,):
            against = rows.get(str(statement.against)) if statement else None
            trial = (
                gain_over(speed_up, speed_up, _BOUND, (row, against))
                if against
                else speed_up.trial(_BOUND, row=row)
            )
            trial = replace(trial, expected=statement.expected if statement else "above")
            yield _QuerySpeedUp(cells, query, statement, trial)
