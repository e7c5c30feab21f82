"""The worked example of docs/prediction.md, computed by the functions that it explains."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from explained_runs import US, calls

from harness import hdr
from harness.iotrace.page import CounterCell
from reports.explain.baseline import FIGURES, Baseline, Calls, Repeats
from reports.explain.demand import Demand, FileCalls
from reports.explain.laws import Law, TraceFactors, calibrate, closed_loop
from reports.explain.prediction import Unpredictable

PAGE = (Path(__file__).parents[2] / "docs/prediction.md").read_text(encoding="utf-8")
SYNC_BYTES = 21 * 1024
#: Four users on two processors, per transaction: 600 µs of processor time and 0.58 syncs.
DEMAND = Demand(
    customers=4,
    processor_ns=600 * US,
    processors=2,
    others=0.0,
    throughput=1650e-9,
    calls=(
        FileCalls(
            CounterCell("wal", "sync", "foreground"), 0.58, SYNC_BYTES,
            durations=hdr.decode(calls(1200, 1000)),
        ),
    ),
)  # fmt: skip


def tier(name: str, append_us: float, computed_us: float) -> Baseline:
    """A tier on which an append takes that long, whatever its size."""
    sizes = (4096, 1 << 20)
    appends = tuple(Calls(n, 1, (append_us * US,), computed_us * US, 0.0, 0.0) for n in sizes)
    return Baseline(name, dict.fromkeys(FIGURES, appends), buffered=True)


SSD = {"wal": tier("ssd", 1100, 50)}
PMEM = {"wal": tier("pmem", 20, 15)}


@pytest.fixture(scope="module")
def laws() -> tuple[TraceFactors, Law, Law]:
    calibration = calibrate(DEMAND, SSD)
    before, after = (closed_loop(DEMAND, SSD, side, calibration) for side in (SSD, PMEM))
    return calibration, before, after


def on_page(*texts: str) -> None:
    flat = re.sub(r"\s+", " ", PAGE)
    for text in texts:
        assert text in flat, text


def test_the_commits_of_the_example(laws):
    calibration, _, _ = laws
    commits = calibration.commits
    group = commits / 0.58
    on_page(f"**{commits:.2f} commits**", f"0.58 × {group:.2f} = {commits:.2f}")
    on_page(f"1.20 − 1.10 = **{calibration.sync_longer_ns / 1e6:.2f} ms**")


def test_the_demands_of_the_example(laws):
    _, before, after = laws
    demands = [[s.demand_ns / 1e6 for s in law.stations] for law in (before, after)]
    on_page(
        f"| processors | {demands[0][0]:.3f} ms | {demands[1][0]:.3f} ms |",
        f"| log | {demands[0][1]:.3f} ms | {demands[1][1]:.4f} ms |",
    )


@pytest.mark.parametrize("side", [1, 2])
def test_the_tables_of_the_example(laws, side):
    """By hand: factors of each station, and their convolution."""
    law = laws[side]
    factors = []
    for station in law.stations:
        station_factors = [1.0]
        for n in range(1, 5):
            station_factors.append(station_factors[-1] * station.demand_ns / 1e6 / station.speed(n))
        factors.append(station_factors)
    p, log = factors
    for n in range(5):
        g = sum(p[i] * log[n - i] for i in range(n + 1))
        on_page(f"| {n} | {p[n]:.5f} | {log[n]:.5f} | {g:.5f} |")
    ways = [sum(p[i] * log[n - i] for i in range(n + 1)) for n in (3, 4)]
    throughput = ways[0] / ways[1]
    assert law.throughput * 1e6 == pytest.approx(throughput)
    on_page(f"{ways[0]:.5f} / {ways[1]:.5f} = {throughput:.3f}")


def test_the_results_of_the_example(laws):
    _, before, after = laws
    a, b = (law.throughput * 1e6 for law in (before, after))
    low, high = (after.bounds.low * 1e6, after.bounds.high * 1e6)
    on_page(
        f"{b:.3f} / {a:.3f} = **{b / a:.2f}**",
        f"{a:.3f} / 1.650 = {before.throughput / DEMAND.throughput:.2f}",
        f"{low:.3f} to {high:.3f}",
        f"{low / a:.2f} to {high / a:.2f}",
    )


def test_a_slower_repeat_of_the_baseline_is_slower(laws):
    calibration, before, _ = laws
    slower = closed_loop(DEMAND, SSD, SSD, calibration, Repeats.SLOWEST)
    assert slower.throughput == pytest.approx(before.throughput)  # it has one repeat


@pytest.mark.parametrize(("syncs", "enough"), [(0.58, True), (0.2, False)])
def test_an_operation_that_writes_commits_if_there_are_syncs_enough(syncs, enough):
    """A sync serves each of the four users once: 0.2 are not enough for 0.92 commits."""
    (calls_of_log,) = DEMAND.calls
    demand = replace(DEMAND, writes=0.92, calls=(replace(calls_of_log, calls=syncs),))
    assert (calibrate(demand, SSD).commits == 0.92) == enough


def test_users_that_wait_for_a_lock_are_at_no_station():
    """A quarter of four users: A has three. B's log takes next to no time, and so do its locks."""
    free = replace(DEMAND, writes=0.92)
    locked = replace(free, locked=0.25)
    calibration = calibrate(locked, SSD)
    on_ssd, on_pmem = (closed_loop(locked, SSD, tiers, calibration) for tiers in (SSD, PMEM))
    three = closed_loop(replace(free, customers=3), SSD, SSD, calibrate(free, SSD))
    assert on_ssd.throughput == pytest.approx(three.throughput, rel=1e-3)
    without = closed_loop(free, SSD, PMEM, calibrate(free, SSD))
    assert on_pmem.throughput == pytest.approx(without.throughput, rel=0.01)


def test_the_page_has_every_reason():
    listed = set(re.findall(r"^\| `([a-z-]+)` \|", PAGE, re.M))
    assert listed == {reason.value for reason in Unpredictable}
