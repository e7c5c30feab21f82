"""Flat facts of a run: the things two runs can differ in, and what they imply.

Compare refuses runs whose facts differ in more than what is compared. A *dimension* is
what may be compared; some facts follow from it (another placement brings other tiers,
another memory limit another buffer pool) and are then no difference of their own.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from harness.metrics import parameters
from harness.models.score import ScoreStore, summary
from harness.store.documents import as_json, attributes
from harness.store.host import NumaNode
from harness.store.result import Emulated, Manifest
from harness.store.runs import StoredRun, once_a_run
from harness.store.spec import HOST_STATE, RunSpec
from harness.units import format_bytes
from reports.formatting import BY_MODEL, stand_in_mark

Facts = Mapping[str, str]

#: Settings that say where something is or what it is called, not how it works.
_WHERE_SETTINGS = (
    "port",
    "listen_addresses",
    "bind_address",
    "temp_tablespaces",
    "default_tablespace",
    "cluster_name",
    "*_directory",
    "*_directories",
    "*_file",
    "*_path",
    "socket",
    "pid_file",
    "log_*",
)
#: Facts of a tier that decide its speed, and which disk or namespace it is: another one of
#: the same model is another device (its wear, its firmware, its slot), whatever the tier is
#: called. The path on it, the partition and the free space are ignored. A disk that
#: has got another name since the last boot is taken for another one, and that is said.
_TIER_FACTS = (
    "kind",
    "model",
    "filesystem",
    "mount_options",
    "block_size_bytes",
    "dax",
    "device_model",
    "rotational",
    "disks",
    "namespace",
    "namespace_mode",
    "namespace_alignment_bytes",
    "interleave_ways",
    "persistence_domain",
    "numa_node",
)
#: Of a tier of memory nodes, as it is claimed.
_NUMA_CLAIM = ("nodes", "policy", "weights")
_HOST_FACTS = (
    "host_id",
    "cpu",
    "kernel",
    *HOST_STATE,
    "virtualised",
    "persistence_domains",
    "mitigations",
)
#: Parts of the spec that are no fact of their own: the repeat, a requirement that the
#: detected mode answers, and what the placement's own facts say.
_SPEC_LEFT_OUT = ("schema", "block", "required_host_mode", "placement", "label", "plant")


def followers() -> dict[str, tuple[str, ...]]:
    """Facts that follow from another unless they are set, by that other."""
    return {
        f"params.{name}": tuple(f"params.{implied}" for implied in info.implies)
        for name, info in parameters().items()
        if info.implies
    }


@dataclass(frozen=True)
class Dimension:
    """Something runs may be compared over.

    ``fact``: the fact that names its value. ``implies``: patterns of facts that
    follow from it. ``one_sided``: patterns that follow only where one run lacks the
    fact (a tier that only the other placement uses).
    """

    name: str
    fact: str
    implies: tuple[str, ...] = ()
    one_sided: tuple[str, ...] = ()

    def covers(self, fact: str, a: str | None, b: str | None) -> bool:
        """Return whether a difference in ``fact`` is part of comparing over this dimension."""
        if fact == self.fact or any(fnmatchcase(fact, pattern) for pattern in self.implies):
            return True
        one_sided = a is None or b is None
        return one_sided and any(fnmatchcase(fact, pattern) for pattern in self.one_sided)


CPU_QUOTA = "run_state.cpu_quota"
#: What follows from an engine and its settings; the CPU quota does not.
_FOUND = ("run_state.huge_pages", "run_state.async_io")
_TUNED = ("engine.settings.*", "engine.config.*", *_FOUND)
#: What a server is set to that listens on an address.
_LISTENING = tuple(
    f"engine.config.{name}" for name in ("ssl", "require_secure_transport", "skip_networking")
)
#: From the narrowest to the widest: where several explain a difference, the first does.
DIMENSIONS: dict[str, Dimension] = {
    dimension.name: dimension
    for dimension in (
        Dimension(
            "placement",
            "placement",
            ("emulate", "models", "run_state.memory_policy"),
            ("tier.*",),
        ),
        Dimension("cache", "params.cache"),
        Dimension("threads", "threads", _TUNED),
        Dimension("cpus", "cpus", ("threads", *_TUNED)),
        Dimension("cpu_quota", CPU_QUOTA, ("threads", *_TUNED)),
        Dimension("memory", "memory", ("memory_bytes", *_TUNED)),
        Dimension("listen", "listen", _LISTENING),
        # Each driver builds the data that it drives.
        Dimension("driver", "driver", ("tools.*", "dataset.*")),
        *(
            Dimension(name, fact, (*followers().get(fact, ()), *_TUNED))
            for name, fact in (("users", "params.users"), ("params.threads", "params.threads"))
        ),
        Dimension("restore_method", "restore_method"),
        Dimension("harness", "harness.version", ("harness.*",)),
        # Arms of `harness run --arm` differ in what the user says that they differ in.
        Dimension(
            "arm",
            "arm",
            (
                "engine.*",
                "engine_options.*",
                "settings.*",
                "env.*",
                "dataset.*",
                *("placement", "emulate", "models", "threads", "cpus", "tuning"),
                "memory_cap.*",
                "memory_limit_bytes",
                "memory_bytes",
                *("params.*", "run_state.memory_policy"),
                *_FOUND,
            ),
            ("tier.*",),
        ),
        Dimension("tuning", "tuning", ("settings.*", *_TUNED)),
        Dimension(
            "memory_limit",
            "memory_limit_bytes",
            ("memory_cap.*", "memory_bytes", "settings.*", *_TUNED),
        ),
        Dimension(
            "kernel",
            "host.kernel.release",
            ("host.kernel.*", "host.mitigations.*", "run_state.async_io"),
        ),
        Dimension(
            "host_mode",
            "host_mode",
            (
                "host.kernel.cmdline",
                "host.persistence_domains*",
                "host.memory",
                "memory_bytes",
                "host.numa_nodes*",
                *_TUNED,
            ),
            ("tier.*",),
        ),
        Dimension(
            "engine_version",
            "engine.version",
            ("engine.build", "engine.source", "dataset.*", "tools.*", *_TUNED),
        ),
        Dimension(
            "engine",
            "engine",
            (
                "engine.*",
                "engine_options.*",
                "settings.*",
                "dataset.*",
                "tools.*",
                "memory_bytes",
                *_FOUND,
            ),
        ),
        Dimension(
            "host",
            "host.host_id",
            (
                "host.*",
                "host_mode",
                "memory_bytes",
                "tier.*",
                # What the host's compiler and distribution make of one version.
                *("engine.build", "engine.source", "tools.*"),
                "restore_method",
                "threads",
                "memory_cap.*",
                "run_state.*",
                *_TUNED,
            ),
        ),
    )
}


def dimension(name: str, facts: Collection[str] = ()) -> Dimension:
    """A named dimension; any other name is taken as a fact (of ``facts``) compared on its own."""
    if name in DIMENSIONS:
        return DIMENSIONS[name]
    fact = fact_named(name, facts)
    setting = fact.removeprefix("settings.")
    of_engine = (f"engine.settings.{setting}", f"engine.config.{setting}")
    return Dimension(fact, fact, (f"{fact}.*", f"settings.{setting}", *of_engine))


def fact_named(name: str, facts: Collection[str]) -> str:
    """Return the fact that a name stands for: parameters, settings, variables need no prefix."""
    names = (name, f"params.{name}", f"settings.{name}", f"env.{name}")
    return next((fact for fact in names if fact in facts), name)


def other_facts(
    run_facts: Facts, over: Iterable[Dimension], swept: Collection[str] = ()
) -> frozenset[tuple[str, str]]:
    """The facts that are equal wherever runs are compared over these dimensions.

    ``swept``: facts that a dimension would cover, but of which each side has the same values.
    """
    return frozenset(
        (fact, value)
        for fact, value in run_facts.items()
        if fact in swept or not any(dim.covers(fact, value, value) for dim in over)
    )


def swept_facts(sides: Iterable[Iterable[Facts]], over: Iterable[Dimension]) -> frozenset[str]:
    """The facts implied by a dimension of which all of several sides share at least two values.

    ``--users 1,8 --arm a: --arm b:'--threads 2'`` compares b with a at one user and at eight,
    although arms may differ in their users, too.
    """
    over = tuple(over)
    taken = [
        {
            (fact, value)
            for run_facts in side
            for fact, value in run_facts.items()
            if any(fact != dim.fact and dim.covers(fact, value, value) for dim in over)
        }
        for side in sides
    ]
    shared = frozenset.intersection(*map(frozenset, taken)) if len(taken) > 1 else frozenset()
    values = Counter(fact for fact, _ in shared)
    return frozenset(fact for fact, number in values.items() if number > 1)


def emulated_tiers(run: StoredRun) -> list[Emulated]:
    """The emulated tiers that this run's numbers come from."""
    placement, emulated = run.spec.placement, run.head.emulated
    return [
        stand_in for stand_in in emulated if placement is None or stand_in.tier in placement.tiers()
    ]


