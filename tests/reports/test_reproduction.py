"""A run and its repetition: do they agree?"""

from pathlib import Path
from typing import Any

import pytest
from micro_runs import micro_run, rate
from report_runs import Case, metric, with_artifacts, write

from harness.store.runs import StoredRun
from reports.reproduction import Reproduction


def _run(root: Path, geomean_ns: float = 1e9, answer: str = "1", **changes: Any) -> StoredRun:
    took = metric("queries_geomean_ns", geomean_ns, "lower")
    run = write(root, Case(queries=(6,), metrics=[took], **changes))
    return with_artifacts(run, {"answers": {"6": answer}})


def test_a_run_agrees_with_itself_again(tmp_path: Path) -> None:
    result = Reproduction.of(_run(tmp_path), _run(tmp_path, 0.8e9), 0.25).to_json()
    expected = {"agrees": True, "differences": [], "answers_equal": True}
    assert expected.items() <= result.items()
    assert result["ratio"] == pytest.approx(1.25)


@pytest.mark.parametrize("geomean_ns", [0.5e9, 2e9])
def test_a_ratio_beyond_the_tolerance_does_not_agree(tmp_path: Path, geomean_ns: float) -> None:
    original, again = _run(tmp_path), _run(tmp_path, geomean_ns)
    assert not Reproduction.of(original, again, 0.25).agrees
    assert Reproduction.of(original, again, 1.01).agrees


@pytest.mark.parametrize(
    "changes",
    [
        {"answer": "2"},
        {"manifest_changes": {"host.kernel.release": "6.12.1-amd64"}},
        {"manifest_changes": {"engine.settings": {"work_mem": "4MB"}}},
        {"run_changes": {"host_mode": "Memory"}},
        {"status": "failed"},
    ],
)
def test_what_differs_does_not_agree(tmp_path: Path, changes: dict[str, Any]) -> None:
    result = Reproduction.of(_run(tmp_path), _run(tmp_path, **changes), 0.25)
    assert not result.agrees
    assert result.differences or result.answers_equal is False


def test_a_suite_is_compared_by_all_of_its_rates(tmp_path: Path) -> None:
    first, again = (
        micro_run(tmp_path, [rate("a", a, threads=1), rate("b", b, threads=1)])
        for a, b in ((4, 9), (8, 18))
    )
    assert Reproduction.of(first, again, 0.25).ratio == pytest.approx(2.0)
