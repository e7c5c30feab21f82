"""Engines loaded with one warehouse by the native client."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness import paths, registry
from harness.engine import EngineContext, Places
from harness.placement import DIRECTORY_PARTS
from harness.progress import SilentProgress
from harness.session import RunSession
from harness.supervise.credentials import unprivileged
from harness.supervise.supervisor import Supervisor
from harness.workload import Clients, Loading
from harness.workloads.tpcc import WORKLOAD

ENGINES = ("postgres", "mysql", "mariadb")


@contextmanager
def running(name: str, root: Path, **settings: str) -> Iterator[RunSession]:
    """A session on a started engine of that name with one warehouse in it."""
    with ExitStack() as stack:
        supervisor = stack.enter_context(Supervisor(root / f"state-{name}"))
        credentials = unprivileged()

        def directory(what: str) -> Path:
            return supervisor.journal.register_directory(root / f"{name}-{what}", credentials)

        directories = {part: directory(part) for part in DIRECTORY_PARTS}
        engine: Any = registry.engine(name).create(
            EngineContext(
                settings=settings,
                options={},
                scratch=directory("s"),
                engines_prefix=paths.engines_prefix(),
                processes=supervisor,
                credentials=credentials,
                threads=len(os.sched_getaffinity(0)),
                memory_limit_bytes=1 << 30,
            )
        )
        stack.callback(engine.kill)
        engine.initialise(Places(directories))
        engine.start()
        clients = Clients(supervisor, credentials, directory("c"))
        progress = SilentProgress()
        params = WORKLOAD.normalise({"warehouses": 1})
        WORKLOAD.load(params, Loading(engine, "loadgen", None, clients, 2, progress))
        yield RunSession(
            engine, progress, None, drop_caches=False, driver="loadgen", client_starter=clients
        )


@pytest.fixture(scope="session")
def root() -> Iterator[Path]:
    """A folder that the servers' user can enter (pytest's own are for their owner only)."""
    root = Path(tempfile.mkdtemp(prefix="tb-tpcc-"))
    root.chmod(0o755)
    yield root
    shutil.rmtree(root)


@pytest.fixture(scope="module", params=ENGINES)
def loaded(request: pytest.FixtureRequest, root: Path) -> Iterator[RunSession]:
    """PostgreSQL, MySQL, then MariaDB, each with one warehouse."""
    with running(request.param, root) as session:
        yield session
