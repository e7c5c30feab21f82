"""``harness curve WORKLOAD``: performance over the latency of the device of a part."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli import show
from harness.cli.common import OutOption, print_json, short_phases, store
from harness.cli.options import workload_commands
from harness.cli.run_list import hours, list_rows
from harness.cli.run_plan import RunOptions, plan_of
from harness.cli.study import conduct
from harness.errors import RunFailed, UsageError
from harness.execution.environment import Environment
from harness.execution.resolved_run import ResolvedRun
from harness.execution.run_list import last_attempts
from harness.execution.run_time import Estimator
from harness.experiment.placement import DIRECTORY_PARTS, Part
from harness.experiment.study import Made, ModelsCompared, Study
from harness.models.curve import (
    FACTORS,
    LatencyShape,
    ModelledPoint,
    marks,
    shape_of,
    write_points,
)
from harness.models.device_document import MeasuredTier
from harness.models.score import CONTRADICTED
from harness.models.tier import refuse_modelled
from harness.sequences import grouped
from harness.store.run_store import Store
from harness.store.runs import StoredRun
from harness.terminal import print_table, say, say_command
from harness.units import NS_PER_S, counted, format_ns
from harness.workloads.parameters import Parameters
from reports.formatting import MODELLED, interval_text, times

if TYPE_CHECKING:  # reports are loaded where they are needed
    from reports.response import PointOfCurve, ResponseCurve

_REPEATS = 3
#: Options of a run that commands without placements of the user's leave out.
NOT_OF_PLANNED_RUNS = (
    "placement",
    "plant",
    "observe",
    "dsn",
    "label",
    "listen",
    "name",
    "load_curve",
    "target",
    "arm",
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
    out: OutOption = Path("curve")


@dataclass(frozen=True)
class More:
    """The command that resolves what is not resolvable yet, and how long it takes."""

    minutes: int
    command: str

    @property
    def text(self) -> str:
        return f"measure {counted(self.minutes, 'minute')} more: `{self.command}`"

    def to_json(self) -> dict[str, Any]:
        return {"duration_ns": self.minutes * 60 * NS_PER_S, "command": self.command}


def say_more(more: More) -> None:
    """Print it, the command to be copied."""
    time = counted(more.minutes, "minute")
    say(f"Not resolvable yet. This keeps the complete runs and takes {time} more:")
    say_command(more.command)


def curve(parameters: type[Parameters], options: CurveOptions, more: More | None = None) -> None:
    """Measure today's device, then devices of the same shape with less latency.

    ``more``: what is to be done where the repeats are too few to show a difference.
    """
    from reports.page import own_folder
    from reports.response import family

    parts = _parts(options)
    options = replace(
        options,
        repeats=options.repeats or _REPEATS,
        name="curve",
        pairs=short_phases(parameters, options.pairs),
    )
    into = store(options.results)
    today = replace(options, placement=[f"{options.from_}-both"], repeats=1)
    plan = plan_of(parameters, today)

    def of_today(env: Environment) -> Study:
        refuse_modelled(f"--from {options.from_}", options.from_, env.tiers)
        if not options.dry_run:
            own_folder(options.out)  # before hours of measuring
        listing = partial(_print_plan, parts, options)
        return Study(plan, of_models, again=options.again, listing=listing)

    def of_models(made: Made) -> None:
        (first,) = last_attempts(made.attempts)
        if first.result.status == "failed":
            show.runs([first], options.json_)
            raise typer.Exit(1)
        shapes, left_out = _shapes(first, parts)
        points = [
            point
            for shape in shapes
            for point in write_points(shape, into.root / "curves" / first.run_id)
        ]
        placements = [point.placement(options.from_, parts) for point in points]
        whole = replace(
            options,
            placement=[f"{options.from_}-both", *placements],
            model=[point.request for point in points],
        )

        def answer(made: Made) -> None:
            finished = last_attempts(made.attempts)
            curves = family([_curve(shape, points, finished) for shape in shapes])
            _print(curves, left_out, options, more)
            show.exit_for(finished)

        plan = plan_of(parameters, whole)
        study = Study(plan, answer, ModelsCompared(), again=options.again)
        conduct(whole, plan.emulate, lambda env: study)

    conduct(today, plan.emulate, of_today)


def _print_plan(
    parts: Sequence[Part], options: CurveOptions, steps: Sequence[ResolvedRun], into: Store
) -> None:
    """Print the run of today's device, and how many follow: their models depend on it."""
    times = Estimator(into.runs())
    count = (options.repeats or _REPEATS) * (1 + len(parts) * len(FACTORS))
    each_ns = times.total_ns(replace(step, done=None) for step in steps)
    total_ns = count * each_ns if each_ns else None
    if options.json_:
        plan = list_rows(steps, times)
        print_json({"plan": plan, "runs": count, "estimated_duration_ns": total_ns})
        return
    about = f", about {hours(total_ns)} without loading data" if total_ns else ""
    say(
        f"{counted(count, 'run')} in {counted(options.repeats or _REPEATS, 'block')}{about}: "
        f"today's tier, and {len(FACTORS)} modelled ones of {' and '.join(parts)}; no run is "
        "started"
    )


