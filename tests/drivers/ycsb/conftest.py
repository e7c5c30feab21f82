"""The real client: Maven builds it when a test first wants it, as for a user."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from lab import Lab, open_lab

from harness.drivers.result import DriverResult, WindowCallbacks
from harness.drivers.ycsb.build import built
from harness.drivers.ycsb.client import properties_text
from harness.progress import SilentProgress
from harness.workload import Clients, Loading, Session
from harness.workloads.ycsb import official_client
from harness.workloads.ycsb.official_client import Official
from harness.workloads.ycsb.params import YcsbParams
from harness.workloads.ycsb.records import data_key

JAVA = Path(__file__).with_name("java")


@pytest.fixture(scope="session")
def client():
    """The client with RocksDB's binding."""
    with open_lab() as lab:
        return built(lab.engine("rocksdb").ycsb_binding(), SilentProgress())


@pytest.fixture(scope="session")
def java(client, tmp_path_factory):
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

    lab: Lab
    stored: Golden
    engine: Any = None
    facts: Mapping[str, Any] | None = None
    golden: Path = Path()

    def clients(self) -> Clients:
        inside = self.engine if self.engine.inside_client else None
        return Clients(self.lab.supervisor, self.lab.credentials, self.lab.directory("c"), inside)

    def load(self, name: str, params: YcsbParams, **settings: str) -> None:
        """The dataset of a run: loaded, stopped and copied, by the first test that needs it;
        restored and started.
        """
        self.engine = self.lab.engine(name, settings)
        Official(params).check(self.engine, settings)
        key = str((name, settings, data_key(params), Official(params).key()))
        if key not in self.stored.facts:
            self.engine.initialise(self.lab.places())
            self.engine.start()
            loading = Loading(self.engine, "ycsb", None, self.clients(), 2, SilentProgress())
            self.stored.facts[key] = Official(params).load(loading)
            self.engine.stop()
            self.stored.folder(key).mkdir()
            self.engine.snapshot(self.stored.folder(key))
        self.facts, self.golden = self.stored.facts[key], self.stored.folder(key)
        self.restore()

    def restore(self) -> None:
        self.engine.restore(self.golden, self.lab.places())
        self.engine.start()

    def session(self) -> Session:
        return Session(
            self.engine, SilentProgress(), None, drop_caches=False, driver="ycsb",
            client_starter=self.clients(),
        )  # fmt: skip

    def drive(self, params: YcsbParams, drives: WindowCallbacks | None = None) -> DriverResult:
        drives = drives or WindowCallbacks()
        return Official(params).drive(self.session(), drives)

    def verify(self, params: YcsbParams, driven: DriverResult) -> Sequence[Any]:
        return Official(params).verify(self.session(), driven)


@pytest.fixture(scope="session")
def golden():
    with open_lab() as lab:
        yield Golden(lab.root)


@pytest.fixture
def bench(golden, monkeypatch):
    """Counters of a window count however late a busy machine reads them."""
    monkeypatch.setattr(official_client, "_LATE", 1.0)
    with open_lab() as lab:
        bench = Bench(lab, golden)
        try:
            yield bench
        finally:
            if bench.engine is not None:
                bench.engine.kill()
