"""Warnings about a measurement window that hold for every workload."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from statistics import mean, median

from harness.drivers.result import SERIES_NS, DriverResult, WindowCounters
from harness.engine import Engine
from harness.units import format_ns
from harness.warnings import RunWarning

#: A client thread that computes for a larger share of the window than this is saturated.
_SATURATED = 0.9
#: Operations that may be late at an end of the window in an open loop, as a share of those
#: offered in it, before the rate counts as not reached.
_BACKLOG = 0.01
#: Share of operations without an answer that is reported: it shows in a histogram's p99.9.
_UNANSWERED = 0.001
#: Largest difference between the first and last third of a window in steady state, and between
#: executions of a query that is warm.
STEADY = 0.1
#: It counts beyond this many standard errors of such a difference in a steady window.
_ERRORS = 2
#: Whole intervals of the series without which a window is too short for that.
_FEWEST_INTERVALS = 5
#: The standard deviation of normal values is this times the median of their steps' sizes.
_OF_STEPS = 1.05
#: Largest difference between the counters' interval and the window, as a share of the window.
_OFF = 0.05
#: Largest share of the window's work that sessions may have published in another window.
_UNPUBLISHED = 0.005


@dataclass(frozen=True)
class Nouns:
    """A workload's names for an operation and for the user that requests it."""

    operation: str
    user: str
    #: The option that sets the number of users.
    users_option: str
    #: The counts of an :class:`Operation` that are metrics.
    counts: tuple[str, ...] = ("count",)


def load_warnings(
    driven: DriverResult, nouns: Nouns, *, closed: bool, inside: bool = False
) -> Iterator[RunWarning]:
    """Yield the warnings about the offered load.

    ``closed``: users send without think time, at no set rate. ``inside``: the engine computes
    in the client's threads.
    """
    if not inside:
        yield from _saturation(driven)
    yield from backlog(driven, nouns)
    yield from _unanswered(driven, nouns)
    yield from _trend(driven, nouns)
    if closed:
        yield _closed_loop(nouns)


def host_warnings(
    engine: Engine,
    driven: DriverResult,
    counted: WindowCounters,
    client_hosts: Sequence[str],
    unseeded: str,
) -> Iterator[RunWarning]:
    """Yield the warnings about counters, engine and clients."""
    yield from late_counters(driven, counted)
    yield from late_publication(engine, driven, counted)
    if unseeded:
        yield RunWarning(
            code="unseeded-driver",
            problem="no two runs request the same operations",
            context=unseeded,
            hint="repeat the run; compare medians of several runs",
        )
    yield from write_back_warnings(engine, driven, counted)
    yield from lost_without_power(engine)
    yield from _clients_elsewhere(client_hosts, engine)
    yield from _own_queues(client_hosts, driven)


def _saturation(driven: DriverResult) -> Iterator[RunWarning]:
    """Warn about a client that had no time to wait for the server."""
    share = driven.busiest_thread_share
    if share is None and driven.client_cpu_ns is not None and driven.client_threads:
        share = driven.client_cpu_ns / (driven.client_threads * driven.window_ns)
    if share is not None and share > _SATURATED:
        yield RunWarning(
            code="client-saturated",
            problem="the client, not the server, may be the limit",
            context=f"a client thread computed for {share:.0%} of the window",
            hint="use more client threads or processes: -p client_threads=…, -p clients=…",
        )


def backlog(driven: DriverResult, nouns: Nouns) -> Iterator[RunWarning]:
    """Warn about an offered rate that was not reached, in the ramp-up or in the window."""
    if driven.backlog_count is None or not driven.offered_count:
        return
    begin, end = driven.backlog_count
    most = max(1.0, _BACKLOG * driven.offered_count)
    if begin > most:
        where = "left out" if driven.backlog_left_out else "executed first in the window"
        yield RunWarning(
            code="backlog-at-window-start",
            problem="the engine did not reach the offered rate in the ramp-up",
            context=f"{begin} {nouns.operation}s due in the ramp-up had not begun when the window "
            f"did, and were {where}",
            hint="raise --ramp-up, or lower --rate",
        )
    if end - (0 if driven.backlog_left_out else begin) > most:
        yield RunWarning(
            code="offered-rate-not-reached",
            problem="the engine did not reach the offered rate",
            context=f"{end} {nouns.operation}s due in the window had not begun at its end: "
            "latencies grow with the length of the window",
            hint=f"lower --rate, or raise {nouns.users_option}",
        )


def _unanswered(driven: DriverResult, nouns: Nouns) -> Iterator[RunWarning]:
    """Warn about percentiles that are ages of operations without an answer."""
    for name, operation in driven.operations.items():
        share = operation.answered_share if operation.unfinished_count else 1.0
        if share == 0:
            context = f"no {name} that began in the window was answered: it has no latencies"
        elif share < 1 - _UNANSWERED:
            context = (
                f"{1 - share:.1%} of {name} {nouns.operation}s count with their age at that time: "
                f"percentiles above p{100 * share:.3g} are lower bounds"
            )
        else:
            continue
        yield RunWarning(
            code="unanswered-operations",
            problem="operations had no answer when the client stopped waiting",
            context=context,
            hint="lower --rate",
        )


