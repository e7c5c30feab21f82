"""The outcome of a window in which a client program offered the load, alike for every workload."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from msgspec import structs

from harness import hdr
from harness.counters import bandwidths, counter_metrics, split
from harness.drivers.result import (
    DriverResult,
    Operation,
    WindowCallbacks,
    WindowCounters,
    cpu_per_operation,
)
from harness.drivers.validity import Nouns, host_warnings, load_warnings
from harness.engine import Engine
from harness.errors import UsageError
from harness.store.documents import as_json
from harness.store.result import Check, Metric
from harness.store.spec import JsonObject
from harness.units import NS_PER_S
from harness.waits import Breakdown, explain, take, unaccounted
from harness.warnings import RunWarning
from harness.workload import Loading, Outcome, Session, Workload
from harness.workloads.parameters import Outline, Parameters

P = TypeVar("P", bound=Parameters)


class Driver(ABC):
    """A client program that offers a workload's load, made for a run's parameters."""

    #: Why the operations do not follow from the run's seed; empty where they do.
    unseeded: ClassVar[str] = ""
    #: Whether it offers the load of several databases at once (``Session.instances``).
    takes_instances: ClassVar[bool] = False
    #: Consistency conditions (by number) that its own transactions or data do not keep, and why.
    not_kept: ClassVar[Mapping[int, str]] = {}

    @abstractmethod
    def check(self, engine: Engine, settings: Mapping[str, str]) -> None:
        """Raise UsageError for what can be known beforehand: not installed, cannot do this."""

    @abstractmethod
    def drive(self, session: Session, drives: WindowCallbacks) -> DriverResult:
        """Offer the load and return the result; RunFailed if the client failed."""

    def warnings(self, engine: Engine) -> Iterable[RunWarning]:
        """Return the warnings about this driver on the engine, whatever the window was like."""
        return ()

    def verify(self, session: Session, driven: DriverResult) -> list[Check]:
        """Read back what the load has written; empty for a driver that cannot."""
        return []


class LoadingDriver(Driver):
    """A client program that loads the data, too."""

    @abstractmethod
    def key(self) -> JsonObject:
        """The facts that its data depend on, in addition to their size."""

    @abstractmethod
    def load(self, loading: Loading) -> dict[str, Any]:
        """Load schema and data into the started, empty engine; facts for the fingerprint."""


class DrivenWorkload(Workload[P], Generic[P]):
    """A workload whose data are loaded, and whose load is offered, by one of ``drivers``."""

    drivers: Mapping[str, Callable[[P], LoadingDriver]]

    @abstractmethod
    def size_key(self, params: P) -> dict[str, Any]:
        """The facts that the data depend on, whoever loads them."""

    def data_key(self, params: P, driver: str) -> dict[str, Any]:
        """The facts of :meth:`size_key`, and those that the driver's own load depends on."""
        return {**self.size_key(params), **self.drivers[driver](params).key()}

    def check_engine(
        self, params: P, driver: str, engine: Engine, settings: Mapping[str, str]
    ) -> None:
        """Raise UsageError where the driver is not installed, or cannot drive this engine."""
        program, instances = self.drivers[driver](params), params.outline().instances
        if instances > 1 and not program.takes_instances:
            raise UsageError(
                f"{instances} instances with driver {driver}",
                "it offers the load of one database",
                "use --driver loadgen, or leave --instances out",
            )
        program.check(engine, settings)

    def load(self, params: P, loading: Loading) -> dict[str, Any]:
        """Have the driver load the data; its facts."""
        return self.drivers[loading.driver](params).load(loading)


def rates_per_second(driven: DriverResult) -> Iterator[Metric]:
    """Yield the rate of operations that were done, and of those offered in an open loop."""
    if (done := driven.done_count) is not None:
        rate = done * NS_PER_S / driven.window_ns
        yield Metric("operations_per_second", "1/s", "higher", value=rate)
    if driven.offered_count is not None:
        offered = driven.offered_count * NS_PER_S / driven.window_ns
        yield Metric("offered_operations_per_second", "1/s", "none", value=offered)


