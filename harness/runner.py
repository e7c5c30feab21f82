"""One run, from its spec to its stored result. The flow of the package docstring."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import harness
from harness.engine import Engine, KeepsOwnData, Places
from harness.environment import Environment
from harness.errors import HarnessError, RunFailed, interruption
from harness.golden import Building, Dataset, dataset_name, directory_bytes
from harness.host.uncontrolled import Finding, uncontrolled
from harness.measuring import one_at_a_time
from harness.memory.cgroup import MemoryCap, memory_cap
from harness.monitors.process import ProcessMonitor
from harness.placement import DIRECTORY_PARTS, Part
from harness.preflight import Prepared, engine_context, golden_key, work_directory
from harness.provenance import revision, tool_versions
from harness.result import Check, Metric, run_status
from harness.session import RunSession
from harness.store import RunWriter, Store, StoredRun
from harness.tiers.residency import residency as numa_residency
from harness.tiers.traffic import TierTraffic
from harness.workload import Outcome

#: A process that ran before its policy was set may have a few pages elsewhere.
_BOUND_SHARE = 0.99


def run(
    prepared: Prepared, env: Environment, store: Store, experiment: Mapping[str, str]
) -> StoredRun:
    """Do one run and store it; a failure under way is stored as such and returned.

    KeyboardInterrupt leaves no run directory behind.
    """
    writer = store.begin(prepared.spec)
    recorder = _Recorder(prepared, env, writer, experiment)
    try:
        with memory_cap(prepared.spec.memory_limit_bytes, env.supervisor) as cap:
            recorder.cap = cap
            with _blaming(cap), ExitStack() as stack:
                _walk(prepared, env, recorder, stack)
    except (HarnessError, OSError) as error:
        if (cause := interruption(error)) is not None:
            store.remove(writer.directory)
            raise cause from None
        recorder.error = (
            error
            if isinstance(error, HarnessError)
            else RunFailed(f"run {writer.run_id}", str(error))
        )
    except BaseException:
        store.remove(writer.directory)
        raise
    try:
        return recorder.finish()
    except OSError as error:
        raise RunFailed(
            f"store the result of {writer.run_id}",
            str(error),
            f"make room in {store.root}; the run has no result and is listed as unfinished",
        ) from error


def _walk(prepared: Prepared, env: Environment, recorder: _Recorder, stack: ExitStack) -> None:
    """place → restore golden → start → (workload) → counters → stop."""
    spec = prepared.spec
    engine = make_engine(prepared, env, stack, recorder.cap)
    recorder.engine = engine
    session = recorder.session = RunSession(
        engine,
        env.progress,
        _existing_source(prepared, env),
        drop_caches=os.geteuid() == 0,
        traffic=TierTraffic(prepared.tiers.values()),
        page_cached=_page_cached(prepared),
    )
    if isinstance(engine, KeepsOwnData) and prepared.external:
        engine.start()
        recorder.dataset_facts = _external_data(prepared, env, engine)
        recorder.data_bytes = engine.data_bytes()
    else:
        golden = golden_data(prepared, env)
        stack.enter_context(golden.in_use())
        recorder.golden = golden
        session.source = _existing_source(prepared, env)
        places = stack.enter_context(_places(prepared, env, recorder.writer.run_id))
        env.progress.say(f"{recorder.writer.run_id}: restoring golden data")
        engine.restore(golden.content, places)
        recorder.data_bytes = sum(
            directory_bytes(places[part]) for part in places.directories if part != "temp"
        )
        # The copies just made are in the page cache, charged to the harness: warm runs
        # under a memory limit would read from there what the limit should not hold.
        session.evict("start")
        engine.start()
    recorder.effective_config = dict(engine.effective_config())
    with one_at_a_time(env.progress), ProcessMonitor(engine.processes) as monitor:
        recorder.uncontrolled_at_start = uncontrolled(prepared.tiers.values())
        recorder.outcome = prepared.workload.measure(spec.params, session)
    recorder.monitors["process"] = monitor.series()
    recorder.cap_metrics = _cap_metrics(recorder.cap)
    recorder.placement_checks = _memory_check(prepared, engine)
    # Only after a run that went well: behind a failure the engine is killed (see
    # make_engine), and an unclean stop must not cover up what went wrong.
    engine.stop()


def _page_cached(prepared: Prepared) -> bool:
    """Whether the page cache stands between the engine and its tables and indexes."""
    holding = [tier for part, tier in prepared.tiers.items() if part in ("data", "index")]
    return bool(holding) and not any(t.facts.dax or t.facts.kind == "tmpfs" for t in holding)


@contextmanager
def _blaming(cap: MemoryCap | None) -> Iterator[None]:
    """Name the OOM killer in an error where it struck inside the cap."""
    try:
        yield
    except HarnessError as error:
        if not (cap and cap.events().oom_kills):
            raise
        found = f"{error.found}; the kernel killed for memory inside the limit"
        do = "raise --memory-limit, or lower the engine's memory with --set or --tuning"
        raise RunFailed(error.asked, found, do) from error


def _memory_check(prepared: Prepared, engine: Engine) -> list[Check]:
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


def _cap_metrics(cap: MemoryCap | None) -> list[Metric]:
    """What the memory cap saw: the peak of server and page cache together, and OOM kills."""
    if cap is None or cap.method == "none":
        return []
    events = cap.events()
    found = {
        ("memory_cap_peak_bytes", "B"): events.peak_bytes,
        ("memory_cap_oom_kill_count", "1"): events.oom_kills,
        ("memory_cap_limit_hit_count", "1"): events.limit_hits,
    }
    return [
        Metric(name, unit, "none", value=value)
        for (name, unit), value in found.items()
        if value is not None
    ]


@contextmanager
def _places(prepared: Prepared, env: Environment, run_id: str) -> Iterator[Places]:
    """The run's directories on their tiers, removed at the end."""
    with ExitStack() as stack:
        directories: dict[Part, Path] = {
            part: stack.enter_context(
                env.directory(work_directory(prepared.tiers[part], run_id, part))
            )
            for part in DIRECTORY_PARTS
        }
        yield Places(directories, prepared.memory_policy)


