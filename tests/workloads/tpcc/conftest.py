"""Engines loaded with one warehouse by the native client."""

import pytest

from harness.workloads.tpcc.params import TpccParams
from harness.workloads.tpcc.workload import WORKLOAD

#: MySQL runs the same statements on the same schema as MariaDB.
ENGINES = ("postgres", "mariadb")


@pytest.fixture(scope="module", params=ENGINES)
def loaded(request, running):
    """PostgreSQL, then MariaDB, each with one warehouse."""
    with running(request.param, WORKLOAD, TpccParams.from_mapping({"warehouses": 1})) as session:
        yield session
