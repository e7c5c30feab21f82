"""loadgen, built from its sources with the sanitizers on, and run on specs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ycsb_store import RECORDS, Store, execute

SOURCE = Path(__file__).resolve().parents[2] / "loadgen"


@pytest.fixture(scope="session")
def loadgen_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build directory with `loadgen`, its modules and the C tests, under the sanitizers."""
    build = tmp_path_factory.mktemp("loadgen")
    options = ["-DCMAKE_BUILD_TYPE=Debug", "-DNATIVE_TESTS=ON", "-DNATIVE_SANITIZE=ON"]
    for command in (
        ["cmake", "-S", str(SOURCE), "-B", str(build), *options],
        ["cmake", "--build", str(build), "--parallel", "2"],
    ):
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        assert made.returncode == 0, made.stdout + made.stderr
    return build


@pytest.fixture(scope="session")
def last_names() -> list[str]:
    """TPC-C's last names by their number (clause 4.3.2.3)."""
    syllables = ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"]
    return [a + b + c for a in syllables for b in syllables for c in syllables]


@pytest.fixture(scope="session")
def loadgen(loadgen_build: Path) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Run a spec that ends well; its result."""

    def run(spec: dict[str, Any]) -> dict[str, Any]:
        whole = {"schema": 1, "modules": [str(loadgen_build)], **spec}
        status, result = execute(loadgen_build / "loadgen", whole)
        assert status == 0, result
        return result

    return run


@pytest.fixture
def empty(loadgen_build: Path, tmp_path: Path) -> Store:
    return Store(loadgen_build / "loadgen", tmp_path / "store")


@pytest.fixture
def store(empty: Store) -> Store:
    assert empty.load()["rows"] == {"usertable": RECORDS}
    return empty