def _shapes(first: StoredRun, parts: Sequence[Part]) -> tuple[list[LatencyShape], dict[Part, str]]:
    """The shapes of parts that wait for their device, and why others have none."""
    shapes, left_out = [], {}
    for part in parts:
        try:
            shapes.append(shape_of(first, part))
        except RunFailed as error:
            if len(parts) == 1:
                raise
            left_out[part] = error.context
    if not shapes:
        hint = "more data than memory, or a memory limit"
        raise RunFailed(f"curves of {', '.join(parts)}", "; ".join(left_out.values()), hint)
    return shapes, left_out


def _parts(options: CurveOptions) -> list[Part]:
    if options.part and options.parts:
        raise UsageError("curve", "--part and --parts", "leave one of them out")
    chosen = options.parts.split(",") if options.parts else [options.part or "wal"]
    for part in chosen:
        if part not in DIRECTORY_PARTS:
            option = "--parts" if options.parts else "--part"
            hint = f"known: {', '.join(DIRECTORY_PARTS)}"
            raise UsageError(f"{option} {part}", "no part that has a device", hint)
    refuse_several("curve", options)
    return [part for part in DIRECTORY_PARTS if part in chosen]


def refuse_several(command: str, options: RunOptions) -> None:
    """Raise UsageError where runs would differ in more than in what the command varies."""
    if not options.engine:
        raise UsageError(command, "no engine is named", "add --engine postgres, or another")
    if len(options.engine) > 1:
        context = f"--engine is given {len(options.engine)} times"
        raise UsageError(command, context, "give it once")
    lists = {"--threads": options.threads, "--memory-limit": options.memory_limit}
    several = {option: text for option, text in lists.items() if "," in (text or "")}
    if options.driver == "both":
        several["--driver"] = options.driver
    for option, text in several.items():
        raise UsageError(f"{command}: {option} {text}", "several values", "give one")


def _curve(
    shape: LatencyShape, steps: Sequence[ModelledPoint], finished: Sequence[StoredRun]
) -> ResponseCurve:
    from reports.response import curve_of, measured_of

    part = shape.part
    complete = [run for run in finished if run.result.status != "failed"]
    real = [run for run in complete if not run.spec.models]
    today = measured_of(real)
    measured = [
        (step.latency_ns, rates)
        for step in steps
        if step.part == part
        and (rates := measured_of([run for run in complete if _tier(run, part) == step.tier]))
    ]
    # Without an end there is no answer.
    whole = measured and (measured[0][0], measured[-1][0]) == (0, shape.mean_ns)
    latencies = {run.spec.block: shape_of(run, part).mean_ns for run in real}
    if today is not None and whole:
        manifest = real[0].manifest
        assert manifest is not None
        of_today = MeasuredTier(_tier(real[0], part) or "", manifest.host.host_id)
        made = curve_of(part, shape.operation, measured, today, latencies, marks(shape, of_today))
        if made is not None:
            return made
    raise RunFailed(f"curve of {part}", "too few runs are complete", "run it again")


def _tier(run: StoredRun, part: Part) -> str | None:
    return run.spec.placement.tier_of(part) if run.spec.placement else None


def _print(
    curves: Sequence[ResponseCurve],
    left_out: Mapping[Part, str],
    options: CurveOptions,
    more: More | None,
) -> None:
    from reports.charts.curves import draw_curves
    from reports.page import write_drawing

    chart = write_drawing(draw_curves(curves), options.out)
    if all(curve.verdict != "not resolvable" for curve in curves):
        more = None
    if options.json_:
        documents = [curve.to_json() for curve in curves]
        only = documents[0] if len(documents) == 1 else {}
        document = {"modelled": True, "curves": documents, "left_out": dict(left_out)}
        answers = {"answers": _answers(curves, left_out), "more": more.to_json() if more else None}
        print_json({**document, "chart": str(chart), **only, **answers})
        return
    if len(curves) > 1 or left_out:
        say(_which_first(curves))
    ordered = sorted(curves, key=lambda curve: -curve.ceiling.value)
    for curve in ordered:
        say(f"{_answer(curve)}; {_check_of_today(curve)}")
    for part, why in left_out.items():
        say(f"{part}: no curve: {why}")
    if more:
        say_more(more)
    for curve in ordered:
        _print_curve(curve, options.from_)
    say(f"chart: {chart}")


