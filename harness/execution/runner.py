"""Run a workload on an engine: :func:`run_on_engine` has the steps in their order."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial

from harness.engine import Credentials, DataDirectories, Engine, MemoryPolicy
from harness.errors import HarnessError, amending
from harness.execution.data import (
    changes_data,
    clients_of,
    existing_source,
    external_data,
    loaded_dataset,
    make_engine,
)
from harness.execution.engine_run import EngineRun
from harness.execution.engine_state import (
    EngineState,
    demotion_check,
    memory_check,
    outside_cap,
    preload_check,
    relations_check,
    unused_memory,
)
from harness.execution.environment import Environment, work_directory
from harness.execution.failure_causes import naming_full_tiers, naming_lost_data
from harness.execution.instances import EngineInstances, seed_of_instance
from harness.execution.memory_policy import in_force, policy_facts
from harness.execution.observing import second_execution
from harness.execution.placed_relations import relation_bytes
from harness.execution.run import Run, limit_not_enforced
from harness.experiment.placement import Part
from harness.experiment.server_environment import preloaded
from harness.host.cgroup import MemoryCap, capped_starter, memory_cap
from harness.host.footprint import own_memory_bytes
from harness.host.page_cache import evict
from harness.host.processors import format_cpus
from harness.host.threads import affinity_check
from harness.host.tmpfs_room import TmpfsRoom
from harness.iotrace.intervals import TimedIo
from harness.iotrace.kernel_work import PROGRAM, kernel_work
from harness.iotrace.page import LIBRARY, IoTrace, parse_plant
from harness.models.page_cache import page_cache
from harness.models.page_table import models_table
from harness.monitors import MonitorContext
from harness.monitors.io import IoMonitor
from harness.native_programs import find_native
from harness.store.checkpoint import Attempt
from harness.store.datasets import DatasetName
from harness.store.result import Check, Metric, Program
from harness.store.run_store import Store
from harness.store.runs import StoredRun
from harness.supervise import silence
from harness.supervise.process import ProcessId
from harness.supervise.user_files import regular_bytes
from harness.tiers.discovery import work_tier
from harness.tiers.linux.kernel import LIVE
from harness.tiers.linux.numa import GroupMemory, NodeResidency, group_memory, nodes
from harness.tiers.linux.numa import residency as numa_residency
from harness.tiers.memory_policy import caches_in_the_way, means_of
from harness.tiers.resolve import check_space
from harness.tiers.traffic import TierTraffic
from harness.warnings import RunWarning
from harness.workload import Session

#: Where tables and indexes are.
_HOLDING: tuple[Part, ...] = ("data", "index", "relations")
_EXTERNAL = RunWarning(
    "external-server",
    "the harness does not run this server",
    "placement, page cache, memory and other clients are not controlled, its I/O is not traced",
    "let the harness run the engine, or describe the set-up with --label",
)


def run_on_engine(
    resolved: EngineRun, env: Environment, store: Store, attempt: Attempt
) -> StoredRun:
    """Place, restore, start, evict, warm up, measure, check, stop, store."""
    import numpy  # noqa: F401  (harness.later: never first within a measured window)

    external, spec = resolved.external, resolved.spec
    run = Run(
        spec,
        env,
        attempt,
        list(dict.fromkeys(resolved.tiers.values())),
        memory_bytes=None if external else resolved.memory_bytes(env),
        processors=format_cpus(resolved.cpus) or None,
        private=resolved.workload.private,
        warnings=[*([_EXTERNAL] if external else []), *resolved.warnings],
    )
    with run.storing(store), run.measuring(), silence.phase("prepare"), _memory_cap(run):
        with ExitStack() as stack, naming_full_tiers([*run.tiers, work_tier()]):
            work = _EngineAtWork(resolved, run, stack)
            session, engine = work.session, work.engine
            with naming_lost_data(work.restored, env.credentials):
                try:
                    work.start()
                    work.record_config(engine.effective_config())
                    with (
                        run.monitored(work.monitor_context()) as session.monitors,
                        silence.phase("warm-up"),
                    ):
                        outcome = resolved.workload.measure(resolved.params, session)
                finally:
                    silence.enter("stop")  # until everything is undone
                run.add(outcome)
                work.conclude()
                # Only after a run that went well: after a failure the engine is killed (see
                # make_engine), and an unclean stop must not cover up what went wrong.
                engine.stop()
        for name in spec.observe:
            _observe(resolved, run, name)
    return run.stored


def _observe(resolved: EngineRun, record: Run, name: str) -> None:
    """Execute the run again, untimed, from the same restored data, under one observer."""
    tier, run_id = resolved.tiers["data"], record.run_id
    workplace = partial(record.env.directory, work_directory(tier, f"{run_id}-observed", "data"))
    with second_execution(record, name, workplace) as (observing, folder):
        observer = observing(folder)
        with ExitStack() as stack, silence.phase("prepare"):
            run = _EngineAtWork(resolved, record.scratch(), stack)
            run.session.checkpoint, run.session.observed = None, observer
            run.start()
            with observer.running():
                resolved.workload.measure(resolved.params, run.session)
            run.engine.stop()
        record.metrics += observer.result()
        record.warnings += observer.warnings


@contextmanager
def _memory_cap(record: Run) -> Iterator[None]:
    """Cap the run's memory; name the OOM killer in an error where it killed inside the cap."""
    limit = record.spec.memory_limit_bytes
    with memory_cap(limit, record.env.supervisor) as cap:
        record.cap = cap
        if cap is not None and cap.method == "none":
            record.warnings.append(
                limit_not_enforced(cap, "run as root, or where cgroups are delegated to you")
            )
        reason = "the kernel killed for memory inside the limit"
        hint = "raise --memory-limit, or lower the engine's memory with --set or --tuning"

        def killed(_: HarnessError) -> tuple[str, str] | None:
            return (reason, hint) if cap and cap.events().oom_kills else None

        with amending(killed, f"run {record.run_id}"):
            yield


