"""Scores of models: what is stored, and which error contradicts a model."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.models.score import Score, ScoredMetric, ScoreStore, summary


def score(ratio: float, case: str = "tpcc postgres", host: str = "here") -> Score:
    metric = ScoredMetric("throughput", ratio, ratio * 0.95, ratio * 1.05)
    return Score(host, "disk", "d", "ssd", "postgres", "tpcc", case, 3, 1, (metric,), ("a", "b"))


def test_a_score_replaces_the_earlier_one_of_its_case(tmp_path: Path) -> None:
    scores = ScoreStore(tmp_path)
    for one in (score(0.5), score(0.9), score(1.1, "tpcc postgres users=4")):
        scores.write(one)
    assert [one.metrics[0].ratio for one in scores.all()] == [1.1, 0.9]


def test_an_unreadable_score_is_left_out(tmp_path: Path) -> None:
    scores = ScoreStore(tmp_path)
    scores.write(score(0.9))
    (scores.folder / "x.json").write_text("{")
    assert len(scores.all()) == 1


@pytest.mark.parametrize(
    ("ratio", "contradicted"), [(1.0, False), (1.28, False), (1.4, True), (0.7, True)]
)
def test_an_error_that_the_interval_shows_contradicts_a_model(
    ratio: float, contradicted: bool
) -> None:
    assert score(ratio).metrics[0].contradicted is contradicted


def test_scores_of_other_hosts_do_not_count() -> None:
    assert summary([score(0.9, host="there")], "here") == "not scored on this host"
    assert "1 of 2" in summary([score(1.05), score(1.3)], "here")
