"""What the tests of engines share: labs, empty databases, generated data."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from lab import Lab, open_lab
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
def innodb(request: pytest.FixtureRequest, tpch_csv: Source) -> Iterator[Any]:
    """A started MySQL, then MariaDB, that has loaded TPC-H at scale 0.01."""
    with open_lab() as lab:
        settings = {"innodb_buffer_pool_size": "134217728"}
        engine = lab.started(request.param, settings)
        engine.bulk_load(engine.sql("tpch"), tpch_csv.files, tpch_csv.row_counts, SilentProgress())
        yield engine
        engine.kill()


@pytest.fixture
def connection(innodb: Any) -> Iterator[Any]:
    connection = innodb.connect()
    yield connection
    connection.close()