class _EngineAtWork:
    """The engine of a run and its data. What ``stack`` holds is released in reverse order."""

    def __init__(self, resolved: EngineRun, record: Run, stack: ExitStack) -> None:
        self.resolved, self.env, self.record, self.stack = resolved, record.env, record, stack
        spec, env = resolved.spec, record.env
        self.trace = _io_trace(resolved, env, stack)
        confined = capped_starter(env.supervisor, record.cap, resolved.cpus, self.trace, spec.env)
        #: In force until the end, after that of the engine.
        self.memory = resolved.memory_policy
        if self.memory is not None:
            self.memory = stack.enter_context(in_force(self.memory, env))
        engines = [make_engine(resolved, env, stack, confined) for _ in range(resolved.instances)]
        several = len(engines) > 1
        engine = self.engine = EngineInstances(engines, env.credentials) if several else engines[0]
        self.record_config({})
        clients = [
            clients_of(resolved, env, stack, each, confined, self.memory) for each in engines
        ]
        self.session = Session(
            engine,
            env.progress,
            existing_source(resolved, env),
            drop_caches=os.geteuid() == 0,
            traffic=TierTraffic(resolved.tiers.values()),
            page_cached=_page_cached(resolved),
            checkpoint=record.folder.checkpoint,
            driver=spec.driver,
            seed=spec.seed_of_block(),
            client_starter=clients[0],
            user=env.credentials,
            check_placement=self._check_engine,
        )
        if several:
            self.session.instances = [
                replace(
                    self.session,
                    engine=each,
                    client_starter=starter,
                    checkpoint=None,
                    seed=seed_of_instance(self.session.seed, number),
                )
                for number, (each, starter) in enumerate(zip(engines, clients, strict=True), 1)
            ]
        self.state = EngineState(engine)
        self.session.on_start = self.state.observe
        record.residency = self.session.residency
        stack.callback(lambda: record.checks.extend(self.session.own_checks()))
        self.room: TmpfsRoom | None = None
        self.places: DataDirectories | None = None
        #: Of the engine as its measurement ended: its pages by node, and settings of Linux that
        #: its memory policy needs and that are not in force.
        self.residency = NodeResidency({}, {})
        self.changed: Mapping[str, str] = {}

    def start(self) -> None:
        """Restore the dataset, or load into a user's server; start the engine."""
        if (changes := changes_data(self.resolved, self.env)) is not None:
            self.stack.enter_context(changes.in_use(self.env.progress))
            self.session.changes = changes.content
        if self.resolved.external:
            self._load_external()
        else:
            self._restore()

    def _check_engine(self) -> list[Check]:
        self.env.supervisor.watch.refuse_listeners()
        self.state.observe()
        cap = self.record.cap
        if cap is not None and cap.path is not None and (reason := outside_cap(cap, self.engine)):
            self.record.drop_cap(reason)
        if self.memory is not None:
            self.residency = numa_residency(process.pid for process in self.engine.processes())
            self.changed = means_of(self.memory).settings
        group = group_memory(cap.v2_path) if cap is not None and cap.v2_path is not None else None
        checks, warnings = _placement_checks(
            self.resolved, self.memory, self.engine, self.residency, group
        )
        self.record.warnings += warnings
        return checks

    def restored(self) -> DataDirectories | None:
        """Location of the data; None before they are there, and of an external server."""
        return self.places if self.record.part_bytes.get("data") else None

    def conclude(self) -> None:
        """Record what the measured phase has left."""
        resolved, record, session, engine = self.resolved, self.record, self.session, self.engine
        env = self.env
        if session.placement_checks is None:
            session.measured()
        if self.memory is not None:
            demoted = _demoted_pages(record.metrics)
            check = demotion_check(self.memory, self.residency, demoted, self.changed)
            record.checks += [check] if check is not None else []
        record.run_state = {**self.state.facts(), **policy_facts(self.memory)}
        record.warnings += self.state.warnings(record.cap)
        if len(record.folder.checkpoint.attempts) == 1:  # the cap is the last attempt's alone
            record.metrics += _cap_metrics(record.cap, self.room)
            if session.timed_io is not None:  # so is the trace
                record.metrics += session.timed_io.metrics()
        if session.timed_io is not None:
            plants = [parse_plant(text) for text in resolved.spec.plant]
            record.warnings += [*session.timed_io.warnings(), *session.timed_io.check(plants)]
            record.warnings += session.timed_io.check_models(resolved.models)
            record.artifacts["io-operations"] = session.timed_io.operations()
        relations = engine.relations() if self.places is not None else []
        if self.places is not None and self.places.relations:
            record.checks.append(relations_check(self.places, relations, env.credentials))
        if relations and session.timed_io is not None:
            record.artifacts["io-relations"] = session.timed_io.of_relations(relations)
        if engine.inside_client:  # its configuration is known when it has run
            self.record_config(engine.effective_config())
        if self.places is not None:
            grown, before = part_bytes(self.places, self.env.credentials), record.part_bytes
            record.part_bytes = {part: max(size, before[part]) for part, size in grown.items()}

    def monitor_context(self) -> MonitorContext:
        """Context that monitors may read."""
        cap, engine = self.record.cap, self.engine
        return MonitorContext(
            processes=engine.processes,
            waits=engine.wait_observer,
            tiers=self.record.tiers,
            cgroup=cap.v2_path if cap is not None else None,
            io_trace=lambda: self.trace if self.trace and self.trace.on else None,
            external=self.resolved.external,
        )

    def _load_external(self) -> None:
        resolved, record = self.resolved, self.record
        self.engine.start()
        facts = external_data(resolved, self.env, self.engine)
        record.dataset = DatasetName("external", facts)
        self.session.source = existing_source(resolved, self.env)
        record.data_bytes = self.engine.data_bytes()

    def _restore(self) -> None:
        resolved, env, record, session = self.resolved, self.env, self.record, self.session
        dataset = loaded_dataset(resolved, env)
        self.stack.enter_context(dataset.in_use(env.progress))
        record.dataset = dataset.identity
        if "relations" in resolved.tiers:
            size = relation_bytes(resolved, dataset)
            check_space([(resolved.tiers["relations"], "relations", size)])
        record.restore_method = "copy"
        session.source = existing_source(resolved, env)
        placement = resolved.spec.placement
        assert placement is not None
        directories = {
            part: self.stack.enter_context(
                env.directory(work_directory(resolved.tiers[part], record.run_id, part))
            )
            for part in placement.directory_parts
        }
        places = self.places = DataDirectories(directories, self.memory, placement.placed_relations)
        # A server that still writes would get in the way of removing its directories.
        self.stack.callback(self.engine.kill)
        env.progress.note("restoring the dataset")
        with silence.phase("restore"):
            self.engine.restore(dataset.content, places)
        self._trace_io(places)
        record.part_bytes = part_bytes(places, env.credentials)
        record.data_bytes = data_bytes(record.part_bytes)
        session.apart = [places[part] for part in directories if part not in _HOLDING]
        session.modelled = [places[part] for part in self.resolved.models]
        # The copies just made are in the page cache, charged to the harness: warm runs
        # under a memory limit would read from there what the limit should not hold.
        session.evict("start")
        if self.memory is not None:
            # So are the dataset's pages, on the nodes that the engine's are to come from.
            evict([dataset.content])
            needed = resolved.spec.memory_limit_bytes or resolved.memory_bytes(env)
            if session.drop_caches and caches_in_the_way(self.memory, needed):
                evict([], drop=True)
        if record.cap is not None:
            self.room = self.stack.enter_context(TmpfsRoom(record.cap, places.directories.values()))
        self.engine.start()
        self.state.observe()

    def _trace_io(self, places: DataDirectories) -> None:
        """Trace the processes that start from now on, if the engine can be traced."""
        trace, engine = self.trace, self.engine
        if trace is not None and engine.traced:
            trace.background = engine.background_threads
            parts = [p for p in places.directories if p in (*engine.supported_parts, "relations")]
            trace.directories = {part: places[part] for part in parts}
            self.session.timed_io = TimedIo(trace, engine.processes, self._model_devices)
            self._model_devices([])
            self._work_as_kernel(trace)
            for text in self.resolved.spec.plant:
                parse_plant(text).apply(trace.page)

    def _model_devices(self, processes: Sequence[ProcessId]) -> None:
        """Have the files of modelled tiers take their devices' times.

        With a memory limit, their page cache has what the engine's own memory leaves of it.
        """
        models, cap = self.resolved.models, self.record.cap
        if models and self.trace is not None:
            cache = page_cache(
                self.resolved.memory_bytes(self.env),
                own_memory_bytes(processes),
                self.resolved.spec.memory_limit_bytes,
                cap is not None and cap.v2_path is not None,
            )
            names = {part: self.resolved.tiers[part].name for part in models}
            self.trace.page.model(models_table(models, names, cache))

    def _work_as_kernel(self, trace: IoTrace) -> None:
        """Use the processor time that modelled devices need outside of the engine's threads."""
        program = find_native(PROGRAM)
        if any(any(model.outside_ns.values()) for model in self.resolved.models.values()):
            assert program is not None  # built with the trace
            readable = self.stack.enter_context(self.env.readable(program))
            user = self.env.credentials
            self.stack.enter_context(kernel_work(readable, trace.page, user))

    def record_config(self, config: Mapping[str, str]) -> None:
        """Record the program with what it says of its own configuration."""
        version, engine = self.resolved.version, self.engine
        self.record.program = Program(
            self.resolved.spec.engine,
            version.version,
            version.build,
            version.source,
            engine.kind,
            dict(self.resolved.settings),
            dict(config),
            tuple(engine.durability_settings),
        )


