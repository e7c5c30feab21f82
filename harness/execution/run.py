"""A run under way, which stores itself at its end."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import harness
from harness.errors import HarnessError, RunFailed, as_failure, interruption
from harness.execution.engine_state import host_facts_of_run
from harness.execution.environment import Environment
from harness.execution.host_lock import one_at_a_time, others_at_work
from harness.execution.resolved_run import harness_revision
from harness.execution.run_monitors import RunMonitors
from harness.experiment.placement import Part
from harness.host.cgroup import MemoryCap
from harness.host.clocks import Clocks, clock_warnings
from harness.host.confounders import uncontrolled
from harness.monitors import GuardedMonitor, MonitorContext
from harness.store.checkpoint import Attempt
from harness.store.datasets import DatasetName
from harness.store.index import head_of
from harness.store.rescue import rescue_path, store_result
from harness.store.result import (
    Cached,
    Check,
    Clock,
    Emulated,
    Failure,
    HarnessVersion,
    Manifest,
    MemoryLimit,
    Metric,
    Program,
    RestoreMethod,
    Resumption,
    RunResult,
    run_status,
)
from harness.store.run_store import RunFolder, Store
from harness.store.runs import StoredRun
from harness.store.spec import JsonObject, RunSpec
from harness.tiers.linux.model import Tier
from harness.warnings import RunWarning, unique
from harness.workload import Outcome

#: Libraries whose version can change a number.
_LIBRARIES = ("duckdb", "numpy", "psycopg", "tpchgen-cli")


def limit_not_enforced(cap: MemoryCap, hint: str) -> RunWarning:
    """The warning of a memory limit that holds nothing."""
    context = f"{cap.limit_bytes} bytes requested: {cap.reason}"
    return RunWarning(
        "memory-limit-not-enforced", "the memory limit is not enforced", context, hint
    )


@dataclass
class Run:
    """A run under way: everything that is stored of it.

    ``tiers``: those in use, each once. ``pinned``: each measured thread has a processor of its
    own. ``run_state``: what the run had of the host that no setting decides. ``program``: None
    until there is something to write a manifest about. ``dataset``: as in manifest.json;
    ``processors``: those the engine may run on, None for all of them. ``memory_bytes``: what it
    could use without a memory limit.
    """

    spec: RunSpec
    env: Environment
    attempt: Attempt
    tiers: Sequence[Tier]
    pinned: bool = False
    program: Program | None = None
    metrics: list[Metric] = field(default_factory=list)
    configurations: Mapping[str, str] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    warnings: list[RunWarning] = field(default_factory=list)
    artifacts: dict[str, Any] = field(default_factory=dict)
    residency: Sequence[Cached] = ()
    data_bytes: int | None = None
    part_bytes: Mapping[Part, int] = field(default_factory=dict)
    memory_bytes: int | None = None
    dataset: DatasetName | None = None
    restore_method: RestoreMethod = "none"
    cap: MemoryCap | None = None
    run_state: Mapping[str, str] = field(default_factory=host_facts_of_run)
    processors: str | None = None
    #: Whether its folder is for its owner alone.
    private: bool = False
    #: Whether the measured phase has ended.
    complete: bool = False
    error: HarnessError | None = None
    folder: RunFolder = field(init=False)
    stored: StoredRun = field(init=False)
    _clocks: Clocks = field(default_factory=Clocks.now)

    @contextmanager
    def storing(self, store: Store) -> Iterator[None]:
        """Store the run at the end, as ``stored``.

        A failure inside is stored as such and not raised again, whatever raised it: the next run
        starts. KeyboardInterrupt leaves no run directory before the first step is finished;
        afterwards the run can be resumed. Where ``store`` does not take the result, the state
        directory does (harness.store.rescue); RunFailed if that does not, either.
        """
        self.folder = self._begin(store)
        try:
            try:
                yield
                self.complete = True
            except Exception as error:
                if interruption(error) is not None:
                    raise
                self.error = self._failure(error)
            try:
                self._store()
            except Exception as error:
                if isinstance(error, RunFailed) or interruption(error) is not None:
                    raise
                self._drop_results(error)
                self._store()
        except BaseException as error:
            if (cause := interruption(error)) is None and isinstance(error, HarnessError):
                raise  # its result could not be stored: it stays, unfinished
            if not hasattr(self, "stored"):  # else the interruption came as it was stored
                self._abandon()
            if cause is not None:
                raise cause from None
            raise
        finally:
            self.folder.close()

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """No other harness measures meanwhile."""
        supervisor = self.env.supervisor
        with (
            supervisor.watch.naming(),
            one_at_a_time(self.env.progress, supervisor.hold) as warnings,
        ):
            self.warnings += warnings
            self._clocks = Clocks.now()  # waiting for another harness is not the run's time
            yield
            self.warnings += clock_warnings(self._clocks, Clocks.now())

    def _begin(self, store: Store) -> RunFolder:
        """The run's directory: that of an interrupted run, or a new one.

        In the state directory, if ``store`` has taken earlier runs of the command and does not
        take this one: the command continues.
        """
        folder = None
        try:
            if self.attempt.conditions is not None and not self.attempt.restart:
                folder = store.resume(self.spec, self._to_resume, self.env.progress.say)
            folder = self._guarded(folder or store.begin(self.spec))
        except (OSError, HarnessError) as error:
            written = isinstance(error, OSError) or isinstance(error.__cause__, OSError)
            if not (written and store.was_writable):
                raise
            self.env.progress.say(f"{error}; this run is stored in the state directory")
            return self._guarded(Store(rescue_path(store.root)).begin(self.spec))
        store.was_writable = True
        return folder

    def _guarded(self, folder: RunFolder) -> RunFolder:
        if self.private:
            folder.directory.chmod(0o700)
        return folder

    @property
    def _to_resume(self) -> JsonObject | None:
        """None: it is not resumed, since a user's server may have changed."""
        return None if self.spec.placement is None else self.attempt.conditions

    @property
    def run_id(self) -> str:
        """The name of the run's directory."""
        return self.folder.run_id

    def scratch(self) -> Run:
        """Another execution of the same run whose results are dropped."""
        dropped = copy(self)
        dropped.metrics, dropped.checks, dropped.warnings, dropped.artifacts = [], [], [], {}
        return dropped

    @contextmanager
    def monitored(self, context: MonitorContext) -> Iterator[Sequence[GuardedMonitor]]:
        """Measuring begins, or is resumed; what monitors find is stored, of a failed run, too."""
        monitors = RunMonitors(self.spec, context)
        self.warnings += others_at_work()
        try:
            with monitors.running() as started:
                self.attempt = replace(
                    self.attempt,
                    run_id=self.run_id,
                    unix_ns=time.time_ns(),
                    warnings=uncontrolled(self.tiers, pinned=self.pinned),
                )
                self.folder.checkpoint.begin(self.attempt)
                yield started
        finally:
            self.metrics += monitors.metrics()
            self.artifacts |= monitors.artifacts()
            self.warnings += [*monitors.warnings(), *others_at_work()]

    @property
    def _usable_bytes(self) -> int | None:
        """Memory of the engine and its page cache: the cap where there is one."""
        enforced = self.cap is not None and self.cap.method != "none"
        return self.spec.memory_limit_bytes if enforced else self.memory_bytes

    def drop_cap(self, reason: str) -> None:
        """The memory limit turned out not to hold the engine: it is not enforced."""
        assert self.cap is not None
        self.cap = replace(self.cap, method="none", reason=reason, path=None)
        self.warnings.append(
            limit_not_enforced(
                self.cap, "have the engine start its processes with context.processes"
            )
        )

    def add(self, outcome: Outcome) -> None:
        """The result of the measured phase."""
        self.metrics += outcome.metrics
        self.checks += outcome.checks
        self.warnings += outcome.uncontrolled
        self.artifacts |= outcome.artifacts

    def _failure(self, error: Exception) -> HarnessError:
        hint = f"`harness runs show {self.run_id}` has the traceback"
        return as_failure(error, f"run {self.run_id}", hint)

    def _drop_results(self, error: Exception) -> None:
        """Leave a failed run without what cannot be stored, such as a rate that is not a number."""
        self.complete = False
        self.error = self.error or self._failure(error)
        self.metrics, self.checks, self.artifacts, self.residency = [], [], {}, ()
        self.data_bytes, self.part_bytes, self.program = None, {}, None

    def _abandon(self) -> None:
        self.folder.close()
        steps = self.folder.checkpoint.finished
        if self._to_resume is None or not steps:
            Store(self.folder.directory.parents[1]).remove(self.folder.directory)
            return
        self.env.progress.say(
            f"{self.run_id}: {len(steps)} finished steps are kept; the same command resumes after "
            "them, `harness runs rm --unfinished` discards them"
        )

    def _store(self) -> None:
        """Store the run in its folder, else in the state directory."""
        result = self._result()
        manifest = self._manifest(self.program) if self.program is not None else None
        folder = self.folder

        def write(directory: Path) -> None:
            nonlocal folder
            if directory != folder.directory:
                elsewhere = Store(directory.parents[1])
                folder = self._guarded(elsewhere.begin(self.spec, self.run_id))
                self._guarded(folder)
            self.stored = folder.finish(result, manifest, self.artifacts)

        try:
            store_result(folder.directory, write, f"{self.run_id}, {_headline(result)}")
        finally:
            if folder is not self.folder:
                folder.close()
                if self.complete and hasattr(self, "stored"):
                    self.folder.checkpoint.remove()  # no step is part of two results

    def _result(self) -> RunResult:
        attempts = self.folder.checkpoint.attempts
        return RunResult(
            run_id=self.run_id,
            status=run_status(self.checks) if self.complete else "failed",
            spec=self.spec,
            spec_hash=self.spec.hash(),
            experiment=self.attempt.experiment,
            started_unix_ns=attempts[0].unix_ns if attempts else self._clocks.realtime_ns,
            duration_ns=time.monotonic_ns() - self._clocks.monotonic_ns,
            host_mode=self.env.host.mode,
            emulated=tuple(
                Emulated(tier.name, tier.stand_in) for tier in self.tiers if tier.emulated
            ),
            modelled=tuple(f"{tier.name}: {tier.model.name}" for tier in self.tiers if tier.model),
            uncontrolled=tuple(self._warnings(attempts)),
            data_bytes=self.data_bytes,
            part_bytes={str(part): size for part, size in self.part_bytes.items()},
            memory_bytes=self._usable_bytes,
            residency=tuple(self.residency),
            resumed=tuple(_resumed(attempts)),
            metrics=tuple(self.metrics),
            configurations=self.configurations,
            checks=tuple(self.checks),
            error=_failure(self.error) if self.error else None,
        )

    def _warnings(self, attempts: Sequence[Attempt]) -> list[RunWarning]:
        """Warnings of the host now and when each attempt began, and the run's own; each once."""
        now = uncontrolled(self.tiers, pinned=self.pinned)
        earlier = [warning for attempt in attempts for warning in attempt.warnings]
        retried = [_retried(self.attempt.failed)] if self.attempt.failed else []
        return [*unique([*now, *earlier]), *unique([*retried, *self.warnings])]

    def _manifest(self, program: Program) -> Manifest:
        return Manifest(
            self.run_id,
            HarnessVersion(harness.__version__, harness_revision()),
            tuple(self.env.argv),
            self.spec,
            self.env.host,
            tuple(tier.record for tier in self.tiers),
            program,
            self.dataset,
            self.restore_method,
            MemoryLimit(self.cap.method if self.cap else "none", self.spec.memory_limit_bytes),
            self.run_state,
            Clock(self._clocks.monotonic_ns, self._clocks.realtime_ns),
            _tool_versions(),
            self.attempt.conditions,
            # Also of tiers that no part is placed on: unplaced memory costs what DRAM does.
            {
                name: tier.claim.price_per_gb
                for name, tier in self.env.tiers.items()
                if tier.claim.price_per_gb is not None
            },
            {
                name: tier.claim.nodes
                for name, tier in self.env.tiers.items()
                if tier.facts.kind == "numa"
            },
            self.processors,
        )


def _headline(result: RunResult) -> str:
    """``complete, new_orders_per_minute 12345``, for messages."""
    others = ((m.name, m.value) for m in result.metrics if m.better != "none" and m.value)
    headline = head_of(result, None).result or next(others, None)
    return f"{result.status}, {headline[0]} {headline[1]:g}" if headline else result.status


def _failure(error: HarnessError) -> Failure:
    kind = type(error).__name__
    return Failure(kind, error.problem, error.context, error.hint, error.traceback)


def _retried(failed: StoredRun) -> RunWarning:
    return RunWarning(
        "run-retried",
        "an earlier attempt at this run failed",
        f"{failed.run_id}: {failed.result.why_failed}",
        "if attempts fail repeatedly, their conditions differ from those of the other runs",
    )


def _resumed(attempts: Sequence[Attempt]) -> Iterator[Resumption]:
    for interrupted, attempt in pairwise(attempts):
        last = attempt.finished[-1] if attempt.finished else ""
        yield Resumption(attempt.unix_ns, interrupted.run_id, len(attempt.finished), last)


@cache
def _tool_versions() -> dict[str, str]:
    from importlib import metadata  # slow, and of use to runs alone

    versions = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions
