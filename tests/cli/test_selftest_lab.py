"""The self-test's lab with a real engine."""

from __future__ import annotations

from harness.progress import progress_on_stderr
from harness.selftest import results
from harness.selftest.faults import cases
from harness.selftest.lab import open_lab


def test_the_lab_finds_a_wrong_answer_and_is_removed(harness, monkeypatch):
    for name, value in harness.environment.items():
        monkeypatch.setenv(name, value)
    with progress_on_stderr(quiet=True) as progress, open_lab(progress) as lab:
        (wrong,) = (case for case in cases(lab) if "wrong answer" in case.name)
        (result,) = results([wrong])
        assert result.passed, result.detail
        assert [run.spec.engine for run in lab.store.runs()] == ["duckdb"]
    assert not lab.root.exists()
    assert not harness.settled()
