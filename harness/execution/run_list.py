"""A plan's runs in their order: skipped where complete, stopped where the host must change."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import harness
from harness import registry
from harness.errors import HarnessError, UsageError, interruption
from harness.execution import data, runner
from harness.execution.environment import Environment
from harness.execution.host_lock import one_at_a_time
from harness.execution.run_record import ResumePolicy
from harness.experiment.placement import Part
from harness.experiment.preflight import ResolvedRun, needed_bytes, prepare_all
from harness.experiment.profile import Plan
from harness.experiment.run_time import Estimator, RunTime
from harness.host.processors import format_cpus
from harness.store.runs import Store, StoredRun, changed_conditions
from harness.store.spec import RunSpec
from harness.tiers.linux.model import Tier

_MODES = {
    "AppDirect": "`harness host apply appdirect --set pmem_goal=AppDirect`",
    "Memory": "`harness host apply memory-mode`",
    "Mixed": "`harness host apply memory-mode --set memory_mode_percent=50`",
    "Default": "removing the modules, or not using them",
}


#: What of the host may be changed at any time and changes times.
_HOST_STATE = (
    "governor",
    "turbo",
    "smt",
    "thp",
    "aslr",
    "prefetchers",
    "memory_speed",
    "uncore_frequency",
    "dimm_power_budget",
    "memory_bytes",
)


@dataclass(frozen=True)
class Step:
    """One run of a plan: ``done`` is the complete run that makes it needless.

    ``prepared`` None: the run needs another host mode, in which alone its tiers can be
    checked. ``why``: why an earlier complete run of the same spec does not count, or what
    the host must be.
    """

    spec: RunSpec
    prepared: ResolvedRun | None
    done: StoredRun | None
    why: str = ""

    @property
    def needs_bytes(self) -> Mapping[Part, int]:
        """Space on the tiers, by part; nothing where that is not known."""
        prepared = self.prepared
        return needed_bytes(prepared) if prepared and not prepared.external else {}

    def run_time(self, times: Estimator) -> RunTime | None:
        """How long it will take, by earlier runs or by what is copied."""
        copied = (size for part, size in self.needs_bytes.items() if part in ("data", "index"))
        return times.run_time(self.spec, sum(copied))


def plan_steps(
    plan: Plan,
    env: Environment,
    store: Store,
    again: bool = False,
    enough: Collection[str] = ("complete",),
    resume: bool = False,
) -> list[Step]:
    """What would be run and what is there already; every spec is checked first.

    ``enough``: the statuses of a run that is not run again. ``resume``: with ``again``, runs that
    the command completed before it was interrupted are not repeated.
    """
    complete = {} if again else complete_runs(store, env, enough)
    kept = {}
    if again and resume:
        kept = completed_before_interruption(plan.runs, env, store, plan.name)
    mode = env.host["mode"]
    here = iter(prepare_all([spec for spec in plan.runs if spec.runs_in(mode)], env))
    return [
        _step(next(here), complete.get(spec.hash(), []), kept.get(spec.hash(), []), env, plan)
        if spec.runs_in(mode)
        else _step_elsewhere(spec, complete.get(spec.hash()) or kept.get(spec.hash(), []))
        for spec in plan.runs
    ]


def _step_elsewhere(spec: RunSpec, candidates: Sequence[StoredRun]) -> Step:
    """A run of another host mode: done where this harness made it while the host was in that.

    Its tiers and settings cannot be compared with now: in this mode they are not there.
    """
    registry.engine(spec.engine)
    for stored in reversed(candidates):
        if conditions_of(stored)["harness"] == harness.__version__:
            return Step(spec, None, stored)
    return Step(spec, None, None, f"needs the host in {_modes(spec)} mode")


def _step(
    prepared: ResolvedRun,
    candidates: Sequence[StoredRun],
    kept: Sequence[StoredRun],
    env: Environment,
    plan: Plan,
) -> Step:
    """The newest complete run under the same conditions, or why none of them will do.

    ``kept``: runs of the interrupted command, which need the conditions of one that is resumed.
    """
    if kept:
        policy = _policy(prepared, env, plan.experiment, restart=False)
        return Step(prepared.spec, prepared, *newest_resumable(kept, policy))
    now = conditions(prepared, env)
    return Step(prepared.spec, prepared, *newest_alike(candidates, now, conditions_of))


def newest_resumable(
    candidates: Sequence[StoredRun], policy: ResumePolicy
) -> tuple[StoredRun | None, str]:
    """The newest of these runs that, interrupted, would be resumed; or why there is none."""
    if policy.conditions is None:
        return None, "an external server may have changed since"
    return newest_alike(candidates, policy.conditions, resume_conditions_of)


def resume_conditions_of(stored: StoredRun) -> Mapping[str, Any]:
    """Those under which a finished run would have been resumed; empty of one that would not."""
    return stored.manifest.get("conditions") or {}


def newest_alike(
    candidates: Sequence[StoredRun],
    now: Mapping[str, Any],
    of: Callable[[StoredRun], Mapping[str, Any]],
) -> tuple[StoredRun | None, str]:
    """The newest of these runs under the same conditions, or why none of them will do."""
    why = ""
    for stored in reversed(candidates):
        changed = changed_conditions(now, of(stored))
        if not changed:
            return stored, ""
        why = why or f"{stored.run_id} was under another {', '.join(changed)}"
    return None, why


def run_plan(
    plan: Plan, steps: Sequence[Step], env: Environment, store: Store, restart: bool = False
) -> list[StoredRun]:
    """Run what is not done; returns the runs of the whole plan in its order.

    An interrupted run of this plan is resumed, unless ``restart``.
    A failed run is stored and the next one starts. What can be run in the present host
    mode is run first; then a run that needs another one stops the plan with what to do:
    finished runs stay, and the same command resumes.
    """
    experiment = plan.experiment
    runs: list[StoredRun] = []
    _prepare_data(steps, env)
    with env.progress.task(f"experiment {plan.name}", len(steps)) as task:
        for step in steps:
            if step.done:
                runs.append(step.done)
            elif step.prepared:
                policy = _policy(step.prepared, env, experiment, restart)
                runs.append(_one(step.prepared, env, store, policy))
            else:
                continue
            task.advance()
    for step in steps:
        if step.done is None and step.prepared is None:
            _stop_for(step.spec, env)
    return runs


def _prepare_data(steps: Sequence[Step], env: Environment) -> None:
    """Load all datasets before the first run is measured.

    Loaded when first needed, the first placement of every engine would be measured
    right after a bulk load and its write-back, and the others would not. No other harness
    measures meanwhile.
    """
    todo = {
        (step.prepared.dataset_name, str(step.spec.params)): step.prepared
        for step in steps
        if step.done is None and step.prepared and step.prepared.dataset_name
    }
    if not todo:
        return
    with one_at_a_time(env.progress):
        for prepared in todo.values():
            try:
                data.loaded_dataset(prepared, env)
                data.changes_data(prepared, env)
            except HarnessError as error:
                # Its runs will meet the same and be stored as failed with their reason;
                # those of other engines continue.
                if interruption(error) is not None:
                    raise
                env.progress.say(f"{error.problem}: {error.context}")
        os.sync()


def _stop_for(spec: RunSpec, env: Environment) -> NoReturn:
    """UsageError: the host must be switched for this run."""
    if env.host["mode"] == "unknown":
        raise UsageError(
            f"host mode {_modes(spec)}", env.host["mode_evidence"], "give the same command as root"
        )
    raise UsageError(
        f"host mode {_modes(spec)}",
        f"the host is in {env.host['mode']} mode",
        f"switch it by {_how_to_switch(spec)} and a reboot, then give the same command "
        "with --resume: finished runs are kept (`harness runs list`, `harness report`). On a host "
        "that cannot be switched, leave these runs out of a copy of the profile",
    )


def _modes(spec: RunSpec) -> str:
    return " or ".join((spec.required_host_mode or "any").split("|"))


def _one(prepared: ResolvedRun, env: Environment, store: Store, policy: ResumePolicy) -> StoredRun:
    stored = runner.run(prepared, env, store, policy)
    error = stored.run["error"]
    detail = f": {error['problem']}: {error['context']}" if error else ""
    env.progress.say(f"{stored.run_id}: {stored.run['status']}{detail}")
    return stored


def _how_to_switch(spec: RunSpec) -> str:
    return _MODES[(spec.required_host_mode or "").split("|")[0]]


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


def conditions(prepared: ResolvedRun, env: Environment) -> dict[str, Any]:
    """What decides a run's result and is not in its spec, which has names for it only."""
    return {
        "engine build": prepared.version.build,
        "engine settings": dict(prepared.settings),
        "data": prepared.dataset_name or None,
        **host_conditions(dict.fromkeys(prepared.tiers.values()), prepared.cpus, env),
    }


