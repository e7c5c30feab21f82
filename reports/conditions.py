"""Under which conditions the numbers hold: memory, caches, host, tiers, engines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from harness.store.runs import StoredRun
from harness.units import format_bytes
from reports.labels import resumed
from reports.run_configuration import facts
from reports.series import Arm, Panel
from reports.words import EMULATED, percent, significant

_HOST_STATES = {
    "Governor": "governor",
    "Turbo": "turbo",
    "SMT": "smt",
    "Transparent huge pages": "thp",
    "Hardware prefetchers": "prefetchers",
    "Memory bus": "memory_speed",
    "Virtual machine": "virtualised",
}


@dataclass(frozen=True)
class Fact:
    """A name and what was found."""

    name: str
    found: str


#: What the cells of a ``Conditions`` row are.
CONDITIONS_HEAD = (
    "",
    "compared",
    "data",
    "memory",
    "data : memory",
    "cache",
    "page cache",
    "restored by",
    "measured",
)


@dataclass(frozen=True)
class Conditions:
    """One arm: how large the data were against memory, and how cold the caches."""

    panel: str
    arm: str
    data: str
    memory: str
    ratio: str
    cache: str
    residency: str
    restore: str
    sittings: str

    @property
    def row(self) -> tuple[str, ...]:
        """Its cells in the order of the fields."""
        return astuple(self)


@dataclass(frozen=True)
class TierRow:
    """A tier as the kernel describes it."""

    name: str
    kind: str
    filesystem: str
    dax: str
    device: str
    size: str
    price: str
    warnings: str

    @property
    def row(self) -> tuple[str, ...]:
        """Its cells in the order of the fields."""
        return astuple(self)


@dataclass(frozen=True)
class Settings:
    """An engine's version and the settings given to it (all others are its defaults)."""

    title: str
    build: str
    source: str
    given: tuple[tuple[str, str, str], ...]  # name, given, effective


def conditions(panel: Panel, arm: Arm) -> Conditions:
    """The conditions of one arm, over all of its runs."""
    results = [run.run for run in arm.runs]
    manifests = [run.manifest for run in arm.runs if run.manifest]
    return Conditions(
        panel.title,
        arm.marked_name,
        _either(_size(run["data_bytes"]) for run in results),
        _either(_memory(run, run_manifest(arm, run)) for run in results),
        _either(_ratio(run) for run in results),
        _either(str(run["spec"]["params"].get("cache", "not stated")) for run in results),
        _residency([entry for run in results for entry in run["residency"]]),
        _either(manifest["restore_method"] for manifest in manifests),
        _sittings(arm),
    )


def _sittings(arm: Arm) -> str:
    """``in one go``; after which steps its runs were cut off and gone on with."""
    cut = [f"resumed after {', '.join(after)}" for run in arm.runs if (after := resumed(run))]
    more = f" ({len(cut)} of {len(arm.runs)} runs)" if cut else ""
    return f"{'; '.join(dict.fromkeys(cut))}{more}" if cut else "in one go"


def run_manifest(arm: Arm, run: Mapping[str, Any]) -> Mapping[str, Any]:
    """The manifest of a run document of this arm; empty where there is none."""
    return next((one.manifest for one in arm.runs if one.run["run_id"] == run["run_id"]), {})


def host_facts(runs: Sequence[StoredRun]) -> Iterable[tuple[Fact, ...]]:
    """What the kernel said of every host (and of every mode and kernel of it), each once."""
    seen: dict[tuple[Fact, ...], None] = {}
    for run in runs:
        if run.manifest:
            found = tuple(_host(run.manifest["host"]))
            seen[found] = None
    return seen


def tier_rows(runs: Sequence[StoredRun]) -> Iterable[TierRow]:
    """Every tier that held something, each once."""
    tiers = (tier for run in runs if run.manifest for tier in run.manifest["tiers"])
    return dict.fromkeys(_tier(tier) for tier in tiers)


def engine_settings(panel: Panel) -> list[Settings]:
    """Version, build and given settings of a panel's arms, each set of them once.

    Another memory limit, tuning or engine brings settings of its own: those of the first
    arm do not stand for the others.
    """
    found: dict[tuple[tuple[str, str], ...], list[tuple[str, StoredRun]]] = {}
    for arm in panel.arms:
        run = next((run for run in arm.runs if run.manifest), None)
        if run is not None:
            found.setdefault(_how_it_ran(run), []).append((arm.marked_name, run))
    if not found:
        return [Settings(panel.title, "unknown", "unknown", ())]
    return [
        _settings(
            panel.title if len(found) == 1 else f"{panel.title}, {', '.join(n for n, _ in held)}",
            held[0][1].manifest["engine"],
        )
        for held in found.values()
    ]


