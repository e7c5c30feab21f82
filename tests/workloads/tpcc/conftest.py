"""Engines loaded with one warehouse by the native client."""

from collections.abc import Iterator

import pytest

from harness.execution.session import RunSession
from harness.workloads.tpcc.params import TpccParams
from harness.workloads.tpcc.workload import WORKLOAD

ENGINES = ("postgres", "mysql", "mariadb")


@pytest.fixture(scope="module", params=ENGINES)
def loaded(request: pytest.FixtureRequest, running) -> Iterator[RunSession]:
    """PostgreSQL, MySQL, then MariaDB, each with one warehouse."""
    with running(request.param, WORKLOAD, TpccParams.from_mapping({"warehouses": 1})) as session:
        yield session
