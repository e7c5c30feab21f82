"""Where the time goes: what a report says of plans, bytes, limits and streams."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from report_runs import EMULATED, Case, demo, write
from rich.console import Console

from harness.store.runs import StoredRun, write_json_atomically
from reports.charts.speedups import speedups
from reports.compare import compare
from reports.compare_output import table
from reports.labels import in_words
from reports.query_breakdown import anatomy, plan_sums
from reports.report import ReportFiles, write_report
from reports.sentences import sentences
from reports.series import panels
from reports.verdict import verdicts
from reports.words import headline_text

S = 1_000_000_000
MIB = 1 << 20


def metric(name: str, value: float, unit: str = "ns", better: str = "none", **labels: str) -> Any:
    return {"name": name, "unit": unit, "better": better, "labels": labels, "value": value}


def query(number: str, seconds: float, scan: float, profiled: float | None = None) -> list[Any]:
    """A query with its plan: ``scan`` is the scans' share of ``profiled`` seconds."""
    total = profiled or seconds
    return [
        metric("query_duration_ns", seconds * S, better="lower", query=number),
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


def said(runs: Sequence[StoredRun]) -> list[str]:
    (panel,) = panels(runs, "placement", None)
    return [one.text for one in sentences(panel)]


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))


def report(runs: Sequence[StoredRun], tmp_path: Path, **options: Any) -> tuple[ReportFiles, str]:
    files = write_report(runs, tmp_path / "report", **options)
    return files, files.html.read_text(encoding="utf-8")


def test_a_sentence_says_where_the_time_goes_and_what_the_placement_changed(tmp_path: Path) -> None:
    on_ssd = [metric("query_tier_read_bytes", 2048 * MIB, "B", query="6", tier="ssd"),
              metric("query_spilled_bytes", 100 * MIB, "B", query="6"),
              metric("query_touched_file_bytes", 1024 * MIB, "B", query="6"),
              metric("query_working_set_bytes", 1024 * MIB, "B", query="6")]  # fmt: skip
    runs = two(tmp_path, query("6", 4.0, 0.85) + on_ssd, query("6", 1.0, 0.40))
    first, second = said(runs)
    assert first == (
        "Q6 takes 4 s on ssd-both; scan 85 %, join 15 %; 2 GiB read from ssd (512 MiB/s); "
        "100 MiB spilled, working set at least 1 GiB."
    )
    assert second.startswith(
        "Q6 takes 1 s on pmem-both; 4 s on ssd-both, no difference shown (4.00× measured, cannot be"
    )
    assert second.endswith(", scan −3 s; join 60 %, scan 40 %.")


def test_operator_times_are_scaled_to_the_measured_time_and_marked(tmp_path: Path) -> None:
    runs = two(tmp_path, query("6", 4.0, 0.5, profiled=8.0), query("6", 2.0, 0.5))
    (panel,) = panels(runs, "placement", None)
    one = anatomy(panel.arms[0])["6"]
    assert one.kinds == {"scan": 2.0 * S, "join": 2.0 * S}
    assert one.fit and one.fit.lowest == 2.0 and not one.fit.fits
    assert one.fit.why == "the profiled execution took 2.00 times as long as the timed one"
    assert "scan −1 s, join −1 s by plans that distort" in said(runs)[1]
    files, html = report(runs, tmp_path)
    operators = next(p for p in files.figures if p.name.endswith("operators.svg"))
    assert ">a*<" in operators.read_text(encoding="utf-8")
    assert "The plans of 1 of 2 queries add up to within 10 % of their time" in html


