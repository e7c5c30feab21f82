"""Hosts that are compared: what they are, and what they differ in, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.store.host import HostFacts
from harness.store.result import Manifest
from harness.store.runs import StoredRun
from harness.units import counted, format_bytes
from reports.formatting import NOTHING

#: States of a host, as reports name them.
STATES = (
    ("Governor", "governor"),
    ("Turbo", "turbo"),
    ("SMT", "smt"),
    ("Transparent huge pages", "thp"),
    ("Hardware prefetchers", "prefetchers"),
    ("Memory bus", "memory_speed"),
    ("Uncore frequency", "uncore_frequency"),
    ("Power budget of PMem modules", "dimm_power_budget"),
    ("Virtual machine", "virtualised"),
)


@dataclass(frozen=True)
class HostDifference:
    """A fact in which hosts differ. ``values``: in the order of the hosts."""

    name: str
    values: tuple[str, ...]


def on_different_hosts(*sides: Sequence[StoredRun]) -> bool:
    """Return whether no two sides have a host in common."""
    hosts = [{run.host_id for run in side} for side in sides]
    return len(sides) > 1 and sum(map(len, hosts)) == len(set.union(*hosts))


def host_differences(*sides: Sequence[StoredRun]) -> list[HostDifference]:
    """Return what differs between the hosts of several sides; empty where they share one.

    Of what engines were set to, only what follows from the host, such as computed settings.
    """
    if not on_different_hosts(*sides):
        return []
    described = [_described(side) for side in sides]
    names = dict.fromkeys(name for side in described for name in side)
    values = ((name, tuple(side.get(name, NOTHING) for side in described)) for name in names)
    return [HostDifference(name, texts) for name, texts in values if len(set(texts)) > 1]


def _described(runs: Sequence[StoredRun]) -> Mapping[str, str]:
    """Return the facts of the host or hosts of these runs, by their names."""
    values: dict[str, dict[str, None]] = {}
    for manifest in (run.manifest for run in runs if run.manifest):
        for name, text in (*_of_host(manifest.host), *_of_run(manifest)):
            values.setdefault(name, {})[text] = None
    return {name: " or ".join(texts) for name, texts in values.items()}


def _of_host(host: HostFacts) -> Iterator[tuple[str, str]]:
    cpu = host.cpu
    yield "Processor", cpu.model
    threads = f"{counted(cpu.threads, 'thread')}, {counted(cpu.sockets, 'socket')}"
    yield "Cores", f"{cpu.cores} ({threads})"
    yield "Memory", format_bytes(host.memory_bytes)
    yield "NUMA nodes", str(len(host.numa_nodes))
    yield "Memory mode", host.mode
    yield "Kernel", host.kernel.release
    yield "Mitigations", mitigations_text(host.mitigations)
    yield from ((name, state_text(getattr(host, member))) for name, member in STATES)


def _of_run(manifest: Manifest) -> Iterator[tuple[str, str]]:
    yield "Processor quota", manifest.run_state.get("cpu_quota", "unknown")
    yield "Processors of the engine", manifest.processors or "all"
    yield "Memory limit by", manifest.memory_cap.method
    yield "Restored by", manifest.restore_method
    for tier in manifest.tiers:
        facts = tier.facts
        device = facts.device_model or facts.device or tier.device
        stand_in = "EMULATED" * bool(tier.emulates) or "MODELLED" * bool(tier.model)
        words = (device, facts.filesystem, tier.kind, stand_in)
        yield f"Tier {tier.name}", ", ".join(dict.fromkeys(filter(None, words)))
    yield "Engine build", manifest.engine.build
    yield from ((f"Setting {name}", text) for name, text in manifest.engine.settings.items())


def mitigations_text(states: Mapping[str, str]) -> str:
    """``Retpolines against spectre_v2; vulnerable to mds``: what Linux does for processors."""
    mitigated = [
        f"{state.partition(': ')[2].partition(';')[0]} against {name}"
        for name, state in states.items()
        if state.startswith("Mitigation: ")
    ]
    others = [name for name, state in states.items() if not state.startswith("Mitigation: ")]
    vulnerable = [f"vulnerable to {', '.join(others)}"] if others else []
    return "; ".join([*mitigated, *vulnerable]) or "none or unknown"


def state_text(state: str | bool | None) -> str:
    """Return a state of a host as tables show it."""
    if isinstance(state, str):
        return state
    return {None: "none or unknown", True: "yes", False: "no"}[state]
