"""``harness model``: models of devices, which engines can run on without having them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec.structs import replace

from harness.cli.common import (
    JsonOption,
    ResultsOption,
    key_values,
    print_json,
    short_phases,
    store,
)
from harness.cli.options import CommonOptions, callback
from harness.errors import RunFailed, UsageError
from harness.models.device import DeviceModel, SizePoint
from harness.models.durations import PROBABILITIES
from harness.models.model_file import ZERO, check_new, find_model, known_models, write_model
from harness.models.score import (
    Pair,
    RefusedBlock,
    Score,
    ScoreStore,
)
from harness.store.documents import attributes
from harness.store.run_store import Store
from harness.store.runs import StoredRun
from harness.terminal import print_table, say
from harness.tiers.stand_ins import stand_in_names
from harness.units import format_bytes, format_ns

if TYPE_CHECKING:  # a command that prints models needs no plan
    from harness.execution.environment import Environment
    from harness.execution.resolved_run import ResolvedRun
    from harness.experiment.profile import Plan
    from harness.experiment.study import Made, Study

app = typer.Typer(no_args_is_help=True)
_SHOWN = (50, 90, 99, 99.9)


@app.command("list")
def list_models(results: ResultsOption = None, json_: JsonOption = False) -> None:
    """List every device model with its source."""
    models = [find_model(name) for name in (ZERO, *known_models())]
    if json_:
        scores = ScoreStore(store(results).root).all()
        print_json({"models": [_entry(model, scores) for model in models]})
        return
    rows = [
        (
            model.name,
            model.basis,
            "yes" if model.page_cache else "no",
            ", ".join(model.gaps()) or "—",
            model.description,
        )
        for model in models
    ]
    print_table(("model", "basis", "page cache", "not stated", "device"), rows)


def _entry(model: DeviceModel, scores: Sequence[Score] = ()) -> dict[str, Any]:
    return {
        **attributes(model, "name", "description", "basis", "source", "page_cache"),
        **attributes(model, "parallel", "directions", "bandwidth"),
        "missing": model.gaps(),
        "scores": [_score_json(score) for score in scores if score.digest == model.digest],
    }


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="A model, latency:20us, or a file.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Folder for a chart of the durations."),
    ] = None,
    results: ResultsOption = None,
    json_: JsonOption = False,
) -> None:
    """Show a model's service times, their sources and its scores."""
    model = find_model(name)
    scores = [s for s in ScoreStore(store(results).root).all() if s.digest == model.digest]
    chart = _chart(model, out) if out else None
    if json_:
        points = {op: [_point(p) for p in of_op] for op, of_op in model.points.items()}
        entry = _entry(model, scores) | {"points": points, "chart": chart and str(chart)}
        print_json({"model": entry})
        return
    _print_model(model)
    if scores:
        _print_scores(scores)
    else:
        say("not scored: `harness model verify` compares it with a tier that it is of")
    if chart:
        say(f"chart: {chart}")


def _chart(model: DeviceModel, out: Path) -> Path:
    """Draw a model's durations; UsageError where it states none."""
    from reports.charts.curves import draw_model  # reports are loaded where they are needed
    from reports.page import write_drawing

    drawing = draw_model(model)
    if drawing is None:
        raise UsageError(f"chart of {model.name}", "it states no durations", "leave out --out")
    return write_drawing(drawing, out)


def _print_model(model: DeviceModel) -> None:
    say(f"{model.name}: {model.description}")
    say(f"{model.basis}; {model.source}" if model.source else model.basis)
    files = "buffered in the page cache" if model.page_cache else "no page cache (DAX)"
    limits = [f"{way} {rate / 1e6:,.0f} MB/s" for way, rate in model.bandwidth.items()]
    limits.append(f"{model.directions} by reads and writes")
    if buffer := model.write_buffer:
        program = f"{format_bytes(buffer.program_bytes)} in {format_ns(buffer.program_ns)}"
        limits.append(
            f"a write buffer of {format_bytes(buffer.size_bytes)} that programs {program}"
        )
    if model.fill_ns:
        limits.append(f"{format_ns(model.fill_ns)} of a processor to fill a page")
    say(", ".join([files, f"serves {model.parallel} at once", *limits]))
    rows = [
        (
            operation,
            format_bytes(point.size_bytes),
            format_ns(round(point.durations.mean)),
            *(format_ns(point.durations.quantile(percent)) for percent in _SHOWN),
            point.source,
        )
        for operation, points in model.points.items()
        for point in points
    ]
    if rows:
        print_table(("call", "size", "mean", *(f"p{p:g}" for p in _SHOWN), "source"), rows)
    for gap in model.gaps():
        say(f"not stated: {gap}: a run that needs it is refused")


