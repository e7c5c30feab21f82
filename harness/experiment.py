"""A plan's runs in their order: skipped where complete, stopped where the host must change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness import runner
from harness.environment import Environment
from harness.errors import UsageError
from harness.preflight import Prepared, prepare_all
from harness.profile import Plan
from harness.store import Store, StoredRun

_MODE_PLAYBOOKS = {
    "AppDirect": "playbooks/setup-appdirect.yml",
    "Memory": "playbooks/setup-memory-mode.yml",
    "Default": "playbooks/setup-default.yml",
    "Mixed": "playbooks/setup-mixed.yml",
}


@dataclass(frozen=True)
class Step:
    """One run of a plan: ``done`` is the complete run that makes it needless."""

    prepared: Prepared
    done: StoredRun | None


def plan_steps(plan: Plan, env: Environment, store: Store, again: bool = False) -> list[Step]:
    """What would be run and what is there already; every spec is checked first."""
    complete = {} if again else _complete(store, env)
    prepared = prepare_all(plan.runs, env)
    return [Step(run, complete.get((run.spec.hash(), run.version.build))) for run in prepared]


def run_plan(plan: Plan, steps: Sequence[Step], env: Environment, store: Store) -> list[StoredRun]:
    """Run what is not done; returns the runs of the whole plan in its order.

    A failed run is stored and the next one starts. A run that needs another host
    mode stops the plan with what to do: finished runs stay, the same command goes on.
    """
    experiment = {"name": plan.name, "hash": plan.hash}
    runs: list[StoredRun] = []
    with env.progress.task(f"experiment {plan.name}", len(steps)) as task:
        for step in steps:
            runs.append(step.done or _one(step.prepared, env, store, experiment))
            task.advance()
    return runs


def _one(
    prepared: Prepared, env: Environment, store: Store, experiment: dict[str, str]
) -> StoredRun:
    wanted, found = prepared.spec.required_host_mode, env.host["mode"]
    if wanted is not None and wanted != found:
        raise UsageError(
            f"host mode {wanted}",
            f"the host is in {found} mode",
            f"run `ansible-playbook {_MODE_PLAYBOOKS[wanted]}`, reboot, then give the same "
            "command with --resume: finished runs are kept",
        )
    stored = runner.run(prepared, env, store, experiment)
    error = stored.run["error"]
    detail = f": {error['asked']}: {error['found']}" if error else ""
    env.progress.say(f"{stored.run_id}: {stored.run['status']}{detail}")
    return stored


def _complete(store: Store, env: Environment) -> dict[tuple[str, str], StoredRun]:
    """Complete runs of this host by spec hash and engine build."""
    return {
        (stored.run["spec_hash"], stored.manifest["engine"]["build"]): stored
        for stored in store.runs()
        if stored.run["status"] == "complete"
        and stored.manifest.get("host", {}).get("host_id") == env.host["host_id"]
    }
