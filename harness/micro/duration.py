"""How long a suite takes, by its configurations and the host that it is measured on."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.micro.chains import LINE_BYTES
from harness.micro.host_capacity import HostCapacity
from harness.micro.host_suite import target_sizes
from harness.micro.model import FILE, Job, Measurement
from harness.micro.protocol import Planned
from harness.units import GIB

#: Measured on an EPYC of 2023. Once: start of harness and program, checks and storing; zeroing and
#: touching a GiB, where the hypervisor has it or not (0.04 to 1.1 s, so this may be off most).
_START_NS, _TOUCH_GIB_NS = 700_000_000, 250_000_000
#: Writing a GiB of a file that jobs call on: of a disk, so this may be off most.
_WRITE_GIB_NS = 1_000_000_000
#: Of each measurement: its threads, and the core's clock; the empty body that goes before it where
#: there are stamps; zeroing and recovering a GiB of log; pages in DRAM, and recovering them.
_THREADS_NS, _EMPTY_BODY_NS, _LOG_GIB_NS, _PAGES_NS = 1_000_000, 4_000_000, 25_000_000, 50_000_000
#: A record of an index: to load it, and to look it up after the recovery.
_RECORD_NS = 2_500
#: Laying out a node of a chase: in turn; at random among this many, growing with this power of
#: their number, since each node is a line that is in no cache.
_NODE_NS, _RANDOM_NODE_NS, _RANDOM_NODES, _RANDOM_POWER = 4.3, 12, 1 << 24, 0.37


def estimate(measurements: Sequence[Measurement], capacity: HostCapacity, repeats: int) -> Planned:
    """The duration on an idle machine: of measurements exactly as requested, of set-up about.

    Chases are laid out again for each measurement, which takes longer than the measurement where
    their range is large; logs are zeroed before it and recovered after it. The duration of a
    measurement that ends after a count of operations is not known beforehand.
    """
    sizes = target_sizes(measurements, capacity)
    once = _START_NS + sum(
        round(size / GIB * (_WRITE_GIB_NS if key.pages == FILE else _TOUCH_GIB_NS))
        for key, size in sizes.items()
    )
    each = len(measurements) * _THREADS_NS
    each += sum(_setup_ns(job) for measurement in measurements for job in measurement.jobs)
    return Planned(
        measurements,
        measuring_ns=repeats
        * sum(
            measurement.warm_up_ns + (measurement.duration_ns or 0) for measurement in measurements
        ),
        setup_ns=once + repeats * each,
        counted=sum(measurement.duration_ns is None for measurement in measurements),
    )


def _setup_ns(job: Job) -> int:
    if job.kind == "chase":
        nodes = job.range_bytes // int(job.keys.get("node_bytes", LINE_BYTES))
        if job.keys.get("order", "random") != "random":
            return round(nodes * _NODE_NS)
        return round(nodes * _RANDOM_NODE_NS * math.pow(nodes / _RANDOM_NODES, _RANDOM_POWER))
    dependent = job.kind == "latency" or job.keys.get("mode") == "dependent"
    stamped = dependent or job.kind == FILE or job.keys.get("sample_every")
    stamps = _EMPTY_BODY_NS if stamped else 0
    if job.kind == "log":
        return stamps + round(job.range_bytes / GIB * _LOG_GIB_NS)
    if job.kind == "index":
        return stamps + job.range_bytes // int(job.keys.get("bytes_per_record", 256)) * _RECORD_NS
    return stamps + (_PAGES_NS if job.kind == "page" else 0)
