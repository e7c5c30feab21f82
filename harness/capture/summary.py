"""Summaries of what was recorded, for the terminal: without literals unless they are wanted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.capture.capture import Captured
from harness.capture.sample import SampledTable
from harness.sql_script import head
from harness.units import format_ns

_SHOWN = 20
_WIDTH = 90


def summary(captured: Captured, literals: bool) -> Iterator[str]:
    """Yield lines: what was recorded, the classes of statements, what is left out."""
    header = captured.header
    yield f"wrote {captured.path} (mode 0600: it has the values of the statements)"
    yield (
        f"{header.statements:,} statements in {header.transactions:,} transactions, "
        f"{header.sessions:,} sessions (at most {header.most_sessions:,} at a time), "
        f"{format_ns(header.duration_us * 1000)} from {header.began}, database {header.database}"
    )
    users = ", ".join(f"{name} ({count:,})" for name, count in captured.users.items())
    yield f"users: {users}"
    if header.spread:
        yield "the log has whole seconds: statements are spread evenly in each"
    if not header.errors_known:
        yield "the log does not say which statements failed (MySQL: log_slow_extra=1 does)"
    yield ""
    yield f"{'count':>10} {'total':>10} {'errors':>7}  statement"
    for of in header.classes[:_SHOWN]:
        timed = of.count - of.untimed
        total = format_ns(of.took_us * 1000) if timed else "–"
        text = captured.examples[of.name] if literals else of.text
        shown = head(text, _WIDTH) or "all other statements"
        yield f"{of.count:>10,} {total:>10} {of.errors:>7,}  {shown}"
    if len(header.classes) > _SHOWN:
        yield f"{len(header.classes) - _SHOWN:,} more classes in the first line of the file"
    if header.left_out:
        yield ""
        yield "left out:"
    for lost in header.left_out:
        yield f"{lost.count:>10,}  {lost.reason} (first: {lost.first})"


def sample_summary(tables: Sequence[SampledTable]) -> Iterator[str]:
    """Yield lines: the rows of each table, and the tables without a key."""
    yield f"{'drawn':>12} {'referred to':>12}  table"
    for table in tables:
        yield f"{table.drawn:>12,} {table.parents:>12,}  {table.name}"
    if keyless := [table.name for table in tables if not table.key]:
        yield f"without a key, drawn by all columns: {', '.join(keyless)}"
