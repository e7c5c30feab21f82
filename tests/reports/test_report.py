"""The files of a report: what they say for every kind of run that can turn up."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from micro_runs import micro_run, rate
from narrowed import present
from repeatable import repeatable
from report_runs import GIB, Case, csv_rows, demo, histogram, metric, report, tables, write
from typer.testing import CliRunner

from harness.cli.app import app
from harness.errors import UsageError
from reports.formatting import quantity_text, significant
from reports.page import escape_markdown
from reports.published import read_published
from reports.report import Report
from reports.sections import Paragraph, plain

FEW = (1, 6, 13)


ALONE = "Measured on one placement, without a comparison"


def test_a_report_over_two_engines_and_two_placements(tmp_path: Path) -> None:
    runs = demo(tmp_path, blocks=7, queries=FEW, emulated=False, noise=0.01)
    files, html = report(runs, tmp_path)
    assert "EMULATED" not in html
    charts = ("times", "speedups", "operators", "tiers", "working-set")
    for engine in ("1-postgres-18-4", "2-duckdb-2-0-0"):
        names = {path.name for path in files.figures if path.name.startswith(engine)}
        assert names == {f"{engine}-{chart}.{end}" for chart in charts for end in ("svg", "png")}
    view = Report(runs)
    assert [(where, group.verdict) for where, group in view.answers] == [
        ("postgres 18.4, TPC-H-derived", "faster"),
        ("duckdb 2.0.0, TPC-H-derived", "faster"),
    ]
    shown = tables(view.blocks())
    assert "1.50 : 1" in shown["Data, memory and caches"].rows[0]
    tiers = shown["Tiers, as Linux describes them"].rows
    assert {row[0] for row in tiers} == {"ssd", "pmem"}
    settings = shown["postgres 18.4: settings given, and those that decide durability"].rows
    assert ("shared_buffers", "1024MB", "1024MB") in settings
    assert ("fsync", "–", "on") in settings  # which no user has set
    assert f"harness repro {runs[0].run_id}" in html
    markdown = files.markdown.read_text(encoding="utf-8")
    for path in files.figures:
        assert path.suffix == ".png" or f"(figures/{path.name})" in markdown


@pytest.mark.draws
def test_the_html_holds_everything_and_every_id_once(tmp_path: Path) -> None:
    _, html = report(demo(tmp_path, blocks=1, queries=FEW), tmp_path)
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    for used in re.findall(r'(?:url\(#|href="#)([^")]+)', html):
        assert used in ids
    fetching = r'(?:src|href|action|poster|data)="(?!#|data:)[^"]*"|@import|url\((?!#)'
    assert not re.search(fetching, re.sub(r'xmlns(:\w+)?="[^"]*"', "", html))


@pytest.mark.draws("png")
def test_the_same_runs_give_the_same_bytes(tmp_path: Path) -> None:
    runs = demo(tmp_path, engines=("duckdb",), blocks=2, queries=FEW)
    first = Report(runs).write(tmp_path / "first")
    second = Report(runs).write(tmp_path / "second")
    for one, other in zip(
        (first.html, first.markdown, first.csv, *first.figures),
        (second.html, second.markdown, second.csv, *second.figures),
        strict=True,
    ):
        assert one.read_bytes() == other.read_bytes(), one.name


@pytest.mark.draws
def test_emulated_is_marked_wherever_its_numbers_are(tmp_path: Path) -> None:
    files, html = report(demo(tmp_path, engines=("postgres",), blocks=7, queries=FEW), tmp_path)
    title = re.search(r"<title>(.*?)</title>", html)
    assert title and "EMULATED" in title.group(1)
    assert 'class="badge faster stand-in"' in html
    assert 'class="badge faster"' not in html.split('id="panel-')[0]
    for path in files.figures:
        if path.suffix == ".svg":
            assert re.search(
                r"pmem-both\s*\(?EMULATED|>\(EMULATED\)", path.read_text(encoding="utf-8")
            ), path
    markdown = files.markdown.read_text(encoding="utf-8")
    assert "(EMULATED)" in markdown.splitlines()[0]
    for line in markdown.splitlines():
        if line.startswith("|") and "pmem-both" in line:
            assert "EMULATED" in line
    rows = csv_rows(files.csv)
    for row in rows:
        assert row["emulated"] == ("pmem by tmpfs" if row["placement"] == "pmem-both" else "")


def test_failed_and_unknown_runs_are_shown_as_such_and_never_as_a_time(tmp_path: Path) -> None:
    runs = demo(tmp_path, engines=("postgres",), blocks=2, queries=FEW, plans=False, emulated=False)
    odd = [metric("query_duration_ns", 77_700_000_000_000, "lower", query="1")]
    failed = write(tmp_path, Case(block=2, status="failed", queries=FEW,
                                  run_changes={"metrics": odd}))  # fmt: skip
    unknown = write(tmp_path, Case(placement="pmem-both", block=3, status="unknown", queries=FEW))
    _, html = report([*runs, failed, unknown], tmp_path)
    assert "77,700 s" not in html
    assert "server died &lt;&amp;&gt; $x$" in html
    assert "pmem-both †" in html and "ssd-both †" not in html
    view = Report([*runs, failed, unknown])
    first, second = tables(view.blocks())["Failed and unknown runs"].rows
    assert tuple(first[:2]) == (failed.run_id, "failed")
    assert tuple(second[:2]) == (unknown.run_id, "unknown")
    assert "no reference answer" in str(second[2])
    assert "answers-unknown" in {warning.code for warning in view.warnings}
    first, *_, last = (
        plain(one.text) for one in view.answer_blocks() if isinstance(one, Paragraph)
    )
    assert first.startswith("postgres 18.4, TPC-H-derived: pmem-both")
    assert last.startswith(f"failed: {failed.run_id}: ")


def test_only_failed_runs_give_a_report_without_a_number(tmp_path: Path) -> None:
    runs = [write(tmp_path, Case(block=k, status="failed", queries=FEW)) for k in range(2)]
    files, _ = report(runs, tmp_path)
    (single,) = tables(Report(runs).blocks())[ALONE].rows
    assert single[2] == "no result" and files.figures == ()
    failed = [plain(one.text) for one in files.answers if isinstance(one, Paragraph)]
    assert [line.split(": ")[:2] for line in failed] == [["failed", run.run_id] for run in runs]


def test_one_run_alone_says_there_is_nothing_to_compare(tmp_path: Path) -> None:
    run = write(tmp_path, Case(queries=FEW, plans=False))
    files, _ = report([run], tmp_path)
    view = Report([run])
    (single,) = tables(view.blocks())[ALONE].rows
    assert single[1:3] == ["ssd-both", "geometric mean of the query times"]
    assert view.answers == []
    assert {path.suffix for path in files.figures} == {".svg", ".png"}
    assert not any("operators" in path.name or "speedups" in path.name for path in files.figures)


def test_too_few_repeats_resolve_nothing(tmp_path: Path) -> None:
    runs = demo(tmp_path, engines=("postgres",), blocks=3, queries=FEW, plans=False, emulated=False)
    ((_, group),) = Report(runs).answers
    row = present(group.deciding)
    assert group.verdict == "not resolvable" and present(row.decision).repeats_needed == 6
    assert present(row.estimate).confidence == 0.75


def test_data_that_fit_in_memory_are_a_warning(tmp_path: Path) -> None:
    runs = demo(tmp_path, engines=("duckdb",), blocks=1, queries=FEW, plans=False, data_bytes=GIB)
    (warning,) = Report(runs).warnings
    assert warning.code == "data-fit-in-memory" and "0.250 : 1" in warning.context


def test_what_is_not_comparable_is_shown_without_a_ratio(tmp_path: Path) -> None:
    runs = [write(tmp_path, Case(queries=FEW, plans=False)),
            write(tmp_path, Case(queries=FEW, plans=False, placement="pmem-both",
                                 manifest_changes={"restore_method": "reflink"}))]  # fmt: skip
    files, _ = report(runs, tmp_path)
    (warning,) = Report(runs).warnings
    assert warning.code == "not-compared" and "copy against reflink" in warning.context
    assert not any("speedups" in path.name for path in files.figures)
    forced = Report(runs, force=True).write(tmp_path / "forced")
    assert any("speedups" in path.name for path in forced.figures)


def test_three_placements_against_a_chosen_baseline(tmp_path: Path) -> None:
    placements = ("ssd-both", "pmem-both", "ssd-data-pmem-wal")
    runs = demo(
        tmp_path, ("postgres",), placements, blocks=2, queries=FEW, plans=False, emulated=False
    )
    answers = Report(runs, baseline="pmem-both").answers
    assert {(group.a.name, group.b.name) for _, group in answers} == {
        ("pmem-both", "ssd-both"), ("pmem-both", "ssd-data-pmem-wal"),
    }  # fmt: skip
    with pytest.raises(UsageError, match="there is ssd-both"):
        report(runs, tmp_path, baseline="cxl-both")


def test_a_refused_report_writes_nothing(tmp_path: Path) -> None:
    """Not even the card of the devices."""
    demo(tmp_path, ("postgres",), blocks=1, queries=FEW, plans=False)
    micro_run(tmp_path, [rate("load", 8)])
    command = ["report", "--results", str(tmp_path), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, [*command, "--baseline", "nosuch"])
    assert isinstance(done.exception, UsageError)
    assert not (tmp_path / "out").exists()


def test_another_workloads_metrics_get_tables_and_charts(tmp_path: Path) -> None:
    def metrics(rate: float) -> list[dict[str, Any]]:
        tail = metric("latency_ns", histogram([1e6]), "lower", transaction="payment")
        return [
            *(metric("throughput_ops", rate * int(t), "higher", threads=t) for t in "128"),
            tail,
        ]

    runs = [
        write(tmp_path, Case(placement=p, block=k, metrics=metrics(rate + k),
                             spec_changes={"workload": "ycsb"}))
        for k in range(7) for p, rate in (("ssd-both", 100), ("pmem-both", 150))
    ]  # fmt: skip
    files, _ = report(runs, tmp_path)
    assert any("throughput-ops" in path.name for path in files.figures)
    ((where, group),) = Report(runs).answers
    assert where.startswith("postgres 18.4") and where.endswith("YCSB")
    rows = [row for row in group.rows if row.quantity.name == "throughput_ops"]
    assert [row.quantity.label("threads") for row in rows] == ["1", "2", "8"]
    assert {row.verdict for row in rows} == {"faster"}


HOSTILE = "=x</script><img src=y onerror=alert(1)>$\\frac{1}$|`]"


def test_text_from_outside_stays_text(tmp_path: Path) -> None:
    notes = [{"what": HOSTILE, "found": HOSTILE, "do": HOSTILE}]
    changes = {"spec.label": HOSTILE, "uncontrolled": notes}
    case = Case(placement=None, label="x", queries=FEW, plans=False, run_changes=changes)
    run = write(tmp_path, case)
    files, html = report([run], tmp_path, title=HOSTILE)
    assert "<img" not in html and "onerror=alert(1)&gt;" in html
    assert html.count("</script>") == 1
    assert "<img" not in files.markdown.read_text(encoding="utf-8")
    # A spreadsheet gets no formula.
    assert {row["placement"] for row in csv_rows(files.csv)} == {f"'{HOSTILE}"}


def test_the_csv_has_every_metric_of_every_run_to_the_last_digit(tmp_path: Path) -> None:
    runs = demo(tmp_path, blocks=1, queries=FEW, plans=False)
    files, _ = report(runs, tmp_path)
    rows = csv_rows(files.csv)
    assert len(rows) == sum(len(run.document["metrics"]) for run in runs)
    first = runs[0].document["metrics"][0]
    found = [r for r in rows if r["run_id"] == runs[0].run_id and r["metric"] == first["name"]]
    assert float(found[0]["value"]) == first["value"]


@pytest.mark.draws
def test_published_figures_are_next_to_the_measured_ones(tmp_path: Path) -> None:
    published = tmp_path / "published.csv"
    published.write_text(
        "figure,series,x,y,unit,read_off_error\n"
        "2b,postgres/ssd-both,1,55,s,5\n2b,postgres/pmem-both,1,40,s,5\n2a,duckdb/x,1,3,GB,0\n"
    )
    series = read_published(published)
    assert series[0].points[0].y_base == 55e9 and series[2].base_unit == "bytes"
    runs = demo(tmp_path, engines=("postgres",), blocks=1, queries=FEW, plans=False)
    files, html = report(runs, tmp_path, published=series)
    times = next(p for p in files.figures if p.name.endswith("times.svg"))
    assert "ssd-both as published" in times.read_text(encoding="utf-8")
    assert 'id="published"' in html


@pytest.mark.parametrize(
    ("row", "found"),
    [("2,postgres/a,1,fast,s,0", "y is 'fast', not a"), ("2,postgres,1,1,s,0", "series"),
     ("2,postgres/a,1,1,s,-1", "read_off_error"), ("2,postgres/a,1,1,s,0,9", "unknown key")],
)  # fmt: skip
def test_a_bad_published_row_is_named_by_its_line(tmp_path: Path, row: str, found: str) -> None:
    path = tmp_path / "published.csv"
    path.write_text(f"figure,series,x,y,unit,read_off_error\n{row}\n")
    with pytest.raises(UsageError) as refusal:
        read_published(path)
    assert found in f"{refusal.value.problem} {refusal.value.context}"
    assert "published.csv:2" in refusal.value.problem


def test_no_runs_and_no_place_to_write(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        Report([]).write(tmp_path)
    (tmp_path / "file").write_text("")
    run = write(tmp_path / "store", Case(queries=FEW, plans=False))
    with pytest.raises(UsageError, match=str(tmp_path)):
        Report([run]).write(tmp_path / "file")


@repeatable
@given(st.floats(min_value=1e-6, max_value=1e15))
def test_three_significant_digits_and_no_exponent(value: float) -> None:
    text = significant(value)
    assert "e" not in text
    assert float(text.replace(",", "")) == pytest.approx(value, rel=5.1e-3)
    assert "e" not in quantity_text(value, "ns") or value < 1e-3


@repeatable
@given(st.text())
def test_markdown_keeps_one_line_without_markup(text: str) -> None:
    escaped = escape_markdown(text)
    assert "\n" not in escaped and "<" not in escaped
    assert not re.search(r"(?<!\\)(\\\\)*\|", escaped)
