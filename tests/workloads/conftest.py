"""A started engine with a workload's data in it, as the runner would hand it over."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness import paths, registry
from harness.engine import DataDirectories, EngineContext, RunsInClient
from harness.experiment.placement import DIRECTORY_PARTS
from harness.monitors import MonitorContext
from harness.monitors.process import ProcessMonitor
from harness.progress import SilentProgress
from harness.supervise.credentials import unprivileged
from harness.supervise.supervisor import Supervisor
from harness.workload import Clients, Loading, Session

#: ``running(engine, workload, params, **settings)``.
Running = Callable[..., AbstractContextManager[Session]]


@pytest.fixture(scope="session")
def root() -> Iterator[Path]:
    """A folder that the servers' user can enter (pytest's own are for their owner only)."""
    root = Path(tempfile.mkdtemp(prefix="tb-workload-"))
    root.chmod(0o755)
    yield root
    shutil.rmtree(root)


@pytest.fixture(scope="session")
def running(root: Path) -> Running:
    """A session on a started engine, with the data that the native client loads."""

    @contextmanager
    def run(name: str, workload: Any, params: Any, **settings: str) -> Iterator[Session]:
        here = Path(tempfile.mkdtemp(prefix="s-", dir=root))
        here.chmod(0o755)
        with ExitStack() as stack:
            supervisor = stack.enter_context(Supervisor(here / "state"))
            credentials = unprivileged()

            def directory(what: str) -> Path:
                return supervisor.journal.register_directory(here / what, credentials)

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
            engine.initialise(DataDirectories(directories))
            engine.start()
            inside = engine if isinstance(engine, RunsInClient) else None
            clients = Clients(supervisor, credentials, directory("c"), inside)
            progress = SilentProgress()
            workload.load(params, Loading(engine, "loadgen", None, clients, 2, progress))
            yield Session(
                engine,
                progress,
                None,
                drop_caches=False,
                driver="loadgen",
                client_starter=clients,
                monitors=[ProcessMonitor(MonitorContext(engine.processes))],
            )

    return run
