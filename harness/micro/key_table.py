"""The table of a suite's keys: each with its values, its kernels, and its name in other places.

An added kernel has its rows in a file next to its C file (docs/adding-a-kernel.md).
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from harness.structs import Struct

_Kinds = Annotated[tuple[str, ...], Meta(description="names of kernels")]

# fmt: off
_Values = Literal[
    "", "bytes", "chain", "count", "count from 0", "cpus", "direct", "flag", "kernel", "mix",
    "nodes", "number", "pace", "share", "size",
]
# fmt: on


class KeyRow(Struct, frozen=True):
    """A key of a microbenchmark's jobs."""

    documented = "docs/adding-a-kernel.md"
    description: str = ""
    values: Annotated[_Values, Meta(description="type of its values, without enum")] = ""
    enum: Annotated[tuple[str, ...], Meta(description="words that it accepts")] = ()
    kinds: Annotated[_Kinds | None, Meta(description="that have it; null: all")] = None
    required: Annotated[
        bool | _Kinds, Meta(description="by all of its kernels, by none, or by these")
    ] = False
    field: Annotated[str, Meta(description="its name in the native program's spec")] = ""
    attribute: Annotated[str, Meta(description="of harness.micro.model.Job, in place of field")] = (
        ""
    )
    label: Annotated[
        str | UnsetType | None,
        Meta(description="of metrics (default: attribute or field); null: none"),
    ] = UNSET
    reported: Annotated[bool, Meta(description="the program reports the label's value")] = False


#: Rows of an added kernel; empty for a key that other kernels have, too.
KernelKeys = dict[str, KeyRow]

_LOOPS = ("throughput", "latency")
_PATTERNED = (*_LOOPS, "chain")
_WRITERS = ("log", "page", "index")

