"""The duration of a scaled suite on an idle machine: its measurements and their set-up.

Chases are laid out again for each measurement, which takes longer than the measurement where
their range is large; logs are zeroed before it and recovered after it. The duration of a
measurement that ends after a count of operations is not known beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.micro.chains import LINE_BYTES
from harness.micro.host_capacity import HostCapacity
from harness.micro.model import Job, Measurement
from harness.micro.protocol import Planned
from harness.micro.scaling import target_sizes
from harness.units import GIB

#: Measured on an EPYC of 2023. Once: start of harness and program, checks and storing; zeroing and
#: touching a GiB, where the hypervisor has it or not (0.04 to 1.1 s, so this may be off most).
_START_NS, _TOUCH_GIB_NS = 700_000_000, 250_000_000
#: Of each measurement: its threads, and the core's clock; the empty body that goes before it where
#: there are stamps; zeroing and recovering a GiB of log; pages in DRAM, and recovering them.
_THREADS_NS, _EMPTY_BODY_NS, _LOG_GIB_NS, _PAGES_NS = 1_000_000, 4_000_000, 25_000_000, 50_000_000
#: A record of an index: to load it, and to look it up after the recovery.
_RECORD_NS = 2_500
#: Laying out a node of a chase: in turn; at random among this many, growing with this power of
#: their number, since each node is a line that is in no cache.
_NODE_NS, _RANDOM_NODE_NS, _RANDOM_NODES, _RANDOM_POWER = 4.3, 12, 1 << 24, 0.37


def estimate(measurements: Sequence[Measurement], capacity: HostCapacity, repeats: int) -> Planned:
    """Of all measurements: warm-up and duration, exactly as requested, and their set-up, about."""
    sizes = target_sizes(measurements, capacity)
    once = _START_NS + round(sum(sizes.values()) / GIB * _TOUCH_GIB_NS)
    each = len(measurements) * _THREADS_NS
    each += sum(_setup_ns(job) for one in measurements for job in one.jobs)
    return Planned(
        measurements,
        measuring_ns=repeats * sum(one.warm_up_ns + (one.duration_ns or 0) for one in measurements),
        setup_ns=once + repeats * each,
        counted=sum(one.duration_ns is None for one in measurements),
    )


def _setup_ns(job: Job) -> int:
    if job.kind == "chase":
        return _chase_ns(job)
    stamps = _EMPTY_BODY_NS if _timed(job) else 0
    if job.kind == "log":
        return stamps + round(job.range_bytes / GIB * _LOG_GIB_NS)
    if job.kind == "index":
        return stamps + job.range_bytes // int(job.keys.get("bytes_per_record", 256)) * _RECORD_NS
    return stamps + (_PAGES_NS if job.kind == "page" else 0)


def _chase_ns(job: Job) -> int:
    nodes = job.range_bytes // int(job.keys.get("node_bytes", LINE_BYTES))
    if job.keys.get("order", "random") != "random":
        return round(nodes * _NODE_NS)
    grown = math.pow(nodes / _RANDOM_NODES, _RANDOM_POWER)
    return round(nodes * _RANDOM_NODE_NS * grown)


def _timed(job: Job) -> bool:
    """Whether operations of it are timed alone, so that their stamps are measured before."""
    chained = job.kind == "chain" and job.keys.get("mode") == "dependent"
    return job.kind == "latency" or chained or bool(job.keys.get("sample_every"))
