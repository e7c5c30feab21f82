"""A plan's runs in their order: skipped where complete, stopped where the host must change."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NoReturn, Protocol

import harness
from harness import registry
from harness.errors import UsageError, as_failure, interruption
from harness.execution import data
from harness.execution.environment import Environment
from harness.execution.host_lock import one_at_a_time
from harness.execution.run_record import ResumePolicy, host_state
from harness.execution.runner import EngineRun
from harness.experiment.placement import Part
from harness.experiment.preflight import prepare_all
from harness.experiment.profile import Plan
from harness.experiment.run_time import Estimator, RunTime
from harness.store.checkpoint import changed_conditions
from harness.store.runs import Store, StoredRun
from harness.store.spec import Json, RunSpec
from harness.units import counted

_MODES = {
    "AppDirect": "`harness host apply appdirect --set pmem_goal=AppDirect`",
    "Memory": "`harness host apply memory-mode`",
    "Mixed": "`harness host apply memory-mode --set memory_mode_percent=50`",
    "Default": "removing the modules, or not using them",
}


class Prepared(Protocol):
    """A checked run: of a workload on an engine, or of a suite of microbenchmarks on a tier."""

    @property
    def spec(self) -> RunSpec:
        """As it is stored."""

    @property
    def details(self) -> Mapping[str, Json]:
        """What a list of runs shows of it, in addition to the spec."""

    @property
    def needs_bytes(self) -> Mapping[Part, int]:
        """Space on its tiers, by part, where that is known."""

    def run_time(self, times: Estimator) -> RunTime | None:
        """How long it will take."""

    def conditions(self, env: Environment) -> Mapping[str, Any]:
        """What decides its result and is not in its spec, which has names for it only."""

    def resume_conditions(self) -> Mapping[str, Any]:
        """What else must be the same to resume an interrupted run."""

    def run(self, env: Environment, store: Store, policy: ResumePolicy) -> StoredRun:
        """Measure and store it, or resume an interrupted one; a failed run is returned, too."""


@dataclass(frozen=True)
class Step:
    """One run of a list: ``done`` is the complete run that makes it needless.

    ``prepared`` None: the run needs another host mode, in which alone its tiers can be
    checked. ``why``: why an earlier complete run of the same spec does not count, or what
    the host must be.
    """

    spec: RunSpec
    prepared: Prepared | None
    done: StoredRun | None
    why: str = ""

    @property
    def needs_bytes(self) -> Mapping[Part, int]:
        """Space on the tiers, by part; nothing where that is not known."""
        return self.prepared.needs_bytes if self.prepared else {}

    def run_time(self, times: Estimator) -> RunTime | None:
        """How long it will take, by earlier runs or by what is known of it."""
        return self.prepared.run_time(times) if self.prepared else times.run_time(self.spec, 0)


def expected_ns(steps: Iterable[Step], times: Estimator) -> int | None:
    """How long those to do will take; None if one of them is not known."""
    found = [step.run_time(times) for step in steps if step.done is None]
    return None if None in found else sum(one.duration_ns for one in found if one)


def plan_steps(
    plan: Plan,
    env: Environment,
    store: Store,
    again: bool = False,
    enough: Collection[str] = ("complete",),
    resume: bool = False,
    prepared: Sequence[Prepared | None] | None = None,
) -> list[Step]:
    """What would be run and what is there already; every spec is checked first.

    ``enough``: the statuses of a run that is not run again. ``resume``: with ``again``, runs that
    the command completed before it was interrupted are not repeated. ``prepared``: the plan's
    runs, checked, None for one that needs another host mode; by default they are on engines.
    """
    if prepared is None:
        mode = env.host["mode"]
        resolved = iter(prepare_all([spec for spec in plan.runs if spec.runs_in(mode)], env))
        prepared = [EngineRun(next(resolved)) if s.runs_in(mode) else None for s in plan.runs]
    complete = {} if again else complete_runs(store, env, enough)
    kept = {}
    if again and resume:
        kept = completed_before_interruption(plan.runs, env, store, plan.name)
    return [
        _step(one, complete.get(spec.hash(), []), kept.get(spec.hash(), []), env, plan)
        if one is not None
        else _step_elsewhere(spec, complete.get(spec.hash()) or kept.get(spec.hash(), []))
        for spec, one in zip(plan.runs, prepared, strict=True)
    ]


def _step_elsewhere(spec: RunSpec, candidates: Sequence[StoredRun]) -> Step:
    """A run of another host mode: done where this harness made it while the host was in that.

    Its tiers and settings cannot be compared with now: in this mode they are not there.
    """
    registry.engine(spec.engine, spec.workload)
    for stored in reversed(candidates):
        if stored.manifest["harness"]["version"] == harness.__version__:
            return Step(spec, None, stored)
    return Step(spec, None, None, f"needs the host in {_modes(spec)} mode")


def _step(
    prepared: Prepared,
    candidates: Sequence[StoredRun],
    kept: Sequence[StoredRun],
    env: Environment,
    plan: Plan,
) -> Step:
    """The newest complete run under the same conditions, or why none of them will do.

    ``kept``: runs of the interrupted command, during which nothing must have changed.
    """
    if not kept:
        found = newest_alike(candidates, prepared.conditions(env))
    elif prepared.spec.placement is None:
        found = None, "an external server may have changed since"
    else:
        found = newest_alike(kept, _unchanged(prepared, env, plan.experiment))
    return Step(prepared.spec, prepared, *found)


def _unchanged(
    prepared: Prepared, env: Environment, experiment: Mapping[str, Any]
) -> dict[str, Any]:
    """What must be the same for all of an interrupted command, which may be a look more."""
    same = {name: value for name, value in experiment.items() if name != "looks"}
    return {**prepared.conditions(env), **host_state(env), "experiment": same}


def newest_alike(
    candidates: Sequence[StoredRun], now: Mapping[str, Any]
) -> tuple[StoredRun | None, str]:
    """The newest of these runs under the same conditions, or why none of them will do."""
    why = ""
    for stored in reversed(candidates):
        changed = changed_conditions(now, stored.manifest.get("conditions") or {})
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
    refuses: Callable[[Sequence[Step]], str] = lambda _: ""
    broken: set[str] = field(default_factory=set)

    def make(
        self,
        failed: Sequence[tuple[Step, StoredRun]],
        attempt: Callable[[Step, StoredRun], StoredRun],
        say: Callable[[str], None],
    ) -> None:
        """Try these runs again, all of them once before any of them twice."""
        failed = [one for one in failed if one[0].spec.series() not in self.broken]
        for _ in range(self.most):
            if not failed:
                return
            if why := self.refuses([step for step, _ in failed]):
                say(f"no further attempt at {counted(len(failed), 'failed run')}: {why}")
                return
            again = [(step, attempt(step, earlier)) for step, earlier in failed]
            failed = [one for one in again if one[1].run["status"] == "failed"]
        self.broken |= {step.spec.series() for step, _ in failed}


def run_plan(
    plan: Plan,
    steps: Sequence[Step],
    env: Environment,
    store: Store,
    restart: bool = False,
    retries: Retries | None = None,
) -> list[StoredRun]:
    """Run what is not done; returns the runs of the whole plan in its order.

    An interrupted run of this plan is resumed, unless ``restart``.
    A failed run is stored and the next one starts; further attempts follow at the end of its
    block, and in the result (:func:`last_attempts`). What can be run in the present host
    mode is run first; then a run that needs another one stops the plan with what to do:
    finished runs stay, and the same command resumes.
    """
    runs: list[StoredRun] = []

    def attempt(step: Step, earlier: StoredRun | None = None) -> StoredRun:
        assert step.prepared is not None
        policy = _resume_policy(step.prepared, env, plan.experiment, restart, earlier)
        env.supervisor.renew()
        runs.append(stored := step.prepared.run(env, store, policy))
        env.progress.say(f"{stored.run_id}: {_result(stored)}")
        return stored

    _prepare_data(steps, env)
    with env.progress.task(f"experiment {plan.name}", len(steps)) as task:
        for _, block in groupby(steps, lambda step: step.spec.block):
            failed: list[tuple[Step, StoredRun]] = []
            for step in block:
                if step.done:
                    runs.append(step.done)
                elif step.prepared:
                    if (stored := attempt(step)).run["status"] == "failed":
                        failed.append((step, stored))
                else:
                    continue
                task.advance()
            if retries is not None:
                retries.make(failed, attempt, env.progress.say)
    for step in steps:
        if step.done is None and step.prepared is None:
            _stop_for(step.spec, env)
    return runs


def last_attempts(runs: Iterable[StoredRun]) -> list[StoredRun]:
    """The runs of a plan, in its order, without failed attempts that were followed by another."""
    return list({stored.head["spec_hash"]: stored for stored in runs}.values())


def last_attempts_of(planned: int, runs: Sequence[StoredRun]) -> list[StoredRun]:
    """The last attempt at each planned run of a block, in order; some runs may be identical.

    ``runs``: as :func:`run_plan` returns them of one block, attempts at failed runs last.
    """
    found, further = list(runs[:planned]), list(runs[planned:])
    left = len(further) + 1
    while len(further) < left:
        left = len(further)
        for place, run in enumerate(found):
            same = further and further[0].head["spec_hash"] == run.head["spec_hash"]
            if run.head["status"] == "failed" and same:
                found[place] = further.pop(0)
    return found


def _prepare_data(steps: Sequence[Step], env: Environment) -> None:
    """Load all datasets before the first run is measured.

    Loaded when first needed, the first placement of every engine would be measured
    right after a bulk load and its write-back, and the others would not. No other harness
    measures while one is loaded.
    """
    resolved = [
        step.prepared.resolved
        for step in steps
        if step.done is None and isinstance(step.prepared, EngineRun)
    ]
    todo = {(one.dataset_name, str(one.spec.params)): one for one in resolved if one.dataset_name}
    for prepared in todo.values():
        env.supervisor.renew()
        try:
            with (
                env.supervisor.silence.naming(),
                one_at_a_time(env.progress, env.supervisor.hold),
            ):
                data.loaded_dataset(prepared, env)
                data.changes_data(prepared, env)
                os.sync()
        except Exception as error:
            # Its runs will meet the same and be stored as failed with their reason;
            # those of other engines continue.
            if interruption(error) is not None:
                raise
            env.progress.say(str(as_failure(error, f"load {prepared.dataset_name}")))


def _stop_for(spec: RunSpec, env: Environment) -> NoReturn:
    """UsageError: the host must be switched for this run."""
    if env.host["mode"] == "unknown":
        raise UsageError(
            f"host mode {_modes(spec)}", env.host["mode_evidence"], "give the same command as root"
        )
    raise UsageError(
        f"host mode {_modes(spec)}",
        f"the host is in {env.host['mode']} mode",
        f"switch it by {_MODES[_modes(spec).partition(' ')[0]]} and a reboot, then give the same "
        "command with --resume: finished runs are kept (`harness runs list`, `harness report`). "
        "On a host that cannot be switched, leave these runs out of a copy of the profile",
    )


def _modes(spec: RunSpec) -> str:
    return " or ".join((spec.required_host_mode or "any").split("|"))


def _resume_policy(
    prepared: Prepared,
    env: Environment,
    experiment: Mapping[str, Any],
    restart: bool,
    failed: StoredRun | None,
) -> ResumePolicy:
    same = {**_unchanged(prepared, env, experiment), **prepared.resume_conditions()}
    return ResumePolicy(experiment, same, restart, failed)


def _result(stored: StoredRun) -> str:
    """Its status, and why it failed."""
    status, error = stored.run["status"], stored.run["error"]
    return f"{status}: {error['problem']}: {error['context']}" if error else status


def complete_runs(
    store: Store, env: Environment, enough: Collection[str] = ("complete",)
) -> dict[str, list[StoredRun]]:
    """Runs of this host with these statuses by spec hash, oldest first."""
    found: dict[str, list[StoredRun]] = {}
    for stored in store.runs():
        head = stored.head
        same_host = head["host"] is not None and head["host"]["host_id"] == env.host["host_id"]
        if head["status"] in enough and same_host:
            found.setdefault(head["spec_hash"], []).append(stored)
    return found


def completed_before_interruption(
    specs: Sequence[RunSpec], env: Environment, store: Store, experiment: str
) -> dict[str, list[StoredRun]]:
    """Complete runs of a command that was interrupted: of the specs before the interrupted one.

    They are of the experiment of that name, and newer than all complete runs of that one: older
    runs are of earlier commands.
    """
    at = next((i for i in reversed(range(len(specs))) if store.interrupted(specs[i])), 0)
    if not at:
        return {}
    complete = complete_runs(store, env, ("complete", "unknown"))
    since = max((one.run_id for one in complete.get(specs[at].hash(), ())), default="")
    hashes = {spec.hash() for spec in specs[:at]}
    return {
        key: [
            one
            for one in found
            if one.run_id > since and one.head["experiment"]["name"] == experiment
        ]
        for key, found in complete.items()
        if key in hashes
    }