def _io_trace(resolved: EngineRun, env: Environment, stack: ExitStack) -> IoTrace | None:
    """Traces processes once it has directories; None of an external server."""
    library = find_native(LIBRARY)
    if resolved.external or library is None or IoMonitor.name in resolved.spec.no_monitors:
        return None
    trace = IoTrace(stack.enter_context(env.readable(library)))
    stack.callback(trace.page.close)
    return trace


def part_bytes(places: DataDirectories, user: Credentials | None) -> dict[Part, int]:
    """Size of each part's files."""
    return {part: regular_bytes(folder, user) for part, folder in places.directories.items()}


def data_bytes(parts: Mapping[Part, int]) -> int:
    """Size of tables and indexes. A redo log is as large as it is set to be, whatever is in it."""
    return sum(parts.get(part, 0) for part in _HOLDING)


def _page_cached(resolved: EngineRun) -> bool:
    """Return whether the engine reads tables and indexes through the page cache."""
    holding = [tier for part, tier in resolved.tiers.items() if part in _HOLDING]
    past = [t.model or t.facts.dax or t.facts.kind == "tmpfs" for t in holding]
    return bool(holding) and not any(past)


def _placement_checks(
    resolved: EngineRun,
    policy: MemoryPolicy | None,
    engine: Engine,
    residency: NodeResidency,
    group: GroupMemory | None,
) -> tuple[list[Check], list[RunWarning]]:
    """Return whether the engine's memory and processors are those of the placement and the spec."""
    checks, warnings = [], list[RunWarning]()
    if policy is not None:
        checks.append(memory_check(policy, residency, resolved.spec.memory_limit_bytes))
        warnings += unused_memory(policy, residency, nodes(LIVE), group)
    elif resolved.bound_memory:
        checks.append(Check("memory-policy", "passed", resolved.bound_memory))
    if resolved.cpus:
        checks.append(affinity_check(resolved.cpus, engine.processes()))
    if libraries := preloaded(resolved.spec.env):
        checks.append(preload_check(libraries, engine.processes()))
    return checks, warnings


def _demoted_pages(metrics: Sequence[Metric]) -> float | None:
    """Return the pages that Linux demoted in the windows or queries; None if not counted."""
    counts = [
        metric.value
        for metric in metrics
        if metric.name in ("window_vm_pgdemote_count", "query_vm_pgdemote_count")
        and metric.value is not None
    ]
    return sum(counts) if counts else None


def _cap_metrics(cap: MemoryCap | None, room: TmpfsRoom | None) -> list[Metric]:
    """Peaks of the cap (server, page cache and tmpfs pages together) and OOM kills.

    ``memory_cap_tmpfs_peak_bytes``: the part of the peak that was added to the limit.
    """
    if cap is None or cap.method == "none":
        return []
    events = cap.events()
    values = {
        ("memory_cap_peak_bytes", "B"): events.peak_bytes,
        ("memory_cap_tmpfs_peak_bytes", "B"): room.peak_bytes if room else 0,
        ("memory_cap_oom_kill_count", "1"): events.oom_kills,
        ("memory_cap_limit_hit_count", "1"): events.limit_hits,
    }
    return [
        Metric(name, unit, "none", value=value)
        for (name, unit), value in values.items()
        if value is not None
    ]
