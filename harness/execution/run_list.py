"""A plan's runs in their order: skipped where complete, stopped where the host must change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

import harness
from harness import registry
from harness.errors import HostLacksError, UsageError, as_failure, interruption
from harness.execution import data
from harness.execution.engine_run import EngineRun
from harness.execution.environment import Environment
from harness.execution.host_lock import one_at_a_time
from harness.execution.resolved_run import ResolvedRun, host_state
from harness.execution.schedule import Schedule, kept_of_interrupted
from harness.experiment.preflight import prepare_all
from harness.experiment.profile import Plan
from harness.sequences import grouped
from harness.store.checkpoint import Attempt, changed_conditions
from harness.store.result import Experiment
from harness.store.run_store import Store
from harness.store.runs import StoredRun
from harness.store.spec import JsonObject, RunSpec
from harness.units import counted

_MODES = {
    "AppDirect": "`harness host apply appdirect --set pmem_goal=AppDirect`",
    "Memory": "`harness host apply memory-mode`",
    "Mixed": "`harness host apply memory-mode --set memory_mode_percent=50`",
    "Default": "removing the modules, or not using them",
}


def why_refused(error: BaseException) -> str:
    """Say why something cannot be run here; what another host could run is marked as such."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, HostLacksError):
        cause = cause.__cause__
    return f"needs {cause.needs}: {error}" if cause else str(error)


@dataclass(frozen=True)
class RefusedRuns:
    """Runs of a plan that cannot be made here for the same reason. ``names``: engines and arms."""

    names: tuple[str, ...]
    runs: int
    why: str
    hint: str

    def __str__(self) -> str:
        text = f"{', '.join(self.names)} ({counted(self.runs, 'run')}): {self.why}"
        return f"{text} ({self.hint})" if self.hint else text


@dataclass(frozen=True)
class CheckedRuns:
    """A plan whose runs are checked, by series; ``refused``: those that it had in addition."""

    plan: Plan
    by_series: Mapping[str, ResolvedRun]
    refused: tuple[RefusedRuns, ...] = ()

    def of(self, plan: Plan) -> list[ResolvedRun]:
        """Return the checked runs of a plan with the same series."""
        runs = ((spec, self.by_series[spec.series()]) for spec in plan.runs)
        return [replace(run, spec=spec.checked) if run.runnable else run for spec, run in runs]


def checked_runs(plan: Plan, env: Environment, each: bool = False) -> CheckedRuns:
    """Check the runs of a plan once; UsageError where one is not possible.

    ``each``: UsageError only where none is possible; a run that is not is left out.
    """
    mode, refused = env.host.mode, dict[str, UsageError]()
    of_mode = [spec for spec in plan.runs if spec.runs_in(mode)]
    with plan.blaming():
        ready = prepare_all(of_mode, env, refused if each else None)
    checked: dict[str, ResolvedRun] = {
        spec.series(): ResolvedRun(spec) for spec in plan.runs if not spec.runs_in(mode)
    }
    checked |= {run.spec.series(): run for run in ready}
    if not refused:
        return CheckedRuns(plan, checked)
    blamed = {series: _blamed(plan, error) for series, error in refused.items()}
    if not checked:
        raise _none_possible(plan, list(blamed.values()))
    runs = tuple(spec for spec in plan.runs if spec.series() in checked)
    return CheckedRuns(replace(plan, runs=runs), checked, tuple(_refusals(plan, blamed)))


def _blamed(plan: Plan, error: UsageError) -> UsageError:
    """Return the error with the line of the profile."""
    try:
        with plan.blaming():
            raise error
    except UsageError as blamed:
        return blamed


def _none_possible(plan: Plan, errors: Sequence[UsageError]) -> UsageError:
    texts, hints = (dict.fromkeys(map(str, errors)), dict.fromkeys(each.hint for each in errors))
    if len(texts) == 1:
        return errors[0]
    return UsageError(f"all runs of {plan.name}", "; ".join(texts), " · ".join(filter(None, hints)))


def _refusals(plan: Plan, errors: Mapping[str, UsageError]) -> Iterator[RefusedRuns]:
    """Yield a refusal for each reason; an engine without any possible run stands for its arms."""
    specs = [spec for spec in plan.runs if spec.series() in errors]
    by_reason = grouped(((str(error := errors[s.series()]), error.hint), s) for s in specs)
    for (_, hint), of_reason in by_reason.items():
        counts = Counter(spec.engine for spec in of_reason)
        of_plan = Counter(spec.engine for spec in plan.runs)
        names = (
            s.engine if counts[s.engine] == of_plan[s.engine] else f"{s.engine} {s.arm or s.where}"
            for s in of_reason
        )
        why = why_refused(errors[of_reason[0].series()])
        yield RefusedRuns(tuple(dict.fromkeys(names)), len(of_reason), why, hint)