def test_what_lies_outside_the_operators_is_drawn_and_named_and_makes_no_plan_add_up(
    tmp_path: Path,
) -> None:
    kinds = {"scan": 2.0, "other": 0.4, "outside": 1.6}
    slow = query("6", 4.0, 1.0)[:2]
    slow += [metric("plan_operator_ns", t * S, query="6", operator=k) for k, t in kinds.items()]
    runs = two(tmp_path, slow, query("6", 2.0, 1.0))
    assert plan_sums(runs[0])["6"] == (0.6, "40 % of the profiled execution lies outside the "
                                            "operators: not told apart 40 %")  # fmt: skip
    (panel,) = panels(runs, "placement", None)
    one = anatomy(panel.arms[0])["6"]
    assert one.kinds == {kind: took * S for kind, took in kinds.items()}
    first, second = said(runs)
    assert "scan 50 %, outside the operators 40 %, other 10 %" in first
    assert "outside the operators −1.6 s" in second and "by plans that distort" in second
    files, html = report(runs, tmp_path)
    assert "The plans of 1 of 2 queries add up to within 10 % of their time, what lies" in html
    drawn = next(p for p in files.figures if p.name.endswith("operators.svg"))
    assert ">outside the operators<" in drawn.read_text(encoding="utf-8")
    (slow_row, _) = rows(files.queries_csv)
    assert (slow_row["other_ns"], slow_row["outside_ns"]) == ("400000000", "1600000000")


def test_one_run_s_reason_stands_for_its_arm(tmp_path: Path) -> None:
    runs = [write(tmp_path, Case(metrics=query("6", 4.0, 0.5, profiled=profiled), queries=(6,)))
            for profiled in (3.7, 4.0)]  # fmt: skip
    (runs[1].directory / "artifacts").mkdir(exist_ok=True)
    stored = {"6": {"why": "a fifth lies outside the operators"}}
    write_json_atomically(runs[1].directory / "artifacts" / "accounting.json", stored)
    (panel,) = panels(runs, "placement", None)
    fit = anatomy(panel.arms[0])["6"].fit
    assert fit and fit.why == "a fifth lies outside the operators"


def test_the_run_s_own_reason_is_the_one_that_is_told(tmp_path: Path) -> None:
    run = write(tmp_path, Case(metrics=query("6", 4.0, 0.5, profiled=8.0), queries=(6,)))
    stored = {"6": {"why": "the server tells no time below a view"}}
    (run.directory / "artifacts").mkdir(exist_ok=True)
    write_json_atomically(run.directory / "artifacts" / "accounting.json", stored)
    assert plan_sums(run)["6"] == (2.0, "the server tells no time below a view")


def test_other_users_of_the_device_are_not_taken_for_the_query(tmp_path: Path) -> None:
    """Also where little is read at all; what is less than a quarter more is left alone."""

    def moved(whole: int, own: int) -> list[Any]:
        return [metric("query_tier_read_bytes", whole * MIB, "B", query="6", tier="ssd"),
                metric("query_io_read_bytes", own * MIB, "B", query="6")]  # fmt: skip

    runs = two(tmp_path, query("6", 4.0, 1.0) + moved(8, 5), query("6", 4.0, 1.0) + moved(6, 5))
    first, second = said(runs)
    assert "only 5 MiB of it for the engine: others used the device" in first
    assert "others" not in second
    files, html = report(runs, tmp_path)
    tiers = next(p for p in files.figures if p.name.endswith("tiers.svg"))
    drawn = tiers.read_text(encoding="utf-8")
    assert ">a*<" in drawn and ">b<" in drawn
    assert "8 MiB *" in html and "6 MiB *" not in html
    assert "(*: far more than the kernel counted for the engine)" in html


def test_a_working_set_that_a_limit_bounds_says_so(tmp_path: Path) -> None:
    held = [metric("query_working_set_bytes", 700 * MIB, "B", query="6")]
    touched = [*held, metric("query_touched_file_bytes", 700 * MIB, "B", query="6")]
    capped = [metric("memory_cap_peak_bytes", 1024 * MIB, "B")]
    limit = {"spec_changes": {"memory_limit_bytes": 1024 * MIB}}
    runs = two(tmp_path, query("6", 4.0, 1.0) + touched + capped, query("6", 2.0, 1.0) + held,
               **limit)  # fmt: skip
    first, second = said(runs)
    assert first.endswith("working set at least 700 MiB (the limit of 1 GiB bounds it).")
    assert second.endswith("working set at least 700 MiB (file pages not known).")
    files, html = report(runs, tmp_path)
    drawn = next(p for p in files.figures if p.name.endswith("working-set.svg"))
    assert ">a*<" in drawn.read_text(encoding="utf-8")
    assert "the memory limit was reached and bounds it" in html
    assert "File pages are not known of 1 bar" in html