def make_engine(
    prepared: Prepared, env: Environment, stack: ExitStack, cap: MemoryCap | None
) -> Engine:
    """An engine with a scratch directory of its own; killed if it still runs at the end."""
    scratch = stack.enter_context(env.scratch())
    context = engine_context(prepared, env, env.supervisor.capped_by(cap), scratch)
    engine = prepared.factory.create(context)
    stack.callback(engine.kill)
    return engine


# Data --------------------------------------------------------------------------


def golden_data(prepared: Prepared, env: Environment) -> Dataset:
    """The golden data of a run, loaded first where they are missing."""
    with ExitStack() as stack:
        engine = make_engine(prepared, env, stack, None)
        key, name = golden_key(prepared, engine), prepared.golden_name
        if (found := env.golden.find(name)) is not None:
            return found
        source = source_data(prepared, env, engine)
        stack.enter_context(source.in_use())
        with env.golden.building(name) as building:
            if building is None:  # another harness has built it while we waited
                return golden_data(prepared, env)
            facts = _load(prepared, env, engine, source, building)
            return building.publish(key, facts, env.progress)


def _load(
    prepared: Prepared, env: Environment, engine: Engine, source: Dataset, building: Building
) -> dict[str, Any]:
    """Load in directories beside the content, stop, and move the result into it."""
    spec = prepared.spec
    places = Places(
        {part: building.directory(f"load-{part}", env.credentials) for part in DIRECTORY_PARTS},
        prepared.memory_policy,
    )
    env.progress.say(f"loading {spec.workload} into {prepared.factory.title}")
    engine.initialise(places)
    engine.start()
    facts = prepared.workload.load(spec.params, engine, source.content, env.progress)
    engine.stop()
    engine.snapshot(building.content)
    return facts


def source_data(prepared: Prepared, env: Environment, engine: Engine) -> Dataset:
    """Generated source files, made first where they are missing."""
    params = prepared.spec.params
    name = prepared.source_name
    while (found := env.source.find(name)) is None:
        with env.source.building(name) as building:
            if building is None:
                continue
            prepared.workload.generate(params, engine, building.content, env.progress)
            return building.publish({"source": name}, {}, env.progress)
    return found


def _existing_source(prepared: Prepared, env: Environment) -> Path | None:
    found = env.source.find(prepared.source_name)
    return found.content if found else None


def _external_data(prepared: Prepared, env: Environment, engine: KeepsOwnData) -> dict[str, Any]:
    """Load into the user's server, in a schema of ours, unless it is there already."""
    assert isinstance(engine, KeepsOwnData)
    key = dataset_name(prepared.spec.workload, prepared.workload.data_key(prepared.spec.params))
    if (facts := engine.prepared(key)) is not None:
        return dict(facts)
    engine.prepare(key)
    source = source_data(prepared, env, engine)  # type: ignore[arg-type]
    loaded = prepared.workload.load(
        prepared.spec.params,
        engine,  # type: ignore[arg-type]
        source.content,
        env.progress,
    )
    engine.mark_prepared(key, loaded)
    return loaded


# The record --------------------------------------------------------------------


