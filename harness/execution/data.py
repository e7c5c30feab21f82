"""The data that runs are restored from: generated source files and loaded datasets."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

from harness.engine import DataDirectories, Engine, MemoryPolicy, ProcessStarter
from harness.errors import RunFailed, as_failure, interruption
from harness.execution.engine_run import EngineRun
from harness.execution.environment import Environment
from harness.execution.placed_relations import sizes_of
from harness.execution.resolved_run import ResolvedRun
from harness.experiment.placement import DIRECTORY_PARTS
from harness.store.datasets import Dataset, DatasetBuilder, dataset_name
from harness.supervise import programs, silence
from harness.supervise.silence import VARIABLE, limit_s
from harness.workload import Clients, Loading


def make_engine(
    resolved: EngineRun,
    env: Environment,
    stack: ExitStack,
    starter: ProcessStarter,
) -> Engine:
    """An engine with a scratch directory of its own; killed if it still runs at the end.

    ``starter``: starts its processes, under the run's cap and on its processors, or not.
    """
    scratch = stack.enter_context(env.scratch())
    engine = resolved.factory.create(resolved.context(env, starter, scratch))
    stack.callback(engine.kill)
    return engine


def clients_of(
    resolved: EngineRun,
    env: Environment,
    stack: ExitStack,
    engine: Engine,
    starter: ProcessStarter,
    memory: MemoryPolicy | None = None,
) -> Clients:
    """``starter`` and ``memory``: of an engine inside the client, since it is the client then."""
    scratch = stack.enter_context(env.scratch())
    if engine.inside_client:
        return Clients(starter, env.credentials, scratch, engine, memory)
    return Clients(env.supervisor, env.credentials, scratch, joined=engine)


def loaded_dataset(resolved: EngineRun, env: Environment) -> Dataset:
    """The dataset that a run is restored from, loaded first where it is missing.

    It is loaded with all processors and without a memory policy: runs with others use it, too. A
    load that fails is attempted once, and said once.
    """
    name = resolved.dataset_name
    if name in env.failed_loads:
        raise env.failed_loads[name]
    try:
        with env.supervisor.watch.naming():
            return _dataset(resolved, env)
    except Exception as error:
        if interruption(error) is None:
            failure = env.failed_loads[name] = as_failure(error, f"load {name}")
            env.progress.say(str(failure))
        raise


def was_not_loaded(step: ResolvedRun, env: Environment) -> bool:
    """Return whether a load has failed that this run needs."""
    return isinstance(step, EngineRun) and step.dataset_name in env.failed_loads


def _dataset(resolved: EngineRun, env: Environment) -> Dataset:
    with ExitStack() as stack:
        engine = make_engine(resolved, env, stack, env.supervisor)
        key, name = resolved.dataset_facts(engine), resolved.dataset_name
        if (dataset := env.datasets.find(name)) is not None:
            return dataset
        source = source_data(resolved, env, engine)
        if source is not None:
            stack.enter_context(source.in_use(env.progress))
        with env.datasets.building(name, env.progress) as building:
            if building is None:  # another harness has built it while we waited
                return _dataset(resolved, env)
            facts, relations = _load(resolved, env, engine, source, building)
            retries = engine.load_retries()
            return building.publish(key, facts, env.progress, retries, relations)


def _load(
    resolved: EngineRun,
    env: Environment,
    engine: Engine,
    source: Dataset | None,
    building: DatasetBuilder,
) -> tuple[dict[str, Any], Mapping[str, int]]:
    """Load into directories next to the content, stop, and move the result into it.

    Return the load's facts, and the sizes of tables and indexes.
    """
    spec = resolved.spec
    places = DataDirectories(
        {part: building.directory(f"load-{part}", env.credentials) for part in DIRECTORY_PARTS}
    )
    env.progress.say(f"loading {spec.workload} into {resolved.factory.title}")
    with ExitStack() as stack, silence.phase("load"):
        stack.callback(engine.kill)  # before the building's directories go
        engine.initialise(places)
        engine.start()
        facts = _loaded(resolved, env, engine, source)
        relations = sizes_of(engine.relations())
        engine.stop()
        engine.snapshot(building.content)
    return facts, relations


def _loaded(
    resolved: EngineRun, env: Environment, engine: Engine, source: Dataset | None
) -> dict[str, Any]:
    """The workload's load into the started engine; its facts."""
    spec = resolved.spec
    with ExitStack() as stack:
        loading = Loading(
            engine,
            spec.driver,
            None if source is None else source.content,
            clients_of(resolved, env, stack, engine, env.supervisor),
            resolved.threads,
            env.progress,
        )
        facts = resolved.workload.load(resolved.params, loading)
    if retries := engine.load_retries():
        pieces = ", ".join(f"{table} {count}" for table, count in sorted(retries.items()))
        env.progress.say(f"loaded again after deadlocks, pieces by table: {pieces}")
    return facts


def source_data(resolved: EngineRun, env: Environment, engine: Engine) -> Dataset | None:
    """Generated source files, made first where they are missing; None: loaded from no files."""
    workload = resolved.workload
    if not resolved.source_name:
        return None
    return _generated(
        resolved.source_name,
        env,
        lambda folder: workload.generate(resolved.params, engine, folder, env.progress),
    )


def changes_data(resolved: EngineRun, env: Environment) -> Dataset | None:
    """Files by which the run changes its data, made first where missing; None: there are none."""
    workload = resolved.workload
    if not (name := workload.changes_key(resolved.params)):
        return None
    return _generated(
        name,
        env,
        lambda folder: workload.generate_changes(resolved.params, folder, env.progress),
    )


def _generated(name: str, env: Environment, generate: Callable[[Path], None]) -> Dataset:
    while (source := env.source.find(name)) is None:
        with env.source.building(name, env.progress) as building:
            if building is None:  # another harness has made it while we waited
                continue
            generate(building.content)
            return building.publish({"source": name}, {}, env.progress)
    return source


def write_back(env: Environment) -> None:
    """Write what was loaded to its devices, of no other file systems: one of them may hang.

    In a process of its own, for none can be interrupted that waits for a device.
    """
    roots = (env.datasets.root, env.source.root)
    for folder in {root.stat().st_dev: root for root in roots if root.is_dir()}.values():
        try:
            programs.run(["sync", "-f", folder], timeout_s=limit_s("blocked")).check_returncode()
        except subprocess.TimeoutExpired as error:
            raise RunFailed(
                f"write the data in {folder} back to their device",
                f"it has not finished within {error.timeout:g} s, the limit",
                f"find what the device waits for, or raise the limit: {VARIABLE}=blocked=SECONDS",
            ) from error


def existing_source(resolved: EngineRun, env: Environment) -> Path | None:
    """Source files that are there already; None where there are none."""
    source = env.source.find(resolved.source_name) if resolved.source_name else None
    return source.content if source else None


def external_data(resolved: EngineRun, env: Environment, engine: Engine) -> dict[str, Any]:
    """Load into the user's server, in a schema of ours, unless it is there already.

    Data that runs change are loaded for each of them, and are never marked as complete.
    """
    spec, workload = resolved.spec, resolved.workload
    key = dataset_name(spec.workload, workload.data_key(resolved.params, spec.driver))
    spent = workload.spends_data(resolved.params)
    if not spent and (facts := engine.prepared(key)) is not None:
        return dict(facts)
    source = source_data(resolved, env, engine)
    with source.in_use(env.progress) if source is not None else nullcontext():
        engine.prepare(key)
        loaded = _loaded(resolved, env, engine, source)
    if not spent:
        engine.mark_prepared(key, loaded)
    return loaded
