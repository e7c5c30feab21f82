"""Findings of ``harness doctor`` about the host; the command line prints them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.host import cgroup, processors
from harness.host.confounders import uncontrolled
from harness.host.facts import host_facts
from harness.host.memory_nodes import memory_report
from harness.host.tools import tool_versions
from harness.store.documents import members
from harness.tiers.linux.kernel import LIVE
from harness.tiers.linux.model import Tier
from harness.tiers.verify import describe


def examine(tiers: Sequence[Tier]) -> dict[str, Any]:
    """Findings as one JSON object.

    ``{host: facts, mode: {mode, evidence}, instructions: {persistence: {name: bool},
    vector: …}, tiers: [{name, kind, place, finding, emulated, warnings, …}],
    nodes, memory, cxl: of harness.host.memory_nodes, tools: {name: version | null},
    memory_cap: {…},
    uncontrolled: [{code, what, found, do}]}``
    """
    facts = host_facts(tiers)
    return {
        "host": facts,
        "mode": {"mode": facts["mode"], "evidence": facts["mode_evidence"]},
        "instructions": _instructions(facts["cpu"]["flags"]),
        "tiers": [tier_finding(tier) for tier in tiers],
        **memory_report(LIVE),
        "tools": tool_versions(),
        "memory_cap": _memory_cap(),
        "uncontrolled": [warning.to_json() for warning in uncontrolled(tiers, LIVE, idle=True)],
    }


def tier_finding(tier: Tier) -> dict[str, Any]:
    """A tier with the kernel's finding in words: what a person reads in one line."""
    return members(tier.record) | {
        "place": tier.claim.place,
        "finding": describe(tier.facts),
        "emulated": tier.emulated,
    }


def _instructions(flags: Sequence[str]) -> dict[str, dict[str, bool]]:
    """Instructions of this processor's family: Arm names on x86 would only confuse."""
    arm = bool({"asimd", "dcpop", "atomics"} & set(flags))
    arm_names = {"dcpop", "dcpodp", "asimd", "sve", "atomics"}
    groups = {"persistence": processors.PERSISTENCE_FLAGS, "vector": processors.VECTOR_FLAGS}
    return {
        group: {name: name in flags for name in names if (name in arm_names) == arm}
        for group, names in groups.items()
    }


def _memory_cap() -> dict[str, Any]:
    site = cgroup.available()
    return {
        "method": site.method,
        "place": str(site.parent) if site.parent else None,
        "reason": site.reason,
    }
