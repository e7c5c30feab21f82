"""A changed plan stands next to the verdict."""

from pathlib import Path
from typing import Any

import pytest
from report_runs import Case, printed, report, with_artifacts, write

from harness.store.runs import StoredRun
from reports.answers import verdict_line
from reports.compare import compare
from reports.compare_output import to_json
from reports.other_plans import other_plans_text

QUERIES = (1, 9, 18)


def join(name: str, first: str, second: str) -> dict[str, Any]:
    """A stored plan; rows and times differ from run to run."""
    scans = [
        {"kind": "scan", "name": "Seq Scan", "rows": 7, "time_ns": 3, "relation": relation}
        for relation in (first, second)
    ]
    root = {"kind": "join", "name": name, "rows": 9, "time_ns": 5, "children": scans}
    return {"operators": root}


HASH, SWAPPED, LOOP = (
    join("Hash Join", "part", "orders"),
    join("Hash Join", "orders", "part"),
    join("Nested Loop", "part", "orders"),
)


def runs(root: Path, placement: str, plans: list[dict[str, Any]], **case: Any) -> list[StoredRun]:
    """A run with each of the plans for query 9; the others have one plan."""
    return [
        with_artifacts(
            write(root, Case(placement=placement, block=block, queries=QUERIES, **case)),
            {"plans": {"1": HASH, "9": plan, "18": HASH}},
        )
        for block, plan in enumerate(plans)
    ]


def test_a_query_with_another_plan_is_named_with_the_verdict(tmp_path: Path) -> None:
    a, b = runs(tmp_path, "ssd-both", [HASH] * 2), runs(tmp_path, "pmem-both", [LOOP] * 2)
    comparison = compare(a, b)
    (group,) = comparison.groups
    assert group.other_plans == ("9",)
    named = other_plans_text(["9"])
    assert verdict_line("", group).endswith(f"; {named}")
    assert to_json(comparison)["groups"][0]["other_plans"] == ["9"]
    assert named in printed(comparison)
    files, html = report([*a, *b], tmp_path)
    assert named in html
    assert named in files.markdown.read_text()


@pytest.mark.parametrize(
    ("of_a", "of_b", "named"),
    [
        ([HASH, HASH], [HASH, HASH], ()),
        ([HASH, LOOP], [LOOP, LOOP], ()),
        ([HASH, LOOP], [SWAPPED, SWAPPED], ("9",)),
    ],
)
def test_a_plan_is_another_where_the_sides_share_none(tmp_path, of_a, of_b, named):
    a, b = runs(tmp_path, "ssd-both", of_a), runs(tmp_path, "pmem-both", of_b)
    assert compare(a, b).groups[0].other_plans == named


def test_plans_of_two_engines_are_not_compared(tmp_path: Path) -> None:
    a = runs(tmp_path, "ssd-both", [HASH], engine="postgres")
    b = runs(tmp_path, "ssd-both", [LOOP], engine="duckdb")
    assert compare(a, b, ["engine"]).groups[0].other_plans == ()


def test_many_queries_are_counted() -> None:
    assert other_plans_text(["9"]).endswith(" Q9")
    assert other_plans_text(["by_month", "9"]).endswith(" by_month and Q9")
    assert other_plans_text([str(n) for n in range(1, 23)]).endswith("Q8 and 14 more")
