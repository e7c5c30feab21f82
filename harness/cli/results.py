"""``harness compare``, ``explain``, ``conclusions``, ``report``, ``card``, ``repro``."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.cli.common import (
    HostOption,
    JsonOption,
    OutOption,
    QuietOption,
    ResultsOption,
    SelectorArgument,
    VerboseOption,
    chosen_runs,
    given,
    print_json,
    store,
    usual_facts,
)
from harness.errors import RunFailed, UsageError, unknown
from harness.experiment.profile import published_of
from harness.models.score import ScoreStore
from harness.store.calibrations import CalibrationStore
from harness.store.documents import as_json
from harness.store.run_store import Store
from harness.store.runs import StoredRun
from harness.store.spec import MICRO
from harness.terminal import say, say_command
from harness.units import parse_share
from harness.warnings import RunWarning, warn


def compare(
    a: Annotated[str, typer.Argument(help="Selector of runs: placement=ssd-both, an experiment.")],
    b: Annotated[str, typer.Argument(help="Selector of the other side.")],
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SELECTOR]", help="Conditions of both sides: engine=postgres."),
    ] = None,
    over: Annotated[
        list[str] | None, typer.Option("--over", help="What may differ: placement, engine …")
    ] = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Compare despite other differences, and print them.")
    ] = False,
    all_: Annotated[
        bool, typer.Option("--all", help="Print counters and operator times, too.")
    ] = False,
    fail_above: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE", help="Exit with 1 where B is shown to be worse by more, or failed: 5%."
        ),
    ] = None,
    inconclusive: Annotated[
        Literal["pass", "fail"],
        typer.Option(help="With --fail-above, for what is inconclusive: pass or fail."),
    ] = "pass",
    junit: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --fail-above, write a JUnit file: a test for each comparison.",
        ),
    ] = None,
    prices: Annotated[
        Path | None,
        typer.Option("--prices", help="Price file with hosts, of which rates are shown by price."),
    ] = None,
    verbose: VerboseOption = False,
    results: ResultsOption = None,
    json_: JsonOption = False,
) -> None:
    """Compare two sets of runs: ratios, intervals, a verdict."""
    from reports.compare import compare as compared
    from reports.compare_output import comparison_page, to_json
    from reports.continuous_integration import tests_of, tests_of_runs, write_junit
    from reports.matching import block_of
    from reports.page import print_blocks, render
    from reports.price_list import read_prices
    from reports.select import select

    for option, is_given in (("--inconclusive fail", inconclusive == "fail"), ("--junit", junit)):
        if is_given and fail_above is None:
            context = "nothing fails without --fail-above"
            raise UsageError(f"compare {option}", context, "add --fail-above 5%")
    above = parse_share(fail_above) if fail_above is not None else None
    listed = read_prices(prices) if prices else None
    where = store(results)
    sides = select(where, a, *(runs or ())), select(where, b, *(runs or ()))
    blocks = {block_of(stored) for side in sides for stored in side}
    neighbours = [stored for stored in where.runs() if block_of(stored) in blocks]
    failed = {s.run_id: s.result.why_failed for s in sides[1] if s.result.status == "failed"}
    if above is not None and len(failed) == len(sides[1]):
        if junit is not None:
            write_junit(junit, tests_of_runs(failed))
        raise RunFailed(f"compare {b}", "each of its runs failed", "`harness runs show` has why")
    comparison = compared(*sides, over or (), anyway, neighbours=neighbours)
    if json_:
        print_json(to_json(comparison, above, listed))
    else:
        usual = None if verbose else usual_facts(sides[0][0].spec)
        following = ""
        if {*comparison.over} <= {"placement", "arm"}:  # what explain compares
            either = " or ".join(" ".join((side, *(runs or ()))) for side in (a, b))
            following = f"harness explain {shlex.quote(either)}{' --anyway' * anyway}"
            following += given(results)
        print_blocks(comparison_page(comparison, all_, usual, following, listed))
    tests = tests_of_runs(failed)
    if above is not None:
        tests += tests_of(comparison, above, inconclusive == "fail")
    if junit is not None:
        write_junit(junit, tests)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(render("Comparison", list(comparison_page(comparison, prices=listed)), "md"))
    if above is not None and any(test.failure for test in tests):
        raise typer.Exit(1)


def explain(
    runs: SelectorArgument = None,
    baseline: Annotated[
        str | None,
        typer.Option("--baseline", help="Placement or arm that the others are compared with."),
    ] = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Compare despite other differences.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Write a page with the picture [no page]."),
    ] = None,
    results: ResultsOption = None,
    json_: JsonOption = False,
) -> None:
    """Compare the predicted, modelled and measured speed-up of placements, or arms."""
    from reports.explain.comparisons import explained
    from reports.explain.devices import TierSources
    from reports.explain.output import ExplainedView, explain_page, to_json
    from reports.fidelity.expectations import expected_blocks, measured_expectations
    from reports.micro.devices import is_micro
    from reports.page import print_blocks, write_page
    from reports.sections import marked_title
    from reports.select import unplanted
    from reports.series import panels

    where = store(results)
    every = where.runs()
    of_engines = [stored for stored in every if not is_micro(stored)]
    chosen = chosen_runs(where, runs, of_engines if runs else unplanted(of_engines))
    chosen = [stored for stored in chosen if not is_micro(stored)]
    placed = [stored for stored in chosen if stored.spec.placement]
    with_arms = [stored for stored in placed if stored.spec.label]
    over = "placement"
    if with_arms and len({stored.spec.placement for stored in placed}) == 1:
        chosen, over = with_arms, "arm"
    made = panels(chosen, over, baseline, anyway) if chosen else []
    rows = explained(made, TierSources.of(every, ScoreStore(where.root).all()))
    if not rows:
        raise UsageError(
            f"explain {', '.join(runs) if runs else 'all runs'}",
            "no two placements or arms of one engine and workload are among them",
            "measure both: harness run … --placement ssd-both --placement pmem-both",
        )
    view = ExplainedView(tuple(rows))
    answers = [(panel.title_with_workload, group) for panel in made for group in panel.groups]
    expected = measured_expectations(made, filter(is_micro, every))
    files: dict[str, str | None] = {}
    if out is not None:
        drawn = explain_page(view, answers, view.picture("predicted"))
        page = chain(drawn, expected_blocks(expected))
        title = marked_title("Device and engine", [text for row in rows for text in row.emulated])
        picture, *_ = map(str, (*write_page(out, "explain", title, page), ""))
        files = {"page": str((out / "explain.html").absolute()), "picture": picture or None}
    if json_:
        print_json({**to_json(view), "expected": as_json(expected), **files})
        return
    print_blocks([*explain_page(view, answers), *expected_blocks(expected)])
    for name, file in files.items():
        if file:
            say(f"{name}: {file}")
    if view.checked and not files:
        say("A picture of it:")
        words = shlex.join(["harness", "explain", *(runs or ())])
        against = f" --baseline {shlex.quote(baseline)}" if baseline else ""
        say_command(f"{words}{against}{' --anyway' * anyway} --out explain{given(results)}")


def conclusions(
    runs: SelectorArgument = None,
    paper: Annotated[str | None, typer.Option("--paper", help="Of this paper only.")] = None,
    results: ResultsOption = None,
    json_: JsonOption = False,
) -> None:
    """Test the papers' conclusions on stored runs."""
    from reports.conclusions.catalogue import PAPERS, conclusions_of
    from reports.conclusions.model import check_all
    from reports.conclusions.output import conclusions_page
    from reports.page import print_blocks

    if paper is not None and paper not in PAPERS:
        context = "no conclusions of such a paper"
        raise unknown(f"--paper {paper}", context, paper, PAPERS, "one of {}")
    where = store(results)
    chosen = chosen_runs(where, runs)
    if not chosen:
        raise UsageError(
            "conclusions on all runs",
            f"no finished run in {where.root}",
            "`harness runs list` shows what is there",
        )
    checks = check_all(conclusions_of(*([paper] if paper else PAPERS)), chosen)
    if json_:
        print_json({"conclusions": [check.to_json() for check in checks]})
        return
    print_blocks(conclusions_page(checks))


