"""Where the time goes: what a report says of plans, bytes, limits and streams."""

from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from explained_runs import tpcc
from narrowed import of_kind, present
from report_runs import PLACES, Case, csv_rows, demo, drawing, metric, printed, report, write

from harness.store.runs import StoredRun
from reports.compare import compare
from reports.conditions import checks, memory_table
from reports.explain.causes import file_operations
from reports.query_breakdown import BreakdownRow, breakdown, plan_sums, query_breakdowns
from reports.report import Report
from reports.sections import Block, Drawing, Paragraph, Section, Table
from reports.series import panels

S = 1_000_000_000
MIB = 1 << 20


def query(number: str, seconds: float, scan: float, profiled: float | None = None) -> list[Any]:
    """A query with its plan: ``scan`` is the scans' share of ``profiled`` seconds."""
    total = profiled or seconds
    return [
        metric("query_duration_ns", seconds * S, "lower", query=number),
        metric("plan_run_duration_ns", total * S, query=number),
        metric("plan_operator_ns", total * scan * S, query=number, operator="scan"),
        metric("plan_operator_ns", total * (1 - scan) * S, query=number, operator="join"),
    ]


def two(root: Path, slow: list[Any], fast: list[Any], **changes: Any) -> list[StoredRun]:
    """One run on each of two placements."""
    return [
        write(root, Case(placement=p, metrics=m, queries=(6,), **changes))
        for p, m in (("ssd-both", slow), ("pmem-both", fast))
    ]


def broken_down(runs: Sequence[StoredRun]) -> list[BreakdownRow]:
    (panel,) = panels(runs, "placement", None)
    return breakdown(panel)


def test_each_query_has_a_row_for_each_placement(tmp_path: Path) -> None:
    on_ssd = [metric("query_tier_read_bytes", 2048 * MIB, query="6", tier="ssd"),
              metric("query_spilled_bytes", 100 * MIB, query="6"),
              metric("query_touched_file_bytes", 1024 * MIB, query="6"),
              metric("query_working_set_bytes", 1024 * MIB, query="6")]  # fmt: skip
    runs = two(tmp_path, query("6", 4.0, 0.85) + on_ssd, query("6", 1.0, 0.40))
    first, second = broken_down(runs)
    assert (first.arm.name, first.compared, second.arm.name) == ("ssd-both", None, "pmem-both")
    assert first.query.kinds == pytest.approx({"scan": 3.4 * S, "join": 0.6 * S})
    assert first.query.read == {"ssd": 2048 * MIB}
    assert first.query.size("spilled") == 100 * MIB
    assert first.query.size("working_set") == 1024 * MIB
    compared = present(second.compared)
    assert compared.ratio == pytest.approx(4) and not compared.shown


@pytest.mark.draws
def test_operator_times_are_scaled_to_the_measured_time_and_marked(tmp_path: Path) -> None:
    runs = two(tmp_path, query("6", 4.0, 0.5, profiled=8.0), query("6", 2.0, 0.5))
    (panel,) = panels(runs, "placement", None)
    breakdown = query_breakdowns(panel.arms[0])["6"]
    assert breakdown.kinds == {"scan": 2.0 * S, "join": 2.0 * S}
    assert breakdown.fit and breakdown.fit.lowest == 2.0 and not breakdown.fit.fits
    assert "2.00 times" in breakdown.fit.why
    files, _ = report(runs, tmp_path)
    assert ">a*<" in drawing(files, "operators.svg")
    assert "Plans of 1 of 2 queries add up" in files.markdown.read_text(encoding="utf-8")


@pytest.mark.draws
def test_what_lies_outside_the_operators_is_drawn_and_named_and_makes_no_plan_add_up(tmp_path):
    kinds = {"scan": 2.0, "other": 0.4, "outside": 1.6}
    slow = query("6", 4.0, 1.0)[:2]
    slow += [metric("plan_operator_ns", t * S, query="6", operator=k) for k, t in kinds.items()]
    runs = two(tmp_path, slow, query("6", 2.0, 1.0))
    share, why = plan_sums(runs[0])["6"]
    assert share == 0.6 and why.endswith(": undivided 40 %")
    (panel,) = panels(runs, "placement", None)
    breakdown = query_breakdowns(panel.arms[0])["6"]
    assert breakdown.kinds == {kind: took * S for kind, took in kinds.items()}
    files, _ = report(runs, tmp_path)
    assert "Plans of 1 of 2 queries add up" in files.markdown.read_text(encoding="utf-8")
    assert ">outside the operators<" in drawing(files, "operators.svg")
    (slow_row, _) = csv_rows(present(files.queries_csv))
    assert (slow_row["other_ns"], slow_row["outside_ns"]) == ("400000000", "1600000000")