def plan_steps(
    plan: Plan,
    env: Environment,
    store: Store,
    again: bool = False,
    enough: Collection[str] = ("complete",),
    resume: bool = False,
    resolved: Sequence[ResolvedRun] | None = None,
    completed: Sequence[StoredRun] | None = None,
) -> list[ResolvedRun]:
    """List the runs to do and those that are there already; every spec is checked first.

    ``enough``: the statuses of a run that is not run again. ``resume``: with ``again``, runs that
    the command completed before it was interrupted are not repeated. ``resolved``: the plan's
    runs, checked; by default they are on engines. ``completed``: what the interrupted command has
    completed, where that was read before this one began.
    """
    if resolved is None:
        resolved = checked_runs(plan, env).of(plan)
    complete = {} if again else complete_runs(store, env, enough)
    earlier = {}
    if again and resume:
        earlier = completed_before_interruption(plan.runs, env, store, plan.name)
        for stored in kept_of_interrupted(store, plan, env) if completed is None else completed:
            earlier.setdefault(stored.head.spec_hash, []).append(stored)
    steps = []
    for run in resolved:
        key = run.spec.hash()
        done, why = _done(run, complete.get(key, []), earlier.get(key, []), env, plan)
        steps.append(replace(run, done=done, why=why))
    return steps


def _done(
    run: ResolvedRun,
    candidates: Sequence[StoredRun],
    earlier: Sequence[StoredRun],
    env: Environment,
    plan: Plan,
) -> tuple[StoredRun | None, str]:
    """The newest complete run under the same conditions, or why none of them will do.

    ``earlier``: runs of the interrupted command, during which nothing must have changed.
    """
    spec = run.spec
    if not run.runnable:
        # Its tiers and settings cannot be compared with now: in this mode they are not there.
        registry.engine(spec.engine, spec.workload)
        for stored in reversed(candidates or earlier):
            if stored.manifest and stored.manifest.harness.version == harness.__version__:
                return stored, ""
        return None, f"needs the host in {_modes(spec)} mode"
    if not earlier:
        return newest_alike(candidates, run.conditions(env))
    if spec.placement is None:
        return None, "an external server may have changed since"
    return newest_alike(earlier, _unchanged(run, env, plan.experiment))


def _unchanged(run: ResolvedRun, env: Environment, experiment: Experiment) -> dict[str, Any]:
    """Return what must be the same in all of an interrupted command, which may be a look more."""
    same = msgspec.structs.replace(experiment, looks=1).to_json()
    return {**run.conditions(env), **host_state(env), "experiment": same}


def newest_alike(candidates: Sequence[StoredRun], now: JsonObject) -> tuple[StoredRun | None, str]:
    """The newest of these runs under the same conditions, or why none of them will do."""
    why = ""
    for stored in reversed(candidates):
        then = stored.manifest.conditions if stored.manifest else None
        changed = changed_conditions(now, then or {})
        if not changed:
            return stored, ""
        why = why or f"{stored.run_id} was under another {', '.join(changed)}"
    return None, why


@dataclass
class Retries:
    """Further attempts at failed runs, ``most`` for each.

    ``refuses``: why there is no time for these steps, else empty. ``broken``: series that failed
    in all attempts at one of their runs, which get one attempt from then on.
    """

    most: int = 0
    refuses: Callable[[Sequence[ResolvedRun]], str] = lambda _: ""
    broken: set[str] = field(default_factory=set)

    def make(
        self,
        failed: Sequence[tuple[ResolvedRun, StoredRun]],
        attempt: Callable[[ResolvedRun, StoredRun], StoredRun],
        say: Callable[[str], None],
    ) -> None:
        """Try these runs again, all of them once before any of them twice."""
        failed = [pair for pair in failed if pair[0].spec.series() not in self.broken]
        for _ in range(self.most):
            if not failed:
                return
            if why := self.refuses([step for step, _ in failed]):
                say(f"no further attempt at {counted(len(failed), 'failed run')}: {why}")
                return
            again = [(step, attempt(step, earlier)) for step, earlier in failed]
            failed = [pair for pair in again if pair[1].result.status == "failed"]
        self.broken |= {step.spec.series() for step, _ in failed}