def _how_it_ran(run: StoredRun) -> tuple[tuple[str, str], ...]:
    """Facts of the engine as given; ports and paths, which differ run by run, left out."""
    told = ("engine.version", "engine.build", "engine.source", "engine.settings.")
    return tuple(sorted((f, v) for f, v in facts(run).items() if f.startswith(told)))


def _settings(title: str, engine: Mapping[str, Any]) -> Settings:
    given = tuple(
        (name, value, engine["effective_config"].get(name, "–"))
        for name, value in sorted(engine["settings"].items())
    )
    return Settings(title, engine["build"], engine["source"], given)


def _either(found: Iterable[str]) -> str:
    return " or ".join(dict.fromkeys(found)) or "unknown"


def _size(size_bytes: int | None) -> str:
    return "unknown" if size_bytes is None else format_bytes(size_bytes)


def _memory(run: Mapping[str, Any], manifest: Mapping[str, Any]) -> str:
    cap = manifest.get("memory_cap", {"method": "none"})
    how = "whole host" if cap["method"] == "none" else f"capped by {cap['method']}"
    return f"{_size(run['memory_bytes'])} ({how})"


def _ratio(run: Mapping[str, Any]) -> str:
    data, memory = run["data_bytes"], run["memory_bytes"]
    if not data or not memory:
        return "unknown"
    text = f"{significant(data / memory)} : 1"
    return f"{text}, fits in cache" if data <= memory else text


def _residency(measured: Sequence[Mapping[str, Any]]) -> str:
    """The worst cold start of all the runs, and how many there were."""
    if not measured:
        return "not measured"
    shares = [
        entry["resident_bytes"] / entry["total_bytes"]
        for entry in measured
        if entry["resident_bytes"] is not None and entry["total_bytes"]
    ]
    notes = dict.fromkeys(entry["note"] for entry in measured if entry["note"])
    said = (
        [f"at most {percent(max(shares))} resident at {len(shares)} cold starts"] if shares else []
    )
    return "; ".join([*said, *notes]) or "could not be measured"


def _host(host: Mapping[str, Any]) -> Iterable[Fact]:
    cpu = host["cpu"]
    yield Fact("Host", f"{host['hostname']} ({host['host_id']})")
    yield Fact("Mode", host["mode"])
    yield Fact(
        "CPU",
        f"{cpu['model']}, {cpu['sockets']} sockets, {cpu['cores']} cores, {cpu['threads']} threads",
    )
    yield Fact("Instructions", " ".join(cpu["flags"]) or "none of interest")
    yield Fact("Microcode", str(cpu["microcode"] or "unknown"))
    yield Fact("Memory", format_bytes(host["memory_bytes"]))
    nodes = (
        f"node {n['node']}: {format_bytes(n['memory_bytes'])}, CPUs {n['cpus'] or 'none'}"
        for n in host["numa_nodes"]
    )
    yield Fact("NUMA", "; ".join(nodes))
    yield Fact("Kernel", f"{host['kernel']['release']} ({host['kernel']['cmdline']})")
    for name, key in _HOST_STATES.items():
        yield Fact(name, _yes(host[key]))
    domains = ", ".join(f"{region}: {d}" for region, d in host["persistence_domains"].items())
    yield Fact("Persistence domain", domains or "no persistent memory")


def _tier(tier: Mapping[str, Any]) -> TierRow:
    facts = tier["facts"]
    kind = tier["kind"]
    if tier.get("emulates"):
        kind += f" ({EMULATED}, stands in for {tier['emulates']})"
    blocks = facts.get("block_size_bytes")
    filesystem = facts.get("filesystem") or "–"
    price = tier.get("price_per_gb")
    device = " ".join(str(facts[k]) for k in ("device", "device_model") if facts.get(k))
    return TierRow(
        tier["name"],
        kind,
        f"{filesystem}, blocks of {format_bytes(blocks)}" if blocks else filesystem,
        _yes(facts.get("dax")),
        device or str(tier.get("device") or "–"),
        _size(facts.get("size_bytes")),
        f"${price:g}/GB" if price is not None else "–",
        "; ".join([*tier.get("warnings", []), *facts.get("notes", [])]),
    )


def _yes(found: object) -> str:
    if found is None:
        return "none or unknown"
    return (
        {True: "yes", False: "no"}.get(found, str(found)) if isinstance(found, bool) else str(found)
    )