def test_writes_of_other_users_are_those_that_the_trace_did_not_see(tmp_path: Path) -> None:
    def moved(whole: int) -> list[Any]:
        return [metric("query_tier_write_bytes", whole * MIB, query="6", tier="ssd"),
                metric("query_io_bytes", MIB, query="6", part="wal", operation="write"),
                metric("query_io_bytes", 4 * MIB, query="6", part="temp", operation="write"),
                metric("query_io_bytes", 9 * MIB, query="6", part="temp", operation="read"),
                ]  # fmt: skip

    runs = two(tmp_path, query("6", 4.0, 1.0) + moved(8), query("6", 4.0, 1.0) + moved(6))
    assert [row.query.written_by_others for row in broken_down(runs)] == [True, False]


@pytest.mark.draws
def test_other_users_of_the_device_are_not_taken_for_the_query(tmp_path: Path) -> None:
    """Also where little is read at all; what is less than a quarter more is left alone."""

    def moved(whole: int, engine: int) -> list[Any]:
        return [metric("query_tier_read_bytes", whole * MIB, query="6", tier="ssd"),
                metric("query_io_read_bytes", engine * MIB, query="6")]  # fmt: skip

    runs = two(tmp_path, query("6", 4.0, 1.0) + moved(8, 5), query("6", 4.0, 1.0) + moved(6, 5))
    assert [row.query.read_by_others for row in broken_down(runs)] == [True, False]
    files, html = report(runs, tmp_path)
    drawn = drawing(files, "tiers.svg")
    assert ">a*<" in drawn and ">b<" in drawn
    assert "8 MiB *" in html and "6 MiB *" not in html
    assert "*: " in html


def test_a_limit_is_never_a_time_nor_half_of_a_ratio(tmp_path: Path) -> None:
    runs = demo(tmp_path, engines=("mysql",), blocks=2, queries=(1, 6), emulated=False)
    limited = [
        write(tmp_path, Case(engine="mysql", placement=p, block=k, queries=(1, 6), limited=cut))
        for k in (2, 3)
        for p, cut in (("ssd-both", (6,)), ("pmem-both", ()))
    ]
    files, html = report([*runs, *limited], tmp_path)
    assert ", limit reached in 2" in html  # of four runs two have a time
    assert "2 of 8 runs" in html
    table = {(r["query"], r["arm"]): r for r in csv_rows(present(files.queries_csv))}
    assert table["6", "pmem-both"]["ratio_to_baseline"] == ""
    assert table["6", "ssd-both"]["runs_at_limit"] == "2"
    assert table["1", "pmem-both"]["ratio_to_baseline"] != ""


@pytest.mark.draws
def test_a_query_without_any_time_says_so_and_there_is_no_verdict(tmp_path: Path) -> None:
    runs = [
        write(tmp_path, Case(engine="mysql", placement=p, queries=(1, 6), limited=(6,)))
        for p in PLACES
    ]
    files, html = report(runs, tmp_path)
    assert "limit of 60 s reached" in html
    view = Report(runs)
    ((_, group),) = view.answers
    assert group.deciding is None and group.verdict == "not resolvable"
    limited = [warning for warning in view.warnings if warning.code == "time-limit-reached"]
    assert [warning.context.rpartition(": ")[2] for warning in limited] == ["query 6"] * 2
    assert "time limit" in drawing(files, "times.svg")


def test_no_verdict_is_read_from_the_runs_that_were_fast_enough(tmp_path: Path) -> None:
    """A total exists only in runs without a limit reached: a selection of the fast ones."""

    runs = [
        write(tmp_path, Case("mysql", place, block, queries=(1, 6), limited=cut))
        for place, last in zip(PLACES, [(), (6,)], strict=True)
        for block, cut in enumerate([(), (), (), (), (), (), last])
    ]
    a, b = runs[:7], runs[7:]
    (group,) = compare(a, b).groups
    by_name = {(row.quantity.name, row.quantity.label("query")): row for row in group.rows}
    for total in ("queries_geomean_ns", "queries_duration_ns"):
        assert by_name[total, None].estimate is None
        assert "1 of 14 runs" in present(by_name[total, None].note)
    assert by_name["query_duration_ns", "1"].estimate is not None
    assert group.verdict == "not resolvable" and group.deciding is None
    (whole,) = compare(a[:6], b[:6]).groups
    assert all(row.estimate for row in whole.rows if row.quantity.name == "queries_geomean_ns")


