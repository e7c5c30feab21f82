"""How finished runs are printed, and what exit code they give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer

from harness.cli.common import metric_value, print_json, print_table
from harness.preflight import placement_label
from harness.store import StoredRun
from harness.units import format_ns


def runs(finished: Sequence[StoredRun], json_: bool) -> None:
    """Each run with its headline, and per-query times beside each other; or all as JSON."""
    if json_:
        print_json({"runs": [stored.run for stored in finished]})
        return
    print_table(
        ("run", "status", "total", "geomean", "answers", "note"),
        [_row(stored) for stored in finished],
    )
    _print_figures(finished)
    for stored in finished:
        if stored.run["error"]:
            error = stored.run["error"]
            print(f"{stored.run_id}: {error['asked']}: {error['found']}\n  {error['do']}")
        for check in stored.run["checks"]:
            if check["status"] != "passed":
                labels = " ".join(check["labels"].values())
                print(f"{stored.run_id}: {check['name']} {labels} {check['status']}: "
                      f"{check['detail']}")  # fmt: skip


def _print_figures(finished: Sequence[StoredRun]) -> None:
    """Figures in queries per hour, of the runs that have one."""
    rows = [
        (stored.run_id, metric["name"].removesuffix("_queries_per_hour"), f"{metric['value']:,.1f}")
        for stored in finished
        for metric in stored.run["metrics"]
        if metric["name"].endswith("_queries_per_hour")
    ]
    if rows:
        print_table(("run", "figure (see docs/tpch.md)", "queries/h"), rows)


def _row(stored: StoredRun) -> tuple[Any, ...]:
    run = stored.run
    total = metric_value(run, "queries_duration_ns")
    mean = metric_value(run, "queries_geomean_ns")
    answers = [check for check in run["checks"] if check["name"] == "answer"]
    passed = sum(check["status"] == "passed" for check in answers)
    notes = ["EMULATED " + ", ".join(e["tier"] for e in run["emulated"])] if run["emulated"] else []
    notes += ["resumed"] if run.get("resumed") else []
    return (
        stored.run_id,
        run["status"],
        format_ns(total) if total is not None else "",
        format_ns(mean) if mean is not None else "",
        f"{passed}/{len(answers)} right" if answers else "",
        "; ".join(notes),
    )


def exit_for(finished: Sequence[StoredRun]) -> None:
    """Exit 1 when a run failed; *unknown* is said in its row and is no failure."""
    if any(stored.run["status"] == "failed" for stored in finished):
        raise typer.Exit(1)


def where(stored: StoredRun) -> str:
    """Engine and place of a run, for tables."""
    spec = stored.spec
    return f"{spec.engine} {placement_label(spec.placement, spec.label)}"
