"""Whether refresh functions have changed what they had to, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.engine import Scalar
from harness.result import Check
from harness.workloads.tpch.refresh_data import RefreshData, RefreshPair

#: Rows of one statement.
Execute = Callable[[str], Sequence[tuple[Scalar, ...]]]


@dataclass(frozen=True)
class Totals:
    """Counts and exact sums over ``orders`` and ``lineitem``."""


def base_totals(scale: float, source: Path | None) -> Totals | None:
    """Totals of the loaded data, from the source files or kept; None where both are missing."""
    raise NotImplementedError


def check_pair(
    execute: Execute, pair: RefreshPair, *, inserted: bool = True, deleted: bool = True
) -> list[Check]:
    """Whether all rows in the pair's range of keys are exactly those that belong there."""
    raise NotImplementedError


def check_tables(
    execute: Execute,
    data: RefreshData,
    base: Totals | None,
    *,
    inserted: Collection[int],
    deleted: Collection[int],
) -> list[Check]:
    """Whether the whole tables are the base, with those sets inserted and those deleted."""
    raise NotImplementedError
