"""The check of a run's answers: one for each, never passed unless compared.

An answer is compared with the reference at the state of the data that the query saw. A
query that ran while refresh functions committed may have seen any of the states between
its submission and its end (an engine's snapshot is taken somewhere in between); it is
right when it is the answer at one of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from harness.engine import Scalar
from harness.progress import Progress
from harness.store.result import Check, CheckStatus
from harness.workloads.tpch.answers import SHAPES, compare
from harness.workloads.tpch.reference import NoReference, References
from harness.workloads.tpch.refresh_data import RefreshData
from harness.workloads.tpch.source_database import LOADED
from harness.workloads.tpch.statements import TpchStatement

#: Clause 2.1.3.5 c: of sums at scale 1.
_SUM_TOLERANCE = Decimal(100)
#: From more answers on the source is loaded once rather than read for each.
_MANY = 5


@dataclass(frozen=True)
class Answered:
    """An answer, and what the data may have been when it was given.

    ``states``: see harness.workloads.tpch.reference. ``between``: whether it may also have
    seen data between two of them (half a refresh function), which no reference has.
    """

    statement: TpchStatement
    rows: Sequence[tuple[Scalar, ...]]
    states: Sequence[int] = (LOADED,)
    between: bool = False


def sum_tolerance(scale: float) -> Decimal:
    """Currency units by which a sum may differ.

    The clause's $100 belongs to scale 1, where the smallest sums are some hundred
    thousand; below it shrinks with the data, or it would hide missing rows.
    """
    return _SUM_TOLERANCE * min(Decimal(1), Decimal(repr(scale)))


def check_answers(
    scale: float,
    engine: str,
    source: Path | None,
    answers: Sequence[Answered],
    progress: Progress,
    refresh: RefreshData | None = None,
) -> list[Check]:
    """Compare every answer with its reference; what cannot be compared is unknown."""
    many = len(answers) > _MANY
    checks = []
    with (
        References(scale, engine, source, refresh, many) as references,
        progress.task("check TPC-H answers", len(answers)) as task,
    ):
        for answered in answers:
            checks.append(_check(answered, references, sum_tolerance(scale)))
            task.advance(note=answered.statement.name)
    return _streams_together(checks)


def _check(answered: Answered, references: References, tolerance: Decimal) -> Check:
    """Compare an answer with the reference at each state of the data until one agrees."""
    labels = answered.statement.labels
    details: list[str] = []
    uncertain = ["it may have seen half of a refresh function"] if answered.between else []
    for state in answered.states:
        status, detail = _compare(answered, state, references, tolerance)
        if status == "passed":
            return Check("answer", "passed", detail, labels)
        (details if status == "failed" else uncertain).append(detail)
    if uncertain or not details:
        return Check("answer", "unknown", uncertain[-1] if uncertain else "", labels)
    more = f"; nor at {len(details) - 1} other states of the data" if len(details) > 1 else ""
    return Check("answer", "failed", details[0] + more, labels)


def _compare(
    answered: Answered, state: int, references: References, tolerance: Decimal
) -> tuple[CheckStatus, str]:
    statement = answered.statement
    try:
        reference = references.of(statement, state)
        agreement = compare(SHAPES[statement.query], reference.answer, answered.rows, tolerance)
        if agreement.agrees:
            references.agreed(statement, reference, state)
    except NoReference as error:
        return "unknown", str(error)
    except Exception as error:  # a checker that breaks has checked nothing
        return "unknown", f"the check itself failed: {type(error).__name__}: {error}"
    after = "" if state == LOADED else f", data after {state} refresh functions"
    detail = f"{agreement.detail} ({reference.origin}{after})"
    return ("passed" if agreement.agrees else "failed"), detail


def _streams_together(checks: Sequence[Check]) -> list[Check]:
    """Merge the unknown checks of several streams: one check for each reason."""
    reasons = Counter(c.detail for c in checks if c.status == "unknown" and "stream" in c.labels)
    streams = sum("stream" in check.labels for check in checks)
    retained = [
        check for check in checks if check.status != "unknown" or "stream" not in check.labels
    ]
    return retained + [
        Check("stream-answers", "unknown", f"{count} of {streams} answers not compared: {reason}")
        for reason, count in reasons.items()
    ]