def test_without_a_block_layer_the_read_calls_are_named_as_such(tmp_path: Path) -> None:
    calls = [metric("query_syscall_read_bytes", 300 * MIB, "B", query="6")]
    _, second = said(two(tmp_path, query("6", 4.0, 1.0), query("6", 2.0, 1.0) + calls))
    assert "300 MiB through read calls" in second and "read from" not in second


def test_a_limit_is_never_a_time_nor_half_of_a_ratio(tmp_path: Path) -> None:
    runs = demo(tmp_path, engines=("mysql",), blocks=2, queries=(1, 6), emulated=False)
    limited = [
        write(tmp_path, Case(engine="mysql", placement=p, block=k, queries=(1, 6), limited=cut))
        for k in (2, 3)
        for p, cut in (("ssd-both", (6,)), ("pmem-both", ()))
    ]
    files, html = report([*runs, *limited], tmp_path)
    assert "2, limit reached in 2" in html  # of four runs two have a time
    assert "the time limit was reached in 2 of 8 runs" in html
    table = {(r["query"], r["arm"]): r for r in rows(files.queries_csv)}
    assert table["6", "pmem-both"]["ratio_to_baseline"] == ""
    assert table["6", "ssd-both"]["runs_at_limit"] == "2"
    assert table["1", "pmem-both"]["ratio_to_baseline"] != ""


def test_a_query_without_any_time_says_so_and_there_is_no_verdict(tmp_path: Path) -> None:
    runs = [
        write(tmp_path, Case(engine="mysql", placement=p, queries=(1, 6), limited=(6,)))
        for p in ("ssd-both", "pmem-both")
    ]
    files, html = report(runs, tmp_path)
    assert "limit of 60 s reached" in html
    assert "Q6 on ssd-both reached its limit of 60 s: it has no time." in html
    assert "because 1 query reached a time limit in some run" in html
    assert "it pays" not in html
    times = next(p for p in files.figures if p.name.endswith("times.svg"))
    assert "reached its time limit" in times.read_text(encoding="utf-8")


def test_no_verdict_is_read_from_the_runs_that_were_fast_enough(tmp_path: Path) -> None:
    """A total exists only in runs without a limit reached: a selection of the fast ones."""
    runs = [
        write(tmp_path, Case(engine="mysql", placement=p, block=k, queries=(1, 6), limited=cut))
        for k in range(7)
        for p, cut in (("ssd-both", ()), ("pmem-both", (6,) if k == 6 else ()))
    ]
    a, b = (runs[0::2], runs[1::2])
    (group,) = compare(a, b).groups
    found = {(row.quantity.name, row.quantity.label("query")): row for row in group.rows}
    for total in ("queries_geomean_ns", "queries_duration_ns"):
        assert found[total, None].estimate is None
        assert found[total, None].note == "the time limit was reached in 1 of 14 runs"
    assert found["query_duration_ns", "1"].estimate is not None
    (panel,) = panels(runs, "placement", None)
    (verdict,) = verdicts([panel], 0.05)
    assert "because 1 query reached a time limit in some run" in verdict.sentence
    (whole,) = compare(a[:6], b[:6]).groups
    assert all(row.estimate for row in whole.rows if row.quantity.name == "queries_geomean_ns")


def test_a_stream_s_limit_takes_the_throughput_test_s_figures_along(tmp_path: Path) -> None:
    totals = {"throughput_queries_per_hour": 9.0, "composite_queries_per_hour": 8.0}
    whole = [metric(name, value, "1/h", "higher") for name, value in totals.items()]
    whole += [metric("stream_duration_ns", 9 * S, better="lower", stream="1")]
    cut = [metric("query_timeout_ns", 60 * S, query="6", stream="1")]
    power = metric("power_geomean_queries_per_hour", 7.0, "1/h", "higher")
    runs = two(tmp_path, [power, *whole], [power, *cut])
    for k in (1, 2):
        runs += two(tmp_path, [power, *whole], [power, *whole], block=k)
    (group,) = compare(runs[0::2], runs[1::2]).groups
    found = {row.quantity.name: row for row in group.rows}
    for name in (*totals, "stream_duration_ns"):
        assert found[name].estimate is None and "time limit" in found[name].note
    assert found["power_geomean_queries_per_hour"].estimate is not None


