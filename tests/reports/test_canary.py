"""The canary: when there is one, and which comparisons it warns of."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from report_runs import interleaved, metric

from harness.micro import canary as canaries
from harness.micro.canary import canary
from harness.store.calibrations import Canary, CanaryStore, Figure
from harness.store.runs import Store
from reports.basis import moved_figures
from reports.compare import compare

MINUTE_NS = 60 * 10**9
BEFORE = (100.0, 101.0, 102.0, 103.0, 104.0, 105.0, 106.0)
METRICS = [metric("queries_geomean_ns", 1e9, "lower")]
#: What follows an experiment, as a share of what preceded it.
SHARES = {"read": 0.5, "write": 0.97}


def made_up(shares: dict[str, float], began: int = 0, ended: int = 2**62) -> Canary:
    figures = [
        Figure("dram", name, BEFORE, tuple(share * one for one in BEFORE))
        for name, share in shares.items()
    ]
    return Canary("plan", "host", began, ended, tuple(figures))


def test_a_figure_has_moved_by_more_than_its_noise() -> None:
    moved = moved_figures(made_up(SHARES), [])
    assert [(one.figure.configuration, round(one.ratio, 2)) for one in moved] == [("read", 0.5)]
    assert not moved[0].limit.known


def test_the_noise_is_that_of_other_experiments() -> None:
    others = [made_up({"read": share}) for share in (0.6, 1.5, 0.7)]
    (moved,) = moved_figures(made_up(SHARES), others[:2])
    assert not moved.limit.known
    assert not moved_figures(made_up(SHARES), others)
    quiet = [made_up({"read": share}) for share in (0.97, 1.03, 0.99)]
    (moved,) = moved_figures(made_up(SHARES), quiet)
    assert moved.limit.known and 0.05 < moved.limit.share < 0.3


def noisy(draw: np.random.Generator, factor: float = 1.0) -> Canary:
    """Eight figures, whose changes differ by 4 % from one experiment to the next."""
    changes = factor * np.exp(draw.normal(0, 0.04, 8))
    samples = np.exp(draw.normal(0, 0.01, (8, 2, 7)))
    figures = (
        Figure("dram", str(i), tuple(samples[i, 0]), tuple(change * samples[i, 1]))
        for i, change in enumerate(changes)
    )
    return Canary("plan", "host", 0, 1, tuple(figures))


@pytest.mark.parametrize("others", [3, 8])
def test_noise_alone_is_a_warning_in_one_experiment_of_twenty(others: int) -> None:
    draw, experiments = np.random.default_rng(others), 100
    alarms = sum(
        bool(moved_figures(noisy(draw), [noisy(draw) for _ in range(others)]))
        for _ in range(experiments)
    )
    assert alarms / experiments <= 0.1, "5 %, of 100"


def test_earlier_changes_do_not_hide_a_later_one() -> None:
    draw = np.random.default_rng(2)
    others = [noisy(draw) for _ in range(12)] + [noisy(draw, 0.5) for _ in range(4)]
    assert moved_figures(noisy(draw, 0.5), others)


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``run(duration_ns)``: the canary of an experiment, measured by made-up figures."""
    measured = [{("dram", "read"): BEFORE}, {("dram", "read"): tuple(one / 2 for one in BEFORE)}]
    monkeypatch.setattr(canaries, "_measured", lambda *_: measured.pop(0))
    monkeypatch.setattr(canaries, "_suites", lambda *_: [])
    monkeypatch.setattr(canaries, "_tiers", lambda *_: ["dram"])
    step: Any = SimpleNamespace(done=None, runnable=True)
    environment: Any = SimpleNamespace(host={"host_id": "host"})

    def run(duration_ns: int, most_ns: int | None = None) -> Any:
        monkeypatch.setattr(canaries, "_estimated_ns", lambda *_: duration_ns)
        plan: Any = SimpleNamespace(hash="plan")
        return canary(plan, [step], environment, Store(tmp_path), most_ns)

    return run


@pytest.mark.parametrize(("minutes", "most", "found"), [(1, None, 0), (10, None, 1), (60, 1, 0)])
def test_short_experiments_have_none(experiment, tmp_path, minutes, most, found):
    with experiment(minutes * MINUTE_NS, most_ns=most and most * MINUTE_NS):
        pass
    assert len(CanaryStore(tmp_path).all()) == found


@pytest.mark.parametrize(("share", "warned"), [(0.5, True), (1.0, False)])
def test_comparisons_of_that_execution_are_warned_of(tmp_path, share, warned):
    ((a,), (b,)) = interleaved(tmp_path, lambda *_: METRICS, 1)
    (group,) = compare([a], [b]).groups
    assert "no-canary" in {fact.code for fact in group.rests_on}
    began = [run.document["started_unix_ns"] for run in (a, b)]
    figures = made_up({"read": share}).figures
    plan = a.document["experiment"]["hash"]
    between = Canary(plan, "host", min(began) + 1, min(began) + 2, figures)
    CanaryStore(tmp_path).write(between)
    (group,) = compare([a], [b]).groups
    assert "no-canary" in {fact.code for fact in group.rests_on}
    CanaryStore(tmp_path).write(Canary(plan, "host", min(began), max(began), figures))
    (group,) = compare([a], [b]).groups
    assert ("machine-changed" in [warning.code for warning in group.warnings]) == warned
    assert "canary-not-calibrated" in {fact.code for fact in group.rests_on}
    for earlier in range(3):
        CanaryStore(tmp_path).write(Canary("other", "host", earlier, earlier, figures[:1]))
    (group,) = compare([a], [b]).groups
    assert "canary" in {fact.code for fact in group.rests_on}