def run_batch(
    plan: Plan,
    steps: Sequence[ResolvedRun],
    env: Environment,
    store: Store,
    attempts: list[StoredRun],
    schedule: Schedule,
    retries: Retries,
    restart: bool = False,
) -> list[StoredRun]:
    """Run what is not done of a block; return the last attempt at each run, in its order.

    A failed run is stored and the next one starts; further attempts follow at the end.
    ``attempts`` gets all of them, and complete runs. An interrupted run of this plan is resumed,
    unless ``restart``.
    """
    last: dict[int, StoredRun] = {}
    failed: list[tuple[ResolvedRun, StoredRun]] = []

    def attempt(step: ResolvedRun, earlier: StoredRun | None = None) -> StoredRun:
        same = _unchanged(step, env, plan.experiment)
        env.supervisor.renew()
        new_attempt = Attempt(
            conditions=same, experiment=plan.experiment, restart=restart, failed=earlier
        )
        stored = last[id(step)] = schedule.run(step, lambda: step.run(env, store, new_attempt))
        attempts.append(stored)
        return stored

    for step in steps:
        if step.done:
            last[id(step)] = step.done
            attempts.append(step.done)
        elif step.runnable:
            stored = attempt(step)
            if stored.result.status == "failed" and not data.was_not_loaded(step, env):
                failed.append((step, stored))
    retries.make(failed, attempt, env.progress.say)
    return [last[id(step)] for step in steps if id(step) in last]


def last_attempts(runs: Iterable[StoredRun]) -> list[StoredRun]:
    """The runs of a plan, in its order, without failed attempts that were followed by another."""
    return list({stored.head.spec_hash: stored for stored in runs}.values())


def prepare_data(steps: Sequence[ResolvedRun], env: Environment, schedule: Schedule) -> None:
    """Load all datasets before the first run is measured.

    Loaded when first needed, the first placement of every engine would be measured
    right after a bulk load and its write-back, and the others would not. No other harness
    measures while one is loaded.
    """
    todo = {
        (step.dataset_name, str(step.spec.params)): step
        for step in steps
        if step.done is None
        and isinstance(step, EngineRun)
        and step.dataset_name
        and not data.was_not_loaded(step, env)
    }
    for resolved in todo.values():
        env.supervisor.renew()
        try:
            with (
                env.supervisor.watch.naming(),
                one_at_a_time(env.progress, env.supervisor.hold),
                schedule.loading(resolved),
            ):
                data.loaded_dataset(resolved, env)
                data.changes_data(resolved, env)
                data.write_back(env)
        except Exception as error:
            # Its runs will meet the same and be stored as failed with their reason;
            # those of other engines continue.
            if interruption(error) is not None:
                raise
            if not data.was_not_loaded(resolved, env):  # that has been said
                env.progress.say(str(as_failure(error, f"load {resolved.dataset_name}")))


def stop_for_mode(steps: Iterable[ResolvedRun], env: Environment) -> None:
    """UsageError where the host must be switched for a run that is not done."""
    step = next((step for step in steps if step.done is None and not step.runnable), None)
    if step is None:
        return
    modes = _modes(step.spec)
    if env.host.mode == "unknown":
        raise UsageError(
            f"host mode {modes}", env.host.mode_evidence, "give the same command as root"
        )
    raise UsageError(
        f"host mode {modes}",
        f"the host is in {env.host.mode} mode",
        f"switch it by {_MODES[modes.partition(' ')[0]]} and a reboot, then give the same "
        "command with --resume: finished runs are kept (`harness runs list`, `harness report`). "
        "On a host that cannot be switched, leave these runs out of a copy of the profile",
    )


def _modes(spec: RunSpec) -> str:
    return " or ".join((spec.required_host_mode or "any").split("|"))


def complete_runs(
    store: Store, env: Environment, enough: Collection[str] = ("complete",)
) -> dict[str, list[StoredRun]]:
    """Runs of this host with these statuses by spec hash, oldest first."""
    runs: dict[str, list[StoredRun]] = {}
    for stored in store.runs():
        head = stored.head
        same_host = head.host is not None and head.host.host_id == env.host.host_id
        if head.status in enough and same_host:
            runs.setdefault(head.spec_hash, []).append(stored)
    return runs


def completed_before_interruption(
    specs: Sequence[RunSpec], env: Environment, store: Store, experiment: str
) -> dict[str, list[StoredRun]]:
    """Complete runs of a command that was interrupted: of the specs before the interrupted one.

    They are of the experiment of that name, and newer than all complete runs of that one: older
    runs are of earlier commands.
    """
    host_id = env.host.host_id
    at = next((i for i in reversed(range(len(specs))) if store.interrupted(specs[i], host_id)), 0)
    if not at:
        return {}
    complete = complete_runs(store, env, ("complete", "unknown"))
    since = max((stored.run_id for stored in complete.get(specs[at].hash(), ())), default="")
    hashes = {spec.hash() for spec in specs[:at]}
    return {
        key: [
            stored
            for stored in runs
            if stored.run_id > since and stored.head.experiment.name == experiment
        ]
        for key, runs in complete.items()
        if key in hashes
    }
