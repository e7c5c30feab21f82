"""List the runs of a plan, with their durations and what the repeats can show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from harness.cli import show
from harness.cli.common import print_json, set_params
from harness.execution.environment import Environment
from harness.execution.resolved_run import ResolvedRun
from harness.execution.run_list import RefusedRuns
from harness.execution.run_time import Estimator, least_ns
from harness.experiment.study import StopRule
from harness.store.calibrations import CalibrationStore, latest_of
from harness.store.documents import as_json
from harness.store.run_store import Store
from harness.store.spec import RunSpec, canonical_json
from harness.terminal import print_table, say
from harness.units import counted, format_bytes, format_ns

if TYPE_CHECKING:  # reports are loaded where they are needed
    from reports.noise import ExpectedResolution
    from reports.planned_repeats import PlannedRepeats


def print_run_list(
    steps: Sequence[ResolvedRun],
    earlier: Store,
    env: Environment,
    json_: bool,
    rule: StopRule | None = None,
    looks: int = 1,
    refused: Sequence[RefusedRuns] = (),
    repeated: bool = True,
) -> None:
    """Print the runs of a plan and their estimates; ``earlier``: runs to estimate from.

    Where results decide, the runs before the first of ``looks``. ``repeated``: what repeats can
    show is printed, too.

    As JSON ``{plan: [a run each], estimated_duration_ns, repeats: {…}, expected: [an engine
    each], counts: [repeats at each look], budget_repeats, refused: [a reason each]}``;
    ``budget_repeats`` None if not known.
    """
    rule, times = rule or StopRule(), Estimator(earlier.runs())
    within, counts = rule.blocks_within(steps, times.total_ns), list(rule.counts)
    shown = forecast(steps, env, earlier, looks)
    steps = [step for step in steps if not counts or step.spec.block < counts[0]]
    rows = list_rows(steps, times)
    total_ns = times.total_ns(steps)
    if json_:
        print_json(
            {
                "plan": rows,
                "estimated_duration_ns": total_ns,
                "repeats": asdict(shown.repeats),
                "expected": as_json(shown.expected),
                "counts": counts,
                "budget_repeats": within,
                "refused": [asdict(refusal) for refusal in refused],
            }
        )
        return
    alike = Counter(
        (
            row["engine"],
            row["version"] or "–",
            row["placement"],
            difference,
            ", ".join(f"{part} {format_bytes(n)}" for part, n in row["needs_bytes"].items()),
            f"complete: {row['complete']}" if row["complete"] else _to_run(row["why"]),
        )
        for row, difference in zip(rows, _differences([step.spec for step in steps]), strict=True)
    )
    print_table(
        ("engine", "version", "placement", "with", "needs", "state", "runs"),
        [(*row, count) for row, count in alike.items()],
        title=f"{counted(len(rows), 'run')}, {sum(r['complete'] is None for r in rows)} to do"
        f"{_how_long(rows, total_ns)}; no run is started",
    )
    for refusal in refused:
        say(f"not run: {refusal}")
    for text in shown.texts if repeated else ():
        say(text)
    if within is not None:
        say(f"the budget allows about {counted(within, 'repeat')}")
    elif rule.budget.left_ns() is not None:
        say("what the budget allows is known after one repeat: there are no earlier runs of these")
    if len(counts) > 1:
        say(f"results decide after {', '.join(map(str, counts))} repeats; listed are the first")
    if shared := _shared([step.spec for step in steps]):
        say(f"all runs: {shared}")
    for text in dict.fromkeys(row["memory"] for row in rows if row["memory"]):
        say(f"memory bound to {text}")


def list_rows(steps: Sequence[ResolvedRun], times: Estimator) -> list[dict[str, Any]]:
    """List what is known of each run beforehand."""
    rows = []
    for step in steps:
        spec, took = step.spec, times.run_time(step)
        row = {
            "spec_hash": spec.hash(),
            "workload": spec.workload,
            "engine": spec.engine,
            "version": None,
            "memory": None,
            "placement": spec.where,
            "block": spec.block,
            "params": dict(spec.params),
            "least_duration_ns": least_ns(spec),
            "estimated_duration_ns": took.duration_ns if took else None,
            "estimated_from": took.basis if took else None,
            "needs_bytes": dict(step.needs_bytes),
            "complete": step.done.run_id if step.done else None,
            "host_mode": spec.required_host_mode,
            "why": step.why,
        }
        rows.append({**row, **step.details})
    return rows


@dataclass(frozen=True)
class Forecast:
    """Differences that repeats can show; ``expected``: with calibrated noise."""

    repeats: PlannedRepeats
    expected: Sequence[ExpectedResolution]

    @property
    def texts(self) -> list[str]:
        return list(filter(None, (self.repeats.text, *(each.text for each in self.expected))))


def forecast(steps: Sequence[ResolvedRun], env: Environment, into: Store, looks: int) -> Forecast:
    """Forecast the smallest difference that the repeats can show; ``looks``: at the results."""
    from reports.noise import expected
    from reports.planned_repeats import planned_repeats

    specs = [step.spec for step in steps]
    repeats = planned_repeats(specs, env.host.mode, looks)
    if not repeats.comparisons:
        return Forecast(repeats, [])
    calibrations = CalibrationStore(into.root).all()
    host_id = env.host.host_id
    level = repeats.level / repeats.comparisons
    of_engines = [
        expected(latest, spec, repeats.repeats, level)
        for spec in {spec.engine: spec for spec in reversed(specs)}.values()
        if (latest := latest_of(calibrations, host_id, spec)) is not None
    ]
    return Forecast(repeats, [each for each in of_engines if each is not None])


def plan_json(steps: Sequence[ResolvedRun], earlier: Store) -> dict[str, Any]:
    """``{plan: [a run each], estimated_duration_ns}``, as every dry run has them."""
    times = Estimator(earlier.runs())
    return {"plan": list_rows(steps, times), "estimated_duration_ns": times.total_ns(steps)}


def _how_long(rows: Sequence[Mapping[str, Any]], estimated_ns: int | None) -> str:
    """The estimate with its basis, and the part of ramp-up and windows."""
    to_do = [row for row in rows if row["complete"] is None]
    shortest_ns = sum(row["least_duration_ns"] for row in to_do)
    windows = f"{hours(shortest_ns)} of it ramp-up and windows" if shortest_ns else ""
    if not estimated_ns:
        return f", at least {windows.replace(' of it', ' of')}" if windows else ""
    bases = dict.fromkeys(row["estimated_from"] for row in to_do)
    basis = f"by {' and '.join(bases)}, without loading data"
    return f", about {hours(estimated_ns)} ({'; '.join(filter(None, (basis, windows)))})"


def hours(duration_ns: int) -> str:
    """``2 h 20 min``; shorter ones in seconds."""
    minutes = round(duration_ns / 60e9)
    if minutes < 10:
        return format_ns(duration_ns)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


def _shared(specs: Sequence[RunSpec]) -> str:
    """The parameters that all runs of the plan share, but for defaults."""
    documents = [set_params(spec) for spec in specs]
    names = [
        name
        for name in dict.fromkeys(name for document in documents for name in document)
        if len({canonical_json(document.get(name)) for document in documents}) == 1
    ]
    first = documents[0] if documents else {}
    return ", ".join(_named(name, first[name]) for name in names if first.get(name) is not None)


#: Keys that distinguish the runs of a plan, in addition to engine, placement and block.
_DISTINCTIVE = (
    "driver",
    "tuning",
    "settings",
    "engine_options",
    "env",
    "threads",
    "cpus",
    "memory",
    "listen",
    "memory_limit_bytes",
    "required_host_mode",
)


def _differences(specs: Sequence[RunSpec]) -> list[str]:
    """``q6_dates 1994-01-01 to 1995-01-01, cpus 0``: the values in which each run differs."""
    flat = []
    for spec in specs:
        document = spec.to_json()
        params = document["params"]
        settings = {f"engine {n}" if n in params else n: document.get(n) for n in _DISTINCTIVE}
        flat.append(params | settings)
    names = dict.fromkeys(name for document in flat for name in document)
    apart = [
        name for name in names if len({canonical_json(document.get(name)) for document in flat}) > 1
    ]
    return [
        ", ".join(_named(name, document[name]) for name in apart if document.get(name))
        for document in flat
    ]


def _named(name: str, value: Any) -> str:
    if name == "memory_limit_bytes":
        return f"memory limit {format_bytes(value)}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {inner}" for key, inner in value.items())
    shown = name.removeprefix("required_").replace("host_mode", "host mode")
    return f"{shown} {show.parameter_text(value)}"


def _to_run(why: str) -> str:
    return f"to run: {why}" if why else "to run"
