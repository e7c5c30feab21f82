"""The keys of our suites: how their values are read, and what the program calls them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import UsageError, nearest
from harness.experiment.expression import evaluate, is_expression
from harness.micro.chains import LINE_BYTES, parse_chain
from harness.micro.kernels import parse_kernel
from harness.micro.model import KINDS
from harness.units import parse_duration_ns, parse_size

Variables = Mapping[str, float]
Read = Callable[[Any, Variables, str], Any]

#: Of a job that loads the memory beside another one: there is none.
IDLE = "idle"
UNLIMITED = "unlimited"
#: Bytes: the program counts them in 63 bits.
_LARGEST = 1 << 63


@dataclass(frozen=True)
class Key:
    """``kinds``: jobs that have it, empty for all; ``field``: its name in the program's spec.

    A key without ``field`` is one of the job itself (model.Job), or stands for several.
    """

    read: Read
    kinds: tuple[str, ...] = ()
    field: str = ""


def _size(value: Any, variables: Variables, source: str) -> int:
    """Bytes, a multiple of the cache line; an expression is rounded up to one."""
    if is_expression(value):
        size = evaluate(value, variables, source)
        if size >= _LARGEST:
            raise UsageError(
                source, f"{value!r} is {size:g}, larger than any storage", "write a smaller one"
            )
        if size <= 0:
            raise UsageError(source, f"{value!r} is {size:g} here", "write what is above 0")
        return math.ceil(size / LINE_BYTES) * LINE_BYTES
    size = _parsed_size(value, source)
    if size < LINE_BYTES or size % LINE_BYTES:
        raise UsageError(
            source, f"{value!r} are no whole cache lines", "a size in bytes, a multiple of 64"
        )
    return size


def _parsed_size(value: Any, source: str) -> int:
    try:
        return parse_size(value)
    except UsageError as error:
        raise UsageError(source, f"{value!r} is {error.context}", error.hint) from error


def _bytes(value: Any, variables: Variables, source: str) -> int:
    """Bytes, any number of them."""
    size = _parsed_size(value, source)
    if size < 1:
        raise UsageError(source, f"{value!r} is nothing", "write more than nothing")
    return size


def _duration(value: Any, variables: Variables, source: str) -> int:
    try:
        return parse_duration_ns(str(value))
    except UsageError as error:
        raise UsageError(source, f"{value!r} is {error.context}", error.hint) from error


def _some_time(value: Any, variables: Variables, source: str) -> int:
    if (duration_ns := _duration(value, variables, source)) > 0:
        return duration_ns
    raise UsageError(source, f"{value!r} is no time", "write 1s, say")


def _count(value: Any, variables: Variables, source: str) -> int:
    number = evaluate(value, variables, source) if is_expression(value) else value
    if isinstance(number, bool) or not isinstance(number, int | float) or number != int(number):
        raise UsageError(source, f"{value!r} is not a whole number", "write 4, or = cpus")
    if number < 0:
        raise UsageError(source, f"{value!r} is less than nothing", "write 0 or more")
    return int(number)


def _positive(value: Any, variables: Variables, source: str) -> int:
    if (number := _count(value, variables, source)) > 0:
        return number
    here = f", which is {number} here" if is_expression(value) else ""
    raise UsageError(source, f"{value!r}{here}", "write 1 or more, or = max(1, cpus - 1)")


def _share(value: Any, variables: Variables, source: str) -> float:
    if 0 <= (number := _number(value, variables, source)) <= 1:
        return number
    raise UsageError(source, f"{value!r} is no share", "write a number from 0 to 1")


def _number(value: Any, variables: Variables, source: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(source, f"{value!r} is not a number", "write 0.5")
    return float(value)


def _flag(value: Any, variables: Variables, source: str) -> bool:
    if not isinstance(value, bool):
        raise UsageError(source, f"{value!r} is neither true nor false", "write true or false")
    return value


def _word(*known: str) -> Read:
    def read(value: Any, variables: Variables, source: str) -> str:
        if value not in known:
            found = f"{value!r}{nearest(str(value), known)}"
            raise UsageError(source, found, f"one of {', '.join(known)}")
        return str(value)

    return read


def _kernel(value: Any, variables: Variables, source: str) -> dict[str, str]:
    words = str(value).split("+")
    if words[0] == "mixed" and words[1:2] not in (["store"], ["ntstore"]):
        raise UsageError(
            source,
            f"{value!r}: mixed reads and writes, and how it writes is not said",
            "write mixed+store or mixed+ntstore, its flush and its fence behind it",
        )
    found = parse_kernel(value, source)
    access = found.get("store", found["operation"])
    if found["flush"] != "none" and access != "store":
        raise UsageError(
            source,
            f"{value!r}: {access} leaves no lines in the cache to be flushed",
            f"leave +{found['flush']} out; it goes with store",
        )
    return found


def _chain(value: Any, variables: Variables, source: str) -> Any:
    return parse_chain(str(value), source)


def _pace(value: Any, variables: Variables, source: str) -> Any:
    """``idle``, ``unlimited``, bytes a second of all its threads, or a pause of each."""
    if value in (IDLE, UNLIMITED):
        return value
    if isinstance(value, dict):
        if list(value) != ["pause"]:
            raise UsageError(source, f"{value!r}", "write {pause: 100ns}")
        return {"pause_ns": _some_time(value["pause"], variables, source)}
    text = str(value)
    if not text.endswith("/s"):
        raise UsageError(source, f"{value!r}", "write 2GB/s, {pause: 100ns}, unlimited or idle")
    return {"bytes_per_second": _bytes(text.removesuffix("/s"), variables, source)}


_ACCESSING = ("throughput", "latency")
_PATTERNED = ("throughput", "latency", "chain")
_DURABLE = ("log", "page")

#: Of a job.
KEYS: Mapping[str, Key] = {
    "kind": Key(_word(*KINDS)),
    "threads": Key(_positive),
    "range": Key(_size),
    "place": Key(_word("tier", "dram")),
    "numa": Key(_word("near", "far")),
    "pages": Key(_word("huge", "base", "1g")),
    "partitions": Key(_count),
    "count": Key(_positive),
    "pace": Key(_pace),
    "kernel": Key(_kernel, _ACCESSING),
    "access": Key(_size, _ACCESSING, "access_bytes"),
    "pattern": Key(
        _word("sequential", "sequential_desc", "random", "zipf", "strided", "hotspot"),
        _PATTERNED,
        "pattern",
    ),
    "stride": Key(_size, (*_PATTERNED, "chase"), "stride_bytes"),
    "hotspot": Key(_size, _PATTERNED, "hotspot_bytes"),
    "chunk": Key(_size, _PATTERNED, "chunk_bytes"),
    "zipf_exponent": Key(_number, _PATTERNED, "zipf_exponent"),
    "read_share": Key(_share, ("throughput",), "read_share"),
    "flush_when": Key(_word("line", "write"), _ACCESSING, "flush_when"),
    "fence_every": Key(_size, _ACCESSING, "fence_every_bytes"),
    "isa": Key(
        _word("auto", "avx512", "avx2", "sse2", "neon"),
        _PATTERNED,
        "isa",
    ),
    "before": Key(_word("none", "loaded", "flushed", "written"), ("latency",), "before"),
    "written_by": Key(
        _word("ntstore", "clwb", "clflushopt", "clflush", "store"), ("latency",), "written_by"
    ),
    "distance": Key(_count, ("latency",), "distance"),
    "lane": Key(_word("vector", "words"), ("latency",), "lane"),
    "order": Key(_word("random", "sequential", "strided"), ("chase",), "order"),
    "node": Key(_size, ("chase",), "node_bytes"),
    "locality": Key(_size, ("chase",), "locality_bytes"),
    "chains": Key(_positive, ("chase",), "chains"),
    "chain": Key(_chain, ("chain",)),
    "mode": Key(_word("dependent", "independent"), ("chain",)),
    "dram_range": Key(_size, ("throughput", "chain")),
    "dram_share": Key(_share, ("throughput",)),
    "writer": Key(_word("classic", "header", "dancing", "zero"), ("log",), "writer"),
    "padded": Key(_flag, ("log",), "padded"),
    "entry": Key(_bytes, ("log",), "entry_bytes"),
    "method": Key(
        _word("cow", "cow_dirty", "cow_invalidate", "mulog", "hybrid"), ("page",), "method"
    ),
    "page": Key(_size, ("page",), "page_bytes"),
    "dirty_lines": Key(_positive, ("page",), "dirty_lines"),
    "flush": Key(_word("none", "clwb", "clflushopt", "clflush", "ntstore"), _DURABLE, "flush"),
    "sample_every": Key(_count, _DURABLE, "sample_every"),
}
#: Of a measurement: all its jobs begin and end together.
TIMES: Mapping[str, Read] = {"duration": _some_time, "warm_up": _duration}


def read_key(key: str, value: Any, variables: Variables, source: str) -> Any:
    """One key's value; UsageError naming ``source`` where it is unknown or does not fit."""
    known = [*KEYS, *TIMES]
    if key not in known:
        raise UsageError(
            source, f"unknown key {key!r}{nearest(key, known)}", f"keys: {', '.join(known)}"
        )
    read = TIMES.get(key) or KEYS[key].read
    try:
        return read(value, variables, source)
    except UsageError as error:
        raise UsageError(error.problem, f"{key}: {error.context}", error.hint) from error
