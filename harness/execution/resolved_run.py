"""A run of a list, checked beforehand, and the conditions that its result depends on."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import harness
from harness.errors import UsageError
from harness.execution.environment import Environment
from harness.experiment.placement import Part
from harness.host.processors import format_cpus
from harness.store.checkpoint import Attempt
from harness.store.documents import attributes
from harness.store.run_store import Store
from harness.store.runs import StoredRun
from harness.store.spec import HOST_STATE, Json, JsonObject, RunSpec
from harness.supervise import programs
from harness.tiers.linux.model import Tier, TierRecord


@dataclass(frozen=True)
class ResolvedRun:
    """A run of a list, checked as far as this host allows.

    A run of an engine or a suite is of a derived class. One of this class needs the host in
    another mode, in which alone its tiers can be checked. ``done``: the complete run that makes it
    needless. ``why``: why an earlier complete run does not count, or what the host must be.
    """

    spec: RunSpec
    done: StoredRun | None = None
    why: str = ""
    #: Whether it can be run here, and now.
    runnable: ClassVar[bool] = False

    @property
    def details(self) -> Mapping[str, Json]:
        """Return what a list of runs shows of it, in addition to the spec."""
        return {}

    @property
    def needs_bytes(self) -> Mapping[Part, int]:
        """Space on its tiers, by part, where that is known."""
        return {}

    @property
    def copied_bytes(self) -> int:
        """Bytes that are restored before it; 0 if not known."""
        return 0

    @property
    def planned_ns(self) -> int | None:
        """Duration that is decided beforehand (0: not known); None: the work decides it."""
        return None

    def conditions(self, env: Environment) -> JsonObject:
        """Return what decides its result and has only names in its spec."""
        raise UsageError(f"run of {self.spec.workload}", self.why)

    def run(self, env: Environment, store: Store, attempt: Attempt) -> StoredRun:
        """Measure and store it, or resume an interrupted one; a failed run is returned, too."""
        raise UsageError(f"run of {self.spec.workload}", self.why)


def host_conditions(tiers: Iterable[Tier], cpus: Sequence[int], env: Environment) -> dict[str, Any]:
    """Conditions of a run of any kind; ``cpus``: the processors that it may use, empty for all."""
    return {
        "tiers": [place_of(tier.record) for tier in tiers],
        "host mode": env.host.mode,
        "processors": [env.host.cpu.online, format_cpus(cpus) or None],
        "harness": [harness.__version__, harness_revision()],
    }


def host_state(env: Environment) -> dict[str, Any]:
    """Other state of the host that must not change within an interrupted run."""
    return {
        "host": env.host.host_id,
        "kernel": env.host.kernel.release,
        "host state": attributes(env.host, *HOST_STATE, "memory_bytes"),
    }


def place_of(tier: TierRecord) -> list[Json]:
    """Properties that decide the speed of a tier."""
    facts = tier.facts
    return [
        *(tier.name, tier.kind, tier.path, tier.device, tier.emulates),
        *([*tier.nodes], tier.policy, [*tier.weights]),
        None if tier.model is None else dict(vars(tier.model)),
        *(facts.filesystem, facts.device, facts.dax),
    ]


@cache
def harness_revision() -> str | None:
    """The commit of a checkout, ``-dirty`` where it is changed; None of an installed wheel."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        done = programs.run(
            ["git", "-C", root, "describe", "--always", "--dirty", "--abbrev=12"],
            timeout_s=10,
            env=programs.inherited(("HOME",)),
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
