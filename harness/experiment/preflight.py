"""Check runs before anything is changed; the errors here exit with 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from harness import registry, remote_hosts
from harness.engine import (
    Engine,
    EngineFactory,
    EngineVersion,
    MemoryPolicy,
)
from harness.errors import UsageError, unknown
from harness.execution.engine_run import EngineRun
from harness.execution.environment import Environment
from harness.execution.memory_policy import check_memory_policy
from harness.execution.observing import check_observers
from harness.execution.placed_relations import check_tables, relation_bytes
from harness.execution.run_monitors import check_monitors
from harness.experiment.placement import DIRECTORY_PARTS, Part
from harness.experiment.profile import LEAST_MEMORY
from harness.experiment.server_environment import check_environment
from harness.experiment.tuning import settings_for
from harness.host.listen_address import Address, check_listen, parse_listen
from harness.host.processors import resolve_cpus
from harness.iotrace.page import LIBRARY, parse_plant
from harness.monitors.io import IoMonitor
from harness.native_programs import find_native
from harness.store.checkpoint import Attempt
from harness.store.datasets import dataset_name
from harness.store.run_store import Store
from harness.store.runs import StoredRun
from harness.store.spec import RunSpec
from harness.store.verified import verified
from harness.tiers.discovery import store_tier, work_tier
from harness.tiers.linux.model import Tier
from harness.tiers.memory_policy import check_room, usable_bytes
from harness.tiers.resolve import bound_nodes, check_dimms, check_space, resolve
from harness.units import MIB, NS_PER_S, format_bytes
from harness.warnings import RunWarning, warn
from harness.workloads.parameters import Outline

#: For tuning profiles, where no duration bounds the window.
_ASSUMED_WINDOW_NS = 60 * NS_PER_S
#: Logs and temporary files of a run, and the log of every transaction that a client writes (50
#: bytes each, at 40,000 a second).
_WORK_BYTES, _LOGGED_BYTES_PER_S = 128 * MIB, {"pgbench": 2 * MIB}
#: Scratch of an engine that is made to be checked and never started.
_NOWHERE = Path("/nonexistent")


class _RunnableEngineRun(EngineRun):
    """A run that can be started: the runner knows only its base class."""

    def run(self, env: Environment, store: Store, attempt: Attempt) -> StoredRun:
        # Clients and numpy take long to import, and a list of runs needs none of them.
        from harness.execution.runner import run_on_engine

        return run_on_engine(self, env, store, attempt)


def prepare(spec: RunSpec, env: Environment) -> EngineRun:
    """Check one spec; UsageError for the first thing that cannot work."""
    factory = registry.engine(spec.engine, spec.workload)
    workload = registry.workload(spec.workload)
    params = registry.parameters_of(spec)
    outline = params.outline()
    _check_known(f"driver of {spec.workload}", [spec.driver], list(params.drivers))
    _check_instances(spec, outline)
    check_monitors(spec)
    _check_known(f"option of {spec.engine}", list(spec.engine_options), sorted(factory.options))
    check_observers(spec)
    supported = factory.supported_parts(spec.engine_options)
    _check_placement(spec, factory, supported)
    version = factory.available(spec.engine_options, env.engines_prefix)
    tiers: Mapping[Part, Tier] = {}
    policy = None
    if spec.placement is not None:
        tiers, policy = resolve(spec.placement, env.tiers)
        check_dimms(spec.required_dimms, tiers.values(), env.tiers)
        _check_paths(factory, tiers, env)
    _check_environment(spec, env)
    cpus = _processors(spec, tiers)
    if spec.memory is not None:
        policy = _bound_memory(spec, tiers, supported)
    threads = spec.threads or env.cores(cpus)
    memory_bytes = spec.memory_limit_bytes or usable_bytes(policy, env.memory_bytes)
    of_file = factory.settings_of_file(spec.engine_options, env.engines_prefix)
    settings = settings_for(
        spec.tuning,
        spec.engine,
        {
            "memory": float(memory_bytes // outline.instances),
            "cores": float(threads),
            "scale": outline.scale,
            "connections": outline.connections,
            "window": max(1.0, (outline.window_ns or _ASSUMED_WINDOW_NS) / NS_PER_S),
            "data": workload.loaded_bytes(params),
        },
        {**of_file.values, **spec.settings},
    )
    listen = _listen(spec, factory, outline)
    addresses: tuple[str, ...] = ()
    if listen is not None:
        addresses = remote_hosts.addresses(outline.client_hosts, listen.host)
    resolved = _RunnableEngineRun(
        spec=spec.checked,
        factory=factory,
        version=version,
        workload=workload,
        params=params,
        tiers=tiers,
        memory_policy=policy,
        settings=settings,
        threads=threads,
        cpus=cpus,
        listen=listen,
        client_addresses=addresses,
        warnings=(*of_file.warnings, *_untested(factory, version)),
    )
    _check_cache(resolved)
    _check_memory_limit(resolved, env)
    of_nodes = check_room(policy, spec.memory_limit_bytes)
    engine = factory.create(resolved.context(env, env.supervisor, _NOWHERE))
    if listen is not None and not engine.takes_remote_clients:
        raise UsageError(
            f"listen {listen} on {engine.name}",
            "the harness cannot have its server listen",
            "leave listen out",
        )
    _check_plant(spec, engine, supported)
    _check_models(resolved, engine, supported)
    of_memory = check_memory_policy(policy, factory.title, engine.traced, cpus)
    workload.check_engine(params, spec.driver, engine, settings)
    name = ""
    if not resolved.external:
        name = dataset_name(f"{spec.workload}-{spec.engine}", resolved.dataset_facts(engine))
    resolved = replace(
        resolved,
        warnings=(*resolved.warnings, *of_nodes, *of_memory),
        load_format=engine.load_format or "",
        log_limit_bytes=None if resolved.external else engine.log_limit_bytes(),
        dataset_name=name,
        source_name=workload.source_key(params, engine),
    )
    _check_relations(resolved, engine, env)
    return resolved


def _untested(factory: EngineFactory, version: EngineVersion) -> list[RunWarning]:
    if not factory.untested or verified(factory.name, version):
        return []
    return [
        RunWarning(
            "engine-untested",
            f"{factory.title} could not be tried when its support was written",
            f"release {version.version} has not passed `harness engines verify` here",
            f"run: harness engines verify {factory.name} --dsn …",
        )
    ]


def prepare_all(
    specs: Sequence[RunSpec], env: Environment, refused: dict[str, UsageError] | None = None
) -> list[EngineRun]:
    """Check every spec of a plan, repeats once, and that its data and its largest run fit.

    ``refused``: gets by series why a run is not possible by itself, in place of an error.
    """
    once: dict[str, EngineRun] = {}
    for spec in specs:
        series = spec.series()
        if series in once or series in (refused or ()):
            continue
        try:
            run = prepare(spec, env)
            if refused is not None:
                _check_space([run], env)
        except UsageError as error:
            if refused is None:
                raise
            refused[series] = error
            continue
        once[series] = run
        for warning in run.warnings:
            warn(warning)
    _check_space([*once.values()], env)
    ready = ((spec, once[series]) for spec in specs if (series := spec.series()) in once)
    return [replace(run, spec=spec.checked) for spec, run in ready]


def _check_space(runs: Sequence[EngineRun], env: Environment) -> None:
    """UsageError where the data of all of them and each of them do not fit."""
    data = _data_needed([run for run in runs if not run.external], env)
    for run in runs:
        parts = [] if run.external else [*_parts_needed(run, env), *data]
        work = (work_tier(), "logs and temporary files", _work_bytes(run))
        check_space([*parts, work], smaller=run.params.smaller)


def _work_bytes(resolved: EngineRun) -> int:
    """Estimate what a run's processes write into its work directories."""
    outline = resolved.params.outline()
    logged_s = (outline.ramp_up_ns + outline.window_ns) / NS_PER_S
    return _WORK_BYTES + int(logged_s * _LOGGED_BYTES_PER_S.get(resolved.spec.driver, 0))


