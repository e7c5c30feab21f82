"""Transactions and analytics at once on one database, and each alone.

Three windows follow one another, each after a ramp-up of its own. The queries come first, while
the data are those that were loaded, so that their answers can be checked; transactions add rows:

============= ===========================================================================
phase         at work
============= ===========================================================================
alone         the query streams
together      the terminals and the query streams
alone         the terminals
============= ===========================================================================

Data, transactions and terminals are TPC-C's (harness.workloads.tpcc), with three tables more.

======================================= ================================================
metric                                  what it is
======================================= ================================================
together_transactions_per_second        all five transactions, done in the window in which
                                        queries run
together_queries_per_hour               of all streams in that window: QueryWindow.per_hour
alone_transactions_per_second,          the same in a window of their own
alone_queries_per_hour
transactions_retained_share,            together of alone
queries_retained_share
new_orders_per_minute                   by ``phase``: committed New-Orders
transaction_duration_ns                 by ``transaction`` and ``phase``
query_duration_ns                       by ``query`` and ``phase``: of those that began and
                                        ended in the window
window_<counter> and others             of the window together: of the terminals (as of TPC-C),
                                        and of the engine, with the queries' work
======================================= ================================================

None of them is a metric of the TPC's.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec import structs

from harness.drivers.loadgen import driver as client
from harness.drivers.result import DriverResult, WindowCallbacks, WindowCounters
from harness.drivers.validity import load_warnings
from harness.engine import Engine, LoadRequest
from harness.errors import RunFailed, UsageError
from harness.experiment.placement import Part
from harness.progress import Progress, SilentProgress, Task
from harness.store.result import Check, Metric
from harness.units import NS_PER_S
from harness.warnings import RunWarning
from harness.workload import Loading, Outcome, Session, Workload
from harness.workloads.htap import tables
from harness.workloads.htap.params import HtapParams
from harness.workloads.htap.queries import (
    HtapQuery,
    QueryWindow,
    check_answers,
    query_sql,
    stream_queries,
)
from harness.workloads.kinds import Duration
from harness.workloads.query_runs import Execution, timeline
from harness.workloads.streams import QueryStreams
from harness.workloads.tpcc.consistency import (
    check_conditions,
    check_counted,
    check_population,
    check_remote,
    loaded_traces,
    read_traces,
)
from harness.workloads.tpcc.drivers import TpccLoadgen
from harness.workloads.tpcc.params import shares
from harness.workloads.tpcc.population import estimate_bytes, row_counts
from harness.workloads.tpcc.workload import NOUNS, ROLLED_BACK, own_warnings, rates
from harness.workloads.tpcc.workload import WORKLOAD as TPCC
from harness.workloads.window import check_mix, window_outcome

TOGETHER, ALONE = "together", "alone"
#: The sessions of queries are among those whose waits are observed.
_UNACCOUNTED = "waits-unaccounted"
#: Beginnings of names of metrics that would count the queries' work as that of transactions.
_OF_BOTH = ("wait_", "server_cpu_per_", "energy_per_", "transaction_count",
            "transaction_rolled_back_count")  # fmt: skip
#: Metrics of a client's window that each phase has.
_OF_PHASES = ("new_orders_per_minute", "transaction_duration_ns")
#: Lines of an order, on average; data that grow by a larger share in a window are reported.
_LINES, _GROWN = 10, 0.1


class Htap(Workload[HtapParams]):
    """TPC-C's terminals and streams of analytic queries."""

    name = "htap"

    def check_engine(
        self, params: HtapParams, driver: str, engine: Engine, settings: Mapping[str, str]
    ) -> None:
        """Check that the native client drives TPC-C on the engine, and its connections suffice."""
        if not engine.sql(self.name).is_dir():
            raise UsageError(
                f"htap on {engine.name}",
                "it has no schema of the tables that are added to TPC-C's",
                "choose an engine that htap runs on (docs/htap.md)",
            )
        TpccLoadgen(params.transactions).check(engine, settings)
        client.check_connections(
            params.users + params.streams, engine, settings, "--users or --streams", 1
        )

    def tables(self, params: HtapParams, engine: Engine) -> Collection[str]:
        """Return TPC-C's tables and those that are added."""
        return (*TPCC.tables(params.transactions, engine), *tables.row_counts())

    def data_key(self, params: HtapParams, driver: str) -> dict[str, Any]:
        """The facts that TPC-C's data depend on, and the generation of the added tables."""
        return {**TPCC.data_key(params.transactions, driver), "tables": tables.GENERATION}

    def estimate_bytes(self, params: HtapParams, engine_format: str) -> dict[Part, int]:
        """Upper estimate of the bytes in each part: two windows write."""
        ramp_up, duration = (Duration(2 * d.ns) for d in (params.ramp_up, params.duration))
        return estimate_bytes(replace(params.transactions, ramp_up=ramp_up, duration=duration))

    def source_key(self, params: HtapParams, engine: Engine) -> str:
        return f"htap-tables-{tables.GENERATION}-{params.data_seed}"

    def source_bytes(self, params: HtapParams, engine_format: str) -> int:
        """Return the size of the files of the added tables, at most."""
        return tables.SUPPLIERS * 250

    def generate(
        self, params: HtapParams, engine: Engine, folder: Path, progress: Progress
    ) -> None:
        """Write the rows of the added tables."""
        folder.mkdir(parents=True, exist_ok=True)
        tables.write(folder, params.data_seed)

    def load(self, params: HtapParams, loading: Loading) -> dict[str, Any]:
        """Load TPC-C, then the added tables through the engine's bulk load."""
        if loading.source is None:
            raise RunFailed("load htap", "its source data are not there", "run again")
        facts = TpccLoadgen(params.transactions).load(loading)
        loading.engine.bulk_load(
            LoadRequest(
                loading.engine.sql(self.name),
                tables.files(loading.source),
                tables.row_counts(),
                loading.progress,
            )
        )
        return {**facts, "tables": tables.GENERATION}

    def spends_data(self, params: HtapParams) -> bool:
        """Return True: transactions write."""
        return True

    def measure(self, params: HtapParams, session: Session) -> Outcome:
        return _Phases(params, session).measure()


