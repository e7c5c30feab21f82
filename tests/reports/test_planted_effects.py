"""The self-test's trials of planted effects, with runs that are made up."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from explained_runs import US, calls
from report_runs import Case, metric, write

from harness.selftest import NotMetError, effects
from harness.selftest.effects import EFFECTS, REPEATS, Effects, PlantedTrial, trial
from harness.selftest.lab import Fixed
from harness.store.runs import StoredRun

BASE_NS = 50e6


class FakeLab:
    """Its updates take the planted delay, times ``wrong`` in planted arms, with little noise.

    ``delayed``: how often an update was; ``failed``: blocks.
    """

    def __init__(self, root: Path, patch: Any, wrong: float = 1.0, delayed: int = 1,
                 failed: int = 0) -> None:  # fmt: skip
        self._root, self._wrong, self._failed = root, wrong, failed
        self._draw = np.random.default_rng(3)
        cells = [{"part": "wal", "operation": "write", "delayed": 20 * delayed}]
        patch.setattr(StoredRun, "artifact", lambda *_: cells)

    def run(self, fixed: Fixed, arms: Sequence[Mapping[str, Any]], repeats: int) -> list[StoredRun]:
        return [self._made(arm["plant"], block, fixed) for block in range(repeats) for arm in arms]

    def _made(self, plant: Sequence[str], block: int, fixed: Fixed) -> StoredRun:
        time_ns = 1000 * float(plant[0].removeprefix("wal.write=+").removesuffix("us"))
        time_ns *= self._wrong if time_ns > BASE_NS else 1
        window_ns = 20 * time_ns * float(np.exp(self._draw.normal(0, 0.005)))
        spec = {"workload": "ycsb", "params": fixed.params, "plant": tuple(plant)}
        each = calls(window_ns / 20 / US, 20)
        called = {"part": "wal", "operation": "write", "role": "foreground"}
        values = [metric("operations_per_second", 20e9 / window_ns, "higher"),
                  metric("window_duration_ns", window_ns),
                  metric("operation_duration_ns", each, "lower", operation="update"),
                  metric("io_duration_ns", each, **called)]  # fmt: skip
        status = "failed" if block < self._failed else "complete"
        case = Case("rocksdb", block=block, status=status, metrics=values, spec_changes=spec)
        return write(self._root, case)


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize(("wrong", "covered"), [(1.0, True), (1.1, False)])
def test_a_trial_covers_what_was_planted(tmp_path, monkeypatch, effect, wrong, covered):
    lab: Any = FakeLab(tmp_path, monkeypatch, wrong)
    result = trial(lab, effect)
    assert result.truth == pytest.approx(1 / (1 + effect), rel=0.01)
    assert (result.covered, result.detected, result.explained) == (covered, True, True)
    assert result.estimate.n_a == REPEATS


@pytest.mark.parametrize("fault", [{"delayed": 2}, {"failed": 3}])
def test_a_trial_without_its_delays_or_its_pairs_is_none(tmp_path, monkeypatch, fault):
    lab: Any = FakeLab(tmp_path, monkeypatch, **fault)
    with pytest.raises(NotMetError):
        trial(lab, 0.3)


def ended(
    monkeypatch: pytest.MonkeyPatch, outcomes: Sequence[bool], trials: int
) -> tuple[Effects, list[bool]]:
    """Trials that cover their effect and find it, or do neither; and those that are left."""
    left = list(outcomes)

    def made(*_: object) -> PlantedTrial:
        good = left.pop(0)
        estimate = SimpleNamespace(low=0.7 if good else 0.95, high=1.1, confidence=0.96)
        row: Any = SimpleNamespace(estimate=estimate, verdict="slower" if good else "no difference")
        named: Any = SimpleNamespace(part="wal", operation="write" if good else "sync")
        return PlantedTrial(0.8, row, (named,))

    monkeypatch.setattr(effects, "trial", made)
    lab: Any = None
    return Effects(lab, trials), left


@pytest.mark.parametrize(
    ("trials", "misses", "more", "passes"),
    [
        (1, 0, 0, True),
        (1, 1, 0, True),
        (1, 1, 1, False),
        (20, 2, 0, True),
        (20, 3, 0, True),
        (20, 4, 2, False),
        (20, 20, 20, False),
    ],
)
def test_an_effect_is_covered_as_often_as_intervals_say(monkeypatch, trials, misses, more, passes):
    """Where a tenth of the trials missed it, as many more are made; ``more``: that miss it."""
    outcomes = [False] * misses + [True] * (trials - misses)
    outcomes += [False] * more + [True] * (trials - more)
    all_, left = ended(monkeypatch, outcomes, trials)
    with nullcontext() if passes else pytest.raises(NotMetError):
        assert all_.covers(0.3)
    assert len(left) == (trials if misses <= trials / 10 else 0)


@pytest.mark.parametrize(
    ("trials", "outcomes", "passes"),
    [
        (1, [True], True),
        (1, [False, True], True),
        (1, [False, False], False),
        (3, [True, True, False], False),
    ],
)
def test_the_largest_effect_is_found_in_every_trial(monkeypatch, trials, outcomes, passes):
    all_, left = ended(monkeypatch, outcomes, trials)
    with nullcontext() if passes else pytest.raises(NotMetError):
        assert all_.finds()
    assert not left


@pytest.mark.parametrize("outcome", [True, False])
def test_the_largest_effect_has_the_planted_operation_as_its_cause(monkeypatch, outcome):
    all_, _ = ended(monkeypatch, [outcome] * 2, 2)
    with nullcontext() if outcome else pytest.raises(NotMetError):
        assert all_.explains()
