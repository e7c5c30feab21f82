"""What a paper expects of engines by its microbenchmarks, next to what the engines did."""

from pathlib import Path
from typing import Any

import pytest
from micro_runs import KINDS, duration, micro_run, rate, with_suite
from narrowed import of_kind
from report_runs import Case, metric, with_artifacts, write

from harness.paper.catalogue import PaperFile, known_papers
from harness.query_plan import ExecutedPlan, Operator
from harness.store.documents import members
from harness.store.runs import StoredRun
from harness.yamlfile import load_yaml
from reports.fidelity.expectations import ExpectedRatio, expected_of, measured_expectations
from reports.fidelity.page import FigureRuns, page_of, write_paper
from reports.published import Numbers
from reports.series import panels
from reports.statistics import Missing

PAPER = "nvm-for-databases"
HERE = {"host.host_id": "a1b2c3d4", "host.hostname": "lab1"}  # as of all runs of engines


def table4(root: Path, tier: str, **read: Any) -> StoredRun:
    labels: dict[str, Any] = {"pattern": "sequential", "threads": 8, **read}
    gb_per_s = labels.pop("gb_per_s")
    metrics = [rate("bandwidth", gb_per_s, 1, **labels)]
    run = micro_run(root, metrics, tier=tier, suite="table4", manifest_changes=HERE)
    return with_suite(run, PAPER, ["table4"])


def both_tiers(root: Path) -> list[StoredRun]:
    return [
        table4(root, "ssd", gb_per_s=0.5, operation="read", access_size_bytes=4096),
        table4(root, "pmem", gb_per_s=6.0, **KINDS["load"], access_size_bytes=256),
    ]


def duckdb(root: Path, placement: str, scan_ms: int) -> StoredRun:
    """Query 1 by DuckDB, with its plan."""
    labels = {"query": "1", "operator": "scan"}
    metrics = [
        metric("query_duration_ns", [2e6 * scan_ms], "lower", query="1"),
        metric("plan_operator_ns", 1e6 * scan_ms, "lower", **labels),
    ]
    plan = ExecutedPlan(Operator("scan", "TABLE_SCAN", 9, scan_ms * 10**6, "lineitem"), 10**9, "{}")
    run = write(root, Case("duckdb", placement=placement, queries=(1,), metrics=metrics))
    return with_artifacts(run, {"plans": {"1": members(plan)}})


def of(section: str, rows: tuple[ExpectedRatio, ...]) -> dict[str, ExpectedRatio]:
    return {row.at: row for row in rows if row.stated.number == section}


def test_the_papers_own_ratios() -> None:
    rows = expected_of(PAPER, (), ())
    scan = of("4.2", rows)
    assert [*scan] == ["15", "30", "45", "60", "72", "87"]  # selected shares, Figure 4
    assert {row.engine for row in scan.values()} == {9.5}
    assert scan["15"].device == pytest.approx(12628 / 504)  # Table 4, eight threads: "25x"
    assert scan["15"].residual == pytest.approx(9.5 / (12628 / 504) - 1)
    (query_1,) = of("4.5.1", rows).values()
    assert (query_1.device, query_1.engine) == pytest.approx((4.85 / 0.333, 5))
    (lookup,) = of("4.5.2", rows).values()
    assert (lookup.device, lookup.engine) == pytest.approx((4.97 / 0.333, 250 / 140))
    scans = of("4.5.3", rows)
    assert {at: row.engine for at, row in scans.items()} == pytest.approx(
        {"1": 5 / 2.6, "15": 5.75 / 3.04, "19": 7.5 / 3.5}
    )
    assert len(rows) == len(scan) + 2 + len(scans)
    missing = Missing("not-measured")
    assert {(row.device_here, row.engine_here) for row in rows} == {(missing, missing)}


def test_each_stated_pair_has_its_rows_in_published_values() -> None:
    for paper, path in known_papers().items():
        stated = load_yaml(path).to(PaperFile).expectations
        rows = expected_of(paper, (), ())
        assert {row.stated.number for row in rows} == {each.number for each in stated}


def test_ratios_and_the_residual_of_this_host(tmp_path: Path) -> None:
    runs = [duckdb(tmp_path, "ssd-both", 90), duckdb(tmp_path, "pmem-both", 30)]
    made = panels(runs, "placement", None)
    row = of("4.5.3", expected_of(PAPER, made, both_tiers(tmp_path)))["1"]
    assert of_kind(Numbers, row.device_here).numbers[0].value == pytest.approx(12)
    assert of_kind(Numbers, row.engine_here).numbers[0].value == pytest.approx(3)
    assert row.residual_here == pytest.approx(-0.75)
    (only,) = measured_expectations(made, both_tiers(tmp_path))
    assert (only.stated.number, only.at) == ("4.5.3", "1")


def test_a_baseline_of_another_host_is_none_of_this(tmp_path: Path) -> None:
    runs = [duckdb(tmp_path, "ssd-both", 90), duckdb(tmp_path, "pmem-both", 30)]
    other = micro_run(tmp_path, [rate("bandwidth", 1.0)], tier="ssd", suite="table4")
    rows = expected_of(PAPER, panels(runs, "placement", None), [other])
    row = of("4.5.3", rows)["1"]
    assert row.device_here == Missing("not-measured") and row.residual_here is None


def test_times_of_both_patterns_count_as_their_mean(tmp_path: Path) -> None:
    """As Table 3 has one number of both for memory, and one each for the SSD."""
    loads = {**KINDS["load"], "access_size_bytes": 64}
    on_pmem = [
        duration("latency", {"300": 9}, pattern="random", **loads),
        duration("latency", {"100": 9}, pattern="sequential", **loads),
    ]
    on_ssd = [duration("latency", {"5000": 9}, pattern="random", operation="read")]
    runs = [
        with_suite(micro_run(tmp_path, metrics, tier=tier), PAPER, ["table3"])
        for tier, metrics in (("pmem", on_pmem), ("ssd", on_ssd))
    ]
    rows = expected_of(PAPER, (), runs)
    (lookup,) = of("4.5.2", rows).values()
    assert of_kind(Numbers, lookup.device_here).numbers[0].value == pytest.approx(25, rel=0.01)
    (query_1,) = of("4.5.1", rows).values()
    assert query_1.device_here == Missing("no-counterpart")  # no sequential reads of the SSD


def test_the_papers_page_has_them(tmp_path: Path) -> None:
    figure = FigureRuns("Table 4", "", ("table4",), tuple(both_tiers(tmp_path)), 2)
    page = page_of(PAPER, "The paper", [figure])
    first, *_ = page.to_json()["expected"]
    assert first["number"] == "4.2" and first["published"]["engine"] == 9.5
    (ratio,) = first["measured"]["device"]["numbers"]
    assert ratio["value"] == pytest.approx(12)
    assert first["measured"]["engine"] == {"missing": "not-measured", "context": ""}
    assert first["measured"]["residual"] is None
    text = write_paper(page, tmp_path / "out")["markdown"].read_text()
    assert "fig4 postgres" in text
