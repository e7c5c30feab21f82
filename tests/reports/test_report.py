"""The files of a report: what they say for every kind of run that can turn up."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from repeatable import repeatable
from report_runs import GIB, Case, csv_rows, demo, drawing, metric, report, tables, write

from reports.formatting import gain_text, quantity_text, significant, times_at_most
from reports.published import read_published
from reports.report import Report
from reports.sections import Paragraph, plain
from reports.table_csv import inert

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
    wheres, groups = zip(*view.answers, strict=True)
    assert wheres == ("postgres 18.4, TPC-H-derived", "duckdb 2.0.0, TPC-H-derived")
    assert [group.verdict for group in groups] == ["faster"] * 2
    shown = tables(view.blocks())
    settings = shown["postgres 18.4: settings given, and those that decide durability"].rows
    assert ("shared_buffers", "1024MB", "1024MB") in settings
    assert ("fsync", "–", "on") in settings  # which no user has set


@pytest.mark.draws("png")
def test_the_same_runs_give_the_same_bytes(tmp_path: Path) -> None:
    runs = demo(tmp_path, engines=("duckdb",), blocks=2, queries=FEW)
    first = Report(runs).write(tmp_path / "first")
    second = Report(runs).write(tmp_path / "second")
    pages, others = ([f.html, f.markdown, f.csv, *f.figures] for f in (first, second))
    for page, other in zip(pages, others, strict=True):
        assert page.read_bytes() == other.read_bytes(), page.name


@pytest.mark.draws
def test_emulated_is_marked_wherever_its_numbers_are(tmp_path: Path) -> None:
    files, html = report(demo(tmp_path, engines=("postgres",), blocks=7, queries=FEW), tmp_path)
    title = re.search(r"<title>(.*?)</title>", html)
    assert title and "EMULATED" in title.group(1)
    assert 'class="badge faster stand-in"' in html
    assert 'class="badge faster"' not in html.split('id="panel-')[0]
    marked = re.compile(r"pmem-both\s*\(?EMULATED|>\(EMULATED\)")
    for path in files.figures:
        assert path.suffix != ".svg" or marked.search(path.read_text(encoding="utf-8")), path
    markdown = files.markdown.read_text(encoding="utf-8")
    assert "(EMULATED)" in markdown.splitlines()[0]
    for line in markdown.splitlines():
        if line.startswith("|") and "pmem-both" in line:
            assert "EMULATED" in line
    marks = {(row["placement"], row["emulated"]) for row in csv_rows(files.csv)}
    assert marks == {("ssd-both", ""), ("pmem-both", "pmem by tmpfs")}


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
    rows = tables(view.blocks())["Failed and unknown runs"].rows
    assert [(row[0], row[1]) for row in rows] == [
        (failed.run_id, "failed"),
        (unknown.run_id, "unknown"),
    ]
    assert "no reference answer" in str(rows[1][2])
    (warning,) = [warning for warning in view.warnings if warning.code == "checks-unknown"]
    assert warning.context.endswith("pmem-both: answer")
    first, *_, last = (
        plain(block.text) for block in view.answer_blocks() if isinstance(block, Paragraph)
    )
    assert first.startswith("postgres 18.4, TPC-H-derived: pmem-both")
    assert last.startswith(f"failed: {failed.run_id}: ")


def test_only_failed_runs_give_a_report_without_a_number(tmp_path: Path) -> None:
    runs = [write(tmp_path, Case(block=k, status="failed", queries=FEW)) for k in range(2)]
    files, _ = report(runs, tmp_path)
    (single,) = tables(Report(runs).blocks())[ALONE].rows
    assert single[2] == "no result" and files.figures == ()
    failed = [plain(block.text) for block in files.answers if isinstance(block, Paragraph)]
    assert [line.split(": ")[:2] for line in failed] == [["failed", run.run_id] for run in runs]


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


HOSTILE = "=x</script><img src=y onerror=alert(1)>$\\frac{1}$|`]"


def test_text_from_outside_stays_text(tmp_path: Path) -> None:
    notes = [{"code": "a-code", "what": HOSTILE, "found": HOSTILE, "do": HOSTILE}]
    changes = {"spec.label": HOSTILE, "uncontrolled": notes}
    case = Case(placement=None, label="x", queries=FEW, plans=False, run_changes=changes)
    run = write(tmp_path, case)
    files, html = report([run], tmp_path, title=HOSTILE)
    assert "<img" not in html and "onerror=alert(1)&gt;" in html
    assert html.count("</script>") == 1
    assert "<img" not in files.markdown.read_text(encoding="utf-8")
    # A spreadsheet gets no formula.
    assert {row["placement"] for row in csv_rows(files.csv)} == {f"'{HOSTILE}"}


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("-cmd|' /C calc'!A0", "'-cmd|' /C calc'!A0"),
        ("\t@x", "'\t'@x"),
        ('users=8;=1+1;-x;"+1', "users=8;'=1+1;'-x;'\"+1"),
        ("first\n=1+1", "first\n'=1+1"),
        ("\uff1d1+1", "'\uff1d1+1"),
        ("-1.5e-3", "-1.5e-3"),
        ("a=-1;-2", "a=-1;-2"),
        ("postgres 18.4, ssd-both", "postgres 18.4, ssd-both"),
    ],
)
def test_no_cell_is_a_formula_of_a_spreadsheet(text: str, cell: str) -> None:
    assert inert(text) == cell


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
    assert "ssd-both as published" in drawing(files, "times.svg")
    assert 'id="published"' in html


@repeatable
@given(st.floats(min_value=1e-6, max_value=1e15))
def test_three_significant_digits_and_no_exponent(value: float) -> None:
    text = significant(value)
    assert "e" not in text
    assert float(text.replace(",", "")) == pytest.approx(value, rel=5.1e-3)
    assert "e" not in quantity_text(value, "ns") or value < 1e-3


# Numbers as text ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "unit", "resolution", "text"),
    [
        (2_650_000, "B", 0, "2.53 MiB"),
        (2_650_000, "bytes", 0, "2.53 MiB"),
        (0, "B", 0, "0 B"),
        (12_345, "1", 0, "12,345"),
        (2.5, "1", 0, "2.50"),
        (0, "ns", 1e7, "< 10 ms"),
        (1e7, "ns", 1e7, "10 ms"),
        (0, "ns", 0, "0 ns"),
        (120, "op/s", 0, "120 op/s"),
    ],
)
def test_a_value_with_its_unit(value: float, unit: str, resolution: float, text: str) -> None:
    assert quantity_text(value, unit, resolution) == text


def test_a_bound_is_never_rounded_down() -> None:
    assert [times_at_most(x) for x in (1.901, 2.0, 22.31, 141.2)] == [
        "1.91×", "2.00×", "22.4×", "142×",
    ]  # fmt: skip
    assert [gain_text(x) for x in (1.0401, 2.041, 22.31)] == ["5 %", "2.05×", "22.4×"]
