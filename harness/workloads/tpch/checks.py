"""The check of a run's answers: one per query, never passed unless compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from harness.engine import Scalar
from harness.progress import Progress
from harness.result import Check, CheckStatus
from harness.workloads.tpch.answers import SHAPES, compare
from harness.workloads.tpch.reference import NoReference, References

#: Clause 2.1.3.5 c: of sums at scale 1.
_SUM_TOLERANCE = Decimal(100)


def sum_tolerance(scale: float) -> Decimal:
    """Currency units by which a sum may differ.

    The clause's $100 belongs to scale 1, where the smallest sums are some hundred
    thousand; below it shrinks with the data, or it would hide missing rows.
    """
    return _SUM_TOLERANCE * min(Decimal(1), Decimal(repr(scale)))


def check_answers(
    params: Mapping[str, Any],
    engine: str,
    source: Path | None,
    rows: Mapping[int, Sequence[tuple[Scalar, ...]]],
    progress: Progress,
) -> list[Check]:
    """Compare every query's rows with its reference; what cannot be compared is unknown."""
    tolerance = sum_tolerance(params["scale"])
    checks = []
    with (
        References(params["scale"], params["query_seed"], engine, source) as references,
        progress.task("check TPC-H answers", len(rows)) as task,
    ):
        for query, found in rows.items():
            checks.append(_check(query, found, references, tolerance))
            task.advance(note=f"Q{query}")
    return checks


def _check(
    query: int,
    rows: Sequence[tuple[Scalar, ...]],
    references: References,
    tolerance: Decimal,
) -> Check:
    labels = {"query": str(query)}
    try:
        reference = references.of(query)
        agreement = compare(SHAPES[query], reference.answer, rows, tolerance)
        if agreement.agrees:
            references.agreed(query, reference)
    except NoReference as error:
        return Check("answer", "unknown", str(error), labels)
    except Exception as error:  # a checker that breaks has checked nothing
        detail = f"the check itself failed: {type(error).__name__}: {error}"
        return Check("answer", "unknown", detail, labels)
    status: CheckStatus = "passed" if agreement.agrees else "failed"
    return Check("answer", status, f"{agreement.detail} ({reference.origin})", labels)
