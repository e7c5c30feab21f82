"""What comparisons say together."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from explained_runs import suites, tpcc, what_if
from rich.console import Console
from typer.testing import CliRunner

from harness.cli.app import app
from harness.errors import UsageError
from reports.explain.comparisons import Explained
from reports.explain.known import Missing, Value
from reports.explain.output import ExplainedView, to_json
from reports.explain.score import LEAST_POINTS, points, score
from reports.page import print_page


def point(
    ratio: float | None = 10.0,
    measured: float = 2.0,
    realised: float | None = None,
    predicted: float | None = None,
    query: str = "",
    query_class: str = "",
    engine: str = "postgres",
    b: str = "pmem-both",
) -> Explained:
    return Explained(
        engine, engine, "tpcc", "ssd-both", b, ("data", "wal"), query, query_class,
        Missing("no suite") if ratio is None else Value(ratio),
        Missing("no waits"),
        Missing("no what-if"),
        Missing("no waits"),
        Missing("no what-if") if predicted is None else Value(predicted),
        Value(measured),
        Missing("not resolvable") if realised is None else Value(realised),
    )  # fmt: skip


def eight(pairs: Sequence[tuple[float, float]]) -> list[Explained]:
    return [point(ratio, measured, b=f"p{i}") for i, (ratio, measured) in enumerate(pairs)]


def test_the_coefficient_is_spearman_s() -> None:
    """Ranks 1–8 with two neighbours swapped: 1 − 6·2/(8·63)."""
    found = score(eight([(2, 1.1), (3, 1.2), (4, 1.4), (5, 1.3), (6, 1.5), (7, 1.6), (8, 1.7),
                         (9, 1.8)])).correlation  # fmt: skip
    assert found.rho == pytest.approx(1 - 12 / 504)
    assert found.p is not None and found.p < 0.001
    assert found.chance_low == pytest.approx(-0.74, abs=0.03)  # of tables: 0.738
    assert found.chance_high == pytest.approx(0.74, abs=0.03)


def test_ties_share_their_rank_and_equal_devices_have_no_coefficient() -> None:
    tied = score(eight([(2, 1), (2, 1), (3, 2), (3, 2), (4, 3), (4, 3), (5, 4), (5, 4)]))
    assert tied.correlation.rho == pytest.approx(1)
    alike = score(eight([(2, float(i)) for i in range(1, 9)])).correlation
    assert (alike.points, alike.rho) == (8, None)


def test_fewer_than_eight_are_too_few() -> None:
    rows = eight([(float(i), float(i)) for i in range(2, 9)])
    found = score([*rows, point(ratio=None)])
    assert (found.correlation.points, found.correlation.rho) == (LEAST_POINTS - 1, None)
    assert all(model.median is None for model in found.models)
    assert len(found.models[0].errors) == 7
    document = to_json(ExplainedView(tuple(rows), found))
    assert document["correlation"]["note"] == "too few points"
    assert document["models"]["device ratio"]["note"] == "too few points"
    assert document["models"]["device ratio"]["median_error"] is None
    stream = io.StringIO()
    print_page("explain_page.j2", ExplainedView(tuple(rows), found), Console(width=40, file=stream))
    compared = [line for line in stream.getvalue().splitlines() if line.startswith("compared: ")]
    assert len(compared) == len(rows)  # a block each, whatever the width


def test_queries_are_points_in_place_of_their_sum() -> None:
    queries = [point(query="1"), point(query="6")]
    other = point(engine="mysql")
    assert points([point(), *queries, other]) == [*queries, other]


def test_an_error_is_of_the_latency() -> None:
    """Predicted 4 times as fast and measured 2 times: half of the latency, −50 %."""
    found = score([point(ratio=8.0, measured=2.0, predicted=4.0, b=f"p{i}") for i in range(8)])
    by_model = {model.model: model for model in found.models}
    assert by_model["causal"].median == by_model["causal"].largest == pytest.approx(0.5)
    assert by_model["causal"].errors[0].error == pytest.approx(-0.5)
    assert by_model["device ratio"].median == pytest.approx(0.75)
    assert by_model["waits"].errors == ()


def test_realised_fractions_are_by_engine_part_and_class() -> None:
    rows = [
        point(realised=0.2, query="1", query_class="scan-heavy"),
        point(realised=0.6, query="9", query_class="join-heavy"),
        point(query="6", query_class="scan-heavy"),
        point(realised=0.4, engine="mysql"),
    ]
    found = {(one.by, one.name): one for one in score(rows).realised}
    assert set(found) == {("engine", "postgres"), ("engine", "mysql"), ("moved", "all"),
                          ("query class", "scan-heavy"), ("query class", "join-heavy")}  # fmt: skip
    every = found["moved", "all"].summary
    assert every is not None and (every.n, every.median) == (3, pytest.approx(0.4))
    assert found["engine", "postgres"].unresolved == 1


def test_a_median_of_few_realised_fractions_is_none() -> None:
    for count, median in ((LEAST_POINTS - 1, None), (LEAST_POINTS, 0.3)):
        rows = [point(realised=0.3, query=str(i)) for i in range(count)]
        by_engine = to_json(ExplainedView(tuple(rows), score(rows)))["realised"][0]
        assert (by_engine["n"], by_engine["median"], by_engine["high"]) == (count, median, 0.3)
        assert by_engine["note"] == ("too few points" if median is None else None)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Six pairs, of which the faster ones are 1.5 times as fast, with all evidence."""
    for block in range(6):
        slow = tpcc(tmp_path, "ssd-both", block)
        tpcc(tmp_path, "pmem-both", block, 90_000)
        if block == 0:
            suites(tmp_path, slow)
            what_if(tmp_path, "wal", "sync", 1.0)
    return tmp_path


def test_the_command_prints_the_table_and_the_models_errors(results: Path) -> None:
    done = CliRunner().invoke(app, ["explain", "--json", "--results", str(results)])
    assert done.exit_code == 0, done.output
    document = json.loads(done.output)
    (row,) = document["comparisons"]
    assert row["measured"]["value"] == pytest.approx(1.5)
    assert row["predicted"]["value"] == pytest.approx(1000 / 601, rel=2e-3)
    fraction = math.log(1.5) / math.log(419_000 / 5_500)
    assert row["realised_fraction"]["value"] == pytest.approx(fraction, rel=2e-3)
    errors = {name: one["errors"][0]["error"] for name, one in document["models"].items()}
    assert errors["causal"] == pytest.approx(601 / (1000 / 1.5) - 1, rel=1e-2)
    assert errors.keys() == {"device ratio", "waits", "causal"}
    shown = CliRunner().invoke(app, ["explain", "--results", str(results)])
    assert shown.exit_code == 0 and "0.0936" in shown.output


def test_without_two_placements_there_is_nothing_to_explain(tmp_path: Path) -> None:
    tpcc(tmp_path)
    done = CliRunner().invoke(app, ["explain", "--results", str(tmp_path)])
    assert isinstance(done.exception, UsageError)


def test_the_report_has_the_same_table(results: Path) -> None:
    done = CliRunner().invoke(
        app, ["report", "--results", str(results), "--out", str(results / "report"), "--json"]
    )
    assert done.exit_code == 0, done.output
    assert "0.0936" in (results / "report/report.md").read_text("utf-8")
