"""Percentiles of few operations: p99.99 of 2,000 would be the maximum of one set."""

from __future__ import annotations

from pathlib import Path

import pytest
from micro_runs import KINDS, duration, micro_run

from harness import hdr
from harness.micro.fio_result import histogram
from reports.micro.card_words import Finding, TailFinding
from reports.micro.figures import percentile
from reports.micro.findings import findings
from reports.micro.points import Device, devices

_TAIL = "Tail of overwrites around a buffer"


def _overwrites(root: Path, counts: dict[int, int]) -> Device:
    """So many of 90 ns and one of 9 µs, for each range in bytes."""
    metrics = [
        duration("overwrite_tail", {"90": count - 1, "9000": 1}, pattern="sequential",
                 range_bytes=size)
        for size, count in counts.items()
    ]  # fmt: skip
    (device,) = devices([micro_run(root, metrics)])
    return device


def _finding(device: Device, question: str) -> Finding:
    (found,) = [one for one in findings(device) if one.question == question]
    return found


@pytest.mark.parametrize(
    ("percent", "count"), [(50.0, 1), (99.0, 100), (99.9, 1_000), (99.99, 10_000)]
)
def test_a_percentile_takes_as_many_operations_as_have_one_beyond_it(
    percent: float, count: int
) -> None:
    assert hdr.fewest(percent) == count
    assert percentile(histogram({"90": count}), percent) == 90
    assert percentile(histogram({"90": count - 1}), percent) is None


@pytest.mark.parametrize(
    ("counts", "worst", "too_few"),
    [
        ({4096: 2_000, 65536: 2_000}, None, 2),
        ({4096: 10_000, 65536: 2_000}, "4 KiB", 1),
        ({4096: 10_000}, "4 KiB", 0),
    ],
)
def test_the_worst_tail_is_of_those_with_operations_enough(
    tmp_path: Path, counts: dict[int, int], worst: str | None, too_few: int
) -> None:
    found = _finding(_overwrites(tmp_path, counts), _TAIL)
    assert isinstance(found, TailFinding)
    assert (found.worst.name if found.worst else None, found.too_few) == (worst, too_few)
    assert found.missing(99.9, 99.99) == ([(99.99, 10_000)] if too_few else [])


def test_latencies_of_few_operations_have_no_tail_either(tmp_path: Path) -> None:
    loads = duration("latency", {"90": 99, "9000": 1}, **KINDS["load"], pattern="random",
                     access_size_bytes=64)  # fmt: skip
    (device,) = devices([micro_run(tmp_path, [loads])])
    (row,) = _finding(device, "Latency, load, 64 B").rows
    assert (row.name, row.at(50), row.at(99), row.at(99.99)) == ("random", 90, 90, None)
