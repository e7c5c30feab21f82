"""``harness curve WORKLOAD``: performance over the latency of the device of a part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import show
from harness.cli.common import names, print_json, store
from harness.cli.options import workload_commands
from harness.cli.run import RunOptions, plan_of
from harness.cli.run_list import print_run_list
from harness.errors import RunFailed, UsageError
from harness.execution.environment import command_environment
from harness.execution.run_list import Retries, last_attempts, plan_steps, run_plan
from harness.experiment.placement import DIRECTORY_PARTS, Part
from harness.models.curve import Step, marks, shape_of, write_steps
from harness.models.tier import refuse_modelled
from harness.store.runs import StoredRun
from harness.supervise.user_files import make_own, replacing
from harness.terminal import print_table
from harness.units import format_ns
from harness.workloads.parameters import Parameters

if TYPE_CHECKING:  # reports are loaded where they are needed
    from reports.response import ResponseCurve

_REPEATS = 3
#: Where the command line says nothing: a curve is made of many runs.
_SHORT = {"ramp_up": "3s", "duration": "8s"}
_WITHOUT = (
    "placement",
    "model",
    "plant",
    "observe",
    "dsn",
    "label",
    "listen",
    "name",
    "load_curve",
)


@dataclass(frozen=True, kw_only=True)
class CurveOptions(RunOptions):
    """Options of ``harness curve``, in addition to those of a run."""

    part: Annotated[
        str | None, typer.Option(help="Part whose device varies: data, wal, temp, index [wal].")
    ] = None
    parts: Annotated[
        str | None, typer.Option(help="A curve for each part: wal,data.", metavar="PART,…")
    ] = None
    from_: Annotated[str, typer.Option("--from", metavar="TIER", help="Today's tier.")] = "ssd"
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the chart.")] = Path("curve")


def curve(parameters: type[Parameters], options: CurveOptions) -> None:
    """Measure today's device, then devices of the same shape with less latency."""
    parts = _parts(options)
    pairs = {name: text for name, text in _SHORT.items() if name in parameters.declared()}
    options = replace(
        options,
        repeats=options.repeats or _REPEATS,
        name="curve",
        pairs=pairs | dict(options.pairs),
    )
    into = store(options.results)
    today = replace(options, placement=[f"{options.from_}-both"])
    probe = replace(today, repeats=1)
    plan = plan_of(parameters, probe)
    with command_environment(options.host, plan.emulate, options.quiet) as env:
        refuse_modelled(f"--from {options.from_}", options.from_, env.tiers)
        with plan.blaming():
            steps = plan_steps(plan, env, into, options.again)
        if options.dry_run:
            print_run_list(steps, env, into, options.json_)
            return
        retries = Retries(options.retries)
        (first,) = last_attempts(run_plan(plan, steps, env, into, options.again, retries))
        _check(first, options)
    shapes = [shape_of(first, part) for part in parts]
    folder = into.root / "curves" / first.run_id
    points = [step for shape in shapes for step in write_steps(shape, folder)]
    whole = replace(
        options,
        placement=[f"{options.from_}-both", *(p.placement(options.from_) for p in points)],
        model=[p.request for p in points],
    )
    plan = plan_of(parameters, whole)
    with command_environment(options.host, plan.emulate, options.quiet) as env:
        with plan.blaming():
            steps = plan_steps(plan, env, into, options.again)
        finished = last_attempts(run_plan(plan, steps, env, into, options.again, retries))
    found = [
        _curve(shape.part, shape.operation, shape.mean_ns, points, finished, marks(shape))
        for shape in shapes
    ]
    _print(found, options)
    show.exit_for(finished)


