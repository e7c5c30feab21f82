"""A started engine with a workload's data in it, as the runner would hand it over."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

import pytest
from lab import open_lab

from harness.monitors import MonitorContext
from harness.monitors.process import ProcessMonitor
from harness.progress import SilentProgress
from harness.workload import Clients, Loading, Session

#: ``running(engine, workload, params, **settings)``.
Running = Callable[..., AbstractContextManager[Session]]


@pytest.fixture(scope="session")
def running():
    """A session on a started engine, with the data that the native client loads."""

    @contextmanager
    def run(name: str, workload, params, **settings: str) -> Iterator[Session]:
        with open_lab() as lab, ExitStack() as stack:
            engine = lab.started(name, settings)
            stack.callback(engine.kill)
            inside = engine if engine.inside_client else None
            clients = Clients(lab.supervisor, lab.credentials, lab.directory("c"), inside)
            progress, source = SilentProgress(), None
            if workload.source_key(params, engine):
                source = lab.directory("source")
                workload.generate(params, engine, source, progress)
            workload.load(params, Loading(engine, "loadgen", source, clients, 2, progress))
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
