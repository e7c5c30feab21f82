"""A question of the card is answered from one experiment, whatever other suites have stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from micro_runs import micro_run, rate

from harness.reports.micro.points import devices
from harness.reports.micro.practices import practices


def _mix(gb_per_s: float, repeats: int = 11, **labels: object) -> dict[str, Any]:
    named = {"operation": "mixed", "read_share": 0.5, "threads": 4, "access_size_bytes": 256}
    return rate("mix", gb_per_s, repeats, **named, **labels)


def test_near_and_far_are_compared_within_one_pattern(tmp_path: Path) -> None:
    fig17 = {"pattern": "sequential", "partitions": 0}
    runs = [
        micro_run(tmp_path, [_mix(9, **fig17), _mix(8, numa="far", **fig17)], suite="fig17"),
        micro_run(tmp_path, [_mix(4, pattern="random"), _mix(2, numa="far", pattern="random")]),
    ]
    (device,) = devices(runs)
    told = {one.trial.what: one.trial.claim for one in practices(device)[3].trials}
    ratios = {what: round(claim.ratio.ratio, 3) for what, claim in told.items() if claim}
    assert ratios == {
        "near against far, sequential, 4 threads, 50 % reads": 1.125,
        "near against far, random, 4 threads, 50 % reads": 2.0,
    }


def test_far_is_compared_with_no_other_experiments_near(tmp_path: Path) -> None:
    metrics = [
        _mix(9, pattern="random", partitions=0),
        _mix(2, pattern="random", numa="far"),
    ]
    (device,) = devices([micro_run(tmp_path, metrics)])
    fourth = practices(device)[3]
    assert fourth.trials == ()
    assert "not measured in one experiment" in fourth.figures
