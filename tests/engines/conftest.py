"""Fixtures of the tests of engines: labs, empty databases, generated data."""

from collections.abc import Iterator
from unittest import mock

import pytest
from generated import shared_files
from lab import open_lab
from scratch import open_directory, session_directory

from harness.engine import LoadFormat, LoadRequest
from harness.progress import SilentProgress
from harness.workloads.tpch import data


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [item for item in items if _concerned(item)]


def _concerned(item: pytest.Item) -> bool:
    marker = item.get_closest_marker("only")
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    return marker is None or any(value in marker.args for value in parameters.values())


@pytest.fixture
def lab():
    """Ends what a test has started in it."""
    with open_lab() as lab:
        yield lab


@pytest.fixture(scope="module")
def module_lab():
    with open_lab() as lab:
        yield lab


@pytest.fixture(scope="session")
def spark():
    """Spark on this host, for several files: its start takes the most processor time of all.

    A heap that is rarely collected; a sort of more rows than this spills.
    """
    settings = {
        "spark.driver.memory": "1000M",
        "spark.sql.shuffle.partitions": "4",
        "spark.shuffle.spill.numElementsForceSpillThreshold": "40000",
    }
    with open_lab() as lab:
        yield lab.started("spark", settings, fresh=True)


@pytest.fixture(scope="session")
def tpch_csv():
    yield from _tpch("csv")


@pytest.fixture(scope="session")
def tpch_parquet():
    yield from _tpch("parquet")


def _tpch(form: LoadFormat) -> Iterator[data.GeneratedFiles]:
    """The eight tables at scale 0.01, the larger ones in two files."""
    with open_directory() as root:
        folder = root / "content"
        with shared_files(session_directory()), mock.patch.object(data, "chunks", return_value=2):
            data.generate(0.01, form, folder, SilentProgress())
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        yield data.read_source(folder)


@pytest.fixture(scope="session", params=("mysql", "mariadb"))
def innodb(request, tpch_csv):
    """A started MySQL, then MariaDB, that has loaded TPC-H at scale 0.01."""
    with open_lab() as lab:
        settings = {"innodb_buffer_pool_size": "134217728"}
        engine = lab.started(request.param, settings)
        engine.bulk_load(
            LoadRequest(engine.sql("tpch"), tpch_csv.files, tpch_csv.row_counts, SilentProgress())
        )
        yield engine
        engine.kill()


@pytest.fixture
def connection(innodb):
    connection = innodb.connect()
    yield connection
    connection.close()
