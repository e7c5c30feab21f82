"""Generated data at scale 0.01, and engines loaded with them."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from generated import shared_files
from lab import open_lab
from scratch import open_directory, session_directory

from harness.engine import LoadFormat
from harness.progress import SilentProgress
from harness.workload import Clients, Loading
from harness.workloads.tpch import data
from harness.workloads.tpch.params import TpchParams
from harness.workloads.tpch.refresh_sets import prepare
from harness.workloads.tpch.workload import WORKLOAD

SCALE = 0.01


@pytest.fixture(scope="session")
def quiet():
    return SilentProgress()


@pytest.fixture(scope="session")
def tpch_root():
    with open_directory() as root:
        yield root


@pytest.fixture(scope="session")
def sources(tpch_root, quiet):
    """Source data by format."""
    made: dict[str, data.GeneratedFiles] = {}
    formats: tuple[LoadFormat, ...] = ("csv", "tbl", "parquet")
    for load_format in formats:
        folder = tpch_root / load_format / "content"
        with shared_files(session_directory()):
            data.generate(SCALE, load_format, folder, quiet)
        made[load_format] = data.read_source(folder)
    return made


@pytest.fixture(scope="session")
def refresh(tpch_root, quiet):
    """Their sets 1 to 3."""
    with shared_files(session_directory()):
        return prepare(SCALE, range(1, 4), tpch_root / "sets", quiet)


@contextmanager
def running(name: str, source: Path, progress: SilentProgress) -> Iterator[Any]:
    """A started engine of that name with TPC-H loaded from ``source``."""
    with open_lab() as lab:
        engine = lab.started(name)
        try:
            clients = Clients(lab.supervisor, lab.credentials, lab.directory("c"))
            loading = Loading(engine, "native", source, clients, 2, progress)
            WORKLOAD.load(TpchParams.from_mapping({"scale": SCALE}), loading)
            yield engine
            engine.stop()
        finally:
            engine.kill()


@pytest.fixture(scope="session")
def start_engine():
    """:func:`running`, for tests that change an engine's data."""
    return running


@pytest.fixture(scope="session")
def engines(tpch_root, sources, quiet):
    """Both engines of the main job, loaded."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(running(name, tpch_root / load_format / "content", quiet))
            for name, load_format in (("duckdb", "parquet"), ("postgres", "csv"))
        }