class _Recorder:
    """Collects what a run is found to be, and writes it in the store's order."""

    def __init__(
        self, prepared: Prepared, env: Environment, writer: RunWriter, experiment: Mapping[str, str]
    ) -> None:
        self.prepared = prepared
        self.env = env
        self.writer = writer
        self.experiment = dict(experiment)
        self.clock = {"monotonic_ns": time.monotonic_ns(), "realtime_ns": time.time_ns()}
        self.uncontrolled_at_start: list[Finding] = []
        self.cap: MemoryCap | None = None
        self.engine: Engine | None = None
        self.golden: Dataset | None = None
        self.dataset_facts: dict[str, Any] | None = None
        self.data_bytes: int | None = None
        self.effective_config: dict[str, str] = {}
        self.session: RunSession | None = None
        self.outcome: Outcome | None = None
        self.monitors: dict[str, Mapping[str, Any]] = {}
        self.cap_metrics: list[Metric] = []
        self.placement_checks: list[Check] = []
        self.error: HarnessError | None = None

    def finish(self) -> StoredRun:
        """Manifest, artifacts, and run.json last."""
        if self.engine is not None:
            self.writer.write_manifest(self._manifest())
        for name, document in (self.outcome.artifacts if self.outcome else {}).items():
            self.writer.write_artifact(name, document)
        for name, series in self.monitors.items():
            self.writer.write_artifact(f"monitor-{name}", series)
        return self.writer.finish(self._run())

    def _run(self) -> dict[str, Any]:
        spec = self.prepared.spec
        metrics = [*(self.outcome.metrics if self.outcome else []), *self.cap_metrics]
        checks = [*(self.outcome.checks if self.outcome else []), *self._own_checks()]
        status = "failed" if self.error or not self.outcome else run_status(checks)
        used = dict.fromkeys(tier.name for tier in self.prepared.tiers.values())
        return {
            "schema": 1,
            "run_id": self.writer.run_id,
            "status": status,
            "spec": spec.to_json(),
            "spec_hash": spec.hash(),
            "experiment": self.experiment,
            "started_unix_ns": self.clock["realtime_ns"],
            "duration_ns": time.monotonic_ns() - self.clock["monotonic_ns"],
            "host_mode": self.env.host["mode"],
            "emulated": [
                {"tier": name, "by": f"{tier.facts.kind} at {tier.claim.path}"}
                for name in used
                if (tier := self.env.tiers[name]).emulated
            ],
            "uncontrolled": [*self.uncontrolled(), *self._external(), *self._uncapped()],
            "data_bytes": self.data_bytes,
            "memory_bytes": self._memory_bytes(),
            "residency": self.session.residency if self.session else [],
            "metrics": [metric.to_json() for metric in metrics],
            "checks": [check.to_json() for check in checks],
            "error": self.error.to_json() if self.error else None,
        }

    def _own_checks(self) -> list[Check]:
        """Cold starts that were not cold make the run's cache mode doubtful: unknown."""
        warm = self.session.not_cold if self.session else []
        cold = [Check("cold-start", "unknown", "; ".join(warm[:3]))] if warm else []
        return [*cold, *self.placement_checks]

    def uncontrolled(self) -> list[Finding]:
        """What was not controlled at the run's start or at its end, each kind once."""
        at_end = uncontrolled(self.prepared.tiers.values())
        found = {entry["what"]: entry for entry in (*at_end, *self.uncontrolled_at_start)}
        return list(found.values())

    def _external(self) -> list[dict[str, str]]:
        """What nobody here knows of a server that the harness does not run."""
        if not self.prepared.external:
            return []
        return [
            {
                "what": "external server",
                "found": "placement, page cache, memory and other clients are its owner's",
                "do": "let the harness run the engine, or say with --label what was set up",
            }
        ]

    def _uncapped(self) -> list[dict[str, str]]:
        """A memory limit that was asked for and could not be had."""
        if self.cap is None or self.cap.method != "none":
            return []
        return [
            {
                "what": "memory limit",
                "found": f"asked for {self.cap.limit_bytes} bytes, not enforced: {self.cap.reason}",
                "do": "run as root, or where cgroups are delegated to you",
            }
        ]

    def _memory_bytes(self) -> int | None:
        if self.prepared.external:
            return None
        if self.cap is not None and self.cap.method != "none":
            return self.cap.limit_bytes
        return self.env.memory_bytes

    def _manifest(self) -> dict[str, Any]:
        spec, version = self.prepared.spec, self.prepared.version
        assert self.engine is not None
        dataset: dict[str, Any] | None = None
        if self.golden is not None:
            dataset = {"key": self.golden.name, "fingerprint": self.golden.fingerprint}
        elif self.dataset_facts is not None:
            dataset = {"key": "external", "fingerprint": self.dataset_facts}
        tiers = {tier.name: tier for tier in self.prepared.tiers.values()}
        return {
            "schema": 1,
            "run_id": self.writer.run_id,
            "harness": {"version": harness.__version__, "revision": revision()},
            "argv": list(self.env.argv),
            "spec": spec.to_json(),
            "host": dict(self.env.host),
            "tiers": [tier.to_json() for tier in tiers.values()],
            "engine": {
                "name": spec.engine,
                "version": version.version,
                "build": version.build,
                "source": version.source,
                "kind": self.engine.kind,
                "settings": dict(self.prepared.settings),
                "effective_config": self.effective_config,
            },
            "dataset": dataset,
            "restore_method": "none" if self.golden is None else "copy",
            "memory_cap": {
                "method": self.cap.method if self.cap else "none",
                "limit_bytes": spec.memory_limit_bytes,
            },
            "clock": self.clock,
            "tools": tool_versions(),
        }