def modelled_tiers(run: StoredRun) -> list[tuple[str, str]]:
    """The modelled tiers that this run's numbers come from, each with its model."""
    pairs = [text.partition(": ")[::2] for text in run.head.modelled]
    used = run.spec.placement.tiers() if run.spec.placement else ()
    return [(tier, model) for tier, model in pairs if tier in used]


def stand_ins(run: StoredRun) -> tuple[str, ...]:
    """The stand-ins that this run's numbers come from.

    ``pmem by tmpfs`` is an emulated tier, ``fast by the model zero`` a modelled one.
    """
    emulated = (f"{stand_in.tier} by {stand_in.by}" for stand_in in emulated_tiers(run))
    return (*emulated, *(f"{tier}{BY_MODEL}{model}" for tier, model in modelled_tiers(run)))


def emulations(runs: Iterable[StoredRun]) -> tuple[str, ...]:
    """The stand-ins of several runs, each once; of a model with its score."""
    texts = {
        f"{text} ({_score(run.results, run.host_id, run.spec.engine)})"
        if BY_MODEL in text
        else text
        for run in runs
        for text in stand_ins(run)
    }
    return tuple(sorted(texts))


@cache
def _score(results: Path, host_id: str, engine: str) -> str:
    """How far models were from devices of this host and engine."""
    scores = [score for score in ScoreStore(results).all() if score.engine == engine]
    return summary(scores, host_id)


