"""Checks of a run: no record missed, every record well formed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.store.result import Check
from harness.workloads.ycsb.drivers import DriverResult


def check_found(driven: DriverResult) -> Check:
    """Whether every requested record was found: none is ever removed."""
    missed = {
        name: one.not_found_count
        for name, one in driven.operations.items()
        if one.not_found_count is not None
    }
    if not missed:
        return Check("not_found", "unknown", f"{driven.driver} does not count missing records")
    found = ", ".join(f"{count:,} of {name}" for name, count in missed.items() if count)
    detail = f"records that are there were not found: {found}" if found else ""
    return Check("not_found", "failed" if found else "passed", detail)


def check_records(verified: Mapping[str, Any], updated: Sequence[int] | None = None) -> Check:
    """What the native client's verification says (``verified`` of schema loadgen-result).

    ``updated``: of a run with updates, of each group of fields the highest hash among those
    whose update was acknowledged. Verification has the like of all fields that were last
    written by an update: none can be lower, unless an update was lost.
    """
    counts = ("missing", "malformed", "unexpected")
    wrong = [f"{verified[name]:,} {name}" for name in counts if verified[name]]
    if updated is not None and (lost := _lost(updated, verified["updated"])):
        looked_at = sum(1 for highest in updated if highest)
        wrong.insert(0, f"of {looked_at:,} updated fields looked at {lost:,} without their update")
    said = f"{verified['records']:,} records read back, {verified['expected']:,} expected"
    if not wrong and verified["records"] < verified["expected"]:
        wrong = [f"{verified['expected'] - verified['records']:,} missing"]
    if wrong:
        first = f" ({verified['first']})" if verified["first"] else ""
        return Check("records", "failed", f"{', '.join(wrong)}{first}; {said}")
    changed = "" if updated is None else f", {verified['changed']:,} fields were last updated"
    return Check("records", "passed", f"{said}; every one is well formed{changed}")


def _lost(acknowledged: Sequence[int], found: Sequence[int]) -> int:
    """Groups of fields in which one is missing."""
    pairs = zip(acknowledged, found, strict=True)
    return sum(1 for expected, highest in pairs if highest < expected)