def _point(point: SizePoint) -> dict[str, Any]:
    durations = point.durations
    quantiles = dict(zip((f"p{p:g}" for p in PROBABILITIES), durations.quantiles, strict=True))
    return {
        "size_bytes": point.size_bytes,
        "mean_ns": round(durations.mean),
        "quantiles_ns": quantiles,
        "source": point.source,
    }


@dataclass(frozen=True, kw_only=True)
class MakeOptions(CommonOptions):
    """Options of ``harness model make``."""

    name: Annotated[str, typer.Argument(help="Name of the model to write.")]
    tier: Annotated[str, typer.Option(help="Tier to measure (`harness doctor` lists them).")]
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            "-p",
            metavar="NAME=VALUE",
            help="Key of the suite device-model: duration=1s.",
        ),
    ] = None
    repeats: Annotated[
        int | None, typer.Option(min=1, max=100, help="Repeats of each measurement [3].")
    ] = None
    replace_: Annotated[bool, typer.Option("--replace", help="Replace a model of this name.")] = (
        False
    )
    again: bool = True
    retries: int = 0


def make(options: MakeOptions) -> None:
    """Measure a tier (about five minutes) and write its model."""
    from harness.cli.run_list import plan_json
    from harness.cli.study import conduct
    from harness.execution.run_time import Estimator
    from harness.experiment.study import Study
    from harness.micro.runner import SuiteRequest, suite_plan
    from harness.micro.suite import find_suite, load_documents
    from harness.models.make import SUITE, model_of

    name = options.name
    check_new(name, options.replace_)
    request = SuiteRequest(
        SUITE,
        load_documents(find_suite(SUITE)),
        options.tier,
        options.pairs,
        options.repeats,
        emulate=stand_in_names(options.emulate),
    )

    def study_of(env: Environment) -> Study:
        plan, suites = suite_plan([request], env)
        count = sum(len(suite.planned.configurations) * suite.repeats for suite in suites)

        def listed(steps: Sequence[ResolvedRun], earlier: Store) -> None:
            if options.json_:
                print_json(plan_json(steps, earlier))
            else:
                about = format_ns(Estimator().total_ns(steps) or 0)
                say(f"{name}: {count} measurements of {options.tier}, about {about}")

        return Study(plan, answer, resolved=suites, listing=listed)

    def answer(made: Made) -> None:
        (run,) = made.attempts
        model = model_of(run, name)
        path = write_model(model)
        if options.json_:
            print_json({"model": _entry(model), "path": str(path), "run": run.run_id})
        else:
            say(f"{path}\n`harness model show {name}` prints it; --model fast={name} runs on it")

    conduct(options, options.emulate or [], study_of)


_UNUSED = ("cpus", "seed", "monitor", "no_monitor")
app.command("make")(callback(MakeOptions, make, without=(*_UNUSED, "again", "retries")))


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(CommonOptions):
    """Options of ``harness model verify``."""

    model: Annotated[str, typer.Argument(help="A model of the tier (`harness model make`).")]
    tier: Annotated[str, typer.Option(help="The tier that the model is of.")]
    case: Annotated[
        list[str],
        typer.Option(
            metavar='"WORKLOAD ENGINE NAME=VALUE …"',
            help='Runs on both, such as "tpcc ENGINE users=4"; may repeat.',
        ),
    ]
    repeats: Annotated[int | None, typer.Option(min=1, max=100, help="Paired blocks.")] = 3
    again: Annotated[bool, typer.Option("--again", help="Make complete runs again.")] = False