class _Phases:
    """The three windows of a run."""

    def __init__(self, params: HtapParams, session: Session) -> None:
        self._params, self._session, self._engine = params, session, session.engine
        self._terminals = TpccLoadgen(params.transactions)
        self._folder = self._engine.sql(WORKLOAD.name)

    def measure(self) -> Outcome:
        """Measure the three windows, then check data and answers."""
        params, engine, session = self._params, self._engine, self._session
        external = engine.kind == "external"
        traces = read_traces(engine) if external else loaded_traces(params.warehouses)
        queries_alone = self._queries()
        counted = WindowCounters(session)
        together, queries_together = self._together(counted)
        alone = self._terminals.drive(session, WindowCallbacks())
        windows = {ALONE: queries_alone, TOGETHER: queries_together}
        driven = {ALONE: alone, TOGETHER: together}
        outcome = window_outcome(
            self._terminals,
            together,
            counted,
            NOUNS,
            params.transactions.outline(),
            users=params.users,
            closed=True,
            rates=[],
            checks=[
                *(self._mix(phase, result) for phase, result in driven.items()),
                *check_answers(
                    queries_alone.executions, (params.warehouses, params.data_seed), self._folder
                ),
                *self._finished(windows),
                check_remote(params.warehouses, engine),
                check_population(params.warehouses, engine),
                check_counted(_committed(driven), traces, engine, 2 * params.users),
                *check_conditions(engine, session.progress),
            ],
            warnings=[
                *own_warnings(params.transactions, together),
                *load_warnings(alone, NOUNS, closed=False),
                *_grown(params, together),
            ],
            query_timeline={phase: timeline(w.executions) for phase, w in windows.items()},
            queries={f"q{n}": {"sql": query_sql(n, self._folder)} for n in params.queries},
        )
        metrics = [*self._rates(windows, driven), *_of_phase(outcome.metrics, TOGETHER)]
        metrics += self._latencies(alone, windows)
        shown = [w for w in outcome.uncontrolled if w.code != _UNACCOUNTED]
        return replace(outcome, metrics=metrics, uncontrolled=shown)

    def _queries(self) -> QueryWindow:
        """Measure a window in which the streams run without terminals."""
        params, progress = self._params, self._session.progress
        executions: list[Execution[HtapQuery]] = []
        with progress.task("queries alone") as task, QueryStreams(self._engine) as streams:
            self._start(streams, executions, task)
            streams.wait(params.ramp_up.seconds)
            begin_ns = time.monotonic_ns()
            streams.wait(params.duration.seconds)
            end_ns = time.monotonic_ns()
            streams.stop()
        return QueryWindow(executions, params.streams, begin_ns, end_ns)

    def _together(self, counted: WindowCounters) -> tuple[DriverResult, QueryWindow]:
        """Run terminals and streams; the streams end with the terminals' window."""
        executions: list[Execution[HtapQuery]] = []
        ends_ns: list[int] = []

        def begin() -> None:
            counted.begin()
            ends_ns.append(time.monotonic_ns())

        def end() -> None:
            ends_ns.append(time.monotonic_ns())
            counted.end()
            streams.stop()

        with SilentProgress().task("queries") as task, QueryStreams(self._engine) as streams:
            self._start(streams, executions, task)
            driven = self._terminals.drive(self._session, WindowCallbacks(begin, end))
        begin_ns, end_ns = ends_ns
        return driven, QueryWindow(executions, self._params.streams, begin_ns, end_ns)

    def _start(
        self, streams: QueryStreams, executions: list[Execution[HtapQuery]], task: Task
    ) -> None:
        params = self._params
        streams.start(
            [
                streams.queries(
                    stream_queries(params.queries, number, self._folder),
                    executions,
                    params.query_timeout_s,
                    task,
                )
                for number in range(1, params.streams + 1)
            ]
        )

    def _rates(
        self, windows: Mapping[str, QueryWindow], driven: Mapping[str, DriverResult]
    ) -> Iterator[Metric]:
        """Yield both rates of each phase, and which share of them alone is left together."""
        per_s = {phase: _per_second(result) for phase, result in driven.items()}
        per_hour = {phase: w.per_hour(self._params.queries) for phase, w in windows.items()}
        for kind, name, unit, of_phase in (
            ("transactions", "transactions_per_second", "1/s", per_s),
            ("queries", "queries_per_hour", "1/h", per_hour),
        ):
            for phase, value in of_phase.items():
                if value is not None:
                    yield Metric(f"{phase}_{name}", unit, "higher", value=value)
            alone, together = of_phase[ALONE], of_phase[TOGETHER]
            if alone and together is not None:
                yield Metric(f"{kind}_retained_share", "1", "higher", value=together / alone)
        for phase, result in driven.items():
            for metric in rates(result):
                if metric.name in _OF_PHASES:
                    yield _in_phase(metric, phase)

    def _latencies(
        self, alone: DriverResult, windows: Mapping[str, QueryWindow]
    ) -> Iterator[Metric]:
        for name, operation in alone.operations.items():
            if operation.latency_hdr is not None and operation.answered_share:
                labels = {"transaction": name, "phase": ALONE}
                latency = operation.latency_hdr
                yield Metric("transaction_duration_ns", "ns", "lower", labels, hdr=latency)
        yield from chain.from_iterable(w.metrics(phase) for phase, w in windows.items())

    def _mix(self, phase: str, driven: DriverResult) -> Check:
        check = check_mix(driven, NOUNS, shares("deck"), self._params.users, ROLLED_BACK)
        return structs.replace(check, labels={"phase": phase})

    def _finished(self, windows: Mapping[str, QueryWindow]) -> Iterator[Check]:
        """Yield an unknown check for a phase without the rate of queries."""
        for phase, window in windows.items():
            if missing := window.missing(self._params.queries):
                names = ", ".join(f"Q{query}" for query in missing)
                detail = f"none began and ended in the window: {names}; give a longer --duration"
                yield Check("queries-finished", "unknown", detail, {"phase": phase})