def _answers(curves: Sequence[ResponseCurve], left_out: Mapping[Part, str]) -> list[dict[str, Any]]:
    """The answers as ``harness advise --json`` has them; a part that does not wait has no value."""
    ordered = sorted(curves, key=lambda curve: -curve.ceiling.value)
    documents = [
        _document(f"What does a faster device of {curve.part} gain?", _answer(curve), curve)
        for curve in ordered
    ]
    if len(curves) > 1 or left_out:
        first = _document("Which part should move first?", _which_first(curves), ordered[0])
        documents.insert(0, first)
    return documents + [
        {
            "question": f"What does a faster device of {part} gain?",
            "sentence": f"{part}: no curve: {why}",
            "verdict": "part not used",
            "value": None,
            "reasons": [why],
        }
        for part, why in left_out.items()
    ]


def _document(question: str, sentence: str, curve: ResponseCurve) -> dict[str, Any]:
    today = curve.today.throughput.value
    models = [
        f"{name} ({_latency(latency)}): {times(value / today)}"
        for name, (latency, value) in sorted(curve.models.items(), key=lambda item: item[1])
    ]
    return {
        "question": question,
        "sentence": sentence,
        "verdict": curve.verdict,
        "value": curve.to_json()["ceiling"],
        "reasons": [_enough(curve), *models, _check_of_today(curve)],
    }


def _which_first(curves: Sequence[ResponseCurve]) -> str:
    """Answer the question which part should move first."""
    from reports.response import first_parts

    first = first_parts(curves)
    if first[0].ceiling.low is None:
        return f"{first[0].part} gains most; one repeat resolves nothing ({MODELLED})"
    if first[0].verdict != "faster":
        return f"no part is shown to gain ({MODELLED})"
    if len(first) == 1:
        return f"move {first[0].part} first: it gains most ({MODELLED})"
    parts = " and ".join(curve.part for curve in first)
    return f"which of {parts} gains most is not shown ({MODELLED})"


def _answer(curve: ResponseCurve) -> str:
    interval = f" ({interval_text(curve.ceiling)})" if curve.ceiling.low is not None else ""
    return (
        f"{curve.part}: a device of no latency gives {times(curve.ceiling.value)} the throughput "
        f"of today's{interval}, which takes {format_ns(curve.today.latency_ns)} per "
        f"{curve.operation}; "
        f"{_enough(curve)} ({MODELLED})"
    )


def _enough(curve: ResponseCurve) -> str:
    from reports.response import DIMINISHING

    at_ns = curve.diminishing_at_ns
    if at_ns.value == 0:
        return "every faster device that was tried gains more than 5 %"
    if at_ns.value >= curve.points[-1].latency_ns:
        return "its latency costs less than 5 %"
    if curve.ceiling.value < 1 + DIMINISHING:
        gains = "gains" if curve.verdict == "no difference" else "is shown to gain"
        return f"no faster device {gains} 5 %"
    between = ""
    if at_ns.low is not None and at_ns.high is not None:
        between = f" (between {_one_digit(at_ns.low)} and {_one_digit(at_ns.high)})"
    return f"devices faster than {_one_digit(at_ns.value)}{between} gain less than 5 % more"


def _one_digit(latency_ns: float) -> str:
    """Format a latency that is known no better than to a digit."""
    return _latency(float(f"{latency_ns:.0e}"))


def _latency(latency_ns: float) -> str:
    return format_ns(latency_ns) if latency_ns else "0"


def _print_curve(curve: ResponseCurve, tier: str) -> None:
    models = sorted(curve.models.items(), key=lambda item: item[1])
    by_place = grouped((place, name) for name, place in models)
    today = curve.today.throughput.value
    rows = [
        *(_row(point, "") for point in curve.points),
        _row(curve.today, "today's device, measured"),
        *(
            (_latency(latency), show.number_text(value), times(value / today), "", ", ".join(names))
            for (latency, value), names in by_place.items()
        ),
    ]
    columns = (f"{curve.operation} of {curve.part}", curve.unit, "of today's", "interval", "")
    print_table(columns, rows, right=range(1, 3))
    if not curve.models:
        say(
            "no known model is marked: they are compared with a model of today's tier "
            f"(`harness model make NAME --tier {tier}`)"
        )


def _check_of_today(curve: ResponseCurve) -> str:
    """Report the error of the method where it can be checked."""
    off = abs(math.log(curve.at_today.value)) > math.log(1 + CONTRADICTED)
    doubt = ": do not rely on this curve; add --repeats, on an idle host" if off else ""
    given = times(curve.at_today.value)
    return f"at today's latency the models give {given} of its throughput{doubt}"


def _row(point: PointOfCurve, note: str) -> tuple[str, ...]:
    interval = interval_text(point.gain) if not note else ""
    rate = show.number_text(point.throughput.value)
    return _latency(point.latency_ns), rate, times(point.gain.value), interval, note


app = workload_commands(
    CurveOptions,
    curve,
    "Measure a response curve of the workload.",
    (*NOT_OF_PLANNED_RUNS, "model"),
)
