"""A place for runs of the self-test: datasets and results of its own, removed at the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar, cast

import msgspec

from harness import paths
from harness.errors import UsageError
from harness.execution.data import loaded_dataset
from harness.execution.engine_run import EngineRun
from harness.execution.environment import Environment, open_environment
from harness.execution.run_list import last_attempts, plan_steps
from harness.experiment.preflight import prepare_all
from harness.experiment.profile import Plan, expand
from harness.experiment.study import Made, StopRule, make_runs
from harness.progress import Progress
from harness.store.datasets import Dataset, DatasetStore, digest_files
from harness.store.documents import members, write_json_atomically
from harness.store.run_store import Store
from harness.store.runs import StoredRun
from harness.store.spec import Json, JsonObject
from harness.supervise import workdirs
from harness.supervise.own_files import make_passable
from harness.tiers.discovery import store_tier
from harness.yamlfile import YamlDocument

Value = TypeVar("Value")

#: A directory on /dev/shm: no device's noise is between a planted effect and its measurement.
TIER = "selftest_ram"
#: A directory next to the datasets, on another file system than the first wherever there is a disk.
DISK = "selftest_disk"


#: One client thread, so that each operation waits for its own I/O only. No memtable is flushed. A
#: number of operations, not a time: on a busy host a thread may stand still for a second.
@dataclass(frozen=True)
class Fixed:
    """Parameters that all runs of a profile share: the members of ``fixed`` and ``workload``."""

    workload: str
    engine: str
    params: JsonObject
    placement: str | None = f"{TIER}-both"
    settings: Mapping[str, str] = field(default_factory=dict)
    engine_options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    plant: Sequence[str] = ()
    monitors: Sequence[str] = ()
    emulate: Sequence[str] = (TIER,)

    def with_params(self, **params: Json) -> Fixed:
        return replace(self, params={**self.params, **params})

    def plan(self, arms: Sequence[JsonObject] = ({},), repeats: int = 1) -> Plan:
        fixed = {name: value for name, value in members(self).items() if value}
        profile = {
            "schema": 1,
            "name": "selftest",
            "description": "planted effects and faults",
            "workload": fixed.pop("workload"),
            "axes": {"configuration": list(arms)},
            "fixed": fixed,
            "repeats": repeats,
        }
        return expand(YamlDocument("selftest", profile, {}))


YCSB = Fixed(
    "ycsb",
    "rocksdb",
    {
        "records": 2000,
        "threads": 1,
        "readproportion": 0,
        "updateproportion": 1,
        "ramp_up": "0s",
        "operations": 2000,
    },
    settings={"write_buffer_size": "512M"},
)


@dataclass(frozen=True)
class Lab:
    """``environment``: of the host, with datasets below ``root``."""

    root: Path
    environment: Environment
    store: Store

    def run(
        self,
        fixed: Fixed,
        arms: Sequence[JsonObject] = ({},),
        repeats: int = 1,
        retries: int = 1,
    ) -> list[StoredRun]:
        """The runs of a profile; ``arms``: what each arm sets, in interleaved blocks.

        A failed run is repeated as in experiments; ``retries`` is 0 where a fault is planted.
        """
        plan = fixed.plan(arms, repeats)
        steps = plan_steps(plan, self.environment, self.store, again=True)
        made = make_runs(
            Made(plan),
            StopRule(),
            steps,
            self.environment,
            self.store,
            restart=True,
            retries=retries,
        )
        return last_attempts(made.attempts)

    def check(self, workloads: Sequence[Fixed]) -> None:
        """UsageError with all that such runs lack here, such as an engine that is not installed."""
        problems: list[UsageError] = []
        for fixed in workloads:
            try:
                prepare_all(fixed.plan().runs, self.environment)
            except UsageError as error:
                problems.append(error)
        if problems:
            raise UsageError(
                "selftest",
                "; ".join(map(str, problems)),
                " · ".join(dict.fromkeys(problem.hint for problem in problems)),
            )

    def prepared(self, fixed: Fixed) -> EngineRun:
        """One such run, checked; UsageError for what cannot work."""
        (prepared,) = prepare_all(fixed.plan().runs, self.environment)
        return prepared

    def dataset(self, fixed: Fixed) -> Dataset:
        """Dataset that such runs are restored from, loaded first where it is missing."""
        return loaded_dataset(self.prepared(fixed), self.environment)

    def record_again(self, dataset: Dataset) -> None:
        """Take the files of a dataset, which a fault was planted in, for those that were made."""
        progress = self.environment.progress
        files = digest_files(dataset.content, progress, f"recording {dataset.name}")
        record = msgspec.structs.replace(dataset.record, files=files)
        write_json_atomically(dataset.directory / "golden.json", record.to_json())


@contextmanager
def open_lab(progress: Progress) -> Iterator[Lab]:
    """Open it; whatever the user has stored is neither used nor changed."""
    with open_environment(None, [TIER], progress) as opened:
        journal = opened.supervisor.journal
        parent = paths.data_root()
        try:
            make_passable(parent)
        except OSError as error:
            raise UsageError(
                f"directory {parent}", str(error), "export HARNESS_DATA=DIRECTORY"
            ) from error
        root = journal.register_directory(workdirs.fresh(parent, "selftest"), mode=0o755)
        try:
            datasets, source = (DatasetStore(root / kind, journal) for kind in ("golden", "source"))
            disk = store_tier(root / "disk")
            tiers = {**opened.tiers, DISK: replace(disk, claim=replace(disk.claim, name=DISK))}
            environment = replace(opened, datasets=datasets, source=source, tiers=tiers)
            yield Lab(root, environment, Store(root / "results"))
        finally:
            journal.remove_directory(root)


@contextmanager
def replaced(table: Mapping[str, Value], key: str, value: Value) -> Iterator[None]:
    """Another value until the end."""
    changed = cast("dict[str, Value]", table)
    previous = changed.get(key)
    changed[key] = value
    try:
        yield
    finally:
        if previous is None:
            del changed[key]
        else:
            changed[key] = previous
