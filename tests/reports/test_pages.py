"""Each page renders whatever the annotations of its view allow: no template names what an object
lacks, and each variant has its words."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from generated import Generator, Maker, barest
from micro_runs import card_run
from report_runs import demo, histogram
from rich.console import Console

from harness import hdr
from harness.store.runs import StoredRun
from reports import page, report
from reports.agreement import Agreement
from reports.charts.drawing import Drawing
from reports.compare_output import ComparisonView
from reports.compared_rows import Row
from reports.conclusions import model as conclusions
from reports.explain.ceilings import Ceiling
from reports.explain.output import ExplainedView
from reports.fidelity.page import COMPARED, FigureView, PaperPage
from reports.history import Execution
from reports.matching import Difference
from reports.micro import findings, points, policies, practices, saturation
from reports.micro import report as card
from reports.micro.papers import PaperRows
from reports.published import Cell, PublishedRow
from reports.series import Arm
from reports.statistics import Decision, Missing, Ratio, Value
from reports.sweeps import Sweep
from reports.trials import Trial

SEEDS = range(80)
#: What is laid out, by template: on a terminal, and in files.
PRINTED: Mapping[str, Any] = {
    "conclusions_page": list[conclusions.Checked],
    "explain_page": ExplainedView,
    "compare_page": ComparisonView,
}
WRITTEN: Mapping[str, Any] = {"paper": PaperPage, "card": card.View, "report": report.View}
#: What pages include.
PARTS = {
    *("basis", "card_words", "comparison", "conclusions", "conditions", "explain", "history"),
    *("money", "published", "stalls", "macros.html", "macros.md", "macros.text"),
}
#: What the rows of a card are, by kind.
ROWS: Mapping[str, Any] = {
    "knee": saturation.Knee,
    "loaded": saturation.LoadedKnee,
    "persist": findings.PersistRow,
    "kept": policies.FlushedLine,
    "times": findings.Spread,
    "tail": findings.Spread,
    "chase": points.Point,
    "call": points.Point,
    "cached": tuple[int, int, tuple[str, ...]],
}


@pytest.fixture(scope="module")
def makers(undrawn: None, tmp_path_factory: pytest.TempPathFactory) -> Mapping[Any, Maker]:
    """Of what annotations do not say: members that follow from one another, and stored documents,
    which are real."""
    root = tmp_path_factory.mktemp("runs")
    stored = [*demo(root, blocks=1, queries=(1,)), card_run(root)]
    (device,) = points.devices(stored)
    manifests = [run.manifest for run in stored]
    manifests += [barest(manifest, "manifest") for manifest in manifests]
    bare = replace(device, tier=manifests[-1]["tiers"][0])
    knees = practices.card_trials(device).knees

    def knee(of: type) -> Maker:
        return lambda made: made.one_of(one for one in knees if isinstance(one, of))

    return {
        Any: lambda made: made.make(str),
        tuple[tuple[str, ...], ...]: lambda made: made.make(tuple[tuple[str, str], ...]),
        StoredRun: lambda made: made.one_of(stored),
        Mapping[str, Any]: lambda made: made.one_of(manifests),
        conclusions.Test: lambda made: None,
        hdr.Histogram: lambda made: hdr.decode(histogram([5e3] * made.one_of((1, 200_000)))),
        points.Device: lambda made: made.one_of((device, bare, replace(device, tier={}))),
        points.Point: lambda made: made.one_of(device.points),
        saturation.Knee: knee(saturation.Knee),
        saturation.LoadedKnee: knee(saturation.LoadedKnee),
        findings.Finding: finding,
        Trial: lambda made: made.members(Trial, points=device.points[: made.one_of((2, 4))]),
        Missing: lambda made: made.members(Missing, code=made.one_of(("few-threads", "needs"))),
        FigureView: figure,
        Difference: lambda made: made.members(Difference, a=("1",), b=("2",)),
        Row: row,
        Ratio: ratio,
        Agreement: agreement,
        report.SweepView: lambda made: made.members(
            report.SweepView, sweeps=(made.make(Sweep), *made.make(tuple[Sweep, ...]))
        ),
        Ceiling: ceiling,
        PaperRows: lambda made: made.members(PaperRows, rows=cells(made)),
        Arm: lambda made: made.members(Arm, runs=(made.make(StoredRun),)),
        Execution: lambda made: made.members(Execution, runs=(made.make(StoredRun),)),
        Value: lambda made: made.members(Value, value=made.one_of((0.5, 1.0, 2.0))),
        card.Card: lambda made: made.members(
            card.Card, practices=tuple(practice(made, number) for number in (1, 2, 3, 4))
        ),
        Drawing: lambda made: DRAWING,
    }


DRAWING = Drawing("name", "title", "alt", "caption", "<svg />", b"")


def finding(made: Generator) -> findings.Finding:
    kind = made.one_of(ROWS)
    rows = [made.make(ROWS[kind]) for _ in range(made.one_of((1, 2)))]
    if kind == "cached":
        rows = rows[:1]
    return made.members(findings.Finding, kind=kind, rows=tuple(rows))


def practice(made: Generator, number: int) -> practices.Practice:
    trials = made.make(tuple[Trial, ...])
    return made.members(practices.Practice, number=number, trials=trials)


def cells(made: Generator) -> tuple[tuple[Cell, ...], ...]:
    return tuple(one.cells for one in made.make(list[PublishedRow]))


def figure(made: Generator) -> FigureView:
    rows = cells(made)
    head = ("figure", "engine and placement", "point", "metric", "published", "measured here")
    compared = (tuple(made.make(str) for _ in COMPARED) for _ in rows)
    return made.members(FigureView, head=head, rows=rows, compared=tuple(compared))


def row(made: Generator) -> Row:
    return made.members(Row, estimate=made.make(Ratio | None))


def ratio(made: Generator) -> Ratio:
    value = made.one_of((0.5, 1.0, 2.0))
    return made.members(Ratio, value=value, bound=1.1, decision=made.make(Decision))


def agreement(made: Generator) -> Agreement:
    known = made.members(Row, estimate=made.make(Ratio))
    return made.members(Agreement, row=known)


def ceiling(made: Generator) -> Ceiling:
    hidden = {name: made.make(float) for name in ("lock", "buffer", "other", "processors")}
    return made.members(Ceiling, hidden=hidden, share=made.one_of((None, 0.0, 0.6)))


def test_every_template_is_a_page_here_or_part_of_one() -> None:
    templates = Path(page.__file__).parent / "templates"
    assert {one.stem for one in templates.glob("*.j2")} == PRINTED.keys() | WRITTEN.keys() | PARTS


@pytest.mark.parametrize("name", PRINTED)
def test_a_terminal_shows_each_variant(name: str, makers: Mapping[Any, Maker]) -> None:
    for seed in SEEDS:
        view = Generator(seed, makers).make(PRINTED[name])
        page.print_page(f"{name}.j2", view, Console(file=io.StringIO(), width=100))


@pytest.mark.parametrize("name", WRITTEN)
def test_a_file_shows_each_variant(
    name: str, makers: Mapping[Any, Maker], monkeypatch: pytest.MonkeyPatch
) -> None:
    for of, member in ((report.PanelView, "drawings"), (report.PanelView, "why")):
        monkeypatch.setattr(of, member, [DRAWING])
    monkeypatch.setattr(report.SweepView, "drawing", DRAWING)
    monkeypatch.setattr(report.View, "overview", DRAWING)
    monkeypatch.setattr(report.PanelView, "over_time", [])
    for seed in SEEDS:
        view = Generator(seed, makers).make(WRITTEN[name])
        for form in page.FORMS:
            page.render(f"{name}.j2", view, form)
