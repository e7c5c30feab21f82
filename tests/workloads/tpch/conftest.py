"""Generated data at scale 0.01, and engines loaded with them."""

import os
import shutil
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from harness import paths, registry
from harness.engine import DataDirectories, EngineContext
from harness.experiment.placement import DIRECTORY_PARTS
from harness.progress import SilentProgress
from harness.supervise.credentials import unprivileged
from harness.supervise.supervisor import Supervisor
from harness.workload import Clients, Loading
from harness.workloads.tpch import data
from harness.workloads.tpch.params import TpchParams
from harness.workloads.tpch.workload import WORKLOAD

SCALE = 0.01


@pytest.fixture(scope="session")
def quiet():
    return SilentProgress()


@pytest.fixture(scope="session")
def tpch_root():
    """A folder that the servers' user can enter (pytest's own are for their owner only)."""
    root = Path(tempfile.mkdtemp(prefix="tb-tpch-"))
    root.chmod(0o755)
    yield root
    shutil.rmtree(root)


@pytest.fixture(scope="session")
def sources(tpch_root, quiet):
    """Source data by format."""
    made = {}
    for load_format in ("csv", "tbl", "parquet"):
        folder = tpch_root / load_format / "content"
        data.generate(SCALE, load_format, folder, quiet)
        made[load_format] = data.read_source(folder)
    return made


@contextmanager
def running(name, root, source, progress):
    """A started engine of that name with TPC-H loaded from ``source``."""
    factory = registry.engine(name)
    with ExitStack() as stack:
        supervisor = stack.enter_context(Supervisor(root / f"state-{name}"))
        credentials = unprivileged()
        directories = {
            part: supervisor.journal.register_directory(root / f"{name}-{part}", credentials)
            for part in DIRECTORY_PARTS
        }
        scratch = supervisor.journal.register_directory(root / f"{name}-s", credentials)
        engine = factory.create(
            EngineContext(
                settings={},
                options={},
                scratch=scratch,
                engines_prefix=paths.engines_prefix(),
                processes=supervisor,
                credentials=credentials,
                threads=len(os.sched_getaffinity(0)),
                memory_limit_bytes=1 << 30,
            )
        )
        stack.callback(engine.kill)
        engine.initialise(DataDirectories(directories))
        engine.start()
        clients = Clients(supervisor, credentials, scratch)
        loading = Loading(engine, "native", source, clients, 2, progress)
        WORKLOAD.load(TpchParams.from_mapping({"scale": SCALE}), loading)
        yield engine
        engine.stop()


@pytest.fixture(scope="session")
def start_engine():
    """:func:`running`, for tests that change an engine's data."""
    return running


@pytest.fixture(scope="session")
def engines(tpch_root, sources, quiet):
    """Both engines of the main job, loaded."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(
                running(name, tpch_root, tpch_root / load_format / "content", quiet)
            )
            for name, load_format in (("duckdb", "parquet"), ("postgres", "csv"))
        }
