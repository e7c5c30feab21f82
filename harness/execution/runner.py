"""One run, from its spec to its stored result. The flow of the package docstring."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import registry
from harness.engine import (
    CountsLoadRetries,
    Credentials,
    DataDirectories,
    Engine,
    KeepsOwnData,
    ProcessStarter,
    RunsInClient,
)
from harness.errors import HarnessError, RunFailed, interruption
from harness.execution.environment import Environment
from harness.execution.host_lock import one_at_a_time
from harness.execution.run_record import Recorder
from harness.execution.session import RunSession
from harness.experiment.placement import DIRECTORY_PARTS, Part
from harness.experiment.preflight import ResolvedRun, engine_context, golden_key, work_directory
from harness.host.cgroup import MemoryCap, memory_cap
from harness.host.processors import affinity_check
from harness.host.tmpfs_room import TmpfsRoom
from harness.monitors import Monitor, MonitorContext
from harness.store.datasets import Dataset, DatasetBuilder, dataset_name
from harness.store.result import Check, Metric
from harness.store.runs import Store, StoredRun
from harness.supervise.user_files import regular_bytes
from harness.tiers.residency import residency as numa_residency
from harness.tiers.traffic import TierTraffic
from harness.workload import ChangesData, Clients, HasSource, Loading, SpendsData

#: A process that ran before its policy was set may have a few pages elsewhere.
_BOUND_SHARE = 0.99
#: Where tables and indexes are.
_HOLDING: tuple[Part, ...] = ("data", "index")


@dataclass(frozen=True)
class ResumePolicy:
    """What a run belongs to, and under what it stands.

    ``conditions``: what must be the same for a run that was cut off to be gone on with;
    None: it never is (one made again, one on a user's server). ``anew``: this time nothing is.
    """

    experiment: Mapping[str, Any]
    conditions: Mapping[str, Any] | None
    anew: bool = False


def run(prepared: ResolvedRun, env: Environment, store: Store, standing: ResumePolicy) -> StoredRun:
    """Do one run and store it; a failure under way is stored as such and returned.

    One that was cut off earlier is gone on with. KeyboardInterrupt leaves no run
    directory behind before the first step of it is finished; afterwards the same run can
    be gone on with.
    """
    say, conditions = env.progress.say, standing.conditions
    lasting = conditions is not None
    found = None
    if (lasting or prepared.external) and not standing.anew:
        found = store.resume(prepared.spec, conditions, say)
    writer = found or store.begin(prepared.spec)
    try:
        return _run(prepared, env, Recorder(prepared, env, writer, standing.experiment), standing)
    except BaseException as error:
        if (cause := interruption(error)) is None and isinstance(error, HarnessError):
            raise  # its result could not be stored: it stays, unfinished
        writer.close()
        if lasting and (kept := writer.steps.names):
            say(
                f"{writer.run_id}: {len(kept)} finished steps are kept; the same command goes on "
                "behind them, `harness runs rm --unfinished` discards them"
            )
        else:
            store.remove(writer.directory)
        if cause is not None:
            raise cause from None
        raise
    finally:
        writer.close()


def _run(
    prepared: ResolvedRun, env: Environment, recorder: Recorder, standing: ResumePolicy
) -> StoredRun:
    writer = recorder.writer
    try:
        with (
            one_at_a_time(env.progress),
            memory_cap(prepared.spec.memory_limit_bytes, env.supervisor) as cap,
        ):
            recorder.begin()
            recorder.cap = cap
            with _blaming(cap), ExitStack() as stack:
                _walk(prepared, env, recorder, standing, stack)
    except (HarnessError, OSError) as error:
        if interruption(error) is not None:
            raise
        recorder.error = (
            error
            if isinstance(error, HarnessError)
            else RunFailed(f"run {writer.run_id}", str(error))
        )
    try:
        return recorder.finish()
    except OSError as error:
        raise RunFailed(
            f"store the result of {writer.run_id}",
            str(error),
            f"make room in {writer.directory}; the run has no result and is listed as unfinished",
        ) from error


def _walk(
    prepared: ResolvedRun,
    env: Environment,
    recorder: Recorder,
    standing: ResumePolicy,
    stack: ExitStack,
) -> None:
    """place → restore golden → start → (workload) → counters → stop."""
    spec = prepared.spec
    confined = env.supervisor.capped_by(recorder.cap, prepared.cpus)
    engine = make_engine(prepared, env, stack, confined)
    recorder.engine = engine
    session = recorder.session = RunSession(
        engine,
        env.progress,
        _existing_source(prepared, env),
        drop_caches=os.geteuid() == 0,
        traffic=TierTraffic(prepared.tiers.values()),
        page_cached=_page_cached(prepared),
        steps=recorder.writer.steps,
        driver=spec.driver,
        seed=spec.seed_of_block(),
        client_starter=_clients(prepared, env, stack, engine, confined),
        user=env.credentials,
        look=lambda: [*_memory_check(prepared, engine), *_cpu_check(prepared, engine)],
    )
    room: TmpfsRoom | None = None
    if (changes := changes_data(prepared, env)) is not None:
        stack.enter_context(changes.in_use())
        session.changes = changes.content
    if isinstance(engine, KeepsOwnData) and prepared.external:
        engine.start()
        recorder.dataset_facts = _external_data(prepared, env, engine)
        session.source = _existing_source(prepared, env)
        recorder.data_bytes = engine.data_bytes()
    else:
        golden = golden_data(prepared, env)
        stack.enter_context(golden.in_use())
        recorder.golden = golden
        session.source = _existing_source(prepared, env)
        places = stack.enter_context(_places(prepared, env, recorder.writer.run_id))
        # A server that goes on writing would get in the way of removing its directories.
        stack.callback(engine.kill)
        env.progress.say(f"{recorder.writer.run_id}: restoring golden data")
        engine.restore(golden.content, places)
        recorder.data_bytes = data_bytes(places, env.credentials)
        session.apart = [places[part] for part in DIRECTORY_PARTS if part not in _HOLDING]
        # The copies just made are in the page cache, charged to the harness: warm runs
        # under a memory limit would read from there what the limit should not hold.
        session.evict("start")
        if recorder.cap is not None:
            room = stack.enter_context(TmpfsRoom(recorder.cap, places.directories.values()))
        engine.start()
    recorder.effective_config = dict(engine.effective_config())
    with _monitors(recorder, engine) as session.monitors:
        recorder.sit_down(standing.conditions or {})
        recorder.outcome = prepared.workload.measure(prepared.params, session)
    recorder.monitors = {one.name: one.series() for one in session.monitors}
    recorder.cap_metrics = _cap_metrics(recorder.cap, room)
    if session.placement_checks is None:
        session.measured()
    recorder.placement_checks = session.placement_checks or []
    if isinstance(engine, RunsInClient):  # what it ran with is known when it has run
        recorder.effective_config = dict(engine.effective_config())
    # Only after a run that went well: behind a failure the engine is killed (see
    # make_engine), and an unclean stop must not cover up what went wrong.
    engine.stop()


@contextmanager
def _monitors(recorder: Recorder, engine: Engine) -> Iterator[list[Monitor]]:
    """The run's monitors, started; those that cannot work here leave a warning."""
    context = MonitorContext(engine.processes)
    with ExitStack() as stack:
        started: list[Monitor] = []
        for name, kind in registry.monitors().items():
            if not (kind.default or name in recorder.prepared.spec.monitors):
                continue
            monitor = kind(context)
            if (problem := monitor.preflight()) is not None:
                recorder.monitor_warnings.append(problem)
                continue
            stack.callback(monitor.stop)
            monitor.start()
            started.append(monitor)
        yield started


def data_bytes(places: DataDirectories, user: Credentials | None) -> int:
    """Size of tables and indexes. A redo log is as large as it is set to be, whatever is in it."""
    return sum(regular_bytes(places[part], user) for part in _HOLDING)


def _page_cached(prepared: ResolvedRun) -> bool:
    """Whether the page cache stands between the engine and its tables and indexes."""
    holding = [tier for part, tier in prepared.tiers.items() if part in _HOLDING]
    return bool(holding) and not any(t.facts.dax or t.facts.kind == "tmpfs" for t in holding)


@contextmanager
def _blaming(cap: MemoryCap | None) -> Iterator[None]:
    """Name the OOM killer in an error where it struck inside the cap."""
    try:
        yield
    except HarnessError as error:
        if not (cap and cap.events().oom_kills):
            raise
        found = f"{error.context}; the kernel killed for memory inside the limit"
        do = "raise --memory-limit, or lower the engine's memory with --set or --tuning"
        raise RunFailed(error.problem, found, do) from error


def _memory_check(prepared: ResolvedRun, engine: Engine) -> list[Check]:
    """Whether the engine's memory is where the placement says, from numa_maps."""
    policy = prepared.memory_policy
    if policy is None:
        return []
    found = numa_residency(process.pid for process in engine.processes())
    share = found.fraction_on(policy.nodes)
    nodes = ", ".join(map(str, policy.nodes))
    if share is None:
        return [Check("memory-policy", "unknown", "the kernel gave no numa_maps of the engine")]
    detail = f"{policy.mode} to node {nodes}: {share:.2%} of {found.total_bytes} bytes are there"
    kept = share >= _BOUND_SHARE or policy.mode == "preferred"
    return [Check("memory-policy", "passed" if kept else "failed", detail)]


def _cpu_check(prepared: ResolvedRun, engine: Engine) -> list[Check]:
    """Whether the engine was held to the processors that the spec names."""
    return [affinity_check(prepared.cpus, engine.processes())] if prepared.cpus else []


def _cap_metrics(cap: MemoryCap | None, room: TmpfsRoom | None) -> list[Metric]:
    """Peaks of the cap (server, page cache and tmpfs pages together) and OOM kills.

    ``memory_cap_tmpfs_peak_bytes``: the part of the peak that was added to the limit.
    """
    if cap is None or cap.method == "none":
        return []
    events = cap.events()
    found = {
        ("memory_cap_peak_bytes", "B"): events.peak_bytes,
        ("memory_cap_tmpfs_peak_bytes", "B"): room.peak_bytes if room else 0,
        ("memory_cap_oom_kill_count", "1"): events.oom_kills,
        ("memory_cap_limit_hit_count", "1"): events.limit_hits,
    }
    return [
        Metric(name, unit, "none", value=value)
        for (name, unit), value in found.items()
        if value is not None
    ]


@contextmanager
def _places(prepared: ResolvedRun, env: Environment, run_id: str) -> Iterator[DataDirectories]:
    """The run's directories on their tiers, removed at the end."""
    with ExitStack() as stack:
        directories: dict[Part, Path] = {
            part: stack.enter_context(
                env.directory(work_directory(prepared.tiers[part], run_id, part))
            )
            for part in DIRECTORY_PARTS
        }
        yield DataDirectories(directories, prepared.memory_policy)


def make_engine(
    prepared: ResolvedRun,
    env: Environment,
    stack: ExitStack,
    starter: ProcessStarter,
) -> Engine:
    """An engine with a scratch directory of its own; killed if it still runs at the end.

    ``starter``: starts its processes, held to the run's cap and processors or not.
    """
    scratch = stack.enter_context(env.scratch())
    context = engine_context(prepared, env, starter, scratch)
    engine = prepared.factory.create(context)
    stack.callback(engine.kill)
    return engine


# Data --------------------------------------------------------------------------


def golden_data(prepared: ResolvedRun, env: Environment) -> Dataset:
    """The golden data of a run, loaded first where they are missing."""
    with ExitStack() as stack:
        engine = make_engine(prepared, env, stack, env.supervisor)  # may use all processors
        key, name = golden_key(prepared, engine), prepared.golden_name
        if (found := env.golden.find(name)) is not None:
            return found
        source = source_data(prepared, env, engine)
        if source is not None:
            stack.enter_context(source.in_use())
        with env.golden.building(name) as building:
            if building is None:  # another harness has built it while we waited
                return golden_data(prepared, env)
            facts = _load(prepared, env, engine, source, building)
            return building.publish(key, facts, env.progress, _load_retries(engine))


def _load(
    prepared: ResolvedRun,
    env: Environment,
    engine: Engine,
    source: Dataset | None,
    building: DatasetBuilder,
) -> dict[str, Any]:
    """Load in directories beside the content, stop, and move the result into it."""
    spec = prepared.spec
    places = DataDirectories(
        {part: building.directory(f"load-{part}", env.credentials) for part in DIRECTORY_PARTS},
        prepared.memory_policy,
    )
    env.progress.say(f"loading {spec.workload} into {prepared.factory.title}")
    with ExitStack() as stack:
        stack.callback(engine.kill)  # before the building's directories go
        engine.initialise(places)
        engine.start()
        facts = _loaded(prepared, env, engine, source)
        engine.stop()
        engine.snapshot(building.content)
    return facts


def _loaded(
    prepared: ResolvedRun, env: Environment, engine: Engine, source: Dataset | None
) -> dict[str, Any]:
    """The workload's load into the started engine; its facts."""
    spec = prepared.spec
    with ExitStack() as stack:
        loading = Loading(
            engine,
            spec.driver,
            None if source is None else source.content,
            _clients(prepared, env, stack, engine, env.supervisor),
            prepared.threads,
            env.progress,
        )
        facts = prepared.workload.load(prepared.params, loading)
    if retries := _load_retries(engine):
        pieces = ", ".join(f"{table} {count}" for table, count in sorted(retries.items()))
        env.progress.say(f"loaded again after deadlocks, pieces by table: {pieces}")
    return facts


def _load_retries(engine: Engine) -> Mapping[str, int]:
    return engine.load_retries() if isinstance(engine, CountsLoadRetries) else {}


def _clients(
    prepared: ResolvedRun,
    env: Environment,
    stack: ExitStack,
    engine: Engine,
    starter: ProcessStarter,
) -> Clients:
    """``starter``: of an engine inside the client, since it is the client then."""
    scratch = stack.enter_context(env.scratch())
    if isinstance(engine, RunsInClient):
        return Clients(starter, env.credentials, scratch, engine, prepared.memory_policy)
    return Clients(env.supervisor, env.credentials, scratch)


def source_data(prepared: ResolvedRun, env: Environment, engine: Engine) -> Dataset | None:
    """Generated source files, made first where they are missing; None: loaded from no files."""
    workload, params = prepared.workload, prepared.params
    name = prepared.source_name
    if not isinstance(workload, HasSource):
        return None
    while (found := env.source.find(name)) is None:
        with env.source.building(name) as building:
            if building is None:
                continue
            workload.generate(params, engine, building.content, env.progress)
            return building.publish({"source": name}, {}, env.progress)
    return found


def changes_data(prepared: ResolvedRun, env: Environment) -> Dataset | None:
    """What the run changes its data by, made first where it is missing; None: nothing."""
    workload, params = prepared.workload, prepared.params
    name = workload.changes_key(params) if isinstance(workload, ChangesData) else None
    if name is None or not isinstance(workload, ChangesData):
        return None
    while (found := env.source.find(name)) is None:
        with env.source.building(name) as building:
            if building is None:
                continue
            workload.generate_changes(params, building.content, env.progress)
            return building.publish({"source": name}, {}, env.progress)
    return found


def _existing_source(prepared: ResolvedRun, env: Environment) -> Path | None:
    found = env.source.find(prepared.source_name) if prepared.source_name else None
    return found.content if found else None


def _external_data(prepared: ResolvedRun, env: Environment, engine: KeepsOwnData) -> dict[str, Any]:
    """Load into the user's server, in a schema of ours, unless it is there already.

    Data that runs change are loaded for each of them, and are never marked as complete.
    """
    assert isinstance(engine, KeepsOwnData)
    spec, workload = prepared.spec, prepared.workload
    key = dataset_name(spec.workload, workload.data_key(prepared.params, spec.driver))
    spent = isinstance(workload, SpendsData) and workload.spends_data(prepared.params)
    if not spent and (facts := engine.prepared(key)) is not None:
        return dict(facts)
    engine.prepare(key)
    source = source_data(prepared, env, engine)  # type: ignore[arg-type]
    loaded = _loaded(prepared, env, engine, source)  # type: ignore[arg-type]
    if not spent:
        engine.mark_prepared(key, loaded)
    return loaded