def test_queries_of_streams_are_compared_among_themselves(tmp_path: Path) -> None:
    runs = demo(tmp_path, engines=("duckdb",), blocks=2, queries=(1, 6), emulated=False, streams=2)
    a, b = ([r for r in runs if r.run["spec"]["placement"]["data"] == t] for t in ("ssd", "pmem"))
    (group,) = compare(a, b).groups
    found: dict[str, list[Any]] = {}
    for row in group.rows:
        found.setdefault(row.quantity.name, []).append(row.quantity.labels)
    assert found["query_duration_ns"] == [(("query", "1"),), (("query", "6"),)]
    assert len(found["stream_query_duration_ns"]) == 4
    files, html = report(runs, tmp_path)
    assert {r["query"] for r in rows(files.queries_csv)} == {"1", "6"}
    assert "power and throughput (queries per hour × scale, TPC-H-derived)" in html
    assert "query time beside the other streams" in html.lower()
    raw = [r for r in rows(files.csv) if "stream=" in r["labels"]]
    assert {r["metric"] for r in raw} == {"query_duration_ns", "stream_duration_ns"}


def test_a_resumed_run_is_marked(tmp_path: Path) -> None:
    cut = [{"unix_ns": 1, "cut_off_run_id": "x", "kept_steps": 8, "after_step": "q9"}]
    runs = [write(tmp_path, Case(queries=(1,), run_changes={"resumed": cut})),
            write(tmp_path, Case(queries=(1,), placement="pmem-both"))]  # fmt: skip
    _, html = report(runs, tmp_path)
    assert "resumed after q9 (1 of 1 runs)" in html
    assert "1 of 1 runs of ssd-both went on in another process" in html
    assert "in one go" in html


def test_bandwidths_of_memory_controllers_are_drawn(tmp_path: Path) -> None:
    moved = [metric("query_dram_read_bytes_per_s", 9e9, "B/s", query="6"),
             metric("query_dram_write_bytes_per_s", 1e9, "B/s", query="6")]  # fmt: skip
    slow, fast = query("6", 4.0, 1.0) + moved, query("6", 2.0, 1.0)
    files, html = report(two(tmp_path, slow, fast), tmp_path)
    assert any(p.name.endswith("bandwidth.svg") for p in files.figures)
    assert "8.38 GiB/s" in html


def test_published_numbers_stand_beside_those_of_the_same_metric(tmp_path: Path) -> None:
    published = tmp_path / "published.csv"
    published.write_text(
        "figure,series,x,y,unit,read_off_error,metric\n"
        "s1,postgres/ssd-both,6,17,s,0.5,plan_operator_ns[operator=scan]\n"
        "s1,postgres/ssd-both,6,3,us,0.5,index_lookup_ns\n"
        "s2,postgres/ssd-both,6,99,s,0,query_duration_ns\n"
    )
    runs = two(tmp_path, query("6", 4.0, 0.5), query("6", 2.0, 0.5))
    files, html = report(runs, tmp_path, published=published, published_figures=("s1",))
    text = files.markdown.read_text(encoding="utf-8")
    assert "| 17 s ± 500 ms | 2 s |" in text and "| 3 µs ± 500 ns | – |" in text
    assert "99 s" not in html


def test_another_disk_of_one_name_is_no_repeat(tmp_path: Path) -> None:
    runs = []
    for block, disk in enumerate(("/dev/nvme0n1", "/dev/nvme1n1")):
        tiers = write(tmp_path / "as-found", Case(queries=(1,))).manifest["tiers"]
        tiers[0]["facts"]["disks"] = [disk]
        changes = {"tiers": tiers}
        runs.append(write(tmp_path, Case(queries=(1,), block=block, manifest_changes=changes)))
    found = panels(runs, "placement", None)
    assert len([arm for panel in found for arm in panel.arms]) == 2


