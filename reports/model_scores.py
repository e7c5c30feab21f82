"""Scores of device models as blocks of a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.models.score import DEVICE_TIME, Score, ScoredMetric
from reports.formatting import NOTHING, percent
from reports.ranks import smallest_p_paired
from reports.sections import Block, Paragraph, Table
from reports.statistics import ALPHA


def score_blocks(scores: Sequence[Score]) -> Iterator[Block]:
    """Yield a table of every scored metric, and what was not scored."""
    rows = [
        (
            score.model,
            score.case,
            metric.name,
            f"{metric.error:+.0%}",
            str(score.pairs),
            _interval(score, metric),
            "contradicts the model" if metric.contradicted else "",
        )
        for score in scores
        for metric in score.metrics
    ]
    head = ("model", "case", "metric", "error of the model", "pairs", "interval", "verdict")
    yield Table("Scores: runs on the model (MODELLED) against runs on the tier", head, rows)
    for score in scores:
        for refused in score.refused:
            runs = ", ".join(refused.runs)
            yield Paragraph(f"{score.case}: not scored, {refused.why}: {runs}")
        if score.metrics and score.metric(DEVICE_TIME) is None:
            unknown = "no calls on the device are known, so its model is not scored"
            yield Paragraph(f"{score.case}: {unknown}")


def _interval(score: Score, metric: ScoredMetric) -> str:
    if metric.low is None or metric.high is None:
        return NOTHING
    covered = 1 - smallest_p_paired(score.pairs)
    few = f" at {percent(covered)}" if covered < 1 - ALPHA else ""
    return f"[{metric.low - 1:+.0%}, {metric.high - 1:+.0%}]{few}"
