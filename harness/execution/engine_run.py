"""A checked run of a workload on an engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from harness.engine import (
    Engine,
    EngineContext,
    EngineFactory,
    EngineVersion,
    MemoryPolicy,
    ProcessStarter,
)
from harness.execution.environment import Environment
from harness.execution.resolved_run import ResolvedRun, host_conditions
from harness.experiment.placement import Part
from harness.host.listen_address import Address
from harness.models.device import DeviceModel
from harness.sql_files import text_of
from harness.store.spec import Json, JsonObject, content_hash
from harness.tiers.linux.model import Tier
from harness.tiers.memory_policy import usable_bytes
from harness.warnings import RunWarning
from harness.workload import Workload, with_log_limit
from harness.workloads.parameters import Parameters

#: What a profile's memory nodes are on a host that has no others.
ALL_MEMORY = "all memory of this host"


@dataclass(frozen=True, kw_only=True)
class EngineRun(ResolvedRun):
    """A checked run of a workload on an engine, with the objects that its spec names."""

    factory: EngineFactory
    version: EngineVersion
    workload: Workload[Any]
    params: Parameters
    tiers: Mapping[Part, Tier]
    memory_policy: MemoryPolicy | None
    settings: Mapping[str, str]
    threads: int
    #: Processors that the engine may run on; empty for all of them.
    cpus: tuple[int, ...] = ()
    #: Where the server listens for clients on other hosts; None: nowhere.
    listen: Address | None = None
    #: Addresses of the clients' hosts on the way to it.
    client_addresses: tuple[str, ...] = ()
    #: Known beforehand, and stored with the run.
    warnings: tuple[RunWarning, ...] = ()
    #: Format of the files of a bulk load; the size of the data depends on it.
    load_format: str = ""
    #: Size that its log does not exceed by its settings; None where the engine does not say.
    log_limit_bytes: int | None = None
    #: Name of its dataset; empty for an external engine.
    dataset_name: str = ""
    #: Name of its source files; empty if the workload loads from none.
    source_name: str = ""
    runnable: ClassVar[bool] = True

    @property
    def external(self) -> bool:
        """Return whether the engine is a server that the harness does not run."""
        return self.spec.placement is None

    @property
    def details(self) -> Mapping[str, Json]:
        return {"version": self.version.version, "memory": self.bound_memory}

    @property
    def bound_memory(self) -> str | None:
        """``socket:0: node 0``: what the spec's memory is here; None where it names none."""
        if self.spec.memory is None:
            return None
        policy = self.memory_policy
        nodes = ", ".join(map(str, policy.nodes)) if policy else ""
        return f"{self.spec.memory}: {f'node {nodes}' if nodes else ALL_MEMORY}"

    @property
    def instances(self) -> int:
        """Return the number of databases that are measured at once."""
        return self.params.outline().instances

    @property
    def database_bytes(self) -> Mapping[Part, int]:
        """Upper estimate of one database per directory part; nothing of an external server."""
        if self.external:
            return {}
        sizes = self.workload.estimate_bytes(self.params, self.load_format)
        return with_log_limit(sizes, self.log_limit_bytes)

    @property
    def needs_bytes(self) -> Mapping[Part, int]:
        """Upper estimate of all databases per directory part; nothing of an external server."""
        return {part: self.instances * size for part, size in self.database_bytes.items()}

    @property
    def copied_bytes(self) -> int:
        return sum(size for part, size in self.needs_bytes.items() if part in ("data", "index"))

    def conditions(self, env: Environment) -> JsonObject:
        return {
            "engine build": self.version.build,
            "engine settings": dict(self.settings),
            "data": self.dataset_name or None,
            **host_conditions(dict.fromkeys(self.tiers.values()), self.cpus, env),
        }

    def memory_bytes(self, env: Environment) -> int:
        """Return what the engine and its page cache can use without a memory limit."""
        return usable_bytes(self.memory_policy, env.memory_bytes)

    @property
    def models(self) -> dict[Part, DeviceModel]:
        """The models of the tiers that parts lie on."""
        placed = {part: tier.model for part, tier in self.tiers.items() if part != "memory"}
        return {part: model for part, model in placed.items() if model}

    def context(self, env: Environment, processes: ProcessStarter, scratch: Path) -> EngineContext:
        """Return the arguments of its engine; creating one checks its settings and options.

        Instances share the memory limit evenly.
        """
        limit = self.spec.memory_limit_bytes
        return EngineContext(
            settings=self.settings,
            options=self.spec.engine_options,
            scratch=scratch,
            engines_prefix=env.engines_prefix,
            processes=processes,
            credentials=env.credentials,
            threads=self.threads,
            memory_limit_bytes=None if limit is None else limit // self.instances,
            listen=self.listen,
            client_addresses=self.client_addresses,
        )

    def dataset_facts(self, engine: Engine) -> dict[str, Any]:
        """Return the facts that its dataset depends on."""
        spec = self.spec
        folder = engine.sql_folder
        return {
            "engine": spec.engine,
            "build": self.version.build,
            "driver": spec.driver,
            "workload": spec.workload,
            "data": self.workload.data_key(self.params, spec.driver),
            "format": dict(engine.format_options()),
            "schema": _schema_digest(folder / spec.workload) if folder else "",
        }


def _schema_digest(folder: Path) -> str:
    """Digest of the files that define the tables: data of another schema are not reused."""
    files = sorted([*folder.glob("[0-9]*.sql*"), *folder.glob("procedures/*.sql")])
    return content_hash({file.name: text_of(file) for file in files})
