"""What a run is found to be, collected while it goes and written in the store's order."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import harness
from harness.engine import Engine
from harness.errors import HarnessError
from harness.execution.environment import Environment
from harness.execution.provenance import revision, tool_versions
from harness.execution.session import RunSession
from harness.experiment.preflight import ResolvedRun
from harness.host.cgroup import MemoryCap
from harness.host.confounders import uncontrolled
from harness.host.processors import format_cpus
from harness.store.datasets import Dataset
from harness.store.result import Check, Metric, run_status
from harness.store.runs import RunWriter, StoredRun
from harness.store.spec import RUN_SCHEMA
from harness.warnings import RunWarning, unique
from harness.workload import Outcome


class Recorder:
    """Collects what a run is found to be, and writes it in the store's order."""

    def __init__(
        self,
        prepared: ResolvedRun,
        env: Environment,
        writer: RunWriter,
        experiment: Mapping[str, Any],
    ) -> None:
        self.prepared = prepared
        self.env = env
        self.writer = writer
        self.experiment = dict(experiment)
        self.begin()
        self.uncontrolled_at_start: list[RunWarning] = []
        self.cap: MemoryCap | None = None
        self.engine: Engine | None = None
        self.golden: Dataset | None = None
        self.dataset_facts: dict[str, Any] | None = None
        self.data_bytes: int | None = None
        self.effective_config: dict[str, str] = {}
        self.session: RunSession | None = None
        self.outcome: Outcome | None = None
        self.monitors: dict[str, Mapping[str, Any]] = {}
        self.monitor_warnings: list[RunWarning] = []
        self.cap_metrics: list[Metric] = []
        self.placement_checks: list[Check] = []
        self.error: HarnessError | None = None

    def begin(self) -> None:
        """The run's time starts now: waiting for another harness is none of it."""
        self.clock = {"monotonic_ns": time.monotonic_ns(), "realtime_ns": time.time_ns()}

    def sit_down(self, conditions: Mapping[str, Any]) -> None:
        """Measuring begins, or goes on: note when, and what was not controlled then."""
        self.uncontrolled_at_start = uncontrolled(self.prepared.tiers.values())
        sitting = {
            "run_id": self.writer.run_id,
            "unix_ns": time.time_ns(),
            "conditions": dict(conditions),
            "uncontrolled": [warning.to_json() for warning in self.uncontrolled_at_start],
        }
        self.writer.steps.append({"sitting": sitting})

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
        sittings = self.writer.steps.sittings
        # What the cap saw is known of the last sitting only.
        cap_metrics = self.cap_metrics if len(sittings) < 2 else []
        metrics = [*(self.outcome.metrics if self.outcome else []), *cap_metrics]
        checks = [*(self.outcome.checks if self.outcome else []), *self._own_checks()]
        status = "failed" if self.error or not self.outcome else run_status(checks)
        used = dict.fromkeys(tier.name for tier in self.prepared.tiers.values())
        return {
            "schema": RUN_SCHEMA,
            "run_id": self.writer.run_id,
            "status": status,
            "spec": spec.to_json(),
            "spec_hash": spec.hash(),
            "experiment": self.experiment,
            "started_unix_ns": sittings[0]["unix_ns"] if sittings else self.clock["realtime_ns"],
            "duration_ns": time.monotonic_ns() - self.clock["monotonic_ns"],
            "host_mode": self.env.host["mode"],
            "emulated": [
                {"tier": name, "by": f"{tier.facts.kind} at {tier.claim.path}"}
                for name in used
                if (tier := self.env.tiers[name]).emulated
            ],
            "uncontrolled": [warning.to_json() for warning in self._warnings()],
            "data_bytes": self.data_bytes,
            "memory_bytes": self._memory_bytes(),
            "residency": self.session.residency if self.session else [],
            "resumed": _resumed(sittings),
            "metrics": [metric.to_json() for metric in metrics],
            "checks": [check.to_json() for check in checks],
            "error": self.error.to_json() if self.error else None,
        }

    def _own_checks(self) -> list[Check]:
        """Cold starts that were not cold make the run's cache mode doubtful: unknown."""
        warm = self.session.not_cold if self.session else []
        cold = [Check("cold-start", "unknown", "; ".join(warm[:3]))] if warm else []
        return [*cold, *self.placement_checks]

    def _warnings(self) -> Iterator[RunWarning]:
        yield from self._host_warnings()
        if self.prepared.external:
            yield RunWarning(
                "external-server",
                "the harness does not run this server",
                "placement, page cache, memory and other clients are not controlled",
                "let the harness run the engine, or describe the set-up with --label",
            )
        if self.cap is not None and self.cap.method == "none":
            yield RunWarning(
                "memory-limit-not-enforced",
                "the memory limit is not enforced",
                f"{self.prepared.spec.memory_limit_bytes} bytes requested: {self.cap.reason}",
                "run as root, or where cgroups are delegated to you",
            )
        yield from self.monitor_warnings
        if self.outcome is not None:
            yield from self.outcome.uncontrolled

    def _host_warnings(self) -> list[RunWarning]:
        """Those of the end, of earlier attempts and of the start, each once."""
        earlier = [
            RunWarning.from_json(entry)
            for one in self.writer.steps.sittings
            for entry in one["uncontrolled"]
        ]
        at_end = uncontrolled(self.prepared.tiers.values())
        return unique([*at_end, *earlier, *self.uncontrolled_at_start])

    def _memory_bytes(self) -> int | None:
        if self.prepared.external:
            return None
        if self.cap is not None and self.cap.method != "none":
            return self.prepared.spec.memory_limit_bytes
        return self.env.memory_bytes

    def _manifest(self) -> dict[str, Any]:
        spec, version = self.prepared.spec, self.prepared.version
        assert self.engine is not None
        dataset: dict[str, Any] | None = None
        if self.golden is not None:
            dataset = {"key": self.golden.name, "fingerprint": self.golden.fingerprint}
            if "load_retries" in self.golden.record:
                dataset["load_retries"] = self.golden.record["load_retries"]
        elif self.dataset_facts is not None:
            dataset = {"key": "external", "fingerprint": self.dataset_facts}
        tiers = {tier.name: tier for tier in self.prepared.tiers.values()}
        return {
            "schema": RUN_SCHEMA,
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
            "processors": format_cpus(self.prepared.cpus) or None,
            "clock": self.clock,
            "tools": tool_versions(),
        }


def _resumed(sittings: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Where the run was cut off and gone on with, as in run.json."""
    return [
        {
            "unix_ns": now["unix_ns"],
            "cut_off_run_id": before["run_id"],
            "kept_steps": len(now["kept"]),
            "after_step": now["kept"][-1] if now["kept"] else "",
        }
        for before, now in pairwise(sittings)
    ]