def instance_metrics(
    driven: DriverResult, nouns: Nouns, rates: Callable[[DriverResult], Iterable[Metric]]
) -> Iterator[Metric]:
    """Yield the rates and latencies of each of several instances, and the lowest rates.

    ``rates``: those of a window; what was offered is left out. ``worst_instance_share``: the share
    of the sum that the lowest has, of the first rate.
    """
    every = [
        [metric for metric in rates(result) if metric.better == "higher"]
        for result in driven.instances
    ]
    for number, (result, metrics) in enumerate(zip(driven.instances, every, strict=True), 1):
        labels = {"instance": str(number)}
        for metric in metrics:
            name = f"instance_{metric.name}"
            yield structs.replace(metric, name=name, labels={**metric.labels, **labels})
        for name, operation in result.operations.items():
            if operation.latency_hdr is not None and operation.answered_share:
                both = {nouns.operation: name, **labels}
                latency = operation.latency_hdr
                yield Metric(
                    f"instance_{nouns.operation}_duration_ns", "ns", "lower", both, hdr=latency
                )
    shares = []
    for same in zip(*every, strict=True):
        values = [metric.value for metric in same if metric.value is not None]
        if values:
            worst, whole = min(values), sum(values)
            yield structs.replace(same[0], name=f"worst_instance_{same[0].name}", value=worst)
            shares += [worst / whole] if whole else []
    if shares:
        yield Metric("worst_instance_share", "1", "higher", value=shares[0])


def of_instances(checks: Sequence[Sequence[Check]]) -> list[Check]:
    """Return the checks of each instance, with its number where there are several."""
    if len(checks) == 1:
        return [*checks[0]]
    return [
        structs.replace(check, labels={**check.labels, "instance": str(number)})
        for number, same in enumerate(checks, 1)
        for check in same
    ]


def window_metrics(
    driven: DriverResult,
    counters: Mapping[str, float],
    nouns: Nouns,
    rates: Sequence[Metric],
    inside: bool = False,
) -> list[Metric]:
    """Return all metrics of a window; without those that driver or host do not report.

    ``rates``: the workload's own. ``inside``: whether the engine works inside the client.
    """
    moved = {name: value for name, value in driven.engine_counters.items() if value}
    window = {**counters, **moved, **bandwidths(counters, driven.window_ns)}
    return [
        *rates,
        *(
            m
            for name, operation in driven.operations.items()
            for m in _of_operation(nouns, name, operation)
        ),
        *(
            Metric("retried_count", "1", "none", {"code": code}, value=count)
            for code, count in driven.retried_by_code.items()
        ),
        *(
            Metric("outstanding_count", "1", "none", {"at": at}, value=count)
            for at, count in zip(("begin", "end"), driven.outstanding_count or (), strict=False)
        ),
        *_cpu(driven, counters, nouns, inside),
        *_energy(driven, counters, nouns),
        Metric("window_duration_ns", "ns", "none", value=driven.window_ns),
        *counter_metrics("window_", {}, window),
    ]


def _of_operation(nouns: Nouns, name: str, operation: Operation) -> Iterator[Metric]:
    noun, labels = nouns.operation, {nouns.operation: name}
    for count in nouns.counts:
        if (value := getattr(operation, count)) is not None:
            yield Metric(f"{noun}_{count}", "1", "none", labels, value=value)
    if operation.latency_hdr is not None and operation.answered_share:
        yield Metric(f"{noun}_duration_ns", "ns", "lower", labels, hdr=operation.latency_hdr)
    for percentile, value_ns in operation.percentiles_ns.items():
        both = {**labels, "percentile": percentile}
        yield Metric(f"{noun}_percentile_ns", "ns", "lower", both, value=value_ns)


def _cpu(
    driven: DriverResult, counters: Mapping[str, float], nouns: Nouns, inside: bool
) -> Iterator[Metric]:
    if inside and driven.offered_count is not None:
        return
    server_cpu_ns = None if inside else counters.get("cpu_ns")
    spent = cpu_per_operation(driven.done_count, driven.client_cpu_ns, server_cpu_ns)
    for side, each_ns in spent.items():
        whose = "process" if inside else side
        yield Metric(f"{whose}_cpu_per_{nouns.operation}_ns", "ns", "lower", value=each_ns)


def _energy(driven: DriverResult, counters: Mapping[str, float], nouns: Nouns) -> Iterator[Metric]:
    """Yield the host's energy for each operation, where RAPL counts it (monitor ``energy``)."""
    for counter, joules in counters.items():
        name, labels = split(counter)
        if name == "energy_j" and driven.done_count:
            each = joules / driven.done_count
            yield Metric(f"energy_per_{nouns.operation}_j", "J", "lower", labels, value=each)


def explain_window(
    driven: DriverResult, counters: Mapping[str, float], users: int, closed: bool
) -> tuple[Breakdown | None, dict[str, float]]:
    """The parts of the mean latency (harness.waits), and the counters without those of waits.

    ``users``: of them each waits for its operation, and requests the next one at once, where
    ``closed``. None where waits or latencies are not known.
    """
    totals, rest = take(counters)
    if totals is None:
        return None, rest
    histograms = [
        hdr.decode(operation.latency_hdr)
        for operation in driven.operations.values()
        if operation.latency_hdr
    ]
    count = sum(histogram.total for histogram in histograms)
    latency_ns = sum(
        histogram.mean * histogram.total for histogram in histograms if histogram.total
    )
    if not count and closed:
        count, latency_ns = driven.done_count or 0, float(users * driven.window_ns)
    return explain(totals, latency_ns, count, closed), rest