def report(
    runs: SelectorArgument = None,
    experiment: Annotated[
        str | None, typer.Option("--experiment", "-e", help="All runs of an experiment.")
    ] = None,
    out: OutOption = Path("report"),
    title: Annotated[
        str | None, typer.Option("--title", help="Title of the report [Does the faster tier pay?].")
    ] = None,
    over: Annotated[
        str | None,
        typer.Option("--over", help="Dimension compared [the first that varies, placement first]."),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option("--baseline", help="Value that the others are compared with.")
    ] = None,
    published: Annotated[
        Path | None,
        typer.Option("--published", help="CSV of a paper's figures to show [the experiment's]."),
    ] = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Compare despite other differences, and list them.")
    ] = False,
    prices: Annotated[
        Path | None,
        typer.Option("--prices", help="Price file, as in profiles/prices [price_per_gb as run]."),
    ] = None,
    results: ResultsOption = None,
    json_: JsonOption = False,
) -> None:
    """Write one HTML file, Markdown, CSV and figures; print each verdict and failed run.

    Runs of microbenchmarks are written as a card in the same folder (harness card).
    """
    from reports.conclusions.catalogue import OF_ENGINES, conclusions_of
    from reports.conclusions.model import check_all
    from reports.explain.devices import TierSources
    from reports.host_models import HostModels
    from reports.micro.devices import is_micro
    from reports.micro.report import write_cards
    from reports.page import print_blocks
    from reports.price_list import read_prices
    from reports.published import read_published
    from reports.report import Report

    where = store(results)
    chosen = _chosen(where, runs or [], experiment)
    figures: tuple[str, ...] = ()
    if published is None and experiment is not None:
        published, figures = published_of(experiment)
    conclusions = check_all(conclusions_of(OF_ENGINES), chosen)
    micro = [stored for stored in chosen if is_micro(stored)]
    chosen = [stored for stored in chosen if not is_micro(stored)]
    _check_compared(bool(chosen), {"--over": over, "--baseline": baseline})
    scores = ScoreStore(where.root).all()
    # The report first: it checks all options before it writes anything.
    files = made = None
    if chosen:
        made = Report(
            chosen,
            title,
            over,
            baseline,
            anyway,
            published=read_published(published, figures) if published else (),
            prices=read_prices(prices) if prices else None,
            conclusions=conclusions,
            calibrations=CalibrationStore(where.root).all(),
            sources=TierSources.of(where.runs(), scores),
            card=bool(micro),
            of_hosts=HostModels.of(where.runs(), scores),
        )
        files = made.write(out)
    cards = write_cards(micro, out, prices=prices) if micro else None
    if cards and not json_:
        say(f"card of {', '.join(cards.devices)}: {cards.html.absolute()}")
    if made is None or files is None:
        if cards and json_:
            print_json({"report": None, "card": cards.to_json()})
    elif json_:
        written = {
            "html": str(files.html),
            "markdown": str(files.markdown),
            "csv": str(files.csv),
            "runs": len(chosen),
            "hosts": made.hosts_json(),
        }
        print_json({"report": written} | ({"card": cards.to_json()} if cards else {}))
    else:
        print_blocks(files.answers)
        say(f"report: {files.html.absolute()}")


