"""Measurements as suites expand to them: what is done by whom where, in bytes and nanoseconds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.micro.chains import LINE_BYTES, ChainOperation, ChainShare
from harness.store.spec import JsonObject

#: The kind of job that makes system calls on a file; others load and store memory.
FILE = "file"
#: The kind of job that maps its range, in addition to what is mapped.
MAP = "map"
#: The measured tier, DRAM in addition to it, or the memory nodes that the suite names.
Place = Literal["tier", "dram", "nodes"]
Numa = Literal["near", "far"]
Pages = Literal["huge", "base"]


@dataclass(frozen=True)
class Job:
    """Threads that do one thing at the same time; the jobs of a measurement run together.

    ``keys``: the kind's own, as in the program's spec (keys.Key.field). ``dram_share``: of the
    accesses, how many go to ``dram_range_bytes`` of DRAM in addition to the tier. ``mix``: chains
    that each operation draws from, in place of ``chain``. ``partitions``: 0 is one a thread.
    ``operations``: where the job is bounded by a count, of all its threads. ``pace``: None as fast
    as it can, or ``{"bytes_per_second": …}``. ``nodes``: of place nodes (node_placement), in two
    parts with ``first_share`` of the range in the first; ``dram_nodes``: of ``dram_range_bytes`` in
    place of DRAM. ``cpus``: processors to run on in place of ``numa``. ``offset_bytes``: where
    the range begins on a raw device.
    """

    name: str
    kind: str
    threads: int
    range_bytes: int
    keys: Mapping[str, Any] = field(default_factory=dict)
    place: Place = "tier"
    numa: Numa = "near"
    pages: Pages = "huge"
    partitions: int = 1
    dram_range_bytes: int = 0
    dram_share: float = 0.0
    chain: tuple[ChainOperation, ...] = ()
    mix: tuple[ChainShare, ...] = ()
    operations: int | None = None
    pace: Mapping[str, Any] | None = None
    nodes: str = ""
    first_share: float = 0.5
    dram_nodes: str = ""
    cpus: str = ""
    offset_bytes: int = 0

    @property
    def largest_access_bytes(self) -> int:
        """Return the bytes of an operation or of a chain's largest step, else a cache line."""
        chains = (self.chain, *(share.chain for share in self.mix))
        steps = max((step.size_bytes for chain in chains for step in chain), default=LINE_BYTES)
        return int(self.keys.get("access_bytes", steps))

    def bytes_on(self, place: Place) -> int:
        """Return the bytes of a place that the job covers."""
        return (self.range_bytes if place == self.place else 0) + (
            self.dram_range_bytes if place == "dram" else 0
        )


@dataclass(frozen=True)
class Axis:
    """One value of a swept key: what it is called in the configuration's name."""

    job: str
    key: str
    text: str


@dataclass(frozen=True)
class Measurement:
    """One configuration of a measurement of a suite.

    ``name``: in the suite; ``axes``: what distinguishes its configurations.
    ``duration_ns``: None where counts bound its jobs. ``source``: of PerMA-Bench's files the
    configurations of its jobs (perma_config.PermaConfig). ``needed``: a host where it cannot be
    measured is an error, else it is left out and said. ``in_memory``: it is left out where mapped
    files of the tier are the page cache. ``origin``: where it stands in the file.
    """

    name: str
    jobs: tuple[Job, ...]
    axes: tuple[Axis, ...] = ()
    duration_ns: int | None = None
    warm_up_ns: int = 0
    needed: bool = False
    in_memory: bool = False
    source: tuple[Any, ...] = ()
    origin: str = ""

    @property
    def configuration(self) -> str:
        """Return ``random_reads/threads=1,access_size=64``, which is unique in a suite."""
        several = len({axis.job for axis in self.axes}) > 1
        swept = [f"{axis.job + '.' if several else ''}{axis.key}={axis.text}" for axis in self.axes]
        return f"{self.name}/{','.join(swept)}" if swept else self.name

    @property
    def identity(self) -> str:
        """Return a text that is equal where the same is done, whatever it is called."""
        return repr((self.name, self.jobs, self.duration_ns, self.warm_up_ns))


@dataclass(frozen=True)
class Suite:
    """A suite as requested, expanded for a host.

    ``program``: ``microbench``, or the name of another one that ``params`` go to.
    ``published``: which of a paper's numbers it repeats. ``repeats``: the default.
    ``documents``: the files it came from, parsed, by their names: what a run keeps of it.
    """

    name: str
    description: str
    measurements: tuple[Measurement, ...]
    program: str = "microbench"
    params: JsonObject = field(default_factory=dict)
    published: JsonObject | None = None
    repeats: int = 1
    documents: JsonObject = field(default_factory=dict)

    def jobs(self) -> Iterator[Job]:
        """All jobs of all measurements."""
        for measurement in self.measurements:
            yield from measurement.jobs