def _in_phase(metric: Metric, phase: str) -> Metric:
    """Return the metric with its phase as the last label."""
    return structs.replace(metric, labels={**metric.labels, "phase": phase})


def _of_phase(metrics: list[Metric], phase: str) -> Iterator[Metric]:
    for metric in metrics:
        if not metric.name.startswith(_OF_BOTH):
            yield _in_phase(metric, phase) if metric.name in _OF_PHASES else metric


def _per_second(driven: DriverResult) -> float:
    """Return the transactions done per second, those that should roll back not among them."""
    done = sum(operation.count or 0 for operation in driven.operations.values())
    return done * NS_PER_S / driven.window_ns


def _committed(driven: Mapping[str, DriverResult]) -> dict[str, int]:
    """Return the acknowledged transactions of both windows and their ramp-ups."""
    counts = [result.finished_counts or {} for result in driven.values()]
    names = ("new_order", "payment")
    return {name: sum(of_window.get(name, 0) for of_window in counts) for name in names}


def _grown(params: HtapParams, together: DriverResult) -> Iterator[RunWarning]:
    """Warn where the transactions have added much to what the queries read."""
    lines = _LINES * row_counts(params.warehouses)["orders"]
    added = _LINES * (together.finished_counts or {}).get("new_order", 0)
    if added > _GROWN * lines:
        yield RunWarning(
            code="data-grown",
            problem="queries together with transactions read more rows than alone",
            context=f"{added:,} order lines were added to about {lines:,}",
            hint="use more --warehouses, or a shorter --duration",
        )


WORKLOAD = Htap()