def _parts(options: CurveOptions) -> list[Part]:
    if options.part and options.parts:
        raise UsageError("curve", "--part and --parts", "leave one of them out")
    chosen = names([options.parts]) if options.parts else [options.part or "wal"]
    for part in chosen:
        if part not in DIRECTORY_PARTS:
            hint = f"one of {', '.join(DIRECTORY_PARTS)}"
            raise UsageError(f"--part {part}", "no part that has a device", hint)
    if len(options.engine or ()) != 1:
        context = f"--engine is given {len(options.engine or ())} times"
        raise UsageError("curve", context, "give it once")
    return [part for part in DIRECTORY_PARTS if part in chosen]


def _check(first: StoredRun, options: CurveOptions) -> None:
    if first.run["status"] == "failed":
        show.runs([first], options.json_)
        raise typer.Exit(1)


def _curve(
    part: Part,
    operation: str,
    today_ns: float,
    steps: Sequence[Step],
    finished: Sequence[StoredRun],
    known: dict[str, float],
) -> ResponseCurve:
    from reports.response import curve_of, point_of

    complete = [run for run in finished if run.run["status"] != "failed"]
    by_tier: dict[str, list[StoredRun]] = {}
    for run in complete:
        placement = run.spec.placement
        tier = placement.tier_of(part) if placement else None
        by_tier.setdefault(tier or "", []).append(run)
    points, unit = [], ""
    for step in steps:
        if step.part == part and (found := point_of(step.latency_ns, by_tier.get(step.tier, []))):
            points.append(found[0])
            unit = found[1]
    real = [run for run in complete if not run.spec.models]
    today = point_of(today_ns, real)
    if today is None or len(points) < 2:
        raise RunFailed(f"curve of {part}", "too few runs are complete", "run it again")
    return curve_of(part, operation, unit, points, today[0], known)


def _print(found: Sequence[ResponseCurve], options: CurveOptions) -> None:
    from reports.charts.response import draw_curves

    drawing = draw_curves(found)
    make_own(options.out)
    for ending, content in (("svg", drawing.svg.encode()), ("png", drawing.png)):
        with replacing(options.out / f"curve.{ending}") as file:
            file.write(content)
    if options.json_:
        documents = [one.to_json() for one in found]
        only = documents[0] if len(documents) == 1 else {}
        print_json({"modelled": True, "curves": documents, **only})
        return
    for one in sorted(found, key=lambda curve: -curve.ceiling):
        print(_answer(one))
        _print_curve(one)
    print(f"chart: {(options.out / 'curve.svg').absolute()}")


def _answer(one: ResponseCurve) -> str:
    at = one.diminishing_at_ns
    beyond = (
        f"below {format_ns(at)} a faster device gains less than 5 %"
        if at
        else ("every faster device that was tried gains more than 5 %")
    )
    return (
        f"{one.part}: a device of no latency gives {one.ceiling:.2f}x of today's "
        f"({format_ns(one.today.latency_ns)} a {one.operation}); {beyond} (MODELLED)"
    )


def _print_curve(one: ResponseCurve) -> None:
    rows = [
        (
            format_ns(point.latency_ns) if point.latency_ns else "0",
            f"{point.throughput.value:,.0f}",
            _interval(point.throughput.low, point.throughput.high),
            f"{point.throughput.value / one.today.throughput.value:.2f}x",
            "",
        )
        for point in one.points
    ]
    today = one.today.throughput
    rows.append(
        (
            format_ns(one.today.latency_ns),
            f"{today.value:,.0f}",
            _interval(today.low, today.high),
            "1.00x",
            "today's device, measured",
        )
    )
    rows += [
        (format_ns(latency), f"{value:,.0f}", "", f"{value / today.value:.2f}x", name)
        for name, (latency, value) in sorted(one.models.items(), key=lambda item: item[1][0])
    ]
    print_table((f"{one.operation} of {one.part}", one.unit, "interval", "of today's", ""), rows)


def _interval(low: float | None, high: float | None) -> str:
    return f"[{low:,.0f}, {high:,.0f}]" if low is not None and high is not None else ""


app = workload_commands(
    "Measure performance over the latency of a part's device, from none to today's.",
    CurveOptions,
    curve,
    "Measure a response curve of the workload.",
    _WITHOUT,
)
