"""Run a stored run again from its manifest, and say whether it agrees.

Agreement has three parts, each said on its own: the same thing was run (engine
build, configuration, data, host), the answers are the same, and the times are
within a tolerance. The tolerance is the user's: one run against one run shows no
spread of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from harness.errors import UsageError
from harness.execution.environment import Environment
from harness.execution.run import ResolvedRun
from harness.store.checkpoint import Attempt
from harness.store.documents import as_json, attributes
from harness.store.result import Experiment, Manifest, RunResult
from harness.store.runs import Store, StoredRun
from harness.store.spec import MICRO, NATIVE, RunSpec
from harness.tiers.linux.model import TierRecord


@dataclass(frozen=True)
class Verdict:
    """``ratio``: geometric mean of again/original over the metrics both have; None without any."""

    original: StoredRun
    again: StoredRun
    differences: tuple[str, ...]
    answers_equal: bool | None
    ratio: float | None
    tolerance: float

    @property
    def times_agree(self) -> bool:
        """Whether the ratio is within the tolerance of 1, in either direction."""
        return self.ratio is not None and abs(math.log(self.ratio)) <= math.log1p(self.tolerance)

    @property
    def agrees(self) -> bool:
        """Same thing run, same answers, times within the tolerance."""
        status = self.again.result.status == self.original.result.status
        return (
            status
            and not self.differences
            and self.answers_equal is not False
            and (self.times_agree)
        )

    def to_json(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "original": self.original.run_id,
            "again": self.again.run_id,
            **attributes(self, "agrees", "differences", "answers_equal", "ratio", "tolerance"),
        }

    def text(self) -> str:
        """For a person."""
        lines = [f"{self.original.run_id} again as {self.again.run_id}:"]
        lines += [f"  differs: {difference}" for difference in self.differences]
        answers = {True: "equal", False: "DIFFERENT", None: "not compared"}[self.answers_equal]
        if self.answers_equal is not None or not _rated(self.again.spec):
            lines.append(f"  answers: {answers}")
        if self.ratio is None:
            lines.append("  figures: nothing to compare")
        else:
            what = "rates" if _rated(self.again.spec) else "times"
            within = "within" if self.times_agree else "outside"
            lines.append(
                f"  {what}: again/original {self.ratio:.3f} (geometric mean), {within} the "
                f"tolerance of {self.tolerance:.0%}"
            )
        lines.append(f"  it {'agrees' if self.agrees else 'does NOT agree'}")
        return "\n".join(lines)


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
    elsewhere = original.manifest.host["host_id"] != env.host["host_id"]
    if not trusted and (original.imported or elsewhere):
        raise UsageError(
            f"repro {original.run_id}",
            "it is a run of another host: the programs, settings and servers that its spec names "
            "would be used here",
            f"look at them with `harness runs show {original.run_id} --json`, then add --trust",
        )


def repeat(
    original: StoredRun, again: ResolvedRun, env: Environment, store: Store, tolerance: float
) -> Verdict:
    """Repeat the run and compare the results."""
    attempt = Attempt(experiment=Experiment("repro", original.result.spec_hash))
    return agreement_of(original, again.run(env, store, attempt), tolerance)


def agreement_of(original: StoredRun, again: StoredRun, tolerance: float) -> Verdict:
    """Compare two runs of one spec."""
    return Verdict(
        original,
        again,
        tuple(_differences(original, again)),
        _answers_equal(original, again),
        _ratio(original.result, again.result),
        tolerance,
    )


def _differences(original: StoredRun, again: StoredRun) -> list[str]:
    if original.manifest is None or again.manifest is None:
        return [f"it failed this time: {again.result.error or 'run: no manifest'}"]
    pairs: dict[str, Callable[[Manifest], Any]] = {
        "engine build": lambda m: m.engine.build,
        "data": lambda m: as_json(m.dataset),
        "host": lambda m: m.host["host_id"],
        "host mode": lambda m: m.host["mode"],
        "kernel": lambda m: m.host["kernel"]["release"],
        "memory cap": lambda m: as_json(m.memory_cap),
        "run state": lambda m: m.run_state,
        "engine settings": lambda m: m.engine.settings,
        "tiers": lambda m: [_tier_identity(tier) for tier in m.tiers],
        "processors": lambda m: m.host["cpu"]["online"],
    }
    return [
        f"{name}: {get(original.manifest)} → {get(again.manifest)}"
        for name, get in pairs.items()
        if get(original.manifest) != get(again.manifest)
    ]


def _tier_identity(tier: TierRecord) -> str:
    """What must be the same for a tier to be the same place; its free space need not be."""
    facts = tier.facts
    stands_in = f", in place of {tier.emulates}" if tier.emulates else ""
    if model := tier.model:
        stands_in += f", by the model {model.name} ({model.digest})"
    place = tier.path or tier.device or tier.node
    return f"{tier.name} = {tier.kind} {place} ({facts.filesystem} on {facts.device}{stands_in})"


def _answers_equal(original: StoredRun, again: StoredRun) -> bool | None:
    before, after = original.artifact("answers"), again.artifact("answers")
    return None if before is None or after is None else bool(before == after)


def _ratio(before: RunResult, after: RunResult) -> float | None:
    a, b = _figures(before), _figures(after)
    logs = [math.log(b[key] / a[key]) for key in a if key in b]
    return math.exp(math.fsum(logs) / len(logs)) if logs else None


def _figures(run: RunResult) -> dict[tuple[Any, ...], float]:
    """What runs are compared by: the times of its parts, else its rates, else its whole time.

    Never several of them: totals contain the parts, and rates fall as times rise.
    """
    metrics = [m for m in run.metrics if m.better != "none" and (m.median or 0.0) > 0]
    parts = [m for m in metrics if m.labels and m.better == "lower"]
    of_parts = run.spec.workload == MICRO  # its rates are of configurations
    rates = [m for m in metrics if m.better == "higher" and (of_parts or not m.labels)]
    whole = [m for m in metrics if not m.labels]
    chosen = rates if _rated(run.spec) and rates else parts or rates or whole
    return {(m.name, *sorted(m.labels.items())): m.median or 0.0 for m in chosen}


def _rated(spec: RunSpec) -> bool:
    """Whether it is compared by rates, and has no answers: some clients report times, too."""
    return spec.driver != NATIVE or spec.workload == MICRO
