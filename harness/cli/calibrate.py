"""``harness calibrate WORKLOAD``: how much do identical runs differ on this host?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer

from harness.cli import show
from harness.cli.common import print_json, store
from harness.cli.options import workload_commands
from harness.cli.run_list import hours
from harness.cli.run_plan import RunOptions, plan_of
from harness.cli.study import conduct
from harness.errors import RunFailed
from harness.experiment.selection import pairs_of, twice
from harness.experiment.study import Made, Study
from harness.store.calibrations import Calibration, CalibrationStore
from harness.store.runs import StoredRun
from harness.terminal import print_table, say
from harness.units import counted, parse_share
from harness.workloads.parameters import Parameters

_PAIRS = 10
#: Fewest pairs that say how large noise is, of a calibration that was interrupted.
_LEAST_PAIRS = 5
#: Options of a run that have no meaning here.
_WITHOUT = ("plant", "observe", "name", "again", "load_curve", "arm", "target")


@dataclass(frozen=True, kw_only=True)
class CalibrateOptions(RunOptions):
    """Options of ``harness calibrate``, in addition to those of a run."""

    repeats: Annotated[
        int | None, typer.Option(min=2, max=1000, help=f"Pairs of identical runs [{_PAIRS}].")
    ] = None
    resolve: Annotated[
        str | None, typer.Option(metavar="SHARE", help="Print the repeats that show it: 5%.")
    ] = None


def calibrate(parameters: type[Parameters], options: CalibrateOptions) -> None:
    """Run each engine and placement twice in every block; store and print the noise."""
    resolve = parse_share(options.resolve) if options.resolve is not None else None
    options = replace(options, repeats=options.repeats or _PAIRS, name="calibration", again=True)
    plan = twice(plan_of(parameters, options))
    into = CalibrationStore(store(options.results).root)

    def answer(made: Made) -> None:
        last = [run for block in made.batches for run in block]
        failed = sum(run.result.status == "failed" for run in last)
        calibrations = _stored(last, into, 2)
        if not calibrations:
            raise RunFailed(
                "calibrate",
                f"{failed} of {len(last)} runs failed",
                f"`harness runs list --results {into.folder}` shows them",
            )
        _print(calibrations, resolve, options.json_)
        if failed:  # also where its twin did not
            raise typer.Exit(1)
        show.exit_for(made.attempts)

    def interrupted(made: Made) -> None:
        last = [run for block in made.batches for run in block]
        if calibrations := _stored(last, into, _LEAST_PAIRS):
            _print(calibrations, resolve, options.json_)

    study = Study(plan, answer, into=into.runs, interrupted=interrupted)
    conduct(options, plan.emulate, lambda env: study)


def _stored(finished: Sequence[StoredRun], into: CalibrationStore, least: int) -> list[Calibration]:
    """A calibration of each engine and placement with this number of pairs or more."""
    from reports.noise import calibration_of  # reports are loaded where they are needed

    calibrations = [calibration_of(pairs) for pairs in pairs_of(finished) if len(pairs) >= least]
    for calibration in calibrations:
        into.write(calibration)
    return calibrations


def _print(calibrations: Sequence[Calibration], resolve: float | None, json_: bool) -> None:
    from reports import noise

    documents = [noise.to_json(calibration, resolve) for calibration in calibrations]
    if json_:
        print_json({"calibrations": documents})
        return
    for calibration, document in zip(calibrations, documents, strict=True):
        for line in _answer(calibration, document):
            say(line)
        print_table(
            ("result", "noise", *(f"{n} repeats" for n in noise.REPEATS)),
            [
                (
                    noise.title_of(metric),
                    f"{entry['noise']:.2%}",
                    *(_share(each["difference"]) for each in entry["resolutions"]),
                )
                for metric, entry in zip(calibration.metrics, document["metrics"], strict=True)
            ],
            title="Noise between identical runs, and the difference that repeats show (power 80 %)",
            right=range(1, 2 + len(noise.REPEATS)),
        )


def _answer(calibration: Calibration, document: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines with the noise, the differences that repeats show, and warnings."""
    from reports import noise

    spec, pairs = calibration.spec, counted(len(calibration.run_ids), "pair")
    where = f"{spec.engine} {spec.where}"
    if calibration.deciding is None:
        yield f"{where}: no result stands for the whole: there is no headline ({pairs})"
    else:
        entry = document["metrics"][calibration.headline or 0]
        shown = [
            f"{repeats} repeats show {_with_ends(each['difference'])}"
            for repeats, each in zip(noise.REPEATS, entry["resolutions"], strict=True)
            if each["difference"] is not None
        ]
        differ = f"{where}: identical runs differ by {entry['noise']:.1%}"
        yield f"{differ} in {noise.title_of(calibration.deciding)} ({pairs}). {'; '.join(shown)}."
    if (wanted := document.get("resolve")) is not None:
        yield _needed(wanted["difference"], wanted["repeats"], wanted["duration_ns"])
    if calibration.deciding is not None and document["arms_differ"]:
        yield (
            f"arms-differ: a difference in {noise.title_of(calibration.deciding)} is shown between "
            "identical runs; by accident, this happens in 5 % of calibrations. Repeat it; "
            "if it stays, look at what is not controlled:"
        )
        yield from (f"  {warning}" for warning in calibration.warnings)


def _share(difference: Mapping[str, float] | None) -> str:
    return "too few" if difference is None else f"{difference['value']:.2%}"


def _with_ends(difference: Mapping[str, float]) -> str:
    low, high = 100 * difference["low"], 100 * difference["high"]
    return f"{difference['value']:.1%} [{low:.1f}, {high:.1f}]"


def _needed(difference: float, repeats: int | None, duration_ns: int | None) -> str:
    if repeats is None or duration_ns is None:
        return (
            f"to show {difference:.1%}: more than 100 repeats; reduce the noise, or run for longer"
        )
    return (
        f"to show {difference:.1%}: {repeats} repeats of each side, about {hours(duration_ns)} "
        "for a comparison of two"
    )


app = workload_commands(
    CalibrateOptions,
    calibrate,
    "Measure how much identical runs differ, and what repeats can show.",
    _WITHOUT,
)
