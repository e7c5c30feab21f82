"""What an experiment can show, before it is run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.experiment.placement import parse_placement
from harness.store.spec import RunSpec
from reports.planned import planned_repeats


@pytest.mark.parametrize(
    ("engines", "placements", "repeats", "mode", "comparisons", "needed"),
    [
        ("postgres", "ssd-both pmem-both", 1, None, 1, 6),
        # Every engine and placement more is a comparison more.
        ("postgres duckdb", "ssd-both pmem-both ssd-data-pmem-wal", 7, None, 4, 8),
        ("postgres duckdb", "ssd-both", 1, None, 0, None),
        # A required mode is no dimension of its own.
        ("postgres", "ssd-both pmem-both", 1, "Default|AppDirect", 1, 6),
    ],
)
def test_comparisons_and_the_repeats_that_they_need(
    engines: str, placements: str, repeats: int, mode: str | None, comparisons: int, needed: int
) -> None:
    specs = [
        RunSpec("tpch", engine, parse_placement(place), {"scale": 1}, block=block,
                required_host_mode=mode, emulate=("pmem",))
        for block in range(repeats)
        for engine in engines.split()
        for place in placements.split()
    ]  # fmt: skip
    found = planned_repeats(specs, "Default")
    assert (found.over, found.repeats) == ("placement", repeats)
    assert (found.comparisons, found.needed) == (comparisons, needed)
    assert bool(found.text) == bool(comparisons)
    planted = planned_repeats(
        [replace(spec, plant=("wal.sync=+200us",)) for spec in specs], "Default"
    )
    assert (planted.comparisons, planted.needed, planted.text) == (0, None, "")
