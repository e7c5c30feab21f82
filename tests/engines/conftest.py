"""A place to run engines in: a real supervisor, directories a server's user can enter."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness import paths, registry
from harness.engine import Credentials, DataDirectories, EngineContext
from harness.experiment.placement import DIRECTORY_PARTS
from harness.progress import SilentProgress
from harness.supervise.credentials import unprivileged
from harness.supervise.supervisor import Supervisor


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [item for item in items if _concerned(item)]


def _concerned(item: pytest.Item) -> bool:
    marker = item.get_closest_marker("only")
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    return marker is None or any(value in marker.args for value in parameters.values())


@dataclass
class Lab:
    root: Path
    supervisor: Supervisor
    credentials: Credentials | None = field(default_factory=unprivileged)
    made: int = 0

    def directory(self, name: str) -> Path:
        self.made += 1
        path = self.root / f"{self.made}-{name}"
        path.mkdir(mode=0o700)
        if self.credentials is not None:
            os.chown(path, self.credentials.uid, self.credentials.gid)
        return path

    def places(self, **elsewhere: Path) -> DataDirectories:
        return DataDirectories({p: elsewhere.get(p) or self.directory(p) for p in DIRECTORY_PARTS})

    def engine(
        self,
        name: str,
        settings: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Any:
        context = EngineContext(
            settings=settings or {},
            options=options or {},
            scratch=self.directory("s"),
            engines_prefix=paths.engines_prefix(),
            processes=self.supervisor,
            credentials=self.credentials,
            threads=2,
            memory_limit_bytes=1 << 30,
        )
        return registry.engine(name).create(context)

    def started(
        self,
        name: str,
        dataset: Path,
        settings: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Any:
        """An engine that runs on a copy of the dataset."""
        engine = self.engine(name, settings, options)
        engine.restore(dataset, self.places())
        engine.start()
        return engine


@contextmanager
def open_lab() -> Iterator[Lab]:
    root = Path(tempfile.mkdtemp(prefix="tb-test-"))
    root.chmod(0o755)
    try:
        with Supervisor(root / "state") as supervisor:
            yield Lab(root, supervisor)
    finally:
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def lab() -> Iterator[Lab]:
    with open_lab() as lab:
        yield lab


@pytest.fixture(scope="module")
def module_lab() -> Iterator[Lab]:
    with open_lab() as lab:
        yield lab


class Empty:
    """Golden data of engines with nothing in them: a copy takes less long than making them."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._made: dict[tuple[str, str, str], Path] = {}

    def data(self, name: str, version: str = "", prefix: str = "") -> Path:
        """Made, started and stopped once; ``version``, ``prefix``: another than a run's choice."""
        if (key := (name, version, prefix)) not in self._made:
            given = {"version": version, "prefix": prefix}
            engine = self._lab.engine(name, options={k: v for k, v in given.items() if v})
            engine.initialise(self._lab.places())
            engine.start()
            engine.stop()
            golden = self._lab.directory("golden")
            engine.snapshot(golden)
            self._made[key] = golden
        return self._made[key]


@pytest.fixture(scope="session")
def empty_engines() -> Iterator[Empty]:
    with open_lab() as lab:
        yield Empty(lab)


@pytest.fixture(scope="session")
def empty_cluster(empty_engines: Empty) -> Path:
    """Golden data of an empty PostgreSQL."""
    return empty_engines.data("postgres")


@dataclass
class Source:
    """Generated TPC-H data."""

    files: dict[str, list[Path]]
    row_counts: dict[str, int]


@pytest.fixture(scope="session")
def tpch_csv() -> Iterator[Source]:
    yield from _tpch("csv")


@pytest.fixture(scope="session")
def tpch_parquet() -> Iterator[Source]:
    yield from _tpch("parquet")


def _tpch(form: str) -> Iterator[Source]:
    """The eight tables at scale 0.01, the larger ones in two files."""
    root = Path(tempfile.mkdtemp(prefix="tb-tpch-"))
    program = Path(sys.executable).parent / "tpchgen-cli"
    arguments = ["-s", "0.01", "--parts", "2", "--output-dir", str(root)]
    try:
        subprocess.run([program, form, *arguments], check=True, capture_output=True)
        for path in [root, *root.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
        files = {folder.name: sorted(folder.iterdir()) for folder in root.iterdir()}
        yield Source(files, {table: _rows(form, paths) for table, paths in files.items()})
    finally:
        shutil.rmtree(root)


def _rows(form: str, files: list[Path]) -> int:
    if form == "csv":
        return sum(len(path.read_bytes().splitlines()) - 1 for path in files)
    import duckdb

    found = duckdb.execute("select count(*) from read_parquet(?)", [[str(f) for f in files]])
    row = found.fetchone()
    assert row is not None
    return int(row[0])


@pytest.fixture(scope="session", params=("mysql", "mariadb"))
def innodb(request: pytest.FixtureRequest, tpch_csv: Source, empty_engines: Empty) -> Iterator[Any]:
    """A started MySQL, then MariaDB, that has loaded TPC-H at scale 0.01."""
    with open_lab() as lab:
        settings = {"innodb_buffer_pool_size": "134217728"}
        engine = lab.started(request.param, empty_engines.data(request.param), settings)
        engine.bulk_load("tpch", tpch_csv.files, tpch_csv.row_counts, SilentProgress())
        yield engine
        engine.kill()
