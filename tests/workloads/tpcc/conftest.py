"""Engines loaded with one warehouse by the native client."""

from collections.abc import Iterator
from typing import Any

import pytest

from harness.workload import Session
from harness.workloads.tpcc.params import TpccParams
from harness.workloads.tpcc.workload import WORKLOAD

#: MySQL runs the same statements on the same schema as MariaDB.
ENGINES = ("postgres", "mariadb")


@pytest.fixture(scope="module", params=ENGINES)
def loaded(request: pytest.FixtureRequest, running: Any) -> Iterator[Session]:
    """PostgreSQL, then MariaDB, each with one warehouse."""
    with running(request.param, WORKLOAD, TpccParams.from_mapping({"warehouses": 1})) as session:
        yield session
