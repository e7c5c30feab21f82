"""Names of counters: what is counted, its labels and its unit in one text.

Counters are flat mappings from a name to a number. Labels follow the name in brackets,
``tier_read_bytes[tier=pmem]``, and become the metric's; the name itself ends in its unit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

from harness.store.result import Metric

N = TypeVar("N", int, float)

_LABELLED = re.compile(r"(?P<name>[^\[\]]+)\[(?P<labels>[^\[\]]*)\]")
_UNITS = {"bytes": "B", "ns": "ns", "j": "J"}


def labelled(name: str, **labels: str) -> str:
    """``labelled("tier_read_bytes", tier="pmem")`` is ``tier_read_bytes[tier=pmem]``."""
    inside = ",".join(f"{label}={value}" for label, value in sorted(labels.items()))
    return f"{name}[{inside}]" if inside else name


def split(counter: str) -> tuple[str, dict[str, str]]:
    """The inverse of ``labelled``: the bare name and its labels."""
    match = _LABELLED.fullmatch(counter)
    if match is None:
        return counter, {}
    pairs = (item.partition("=") for item in match["labels"].split(",") if item)
    return match["name"], {label: value for label, _, value in pairs}


def unit_of(counter: str) -> str:
    """The unit a counter's name ends in: ``B``, ``ns``, ``J``, ``B/s``, else ``1`` (a count)."""
    if split(counter)[0].endswith("_bytes_per_s"):
        return "B/s"
    return _UNITS.get(split(counter)[0].rpartition("_")[2], "1")


def difference(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Increase of each cumulative counter; only of those that were read both times.

    One that went back is no sum (a process of it has ended unseen): it is left out.
    """
    return {
        name: after[name] - before[name]
        for name in after
        if name in before and after[name] >= before[name]
    }


def bandwidths(counters: Mapping[str, float], duration_ns: int) -> dict[str, float]:
    """Mean bytes per second of what memory controllers moved while a statement ran."""
    moved = ("dram_read_bytes", "dram_write_bytes", "pmem_read_bytes", "pmem_write_bytes")
    if duration_ns <= 0:
        return {}
    return {f"{n}_per_s": counters[n] * 1e9 / duration_ns for n in moved if n in counters}


def counter_metrics(
    prefix: str, labels: Mapping[str, str], counters: Mapping[str, float]
) -> list[Metric]:
    """Metrics of counters, by name: ``cpu_ns`` of query 6 is ``query_cpu_ns`` {query: 6}.

    Labels of the counter are added to those given.
    """
    metrics = []
    for counter, value in sorted(counters.items()):
        name, counter_labels = split(counter)
        metrics.append(
            Metric(
                f"{prefix}{name}",
                unit_of(name),
                "none",
                {**labels, **counter_labels},
                value=value,
            )
        )
    return metrics


def summed(counts: Iterable[Mapping[str, N]]) -> dict[str, N]:
    """Return the sums of counts by name."""
    total: dict[str, N] = {}
    for mapping in counts:
        for name, count in mapping.items():
            total[name] = total[name] + count if name in total else count
    return total