def _check_known(kind: str, names: Sequence[str], supported: Sequence[str]) -> None:
    for name in names:
        if name not in supported:
            raise unknown(f"{kind} {name!r}", f"no such {kind}", name, supported)


def _check_placement(spec: RunSpec, factory: EngineFactory, supported: frozenset[Part]) -> None:
    placement = spec.placement
    if not supported:
        if placement is not None:
            raise UsageError(
                f"placement {placement.name!r} for an external {factory.name} server",
                "the harness cannot place a server that it does not run",
                "leave --placement out, and describe its set-up with --label",
            )
        return
    if placement is None:
        raise UsageError(
            f"engine {factory.name}",
            "no placement is given",
            "add a placement such as --placement ssd-both",
        )
    for part in sorted(placement.named - supported):
        if part == "wal" and placement.wal == placement.data:
            continue  # ssd-both: an engine without a log has no other part
        why = f": {factory.not_placeable[part]}" if part in factory.not_placeable else ""
        raise UsageError(
            f"placement {placement.name!r}",
            f"{factory.title} cannot place the part {part!r} on its own{why}",
            f"it can place: {', '.join(sorted(supported))}",
        )
    for relation in placement.placed_relations:
        if relation.kind not in factory.relation_kinds:
            why = factory.not_placeable.get("relations", "the harness has no way to do it")
            kinds = " and ".join(f"{kind}:NAME" for kind in sorted(factory.relation_kinds))
            raise UsageError(
                f"placement {placement.name!r}",
                f"{factory.title} cannot place {relation} on its own: {why}",
                f"it can place {kinds}" if kinds else "place a part, such as data",
            )