def _check_compared(engines: bool, given: Mapping[str, str | None]) -> None:
    """UsageError for an option of comparisons where no run of an engine is selected."""
    for option, value in given.items():
        if value is not None and not engines:
            raise UsageError(
                f"{option} {value}",
                "only runs of microbenchmarks are selected: their card compares tiers by itself",
                f"leave {option} out, or select runs of engines, too",
            )


def _chosen(where: Store, names: list[str], experiment: str | None) -> list[StoredRun]:
    from reports.select import unplanted

    chosen = chosen_runs(where, names, where.runs() if names else unplanted(where.runs()))
    if experiment is not None:
        run_ids = {stored.run_id for stored in chosen}
        chosen = [run for run in _of_experiment(where, experiment) if run.run_id in run_ids]
    if not chosen:
        raise UsageError(
            f"report on {experiment or ', '.join(names) or 'all runs'}",
            f"no such finished run in {where.root}",
            "`harness runs list` shows what is there",
        )
    return sorted(chosen, key=lambda stored: stored.run_id)


def _of_experiment(where: Store, name: str) -> list[StoredRun]:
    """Runs of an experiment, of every series that its latest version has.

    An experiment that grew (more repeats, another placement) has another hash and keeps
    the runs it had: they belong to it as long as their series does. One that several
    commands gave its name has the runs of all of them. ``name@hash`` selects the runs of one
    version.
    """
    from reports.select import experiment

    runs = experiment(where, name)
    if "@" in name:
        return runs
    latest = max(runs, key=lambda stored: int(stored.head.started_unix_ns))
    if latest.head.experiment.several_commands:
        return runs
    version = latest.head.experiment.hash
    series = {r.spec.series() for r in runs if r.head.experiment.hash == version}
    of_latest = [stored for stored in runs if stored.spec.series() in series]
    if len(of_latest) < len(runs):
        warn(
            RunWarning(
                "earlier-series-left-out",
                f"{len(runs) - len(of_latest)} of {len(runs)} runs of {name} are left out",
                "the latest version does not have their series",
                f"select a version: {name}@HASH",
            )
        )
    return of_latest


