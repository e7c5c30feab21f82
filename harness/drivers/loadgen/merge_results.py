"""Split a spec for processes that run together, and merge their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from harness import hdr
from harness.errors import RunFailed

#: How far apart clients may begin that ran together.
_APART_NS = 200_000_000
_OPERATION_COUNTS = (
    "count",
    "not_found",
    "skipped",
    "rolled_back",
    "failed",
    "retried",
    "unfinished",
)


def split(spec: Mapping[str, Any], processes: int) -> list[dict[str, Any]]:
    """Return one spec for each of several processes that together offer the load of ``spec``.

    Connections, terminals, operations and rate are spread evenly. The starts of an open loop are
    one schedule: processes that share a file (one host) have one queue, others take every
    ``processes``-th start. Each has the spec's threads, and a journal of its own (see
    :func:`journals`). Each process has a connection and an operation at least.
    """
    connections = spec["connections"]
    operations = spec.get("operations")
    terminals = spec.get("terminals") or connections
    first, specs = 0, []
    for index in range(processes):
        mine = _share(connections, processes, index)
        own_terminals = _share(terminals, processes, index)
        one = {
            **spec,
            "connections": mine,
            "threads": min(spec["threads"], mine),
            "terminals": own_terminals,
            "first_terminal": first,
            "all_terminals": terminals,
        }
        first += own_terminals
        if operations is not None:
            one["operations"] = _share(operations, processes, index)
        if spec["mode"]["kind"] == "open":
            rate = spec["mode"]["rate_per_s"] / processes
            turn = {"rate_per_s": rate, "first_start": index / processes}
            one["mode"] = {"kind": "open", **turn, "processes": processes}
        if spec.get("journal"):
            one["journal"] = str(journals(Path(spec["journal"]), processes)[index])
        specs.append(one)
    return specs


def journals(journal: Path, processes: int) -> list[Path]:
    """Return the journals that the specs of :func:`split` name."""
    if processes == 1:
        return [journal]
    return [journal.with_name(f"{journal.name}.{index}") for index in range(processes)]


def _share(of: int, processes: int, index: int) -> int:
    return of // processes + (index < of % processes)


def merged(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the results of processes that ran together, on one host or on several.

    Clock, version, start and notes are the first one's; counts and processor times are
    sums, the memory is that of the largest process. Histograms are merged. Inserts are
    counted by all processes together: the last one to end has the total. RunFailed where
    their windows did not begin together by the hosts' wall clocks.
    """
    first = dict(results[0])
    if len(results) == 1:
        return first
    _check_together(results)
    offered = [result["offered"] for result in results if result["offered"]]
    operations = zip(*(result["operations"] for result in results), strict=True)
    return first | {
        **{
            name: combine(result[name] for result in results)
            for name, combine in _COMBINED.items()
            if name in first
        },
        "operations": [_merged_operation(same) for same in operations],
        "series": _merged_series([result["series"] for result in results]),
        "latencies": _merged_latencies([result["latencies"] for result in results]),
        "offered": summed(offered) if offered else None,
    }


def _merged_series(series: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Merge interval by interval; a process that ended earlier adds nothing."""
    return [
        {
            "monotonic_ns": there[0]["monotonic_ns"],
            "counts": summed(interval["counts"] for interval in there),
        }
        for there in ([one for one in same if one is not None] for same in zip_longest(*series))
    ]


def _merged_latencies(several: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    merged_intervals = []
    for same in zip_longest(*several):
        there = [interval for interval in same if interval is not None]
        encoded: dict[str, list[str]] = {}
        for operation, text in chain.from_iterable(one["hdr"].items() for one in there):
            encoded.setdefault(operation, []).append(text)
        merged_intervals.append(
            {
                "monotonic_ns": there[0]["monotonic_ns"],
                "hdr": {
                    operation: hdr.merge_encoded(texts) for operation, texts in encoded.items()
                },
            }
        )
    return merged_intervals


def _check_together(results: Sequence[Mapping[str, Any]]) -> None:
    begins = []
    for result in results:
        clock = result["clock"]
        begins.append(clock["realtime_ns"] - clock["monotonic_ns"] + result["started_monotonic_ns"])
    apart_ns = max(begins) - min(begins)
    if apart_ns > _APART_NS:
        raise RunFailed(
            f"merge the results of {len(results)} clients",
            f"their measured windows began {apart_ns / 1e9:.3f} s apart",
            "give all of them the same start_at_realtime_ns and ramp-up, and keep the hosts' "
            "clocks synchronised",
        )


def summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sums of counts by name."""
    total: dict[str, int] = {}
    for one in counts:
        for name, count in one.items():
            total[name] = total.get(name, 0) + count
    return total


#: How the values of a result are combined, by name.
_COMBINED: Mapping[str, Callable[[Iterable[Any]], Any]] = {
    "measured_ns": max,
    "client_cpu_ns": sum,
    "threads_cpu_ns": lambda lists: list(chain.from_iterable(lists)),
    "memory_peak_bytes": max,
    "errors": summed,
    "published_sessions": sum,
    "inserted": max,
    "inserts_begun": max,
    "updated": lambda hashes: list(map(max, *hashes)),  # the highest of each group of fields
}


def _merged_operation(same: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    (kind,) = {one["type"] for one in same}
    counts = {name: sum(one[name] for one in same) for name in _OPERATION_COUNTS}
    return {
        "type": kind,
        **counts,
        "latency_hdr": hdr.merge_encoded(one["latency_hdr"] for one in same),
    }
