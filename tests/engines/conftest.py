"""What the tests of engines share: labs, empty databases, generated data."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from lab import Lab, open_lab, strict_umask
from scratch import open_directory

from harness.progress import SilentProgress


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [item for item in items if _concerned(item)]


def _concerned(item: pytest.Item) -> bool:
    marker = item.get_closest_marker("only")
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    return marker is None or any(value in marker.args for value in parameters.values())


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
            self._made[key] = self._make(name, {k: v for k, v in given.items() if v})
        return self._made[key]

    def _make(self, name: str, options: dict[str, str]) -> Path:
        with strict_umask():
            engine = self._lab.engine(name, options=options)
            engine.initialise(self._lab.places())
            engine.start()
            engine.stop()
            engine.snapshot(golden := self._lab.directory("golden"))
        return golden


@pytest.fixture(scope="session")
def empty_engines() -> Iterator[Empty]:
    with ExitStack() as stack:
        with strict_umask():
            lab = stack.enter_context(open_lab())
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
    program = Path(sys.executable).parent / "tpchgen-cli"
    with open_directory() as root:
        arguments = ["-s", "0.01", "--parts", "2", "--output-dir", str(root)]
        subprocess.run([program, form, *arguments], check=True, capture_output=True)
        for path in root.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        files = {folder.name: sorted(folder.iterdir()) for folder in root.iterdir()}
        yield Source(files, {table: _rows(form, paths) for table, paths in files.items()})


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
        engine.bulk_load(engine.sql("tpch"), tpch_csv.files, tpch_csv.row_counts, SilentProgress())
        yield engine
        engine.kill()
