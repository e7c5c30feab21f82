"""The self-test: its statistics, and how cases end."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from harness.cli.app import app
from harness.drivers.loadgen.processes import StalledError
from harness.errors import RunFailed, UsageError
from harness.selftest import Case, NotMetError, expect, faults, most_misses, noise, results
from harness.store.result import Failure
from harness.warnings import RunWarning
from reports.statistics import Decision, Outcome


#: Each kind of noise once, with and without pairs.
@pytest.mark.parametrize("case", list(noise.cases(600))[::2], ids=lambda case: case.name)
def test_noise_alone_shows_no_difference(case):
    (result,) = results([case])
    assert result.passed, result.detail


def test_statistics_that_show_too_much_or_nothing_fail(monkeypatch):
    def always(outcome: Outcome) -> Callable[..., list[Decision]]:
        return lambda family: [Decision(0.0, outcome, 6) for _ in family]

    for outcome in ("shown", "not shown"):
        monkeypatch.setattr(noise, "decide", always(outcome))
        (result, *_) = results(noise.cases(2))
        assert not result.passed


def _raise(error: Exception) -> str:
    raise error


def test_a_case_that_breaks_has_failed():
    cases = [
        Case("met", lambda: expect(True, "found")),
        Case("not met", lambda: expect(False, "found")),
        Case("failed", lambda: _raise(RunFailed("run", "server died", "see its log"))),
        Case("broken", lambda: _raise(KeyError("x"))),
    ]
    outcomes = list(results(cases))
    assert [outcome.passed for outcome in outcomes] == [True, False, False, False]
    assert "see its log" in outcomes[2].detail
    assert "KeyError" in outcomes[3].detail


def test_few_trials_may_miss_more_of_what_they_must_cover():
    """A tenth of 60 intervals of 96 % may miss the truth; of three, one may."""
    assert most_misses(60, 0.04) == 6
    assert most_misses(3, 0.04) == 1
    assert most_misses(20, 0.0) == 0


class FakeLab:
    """Its runs end as they are made to."""

    environment = SimpleNamespace(credentials=None)

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **changes) -> None:
        ended = {"status": "complete", "checks": (), "error": None, "uncontrolled": ()} | changes
        spec = SimpleNamespace(engine="rocksdb")
        self._run = SimpleNamespace(result=SimpleNamespace(**ended), spec=spec)
        monkeypatch.setattr(faults, "find_tiers", lambda *_: _raise(UsageError("tier", "no file")))
        monkeypatch.setattr(faults, "_host_file", lambda *_: Path("host.yml"))

    def run(self, *_, retries: int = 1) -> list[Any]:
        return [self._run]

    def passes(self, words: str) -> bool:
        (case,) = (case for case in faults.cases(cast(Any, self)) if words in case.name)
        (result,) = results([case])
        return result.passed


def failed(kind: type[RunFailed]) -> dict[str, Any]:
    return {"status": "failed", "error": Failure(kind.__name__, "drive the load", "planted", "")}


def warned(name: str) -> dict[str, Any]:
    warning = RunWarning("monitor-failed", f"monitor {name} is incomplete", "")
    return {"uncontrolled": [warning]}


@pytest.mark.parametrize(
    ("words", "changes", "passed"),
    [
        ("stalls", failed(StalledError), True),
        ("stalls", failed(RunFailed), False),
        ("monitor that dies", warned("dying"), True),
        ("monitor that dies", warned("io"), False),
        # A host file that cannot be read.
        ("not what its file claims", {}, False),
    ],
)
def test_only_what_was_planted_passes_for_it(monkeypatch, words, changes, passed):
    assert FakeLab(monkeypatch, **changes).passes(words) == passed


@pytest.mark.parametrize(("fails", "status"), [(False, 0), (True, 1)])
def test_the_command_counts_cases(monkeypatch, fails, status):
    def case() -> str:
        if fails:
            raise NotMetError("planted")
        return "found"

    monkeypatch.setattr(noise, "cases", lambda: iter([Case("one", case)]))
    done = CliRunner().invoke(app, ["selftest", "statistics"])
    assert done.exit_code == status
    assert done.stdout.splitlines()[-1] == f"{1 - fails} passed, {1 * fails} failed"
    document = json.loads(CliRunner().invoke(app, ["selftest", "statistics", "--json"]).stdout)
    assert document["selftest"]["failed"] == fails
    assert CliRunner().invoke(app, ["selftest", "nothing"]).exit_code != 0