def test_answers_are_counted_and_other_checks_are_named_apart(tmp_path: Path) -> None:
    def check(name: str, status: str, detail: str = "") -> dict[str, Any]:
        return {"name": name, "status": status, "detail": detail, "labels": {}}

    found = [
        *[check("answer", "passed")] * 3,
        check("stream-answers", "unknown", "44 of 46 answers not compared: no reference"),
        check("refresh_rows", "passed"),
        check("query-finished", "unknown"),
    ]
    runs = two(tmp_path, query("6", 4.0, 1.0), query("6", 2.0, 1.0), run_changes={"checks": found})
    _, html = report(runs, tmp_path)
    assert "Of 94 answers 6 passed the check, 0 failed it, 88 could not be checked." in html
    assert "query-finished: 2 could not be made; refresh_rows: 2 passed." in html
    _, html = report(two(tmp_path, query("6", 4.0, 1.0), query("6", 2.0, 1.0)), tmp_path)
    assert "2 answers checked: all passed." in html and "other things" not in html


def test_no_direction_is_told_that_the_medians_beside_it_deny(tmp_path: Path) -> None:
    """One of three pairs is faster by far: the ratio is above 1, the medians say the opposite."""
    times = ((10.0, 11.0), (20.0, 21.0), (60.0, 22.0))
    runs = [run for k, (x, y) in enumerate(times)
            for run in two(tmp_path, query("6", x, 0.5), query("6", y, 0.1), block=k)]  # fmt: skip
    _, second = said(runs)
    assert second.startswith(
        "Q6 takes 21 s on pmem-both; 20 s on ssd-both, no difference shown (cannot be shown (3 of "
    )
    assert "faster" not in second and "slower" not in second and "scan −" not in second
    compared = compare(runs[0::2], runs[1::2])
    stream = io.StringIO()
    Console(width=300, file=stream).print(table(compared))
    assert "1.22×" in stream.getvalue() and "95 % for each row" not in stream.getvalue()
    assert "the medians stand the other way round" in stream.getvalue()
    _, html = report(runs, tmp_path)
    assert "; the medians stand the other way round" in html


def test_the_operators_named_are_those_that_went_the_way_of_the_whole(tmp_path: Path) -> None:
    """Slower by 1 s: scans gained 2 s, joins lost 3 s."""
    _, second = said(two(tmp_path, query("6", 10.0, 0.8), query("6", 11.0, 6 / 11)))
    assert ", join +3 s; " in second and "scan −" not in second


def test_a_headline_has_no_direction_where_none_is_shown(tmp_path: Path) -> None:
    total = [metric("queries_duration_ns", seconds * S, better="lower") for seconds in (4, 2)]
    (group,) = compare(*([run] for run in two(tmp_path, [total[0]], [total[1]]))).groups
    (row,) = group.rows
    assert headline_text("pmem-both", row).startswith(
        "no difference shown, pmem-both measured 2.00× (one repeat: no interval): cannot be shown"
    )


@pytest.mark.parametrize(
    ("fact", "value", "told"),
    [
        ("params.query_timeout_s", "null", ""),
        ("params.refresh_batch_orders", "20", "refresh batch orders 20"),
        ("params.queries", "[6]", "Q6"),
        ("params.queries", str(list(range(1, 23))), "22 queries"),
        ("params.queries", str(list(range(1, 9))), "8 queries (Q1 … Q8)"),
        ("memory_limit_bytes", "1073741824", "memory limit 1 GiB"),
    ],
)
def test_a_title_tells_parameters_in_few_words(fact: str, value: str, told: str) -> None:
    assert in_words(fact, value) == told


def test_a_title_is_wrapped_and_a_legend_has_the_marks_as_drawn(tmp_path: Path) -> None:
    runs = [write(tmp_path, Case(placement=p, queries=(1, 6), label=None, emulated=EMULATED,
                                 spec_changes={"params": {"scale": scale, "queries": [1, 6],
                                                          "cache": "cold-per-query" * 4}}))
            for p in ("ssd-both", "pmem-both") for scale in (1, 2)]  # fmt: skip
    panel, _ = panels(runs, "placement", None)
    long = replace(panel, context=("a long setting of this panel " * 4,))
    drawing = speedups(long, "query_duration_ns", "query time", "x")
    assert drawing is not None
    titles = re.findall(r"font-weight: 700[^>]*>([^<]*)<", drawing.svg)
    assert len(titles) > 2 and max(map(len, titles)) < 62
    assert "EMULATED" in " ".join(titles)
    assert "pmem-both (EMULATED): not shown, or cannot be" in drawing.svg
    assert "pmem-both (EMULATED): shown" not in drawing.svg
