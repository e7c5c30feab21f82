"""loadgen, built from its sources, and run on specs."""

from typing import Any

import pytest
from native_build import SANITIZED, build
from ycsb_store import RECORDS, Store, execute


@pytest.fixture(scope="session")
def loadgen_build():
    """A build directory with `loadgen`, its modules and the C tests."""
    return build("loadgen", sanitized=SANITIZED)


@pytest.fixture(scope="session")
def last_names():
    """TPC-C's last names by their number (clause 4.3.2.3)."""
    syllables = ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"]
    return [a + b + c for a in syllables for b in syllables for c in syllables]


@pytest.fixture(scope="session")
def loadgen(loadgen_build):
    """Run a spec that ends well; its result."""

    def run(spec: dict[str, Any]) -> dict[str, Any]:
        status, result = execute(loadgen_build / "loadgen", spec)
        assert status == 0, result
        return result

    return run


@pytest.fixture
def empty(loadgen_build, tmp_path):
    return Store(loadgen_build / "loadgen", tmp_path / "store")


@pytest.fixture
def store(empty):
    assert empty.load()["rows"] == {"usertable": RECORDS}
    return empty