def repro(
    run: Annotated[str, typer.Argument(help="Run id, its beginning or end, or a directory.")],
    tolerance: Annotated[float, typer.Option(help="Largest distance of the ratio from 1.")] = 0.25,
    trust: Annotated[
        bool, typer.Option("--trust", help="Use what the spec of another host's run names.")
    ] = False,
    host: HostOption = None,
    results: ResultsOption = None,
    json_: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Repeat a run from its manifest and compare the two."""
    from harness.execution.environment import command_environment  # as reports, loaded late
    from harness.execution.repro import check_repeatable, repeat
    from harness.execution.resolved_run import ResolvedRun
    from harness.experiment.preflight import prepare_all
    from harness.micro.runner import prepared_again

    where = store(results)
    original = where.run(run)
    with command_environment(host, original.spec.stand_ins, quiet) as env:
        check_repeatable(original, env, tolerance, trust)
        if original.spec.workload == MICRO:
            again: ResolvedRun = prepared_again(original, env)
        else:
            (again,) = prepare_all([original.spec], env)
        repeated = repeat(original, again, env, where)
    from reports.formatting import stand_in_text
    from reports.reproduction import Reproduction
    from reports.run_configuration import emulations

    reproduction = Reproduction.of(original, repeated, tolerance)
    if json_:
        print_json({"repro": reproduction.to_json(), "runs": [repeated.document]})
    else:
        for text in filter(None, [stand_in_text(emulations([repeated])), reproduction.text()]):
            say(text)
    if not reproduction.agrees:
        raise typer.Exit(1)


def card(
    runs: SelectorArgument = None,
    out: OutOption = Path("card"),
    title: Annotated[
        str, typer.Option("--title", help="Title of the card.")
    ] = "What this device likes",
    prices: Annotated[
        Path | None,
        typer.Option(
            "--prices",
            help="Price file, as in profiles/prices [host file's price_per_gb].",
        ),
    ] = None,
    perma: Annotated[
        list[Path] | None,
        typer.Option("--perma", help="Result file of PerMA-Bench to show as well; may repeat."),
    ] = None,
    results: ResultsOption = None,
    json_: JsonOption = False,
) -> None:
    """Write a page per device: preferences, practices, prices."""
    from harness.micro.perma_result import perma_devices
    from reports.micro.devices import device_of_metrics, is_micro
    from reports.micro.report import write_cards

    where = store(results)
    chosen = chosen_runs(where, runs, [run for run in where.runs() if is_micro(run)])
    if not chosen:
        raise UsageError(
            "a card",
            f"no finished run of microbenchmarks in {where.root}",
            "`harness run micro --suite device-card --tier TIER` makes one",
        )
    others = [
        device_of_metrics(
            Path(device.file).stem, device.memory, device.mark, device.source, device.metrics
        )
        for path in perma or ()
        for device in perma_devices(path)
    ]
    files = write_cards(chosen, out, title, prices, others)
    if json_:
        print_json({"card": files.to_json()})
    else:
        say(f"card of {', '.join(files.devices)}: {files.html.absolute()}")
