"""The real client: Maven builds it when a test first wants it, as for a user."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from lab import memory

from harness import paths, registry
from harness.drivers.result import WindowCallbacks
from harness.drivers.ycsb import Build, built
from harness.drivers.ycsb.properties import properties_text
from harness.engine import DataDirectories, EngineContext, RunsInClient
from harness.errors import RunFailed
from harness.execution.session import RunSession
from harness.experiment.placement import DIRECTORY_PARTS
from harness.progress import SilentProgress
from harness.supervise.credentials import unprivileged
from harness.supervise.supervisor import Supervisor
from harness.workload import Clients, Loading
from harness.workloads.parameters import Duration
from harness.workloads.ycsb import data
from harness.workloads.ycsb.drivers import DriverResult
from harness.workloads.ycsb.official_client import Official
from harness.workloads.ycsb.params import YcsbParams

#: A machine that stood still made its client end too soon, or its clock jump.
_MACHINE = "ended before its window did|went .* astray"
JAVA = Path(__file__).with_name("java")


@pytest.fixture(scope="session")
def client() -> Build:
    """The client with RocksDB's binding."""
    return built(engine_of("rocksdb", Path("/"), None).ycsb_binding(), SilentProgress())


@pytest.fixture(scope="session")
def java(client: Build, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[str]]:
    """Run a class of ``java/`` beside the client; the lines that it prints."""
    classes = tmp_path_factory.mktemp("classes")
    command = ["javac", "-cp", client.classpath, "-d", str(classes), *map(str, JAVA.glob("*.java"))]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    libraries = ":".join(map(str, client.binding.libraries))

    def run(name: str, properties: Mapping[str, object], *arguments: object) -> list[str]:
        file = tmp_path_factory.mktemp(name) / "given.properties"
        file.write_text(properties_text(properties))
        done = subprocess.run(
            ["java", f"-Djava.library.path={libraries}", "-cp", f"{classes}:{client.classpath}",
             name, str(file), *map(str, arguments)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


def engine_of(name: str, scratch: Path, processes: Any, **settings: str) -> Any:
    context = EngineContext(
        settings=settings, options={}, scratch=scratch, engines_prefix=paths.engines_prefix(),
        processes=processes, credentials=unprivileged(), threads=2, memory_limit_bytes=1 << 30,
    )  # fmt: skip
    return registry.engine(name).create(context)


@dataclass
class Golden:
    """Data that the official client has loaded, by what they depend on."""

    root: Path
    facts: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def folder(self, key: str) -> Path:
        return self.root / str(list(self.facts).index(key))


@dataclass
class Bench:
    """An engine with data that the official client has loaded, started."""

    root: Path
    supervisor: Supervisor
    stored: Golden
    made: int = 0
    engine: Any = None
    facts: Mapping[str, Any] | None = None
    golden: Path = Path()

    def directory(self, name: str) -> Path:
        self.made += 1
        path = self.root / f"{self.made}{name}"
        path.mkdir(mode=0o700)
        if (user := unprivileged()) is not None:
            os.chown(path, user.uid, user.gid)
        return path

    def places(self) -> DataDirectories:
        return DataDirectories({part: self.directory(part) for part in DIRECTORY_PARTS})

    def clients(self) -> Clients:
        inside = self.engine if isinstance(self.engine, RunsInClient) else None
        return Clients(self.supervisor, unprivileged(), self.directory("c"), inside)

    def load(self, name: str, params: YcsbParams, **settings: str) -> None:
        """As a run has it: loaded, stopped and copied, by the first test that wants these data;
        restored and started.
        """
        self.engine = engine_of(name, self.directory("s"), self.supervisor, **settings)
        Official(params).check(self.engine, settings)
        key = str((name, settings, data.key(params), Official(params).key()))
        if key not in self.stored.facts:
            self.engine.initialise(self.places())
            self.engine.start()
            loading = Loading(self.engine, "ycsb", None, self.clients(), 2, SilentProgress())
            self.stored.facts[key] = Official(params).load(loading)
            self.engine.stop()
            self.stored.folder(key).mkdir()
            self.engine.snapshot(self.stored.folder(key))
        self.facts, self.golden = self.stored.facts[key], self.stored.folder(key)
        self.restore()

    def restore(self) -> None:
        self.engine.restore(self.golden, self.places())
        self.engine.start()

    def session(self) -> RunSession:
        return RunSession(
            self.engine, SilentProgress(), None, drop_caches=False, driver="ycsb",
            client_starter=self.clients(),
        )  # fmt: skip

    def drive(self, params: YcsbParams, drives: WindowCallbacks | None = None) -> DriverResult:
        """Again, on data as they were loaded, where the machine stood still meanwhile."""
        drives = drives or WindowCallbacks(lambda: None, lambda: None)
        for _ in range(4):
            try:
                return Official(params).drive(self.session(), drives)
            except RunFailed as failure:
                if not re.search(_MACHINE, failure.context):
                    raise
                self.engine.stop()
                self.restore()
        return Official(params).drive(self.session(), drives)

    def drive_in_time(
        self, params: YcsbParams, drives: WindowCallbacks | None = None
    ) -> DriverResult:
        """Again where the machine was too busy to read the counters of the window in time, or
        stood still for all of it.
        """
        for seconds in (3, 10, 30):
            driven = self.drive(replace(params, duration=Duration(seconds * 10**9)), drives)
            some = all(one.count for one in driven.operations.values())
            if driven.counters_late_ns is None and some:
                break
        return driven

    def verify(self, params: YcsbParams, driven: DriverResult) -> Sequence[Any]:
        return Official(params).verify(self.session(), driven)


@pytest.fixture(scope="session")
def golden() -> Iterator[Golden]:
    root = Path(tempfile.mkdtemp(prefix="tb-ycsb-", dir=memory() or "/var/tmp"))
    root.chmod(0o755)
    yield Golden(root)
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def bench(golden: Golden) -> Iterator[Bench]:
    root = Path(tempfile.mkdtemp(prefix="tb-ycsb-", dir=memory() or "/var/tmp"))
    root.chmod(0o755)
    try:
        with Supervisor(root / "state") as supervisor:
            bench = Bench(root, supervisor, golden)
            try:
                yield bench
            finally:
                if bench.engine is not None:
                    bench.engine.kill()
    finally:
        shutil.rmtree(root, ignore_errors=True)