KEY_TABLE: KernelKeys = {
    "kind": KeyRow(
        "the kernel (default throughput)",
        enum=("throughput", "latency", "chase", "chain", "log", "page", "index"),
        attribute="kind",
    ),
    "threads": KeyRow("default 1", "count", attribute="threads"),
    "range": KeyRow("memory that is accessed", "size", required=True, attribute="range_bytes"),
    "place": KeyRow("where the range is", enum=("tier", "dram"), attribute="place"),
    "nodes": KeyRow(
        "memory nodes of the range, in place of the tier; A/B: two parts",
        "nodes",
        attribute="nodes",
    ),
    "first_share": KeyRow(
        "of nodes A/B: part of the range on A (default 0.5)", "share", attribute="first_share"
    ),
    "offset": KeyRow("of a raw device: where the range begins", "size", attribute="offset_bytes"),
    "numa": KeyRow("processors to run on", enum=("near", "far"), attribute="numa"),
    "cpus": KeyRow("processors to run on, in place of numa", "cpus", attribute="cpus"),
    "pages": KeyRow("pages of DRAM", enum=("huge", "base"), attribute="pages"),
    "partitions": KeyRow(
        "equal parts of the range; 0: one per thread", "count from 0", attribute="partitions"
    ),
    "count": KeyRow(
        "operations of all threads, instead of duration",
        "count",
        attribute="operations",
        label=None,
    ),
    "pace": KeyRow("limit on a load job", "pace", attribute="pace", label=None),
    "kernel": KeyRow(
        "instructions of an operation", "kernel", kinds=_LOOPS, required=True, field="operation"
    ),
    "access": KeyRow(
        "bytes of an operation",
        "size",
        kinds=_LOOPS,
        required=True,
        field="access_bytes",
        label="access_size_bytes",
    ),
    "pattern": KeyRow(
        "order of addresses (required but for chains)",
        enum=("sequential", "sequential_desc", "random", "zipf", "strided", "hotspot", "dimms"),
        kinds=_PATTERNED,
        required=_LOOPS,
        field="pattern",
    ),
    "stride": KeyRow(
        "of pattern or order strided",
        "size",
        kinds=("throughput", "latency", "chain", "chase"),
        field="stride_bytes",
    ),
    "hotspot": KeyRow("of pattern hotspot", "size", kinds=_PATTERNED, field="hotspot_bytes"),
    "dimms": KeyRow(
        "of pattern dimms: interleaved DIMMs that a thread accesses",
        "count",
        kinds=_PATTERNED,
        field="dimms",
    ),
    "stripe": KeyRow(
        "of pattern dimms: 4 KiB on each DIMM (default 24 KiB)",
        "size",
        kinds=_PATTERNED,
        field="stripe_bytes",
    ),
    "chunk": KeyRow(
        "threads take turns with this many bytes",
        "size",
        kinds=_PATTERNED,
        field="chunk_bytes",
        label=None,
    ),
    "zipf_exponent": KeyRow("of pattern zipf", "number", kinds=_PATTERNED, field="zipf_exponent"),
    "read_share": KeyRow("of a mixed kernel", "share", kinds=("throughput",), field="read_share"),
    "flush_when": KeyRow(
        "flush after each line or each write",
        enum=("line", "write"),
        kinds=_LOOPS,
        field="flush_when",
    ),
    "fence_every": KeyRow(
        "bytes between two fences", "size", kinds=_LOOPS, field="fence_every_bytes"
    ),
    "isa": KeyRow(
        "instruction set",
        enum=("auto", "avx512", "avx2", "sse2", "neon"),
        kinds=_PATTERNED,
        field="isa",
        label="isa",
        reported=True,
    ),
    "before": KeyRow(
        "state of the lines",
        enum=("none", "loaded", "flushed", "written"),
        kinds=("latency",),
        field="before",
    ),
    "written_by": KeyRow(
        "of before: written",
        enum=("ntstore", "clwb", "clflushopt", "clflush", "store"),
        kinds=("latency",),
        field="written_by",
    ),
    "distance": KeyRow(
        "operations, of before: written", "count from 0", kinds=("latency",), field="distance"
    ),
    "lane": KeyRow(
        "bytes of an instruction", enum=("vector", "words"), kinds=("latency",), field="lane"
    ),
    "order": KeyRow(
        "of nodes",
        enum=("random", "sequential", "strided"),
        kinds=("chase",),
        field="order",
        label="pattern",
    ),
    "node": KeyRow("bytes from one node to the next", "size", kinds=("chase",), field="node_bytes"),
    "locality": KeyRow(
        "bytes walked before the next block", "size", kinds=("chase",), field="locality_bytes"
    ),
    "chains": KeyRow(
        "walks of a thread at the same time", "count", kinds=("chase",), field="chains"
    ),
    "chain": KeyRow("operations (or mix)", "chain", kinds=("chain",), attribute="chain"),
    "mix": KeyRow(
        "each operation draws one of these chains by its share",
        "mix",
        kinds=("chain",),
        attribute="mix",
    ),
    "mode": KeyRow(
        "latency or throughput",
        enum=("dependent", "independent"),
        kinds=("chain",),
        required=True,
        field="mode",
    ),
    "dram_range": KeyRow(
        "DRAM in addition to the tier",
        "size",
        kinds=("throughput", "chain"),
        attribute="dram_range_bytes",
    ),
    "dram_nodes": KeyRow(
        "memory nodes of dram_range, in place of DRAM",
        "nodes",
        kinds=("throughput", "chain"),
        attribute="dram_nodes",
    ),
    "dram_share": KeyRow(
        "share of operations in it", "share", kinds=("throughput",), attribute="dram_share"
    ),
    "writer": KeyRow(
        "of entries",
        enum=("classic", "header", "dancing", "zero"),
        kinds=("log",),
        required=True,
        field="writer",
    ),
    "padded": KeyRow("entries begin on a line", "flag", kinds=("log",), field="padded"),
    "entry": KeyRow(
        "bytes of an entry", "bytes", kinds=("log",), required=True, field="entry_bytes"
    ),
    "group": KeyRow(
        "entries that one barrier commits, of threads that share a log (0: each has one)",
        "count from 0",
        kinds=("log",),
        field="group",
    ),
    "table": KeyRow(
        "DRAM in which each entry's record is changed before",
        "size",
        kinds=("log",),
        field="table_bytes",
    ),
    "method": KeyRow(
        "of a page flush",
        enum=("cow", "cow_dirty", "cow_invalidate", "mulog", "hybrid"),
        kinds=("page",),
        required=True,
        field="method",
    ),
    "page": KeyRow("bytes of a page", "size", kinds=("page",), required=True, field="page_bytes"),
    "dirty_lines": KeyRow(
        "of a page", "count", kinds=("page",), required=True, field="dirty_lines"
    ),
    "index": KeyRow(
        "of words by words",
        enum=("level_hash", "fast_fair", "woart"),
        kinds=("index",),
        required=True,
        field="index",
    ),
    "workload": KeyRow(
        "YCSB's, or inserts alone",
        enum=("a", "b", "c", "d", "f", "insert"),
        kinds=("index",),
        required=True,
        field="workload",
    ),
    "keys": KeyRow(
        "how an index's operations choose records",
        enum=("zipf", "uniform"),
        kinds=("index",),
        field="keys",
    ),
    "loaded_share": KeyRow(
        "of workload insert: share of the records that is there before",
        "share",
        kinds=("index",),
        field="loaded_share",
    ),
    "key": KeyRow(
        "of a library's index (default 8 B)", "bytes", kinds=("index",), field="key_bytes"
    ),
    "value": KeyRow(
        "of a library's index (default 8 B)", "bytes", kinds=("index",), field="value_bytes"
    ),
    "discipline": KeyRow(
        "how often an index flushes and fences",
        enum=("designed", "ff", "sff", "optimized", "unaware"),
        kinds=("index",),
        field="discipline",
    ),
    "binary": KeyRow(
        "our index compiled as a library (clflush, mfence), or rewritten",
        enum=("library", "rewritten"),
        kinds=("index",),
        field="binary",
    ),
    "bytes_per_record": KeyRow(
        "of the range", "count", kinds=("index",), field="bytes_per_record", label=None
    ),
    "fence": KeyRow(
        "of an index", enum=("none", "sfence", "mfence"), kinds=("index",), field="fence"
    ),
    "added_fence": KeyRow(
        "after each flush that an index does not fence",
        enum=("none", "sfence", "mfence"),
        kinds=("index",),
        field="added_fence",
    ),
    "flush": KeyRow(
        "how lines are persisted",
        enum=("none", "clwb", "clflushopt", "clflush", "ntstore"),
        kinds=_WRITERS,
        field="flush",
    ),
    "sample_every": KeyRow(
        "every n-th operation is timed alone",
        "count from 0",
        kinds=_WRITERS,
        field="sample_every",
        label=None,
    ),
}
