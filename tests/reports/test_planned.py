"""What an experiment can show, before it is run."""

from __future__ import annotations

from harness.experiment.placement import parse_placement
from harness.store.spec import RunSpec
from reports.planned import PlannedRepeats, planned_repeats


def plan(
    engines: str, placements: str, repeats: int = 1, mode: str | None = None
) -> PlannedRepeats:
    specs = [
        RunSpec("tpch", engine, parse_placement(place), {"scale": 1}, block=block,
                required_host_mode=mode, emulate=("pmem",))
        for block in range(repeats)
        for engine in engines.split()
        for place in placements.split()
    ]  # fmt: skip
    return planned_repeats(specs, "Default")


def test_two_placements_need_six_repeats() -> None:
    found = plan("postgres", "ssd-both pmem-both")
    assert (found.over, found.repeats, found.comparisons, found.needed) == ("placement", 1, 1, 6)
    assert found.text


def test_every_engine_and_placement_more_is_a_comparison_more() -> None:
    found = plan("postgres duckdb", "ssd-both pmem-both ssd-data-pmem-wal", repeats=7)
    assert (found.repeats, found.comparisons, found.needed) == (7, 4, 8)


def test_what_has_no_counterpart_is_not_compared() -> None:
    found = plan("postgres duckdb", "ssd-both")
    assert (found.comparisons, found.needed, found.text) == (0, None, "")


def test_a_mode_that_is_required_is_no_dimension_of_its_own() -> None:
    assert plan("postgres", "ssd-both pmem-both", mode="Default|AppDirect").comparisons == 1
