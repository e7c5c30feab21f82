"""The self-test's lab with a real engine."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from harness.cli.app import app
from harness.errors import UsageError
from harness.progress import progress_on_stderr
from harness.selftest import lab as selftest_lab
from harness.selftest import results
from harness.selftest.effects import trial
from harness.selftest.faults import cases
from harness.selftest.lab import open_lab


def test_the_lab_finds_what_is_planted_and_is_removed(harness, monkeypatch):
    """Two faults, and a delay of three times the base: no load of this host hides that."""
    for name, value in harness.environment.items():
        monkeypatch.setenv(name, value)
    with progress_on_stderr(quiet=True) as progress, open_lab(progress) as lab:
        faults = [
            case
            for case in cases(lab)
            if any(words in case.name for words in ("wrong answer", "lost updates"))
        ]
        for result in results(faults):
            assert result.passed, result.detail
        assert [run.spec.engine for run in lab.store.runs()] == ["duckdb", "rocksdb"]
        found = trial(lab, 3.0, updates=3)
        assert found.truth < 1 and found.estimate.value < 1
    assert not lab.root.exists()
    assert not harness.settled()


@pytest.mark.parametrize("groups", [["effects"], ["statistics", "faults"]])
def test_an_engine_that_is_missing_is_known_before_the_first_case(harness, monkeypatch, groups):
    def missing(specs, _):
        raise UsageError(specs[0].engine, "not installed", f"install {specs[0].engine}")

    for name, value in harness.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(selftest_lab, "prepare_all", missing)
    done = CliRunner().invoke(app, ["selftest", *groups])
    assert isinstance(done.exception, UsageError)
    assert "install rocksdb" in done.exception.hint
    assert ("install duckdb" in done.exception.hint) == ("faults" in groups)
    assert not done.stdout
    assert not harness.settled()