def marked(name: str, emulated: Sequence[str], unknown: bool) -> str:
    """A name as every legend and header shows it; †: a check of it is unknown."""
    mark = stand_in_mark(emulated)
    return f"{name}{f' ({mark})' if mark else ''}{' †' if unknown else ''}"


@once_a_run
def facts(run: StoredRun) -> Facts:
    """Return all comparable facts of a run, flat, as text, without times, ids and paths."""
    flat = {**spec_facts(run), "memory_bytes": _rounded(run.result.memory_bytes)}
    return flat | _manifest_facts(run.manifest) if run.manifest else flat


@once_a_run
def spec_facts(run: StoredRun) -> Facts:
    """Return the facts that were decided before the run: they distinguish series."""
    return facts_of_spec(run.spec, run.head.host_mode)


def parameter_facts(spec: RunSpec, names: Iterable[str]) -> dict[str, str]:
    """Return these parameters of ``spec_facts`` alone, which takes a tenth of the time."""
    return _flatten("params", {n: spec.params[n] for n in names if n in spec.params})


def facts_of_spec(spec: RunSpec, host_mode: str) -> dict[str, str]:
    """Return the ``spec_facts`` of a run that is planned for a host in this mode."""
    members = spec.to_json().items()
    decided = {name: value for name, value in members if name not in _SPEC_LEFT_OUT}
    decided["monitors"] = list(spec.added_monitors)
    flat = _flatten("", decided)
    arm = {"arm": spec.arm} if spec.arm else {}
    return flat | {"placement": spec.where, "host_mode": host_mode} | arm


def _manifest_facts(manifest: Manifest) -> dict[str, str]:
    host, engine = manifest.host, manifest.engine
    flat = _flatten("host", attributes(host, *_HOST_FACTS))
    # A reboot moves the last kilobytes; a DIMM more or less shows in three digits.
    flat["host.memory"] = _rounded(host.memory_bytes)
    flat |= _flatten("host.numa_nodes", _nodes(host.numa_nodes))
    for tier in manifest.tiers:
        of_tier = {
            name: as_json(getattr(tier if name == "model" else tier.facts, name))
            for name in _TIER_FACTS
        }
        if tier.kind == "numa":
            of_tier |= {name: as_json(getattr(tier, name)) for name in _NUMA_CLAIM}
        flat |= _flatten(f"tier.{tier.name}", of_tier)
    of_engine = ("version", "build", "source", "kind")
    flat |= _flatten("engine", {name: getattr(engine, name) for name in of_engine})
    flat |= _how("engine.settings", engine.settings)
    flat |= _how("engine.config", engine.effective_config)
    for part in ("harness", "memory_cap", "run_state", "tools"):
        flat |= _flatten(part, as_json(getattr(manifest, part)))
    if dataset := manifest.dataset:  # how it was loaded is no difference of the data
        flat |= _flatten("dataset", {"key": dataset.key, "fingerprint": dataset.fingerprint})
    return flat | {"restore_method": manifest.restore_method}


def _nodes(nodes: Sequence[NumaNode]) -> dict[str, str]:
    """By node: its memory, and whether it has processors.

    A single node's is the host's: what Linux reports of the node may change under a hypervisor
    while the host's does not.
    """
    several = sum(bool(node.memory_bytes) for node in nodes) > 1
    return {
        str(node.node): (
            _rounded(node.memory_bytes) if several or not node.memory_bytes else "the host's memory"
        )
        + ("" if node.cpus else " without processors")
        for node in nodes
    }


def _how(prefix: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Settings that say how the engine works; paths and names of places are left out."""
    return {
        f"{prefix}.{name}": value
        for name, value in settings.items()
        if not value.startswith("/")
        and not any(fnmatchcase(name, pattern) for pattern in _WHERE_SETTINGS)
    }


_encode = json.JSONEncoder(sort_keys=True, ensure_ascii=False).encode


def _as_json(value: Any) -> str:
    """Return a value as JSON; most are whole numbers or null, which need no encoder."""
    if value is None:
        return "null"
    return str(value) if type(value) is int else _encode(value)


def _flatten(prefix: str, value: Any) -> dict[str, str]:
    if isinstance(value, str):
        return {prefix: value}
    if not isinstance(value, Mapping):
        return {prefix: _as_json(value)}
    flat: dict[str, str] = {}
    for key, inner in value.items():
        flat |= _flatten(f"{prefix}.{key}" if prefix else str(key), inner)
    return flat


def _rounded(size_bytes: int | None) -> str:
    return "unknown" if size_bytes is None else format_bytes(size_bytes)
