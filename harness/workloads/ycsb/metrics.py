"""The figures of a run, with what each is defined as.

================================== =====================================================
metric                             what it is
================================== =====================================================
operations_per_second              operations of the measured window, of all kinds
operation_duration_ns              histogram by ``operation``: from the call to its answer,
                                   or from the intended start where a rate is set; of those
                                   begun in the window. A read-modify-write's is the pair's.
                                   One that was never answered stands there with its age; not
                                   left out if none was answered
operation_percentile_ns            by ``operation`` and ``percentile``, from a driver that
                                   keeps no histogram
operation_count                    by ``operation``: ended in the window (where a rate is set,
                                   of those meant to start in it). A read-modify-write counts
                                   once, as that
operation_not_found_count          of these, those that found no record
operation_retried_count            attempts undone by deadlocks or serialization
operation_unfinished_count         begun in the window, never answered
retried_count                      the same attempts by the engine's error ``code``
offered_operations_per_second      intended starts, where a rate is set
outstanding_count                  due and not answered, ``at`` begin and end of the
                                   window, where a rate is set
client_cpu_per_operation_ns        of the client processes, by operations done
server_cpu_per_operation_ns        of the engine's processes, likewise
process_cpu_per_operation_ns       in place of both where the engine works inside the client:
                                   of that process, whose time cannot be separated. Not
                                   where a rate is set: waiting for starts, and waking up for
                                   them, is computed by the same threads
wait_ns                            of the mean latency, by ``resource`` (docs/waits.md)
wait_cpu_ns                        of the mean latency, on processors
wait_accounted_share               of the mean latency, what they add up to
wait_moments_count                 how often sessions were observed
window_duration_ns                 length of the measured window
window_<counter>                   what the window added to a counter. Of those that an engine
                                   inside the client keeps (hundreds, for what is not in use
                                   too) only what it moved
================================== =====================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.drivers.validity import Nouns
from harness.store.result import Metric
from harness.units import NS_PER_S
from harness.workloads.window import window_metrics
from harness.workloads.ycsb.drivers import DriverResult

NOUNS = Nouns(
    operation="operation",
    user="client thread",
    users_option="--threads",
    counts=("count", "not_found_count", "retried_count", "unfinished_count"),
)


def metrics(driven: DriverResult, counters: Mapping[str, float], inside: bool) -> list[Metric]:
    """All of a run; ``inside``: whether the engine works inside the client."""
    return window_metrics(driven, counters, NOUNS, list(_rates(driven)), inside)


def _rates(driven: DriverResult) -> Iterator[Metric]:
    if (done := driven.done_count) is not None:
        rate = done * NS_PER_S / driven.window_ns
        yield Metric("operations_per_second", "1/s", "higher", value=rate)
    if driven.offered_count is not None:
        offered = driven.offered_count * NS_PER_S / driven.window_ns
        yield Metric("offered_operations_per_second", "1/s", "none", value=offered)