def verify(options: VerifyOptions) -> None:
    """Score a model: the same runs on the tier and on its model."""
    from harness.cli.run_list import plan_json, print_run_list
    from harness.cli.show import exit_for
    from harness.cli.study import conduct
    from harness.execution.run_list import last_attempts
    from harness.experiment.study import Study
    from harness.models.tier import refuse_modelled
    from harness.models.verify import Undisturbed

    model, tier = find_model(options.model), options.tier
    into = store(options.results)
    scores: list[Score] = []
    planned: list[ResolvedRun] = []
    finished: list[StoredRun] = []

    def study_of(text: str, plan: Plan, env: Environment) -> Study:
        refuse_modelled(f"--tier {tier}", tier, env.tiers)
        host_id = env.host.host_id

        def listed(steps: Sequence[ResolvedRun], earlier: Store) -> None:
            planned.extend(steps)
            if not options.json_:
                print_run_list(steps, earlier, env, False)

        def answer(made: Made) -> None:
            finished.extend(made.attempts)
            last = last_attempts(made.attempts)
            score = _score(text, model, tier, host_id, last, ScoreStore(into.root))
            ScoreStore(into.root).write(score)
            scores.append(score)

        rule = Undisturbed(note=env.progress.note)
        return Study(plan, answer, rule, again=options.again, listing=listed)

    plans = [(text, _plan(text, options)) for text in options.case]
    for text, plan in plans:
        conduct(options, plan.emulate, partial(study_of, text, plan))
    if options.json_:
        documents = {"scores": [_score_json(score) for score in scores]}
        print_json(plan_json(planned, into) if options.dry_run else documents)
    elif not options.dry_run:
        _print_scores(scores)
    exit_for(finished)
    if any(not score.metrics for score in scores):
        raise typer.Exit(1)


#: The tier of a case that is the model.
_MODELLED = "modelled"


def _plan(text: str, options: VerifyOptions) -> Plan:
    """Return the runs of a case on the tier and on its model."""
    from harness import registry
    from harness.cli.run_plan import RunOptions, plan_of

    words = text.split()
    if len(words) < 2:
        hint = 'write it as in --case "tpcc ENGINE users=4"'
        raise UsageError(f"case {text!r}", "no workload and engine", hint)
    workload, engine, *pairs = words
    parameters = registry.parameters(workload)
    given = key_values(pairs, "--case")
    memory_limit = given.pop("memory_limit", None)
    workload_params = {
        name: value for name, value in given.items() if name in parameters.declared()
    }
    settings = [f"{name}={value}" for name, value in given.items() if name not in workload_params]
    runs = RunOptions(
        engine=[engine],
        placement=[f"{name}-both" for name in (options.tier, _MODELLED)],
        model=[f"{_MODELLED}={options.model}"],
        emulate=options.emulate,
        pairs=short_phases(parameters, workload_params),
        set_=settings,
        memory_limit=memory_limit,
        repeats=options.repeats,
        name="model-verify",
    )
    return plan_of(parameters, runs)


def _score(
    text: str,
    model: DeviceModel,
    tier: str,
    host_id: str,
    finished: Sequence[StoredRun],
    scores: ScoreStore,
) -> Score:
    """Return the score of all blocks so far, those of earlier commands included."""
    from harness.models.verify import disturbed
    from reports.compared_rows import interim_analyses_of
    from reports.model_error import score_metrics
    from reports.response import measurements

    by_block: dict[int, dict[str, StoredRun]] = {}
    for run in finished:
        if run.result.status != "failed" and run.spec.placement:
            by_block.setdefault(run.spec.block, {})[run.spec.placement.data] = run
    why = disturbed(finished)
    blocks, refused = [], []
    for block, arms in sorted(by_block.items()):
        ids = tuple(run.run_id for run in arms.values())
        if block in why:
            refused.append(RefusedBlock(why[block], ids))
        elif (on_tier := arms.get(tier)) and (on_model := arms.get(_MODELLED)):
            looks = interim_analyses_of([on_tier], [on_model])
            blocks.append(Pair(ids, looks, measurements(on_tier, on_model)))
    if not blocks and not refused:
        raise RunFailed(f"score {model.name}", f"no block of runs of {text!r} is complete")
    workload, engine = text.split()[:2]
    new = Score(
        host_id, model.name, model.digest, tier, engine, workload, text, time.time_ns(),
        tuple(blocks), (), tuple(refused),
    )  # fmt: skip
    if earlier := scores.earlier(new):
        both = {pair.run_ids: pair for pair in (*earlier.blocks, *new.blocks)}
        without = {block.runs: block for block in (*earlier.refused, *new.refused)}
        new = replace(new, blocks=tuple(both.values()), refused=tuple(without.values()))
    return replace(new, metrics=tuple(score_metrics(new.blocks)) if new.blocks else ())


def _score_json(score: Score) -> dict[str, Any]:
    """Return the document of ``--json``, with the number of pairs instead of each of them."""
    document = score.to_json()
    del document["blocks"]
    return document | {"pairs": score.pairs, "contradicted": list(score.contradicted)}


def _print_scores(scores: Sequence[Score]) -> None:
    from reports.model_scores import score_blocks
    from reports.page import print_blocks

    print_blocks(score_blocks(scores))


app.command("verify")(callback(VerifyOptions, verify, without=("param", *_UNUSED)))
