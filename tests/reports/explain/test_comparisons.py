"""What explains a comparison of placements, by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from explained_runs import tpcc

from harness.store.runs import Store
from reports.explain.comparisons import Explained, explained
from reports.explain.known import Missing, Value
from reports.select import unplanted
from reports.series import panels


def rows(root: Path, baseline: str | None = None) -> list[Explained]:
    return explained(panels(unplanted(Store(root).runs()), "placement", baseline))


def moved(root: Path, to: str = "pmem-both", gain: float = 1.5, blocks: int = 6) -> None:
    """Paired runs of which those on ``to`` are ``gain`` times as fast."""
    for block in range(blocks):
        for placement, rate in (("ssd-both", 60_000), (to, 60_000 * gain)):
            tpcc(root, placement, block, rate * (1 + 0.01 * block))


def known(value: object) -> Value:
    assert isinstance(value, Value), value
    return value


def why(value: object) -> str:
    assert isinstance(value, Missing), value
    return value.why


@pytest.mark.parametrize(("baseline", "speed_up"), [("ssd-both", 1.5), ("pmem-both", 1 / 1.5)])
def test_the_measured_speed_up_is_of_b_over_a(
    tmp_path: Path, baseline: str, speed_up: float
) -> None:
    moved(tmp_path)
    (row,) = rows(tmp_path, baseline)
    assert known(row.measured).value == pytest.approx(speed_up)
    assert row.moved == ("data", "wal", "temp", "index")


def test_the_ceiling_is_of_the_devices_that_hold_what_moved(tmp_path: Path) -> None:
    moved(tmp_path, "ssd-data-pmem-wal")
    (row,) = rows(tmp_path)
    assert row.moved == ("wal",)
    assert known(row.ceiling).value == pytest.approx(1000 / 590, rel=1e-2)
    assert not row.above_ceiling


@pytest.mark.parametrize(("blocks", "marked"), [(6, True), (2, False)])
def test_what_was_measured_above_its_ceiling_is_marked(
    tmp_path: Path, blocks: int, marked: bool
) -> None:
    """The interval of two repeats, which covers 50 %, shows nothing."""
    moved(tmp_path, "ssd-data-pmem-wal", gain=5.0, blocks=blocks)
    (row,) = rows(tmp_path)
    low = known(row.measured).low
    assert low is not None and low > known(row.ceiling).value
    assert row.above_ceiling == marked


def test_the_ceiling_of_planted_delays_is_that_of_their_part(tmp_path: Path) -> None:
    runs = [tpcc(tmp_path), tpcc(tmp_path, rate=30_000, plant=("wal.sync=+400us",))]
    (row,) = explained(panels(runs, "placement", "ssd-both PLANTED wal.sync=+400us"))
    assert row.moved == ("wal",)
    assert known(row.measured).value == pytest.approx(2.0)
    assert known(row.ceiling).value == pytest.approx(1000 / 590, rel=1e-2)


def test_a_set_rate_has_no_ceiling(tmp_path: Path) -> None:
    for placement in ("ssd-both", "pmem-both"):
        tpcc(tmp_path, placement, rate_per_s=100.0)
    (row,) = rows(tmp_path)
    assert why(row.ceiling) == "a rate was set"