def _check_relations(resolved: EngineRun, engine: Engine, env: Environment) -> None:
    """UsageError for a table or an index that the dataset, or else the schema, does not have."""
    placement = resolved.spec.placement
    if placement is None or placement.relations is None:
        return
    if (dataset := env.datasets.find(resolved.dataset_name)) is not None:
        relation_bytes(resolved, dataset)
    else:
        check_tables(placement, resolved.workload.tables(resolved.params, engine))


def _check_instances(spec: RunSpec, outline: Outline) -> None:
    """UsageError for several instances of a server that is not the harness's."""
    if outline.instances > 1 and spec.placement is None:
        raise UsageError(
            f"{outline.instances} instances of an external server",
            "the harness does not start it, and cannot start more of them",
            "leave --instances out, or let the harness run the engine",
        )


def _check_paths(factory: EngineFactory, tiers: Mapping[Part, Tier], env: Environment) -> None:
    """UsageError for a directory that the engine's settings cannot name."""
    named = {f"tier {t.name!r}": t.claim.path for t in tiers.values() if t.claim.path}
    for what, path in {**named, "loaded datasets": str(env.datasets.root)}.items():
        for character in factory.path_separators:
            if character in path:
                raise UsageError(
                    f"{what} in {path}",
                    f"{factory.title} cannot use a path with {character!r}",
                    "name another directory of that file system in the host file",
                )


def _check_environment(spec: RunSpec, env: Environment) -> None:
    if spec.env and spec.placement is None:
        raise UsageError(
            f"environment {', '.join(spec.env)} for an external server",
            "the harness does not start it",
            "leave --env out, and describe its set-up with --label",
        )
    check_environment(spec.env, env.credentials)


def _processors(spec: RunSpec, tiers: Mapping[Part, Tier]) -> tuple[int, ...]:
    if spec.cpus is None:
        return ()
    if spec.placement is None:
        raise UsageError(
            f"processors {spec.cpus!r} for an external server",
            "the harness does not run it and cannot pin it to processors",
            "leave --cpus out",
        )
    data = tiers.get("data")
    return resolve_cpus(spec.cpus, data_node=data.facts.numa_node if data else None)


def _bound_memory(
    spec: RunSpec, tiers: Mapping[Part, Tier], supported: frozenset[Part]
) -> MemoryPolicy | None:
    """The policy of a profile's memory nodes; None where the host has no others."""
    if "memory" not in supported:
        raise UsageError(
            f"memory {spec.memory} for {spec.engine}",
            "the harness cannot place its memory",
            "leave memory out of the profile",
        )
    nodes = bound_nodes(spec.memory or "", tiers["data"].facts.numa_node)
    return MemoryPolicy("bind", nodes) if nodes else None


def _check_plant(spec: RunSpec, engine: Engine, supported: frozenset[Part]) -> None:
    """UsageError for a delay that would not reach the engine."""
    for text in spec.plant:
        plant = parse_plant(text)
        if not engine.traced:
            context = f"the harness does not trace {engine.name}"
        elif plant.part not in supported:
            context = f"{plant.part} of {engine.name} cannot be placed, nor traced"
        elif IoMonitor.name in spec.no_monitors:
            context = "the monitor io is excluded"
        elif find_native(LIBRARY) is None:
            context = f"{LIBRARY} was not built: install the harness again (make setup)"
        else:
            continue
        raise UsageError(f"planted delay {text}", context, "leave --plant out")