def test_a_stream_s_limit_takes_the_throughput_test_s_figures_along(tmp_path: Path) -> None:
    totals = {"throughput_queries_per_hour": 9.0, "composite_queries_per_hour": 8.0}
    whole = [metric(name, value, "higher") for name, value in totals.items()]
    whole += [metric("stream_duration_ns", 9 * S, "lower", stream="1")]
    cut = [metric("query_timeout_ns", 60 * S, query="6", stream="1")]
    power = metric("power_geomean_queries_per_hour", 7.0, "higher")
    runs = two(tmp_path, [power, *whole], [power, *cut])
    for k in (1, 2):
        runs += two(tmp_path, [power, *whole], [power, *whole], block=k)
    (group,) = compare(runs[0::2], runs[1::2]).groups
    by_name = {row.quantity.name: row for row in group.rows}
    for name in (*totals, "stream_duration_ns"):
        assert by_name[name].estimate is None and "time limit" in by_name[name].note
    assert by_name["power_geomean_queries_per_hour"].estimate is not None


def test_queries_of_streams_are_compared_among_themselves(tmp_path: Path) -> None:
    runs = demo(tmp_path, engines=("duckdb",), blocks=2, queries=(1, 6), emulated=False, streams=2)
    a, b = (
        [r for r in runs if r.document["spec"]["placement"]["data"] == t] for t in ("ssd", "pmem")
    )
    (group,) = compare(a, b).groups
    labels: dict[str, list[Any]] = {}
    for row in group.rows:
        labels.setdefault(row.quantity.name, []).append(row.quantity.labels)
    assert labels["query_duration_ns"] == [(("query", "1"),), (("query", "6"),)]
    assert len(labels["stream_query_duration_ns"]) == 4
    files, html = report(runs, tmp_path)
    assert {r["query"] for r in csv_rows(present(files.queries_csv))} == {"1", "6"}
    assert "power and throughput (queries per hour × scale, TPC-H-derived)" in html
    raw = [r for r in csv_rows(files.csv) if "stream=" in r["labels"]]
    assert {r["metric"] for r in raw} == {"query_duration_ns", "stream_duration_ns"}


def test_a_resumed_run_is_marked(tmp_path: Path) -> None:
    cut = [{"unix_ns": 1, "cut_off_run_id": "x", "kept_steps": 8, "after_step": "q9"}]
    runs = [write(tmp_path, Case(queries=(1,), run_changes={"resumed": cut})),
            write(tmp_path, Case(queries=(1,), placement="pmem-both"))]  # fmt: skip
    view = Report(runs)
    assert [row[-1] for row in memory_table(view.panels).rows] == ["q9", "–"]
    assert "ssd-both: 1 of 1 runs, after q9" in {warning.context for warning in view.warnings}


def test_another_disk_of_one_name_is_no_repeat(tmp_path: Path) -> None:
    runs = []
    for block, disk in enumerate(("/dev/nvme0n1", "/dev/nvme1n1")):
        tiers = write(tmp_path / "as-found", Case(queries=(1,))).manifest_document["tiers"]
        tiers[0]["facts"]["disks"] = [disk]
        changes = {"tiers": tiers}
        runs.append(write(tmp_path, Case(queries=(1,), block=block, manifest_changes=changes)))
    apart = panels(runs, "placement", None)
    assert len([arm for panel in apart for arm in panel.arms]) == 2


def test_answers_are_counted_and_other_checks_are_named_apart(tmp_path: Path) -> None:
    def check(name: str, status: str, detail: str = "") -> dict[str, Any]:
        return {"name": name, "status": status, "detail": detail, "labels": {}}

    documents = [
        *[check("answer", "passed")] * 3,
        check("stream-answers", "unknown", "44 of 46 answers not compared: no reference"),
        check("refresh_rows", "passed"),
        check("query-finished", "unknown"),
    ]
    runs = two(
        tmp_path, query("6", 4.0, 1.0), query("6", 2.0, 1.0), run_changes={"checks": documents}
    )
    assert checks(runs) == {
        "answer": {"passed": 6, "unknown": 88},
        "query-finished": {"unknown": 2},
        "refresh_rows": {"passed": 2},
    }