def window_outcome(
    driver: Driver,
    driven: DriverResult,
    counted: WindowCounters,
    nouns: Nouns,
    outline: Outline,
    *,
    users: int,
    closed: bool,
    rates: Sequence[Metric],
    checks: list[Check],
    warnings: Sequence[RunWarning],
    **artifacts: JsonObject,
) -> Outcome:
    """The outcome of a window; empty artifacts are left out.

    ``users``: the number of users, who send their next operation at once where ``closed``.
    ``rates``, ``warnings``: the workload's own.
    """
    engine = counted.session.engine
    inside = engine.inside_client
    moved = counted.counters(driven) if driven.counters_late_ns is None else {}
    waits, counters = explain_window(driven, moved, users, closed and not inside)
    documents: dict[str, Any] = {
        "client": {"driver": driven.driver, "version": driven.version, **driven.notes},
        "series": {f"{nouns.operation}s": as_json(driven.series)} if driven.series else {},
        "latencies": {f"{nouns.operation}s": as_json(driven.latencies)} if driven.latencies else {},
        **{name.replace("_", "-"): document for name, document in artifacts.items()},
    }
    return Outcome(
        [
            *window_metrics(driven, counters, nouns, rates, inside),
            *(waits.metrics() if waits else ()),
        ],
        checks,
        {name: document for name, document in documents.items() if document},
        [
            *load_warnings(driven, nouns, closed=closed, inside=inside),
            *warnings,
            *driver.warnings(engine),
            *host_warnings(engine, driven, counted, outline.client_hosts, driver.unseeded),
            *(unaccounted({"": waits}) if waits else ()),
        ],
    )


def check_mix(
    driven: DriverResult,
    nouns: Nouns,
    shares: Mapping[str, float],
    under_way: int,
    rolled_back: float = 0,
) -> Check:
    """Return whether each operation has its share of all, and rollbacks theirs of the first one.

    ``under_way``: operations that may be missing, in progress at an end of the window.
    """
    done = {
        name: operation.called_count if operation.done_count is None else operation.done_count
        for name, operation in driven.operations.items()
    }
    counts = {name: count for name, count in done.items() if count is not None}
    if not counts or len(counts) < len(done):
        missing = ", ".join(done.keys() - counts.keys())
        return Check("mix", "unknown", f"{driven.driver} does not report all counts: {missing}")
    total = sum(counts.values())
    wrong = [
        describe_outlier(
            f"{name} of all {nouns.operation}s", counts.get(name, 0), total, share, under_way
        )
        for name, share in shares.items()
    ]
    first = next(iter(shares))
    if rolled_back and (count := driven.operations[first].rolled_back_count) is not None:
        wrong.append(describe_outlier(f"rolled back {first}", count, counts[first], rolled_back))
    return checked("mix", wrong, f"{total:,} {nouns.operation}s")


def checked(name: str, wrong: Sequence[str], compared: str = "", **labels: str) -> Check:
    """Return a check that failed with what is ``wrong``, or passed where that is empty."""
    detail = "; ".join(filter(None, wrong))
    return Check(name, "failed" if detail else "passed", detail or compared, labels)


#: A probability of less than 10⁻⁹ is not chance.
_NO_CHANCE = math.log(1e9)


def describe_outlier(
    what: str, count: int, total: int, share: float, edge: int = 0, tries: int = 1
) -> str:
    """Describe a count that is too far from its share to be chance; empty if it is not.

    Chernoff's bound: the probability of ``count`` of ``total``, or of a more extreme count, is
    less than exp(-total · D), D being the divergence of the counted share from the expected one.
    ``edge``: most that may be added or missing for another reason than chance. ``tries``: number
    of counts of which this one was picked as the farthest.
    """
    limit = _NO_CHANCE + math.log(tries)
    nearest = min(max(total * share, count - edge), count + edge)
    possible = 0 <= nearest <= total
    if possible and (total == 0 or total * _divergence(nearest / total, share) <= limit):
        return ""
    return f"{what}: {count} of {total}, expected {_percent(share)}"


def _percent(share: float) -> str:
    """``43.48%``; three significant figures below 0.1 %."""
    return f"{share:.2%}" if share == 0 or share >= 0.001 else f"{100 * share:.3g}%"


def _divergence(actual: float, expected: float) -> float:
    """Return Kullback and Leibler's divergence of one coin from another, in nats."""

    def part(p: float, q: float) -> float:
        if p <= 0:
            return 0.0
        return p * math.log(p / q) if q > 0 else math.inf

    return part(actual, expected) + part(1 - actual, 1 - expected)