def _check_models(resolved: EngineRun, engine: Engine, supported: frozenset[Part]) -> None:
    """UsageError for a modelled tier whose times would not reach the engine."""
    spec = resolved.spec
    for part, model in resolved.models.items():
        if part not in (*supported, "relations"):
            continue
        tier = resolved.tiers[part]
        hint = f"place {part} on another tier, or use another model"
        if not engine.traced:
            context = f"the harness does not trace {engine.name}"
        elif IoMonitor.name in spec.no_monitors:
            context, hint = "the monitor io is excluded", "leave out --no-monitor io"
        elif find_native(LIBRARY) is None:
            context, hint = f"{LIBRARY} was not built", "install the harness again (make setup)"
        elif reason := engine.unmodelled(part):
            context, hint = reason
        elif missing := model.missing(part):
            context = f"the model does not state {', '.join(missing)}"
        else:
            continue
        raise UsageError(f"{part} on {tier.name}, which is modelled as {model.name}", context, hint)


def _listen(spec: RunSpec, factory: EngineFactory, outline: Outline) -> Address | None:
    """The address where its server listens; UsageError without a server or remote clients."""
    if spec.listen is None:
        return None
    problem = f"listen {spec.listen} on {factory.name}"
    if "managed" not in factory.kinds:
        raise UsageError(
            problem,
            f"{factory.title} runs in the client's process and has no server",
            "leave listen out, or choose a managed engine (`harness engines list`)",
        )
    if spec.placement is None:
        raise UsageError(
            problem,
            "the harness does not configure an external server",
            "leave listen out; the DSN names its address",
        )
    if not outline.client_hosts:
        raise UsageError(
            problem,
            "the client of this run is on this host and uses the server's private socket",
            "name the hosts with -p client_hosts=…, or leave listen out",
        )
    address = parse_listen(spec.listen)
    check_listen(address)
    return address


def _check_cache(resolved: EngineRun) -> None:
    cache = resolved.params.outline().cache
    if resolved.external and cache != "warm" and not resolved.factory.clears_caches:
        raise UsageError(
            f"cache mode {cache!r} on an external server",
            "the harness can neither restart it nor evict its files",
            "use --cache warm",
        )
    if resolved.external and resolved.workload.changes_key(resolved.params):
        raise UsageError(
            "refresh functions on an external server",
            "they change its data, and the harness cannot restore an external server",
            "add --no-refresh, or let the harness run the engine",
        )


def _check_memory_limit(resolved: EngineRun, env: Environment) -> None:
    limit = resolved.spec.memory_limit_bytes
    if limit is None:
        return
    if resolved.external:
        raise UsageError(
            "a memory limit for an external server",
            "the harness does not run it and cannot cap it",
            "leave --memory-limit out",
        )
    most = format_bytes(env.memory_bytes)
    of_profile = "for a profile that computes it from its size, use a"
    instances = resolved.instances
    if limit < LEAST_MEMORY * instances:
        shared = f", which {instances} instances share" if instances > 1 else ""
        least = format_bytes(LEAST_MEMORY * instances)
        raise UsageError(
            f"memory limit {format_bytes(limit)}{shared}",
            f"less than any engine needs to start ({format_bytes(LEAST_MEMORY)})",
            f"set {least} or more; {of_profile} larger --size",
        )
    if limit > env.memory_bytes:
        raise UsageError(
            f"memory limit {format_bytes(limit)}",
            f"the harness may use {most} of this host's memory, so that it limits nothing",
            f"set less than {most}, or leave it out; {of_profile} smaller --size",
        )


def _parts_needed(resolved: EngineRun, env: Environment) -> list[tuple[Tier, str, int]]:
    estimate = dict(resolved.needs_bytes)
    if "relations" in resolved.tiers and (dataset := env.datasets.find(resolved.dataset_name)):
        estimate["relations"] = relation_bytes(resolved, dataset)
    return [
        (resolved.tiers[part], str(part), estimate.get(part, 0))
        for part in (*DIRECTORY_PARTS, "relations")
        if part in resolved.tiers
    ]


def _data_needed(runs: Sequence[EngineRun], env: Environment) -> list[tuple[Tier, str, int]]:
    """Datasets and source files that the plan has to make, each once."""
    datasets: dict[str, int] = {}
    source: dict[str, int] = {}
    for run in runs:
        if env.datasets.find(run.dataset_name) is not None:
            continue
        datasets[run.dataset_name] = sum(run.database_bytes.values())
        if run.source_name and env.source.find(run.source_name) is None:
            source[run.source_name] = run.workload.source_bytes(run.params, run.load_format)
    for run in runs:
        name = run.workload.changes_key(run.params)
        if name and env.source.find(name) is None:
            source[name] = run.workload.changes_bytes(run.params)
    needed = [
        (env.datasets.root, "loaded datasets", datasets),
        (env.source.root, "source files", source),
    ]
    return [(store_tier(root), what, sum(sizes.values())) for root, what, sizes in needed if sizes]