def test_medians_that_point_the_other_way_than_the_ratio_are_marked(tmp_path: Path) -> None:
    """One of three pairs is faster by far: the ratio is above 1, the medians say the opposite."""
    times = ((10.0, 11.0), (20.0, 21.0), (60.0, 22.0))
    runs = [run for k, (x, y) in enumerate(times)
            for run in two(tmp_path, query("6", x, 0.5), query("6", y, 0.1), block=k)]  # fmt: skip
    compared = compare(runs[0::2], runs[1::2])
    assert "medians" in printed(compared)
    (row,) = [row for row in compared.groups[0].rows if row.quantity.name == "query_duration_ns"]
    assert row.contrary and row.ratio == pytest.approx(1.22, abs=0.01)


def waiting(scale: float, share: float, **labels: str) -> list[Any]:
    """Half lock, half log sync, of ``scale`` ms; ``share``: accounted for."""
    prefix = "query_" if labels else ""
    parts = {"lock": scale / 2, "log sync": scale / 2, "buffer": 0.0}
    waits = [metric(f"{prefix}wait_ns", ms * 1e6, resource=r, **labels) for r, ms in parts.items()]
    return [*waits, metric(f"{prefix}wait_accounted_share", share, **labels)]


@pytest.mark.draws
@pytest.mark.parametrize("labels", [{}, {"query": "6"}])
def test_waits_are_stacked_by_resource_and_marked_where_they_do_not_add_up(tmp_path, labels):
    slow, fast = waiting(8, 0.7, **labels), waiting(4, 1.0, **labels)
    runs = two(tmp_path, query("6", 4.0, 1.0) + slow, query("6", 2.0, 1.0) + fast)
    files, _ = report(runs, tmp_path)
    drawn = drawing(files, "waits.svg")
    assert ">lock<" in drawn and ">log sync<" in drawn and ">buffer<" not in drawn
    assert ">a*<" in drawn and ">b<" in drawn


# The cause on the first screen -------------------------------------------------


def pairs(root: Path) -> list[StoredRun]:
    return [tpcc(root, place, block, rate=1000 * (1 + gain) + block)
            for block in range(6) for gain, place in enumerate(PLACES)]  # fmt: skip


def first_screen(view: Report) -> Iterator[Block]:
    """Until the first part that is closed."""
    return takewhile(lambda o: not (isinstance(o, Section) and o.kind == "fold"), view.blocks())


def test_the_first_screen_has_the_time_by_resource_and_the_longest_calls(tmp_path: Path) -> None:
    shown = first_screen(Report(pairs(tmp_path)))
    (pair,) = (block for block in shown if isinstance(block, Section))
    drawing, table = pair.blocks
    assert of_kind(Drawing, drawing).name == "1-resources"
    rows = {str(row[0]): row[1] for row in of_kind(Table, table).rows}
    assert list(rows) == ["sync of the WAL", "write of the WAL", "read of the data"]
    assert rows["sync of the WAL"] == "1.00 × 400 µs = 400 µs"


def test_calls_are_counted_for_each_unit_of_work(tmp_path: Path) -> None:
    (panel,) = Report(pairs(tmp_path)).panels
    sync, *_ = file_operations(panel.arms)
    assert [calls for calls, _ in sync.by_arm] == [1, 1]
    assert sync.longest_ns == pytest.approx(400_000, rel=0.01)


def test_the_csv_has_the_numbers_of_the_tables(tmp_path: Path) -> None:
    view = Report(pairs(tmp_path))
    (group,) = view.panels[0].groups
    row = group.deciding
    assert row is not None and row.estimate is not None and row.b is not None
    files = view.write(tmp_path / "report")
    of_metric = [
        csv_row for csv_row in csv_rows(files.csv) if csv_row["metric"] == "new_orders_per_minute"
    ]
    by_arm = {csv_row["arm"]: csv_row for csv_row in of_metric}
    assert float(by_arm["pmem-both"]["times_better"]) == row.ratio
    assert float(by_arm["pmem-both"]["median"]) == row.b.median
    assert by_arm["pmem-both"]["verdict"] == row.verdict == "faster"
    assert by_arm["ssd-both"]["times_better"] == ""


def test_where_no_difference_is_shown_the_lines_say_what_is_still_possible(tmp_path):
    runs = [
        tpcc(tmp_path, placement, block, rate=1000 + (7 * block + 3 * turn) % 11)
        for block in range(8)
        for turn, placement in enumerate(("ssd-both", "pmem-both"))
    ]
    view = Report(runs)
    said = [str(block.text) for block in view.answer_blocks() if isinstance(block, Paragraph)]
    row = view.panels[0].groups[0].deciding
    assert row is not None and row.estimate is not None and row.estimate.low is not None
    worst = f"{100 * (1 - row.estimate.low):.3g} % worse"
    assert [worst in text for text in said if text.startswith(("Still possible", "Why"))] == [True]