def _trend(driven: DriverResult, nouns: Nouns) -> Iterator[RunWarning]:
    """Warn about a window that ends at another throughput than it begins with."""
    whole = driven.window_ns // SERIES_NS  # a last interval that is cut off has fewer
    done = [sum(point.counts.values()) for point in driven.series[:whole]]
    third = len(done) // 3
    if len(done) < _FEWEST_INTERVALS or not sum(done[:third]):
        return
    change = sum(done[-third:]) / sum(done[:third]) - 1
    scatter = _OF_STEPS * median(abs(b - a) for a, b in pairwise(done)) / mean(done)
    if abs(change) > max(STEADY, _ERRORS * scatter * sqrt(2 / third)):
        yield RunWarning(
            code="not-steady-state",
            problem="not in steady state",
            context=f"{nouns.operation}s per second in the last third of the window are "
            f"{abs(change):.0%} {'above' if change > 0 else 'below'} the first third",
            hint="raise --ramp-up, and let the window contain several checkpoints",
        )


def late_counters(driven: DriverResult, counted: WindowCounters) -> Iterator[RunWarning]:
    """Warn about counters that were not read at the ends of the window."""
    error_ns = counted.clock_error_ns(driven.window_ns)
    if driven.counters_late_ns is not None:
        context = (
            f"read {format_ns(driven.counters_late_ns)} from an end of the window: processor time, "
            "I/O and the engine's counters are left out"
        )
    elif abs(error_ns) > _OFF * driven.window_ns:
        context = (
            f"they span up to {format_ns(abs(error_ns))} {'more' if error_ns > 0 else 'less'} than "
            f"the window's {format_ns(driven.window_ns)}: processor time, I/O and the engine's "
            "counters may be off by that share"
        )
    else:
        return
    yield RunWarning(
        code="window-counters-late",
        problem="counters were not read at the ends of the measurement window",
        context=context,
        hint="measure on an otherwise idle machine, or raise --duration",
    )


def late_publication(
    engine: Engine, driven: DriverResult, counted: WindowCounters
) -> Iterator[RunWarning]:
    """Warn about counters of sessions that do not publish them at the window's ends."""
    if driven.published_sessions:
        return
    late = engine.published_after_ns / driven.window_ns
    if late <= _UNPUBLISHED or driven.counters_late_ns is not None:
        return
    if engine.publication_cost.keys() & counted.counters(driven).keys():
        yield RunWarning(
            code="counters-published-late",
            problem="sessions publish the engine's counters late",
            context=f"by up to {format_ns(engine.published_after_ns)} at each end of the window: "
            f"commits, blocks and log bytes may be off by {late:.1%}",
            hint="use --driver loadgen, whose sessions publish at the window's ends, or raise "
            "--duration",
        )


def _closed_loop(nouns: Nouns) -> RunWarning:
    """Warn about users without think time that wait for their answer."""
    return RunWarning(
        code="closed-loop",
        problem="latencies leave out waiting (closed loop, coordinated omission)",
        context=f"a {nouns.user} that waits sends no request: a stall of the engine delays one "
        f"{nouns.operation} per {nouns.user}, not all that would have arrived",
        hint="offer a rate with --rate",
    )


def _clients_elsewhere(hosts: Sequence[str], engine: Engine) -> Iterator[RunWarning]:
    """Warn about clients on other hosts: network and encryption are part of the result."""
    if not hosts:
        return
    there = engine.from_elsewhere()
    way = "through ssh tunnels" if there is None else f"by TLS on {there['host']}"
    yield RunWarning(
        code="remote-clients",
        problem="latencies include a network and encryption, which uses both sides' processors",
        context=f"clients on {', '.join(dict.fromkeys(hosts))} reach the server {way}",
        hint="compare with runs whose clients connect in the same way",
    )


def _own_queues(hosts: Sequence[str], driven: DriverResult) -> Iterator[RunWarning]:
    """Warn about clients of a set rate that cannot share one queue, as those of one host do."""
    if len(hosts) > 1 and driven.offered_count:
        yield RunWarning(
            code="queue-per-client",
            problem="each client process has a queue of its own",
            context=f"{len(hosts)} processes take turns in one schedule: an operation waits for a "
            "connection of its own process while others' may be free, so latencies near saturation "
            "are higher than with one client",
            hint="compare with runs of the same client hosts, or use one client host",
        )


def lost_without_power(engine: Engine) -> Iterator[RunWarning]:
    """Warn about settings under which an acknowledged commit does not wait for the device."""
    risks = engine.lost_without_power()
    if risks:
        yield RunWarning(
            code="commits-not-durable",
            problem="commits do not wait for the log: a loss of power can lose them, and a faster "
            "log gains little",
            context="; ".join(f"{setting}: {meaning}" for setting, meaning in risks.items()),
            hint="compare with runs of the same settings only, or leave them at their defaults",
        )


def write_back_warnings(
    engine: Engine, driven: DriverResult, counted: WindowCounters
) -> Iterator[RunWarning]:
    """Warn about a window that leaves out what a long run writes back, by the engine's own rules.

    Commits write the log at once and data pages later. A window that ends before pages are
    written, or in which they are written at another rate than later on, shows a data tier
    without its writes and a log tier with more than its share.
    """
    if driven.counters_late_ns is not None:
        return
    window = {**counted.counters(driven), **driven.engine_counters}
    yield from engine.write_back_warnings(counted.ramp_up, window, driven.window_ns)
