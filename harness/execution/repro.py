"""Run a stored run again from its manifest; reports.reproduction compares the two."""

from __future__ import annotations

import math

from harness.errors import UsageError
from harness.execution.environment import Environment
from harness.execution.resolved_run import ResolvedRun
from harness.store.checkpoint import Attempt
from harness.store.result import Experiment
from harness.store.run_store import Store
from harness.store.runs import StoredRun


def check_repeatable(
    original: StoredRun, env: Environment, tolerance: float, trusted: bool
) -> None:
    """UsageError for a run that cannot be repeated; ``trusted``: though it is another host's."""
    if not (math.isfinite(tolerance) and tolerance > 0):
        raise UsageError(
            f"tolerance {tolerance}", "not a positive number", "write 0.25 for a quarter"
        )
    if original.manifest is None:
        raise UsageError(
            f"repro {original.run_id}",
            "it failed before there was a manifest",
            "run it again from its command",
        )
    elsewhere = original.manifest.host.host_id != env.host.host_id
    if not trusted and (original.imported or elsewhere):
        raise UsageError(
            f"repro {original.run_id}",
            "it is a run of another host: the programs, settings and servers that its spec names "
            "would be used here",
            f"look at them with `harness runs show {original.run_id} --json`, then add --trust",
        )


def repeat(original: StoredRun, again: ResolvedRun, env: Environment, store: Store) -> StoredRun:
    """Run it again, as an experiment of its own."""
    attempt = Attempt(experiment=Experiment("repro", original.result.spec_hash))
    return again.run(env, store, attempt)