def host_conditions(tiers: Iterable[Tier], cpus: Sequence[int], env: Environment) -> dict[str, Any]:
    """Those of a run of any kind; ``cpus``: the processors that it may use, empty for all."""
    return {
        "tiers": [place_of(tier.to_json()) for tier in tiers],
        "host mode": env.host["mode"],
        "processors": [env.host["cpu"]["online"], format_cpus(cpus) or None],
        "harness": harness.__version__,
    }


def host_state(env: Environment) -> dict[str, Any]:
    """What else of the host must not change within an interrupted run."""
    return {
        "host": env.host["host_id"],
        "kernel": env.host["kernel"]["release"],
        "host state": {name: env.host[name] for name in _HOST_STATE},
    }


def _policy(
    prepared: ResolvedRun, env: Environment, experiment: Mapping[str, str], restart: bool
) -> ResumePolicy:
    if prepared.external:  # its settings and its machine may change at any time, unseen
        return ResumePolicy(experiment, None, restart)
    same = conditions(prepared, env) | host_state(env) | {"experiment": dict(experiment)}
    return ResumePolicy(experiment, same, restart)


def conditions_of(stored: StoredRun) -> dict[str, Any]:
    """The same of a finished run, from its manifest."""
    manifest = stored.manifest
    external = stored.run["spec"]["placement"] is None
    return {
        "engine build": manifest["engine"]["build"],
        "engine settings": manifest["engine"]["settings"],
        "tiers": [place_of(tier) for tier in manifest["tiers"]],
        "host mode": manifest["host"]["mode"],
        "data": None if external else (manifest["dataset"] or {}).get("key"),
        "processors": [manifest["host"]["cpu"]["online"], manifest.get("processors")],
        "harness": manifest["harness"]["version"],
    }


def place_of(tier: Mapping[str, Any]) -> tuple[Any, ...]:
    """What decides the speed of a tier, from its entry in a manifest."""
    facts = tier["facts"]
    named = (tier["name"], tier["kind"], tier["path"], tier["device"], tier["node"])
    return (*named, tier["emulates"], facts["filesystem"], facts["device"], facts["dax"])
