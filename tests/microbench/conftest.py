"""microbench, built from its sources."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from microbench_build import Run, runner, with_toy_kernel
from native_build import build


@pytest.fixture(scope="session")
def tested_build(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For what it does: as it is installed, or (`make test-sanitizers`) with the address and
    undefined-behaviour sanitizers.
    """
    if not os.environ.get("NATIVE_SANITIZE"):
        return Path(request.getfixturevalue("release_build"))
    options = ("-DCMAKE_BUILD_TYPE=Debug", "-DNATIVE_SANITIZE=ON")
    return build("microbench", tmp_path_factory.mktemp("microbench-sanitized"), *options)


@pytest.fixture(scope="session")
def release_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As it is installed, and with the toy kernel: for what it measures, and what its loops were
    compiled to.
    """
    folder = tmp_path_factory.mktemp("microbench-release")
    source = with_toy_kernel(folder / "sources")
    return build(source, folder, "-DCMAKE_BUILD_TYPE=Release")


@pytest.fixture(scope="session")
def microbench(tested_build: Path) -> Run:
    """Run measurements that end well; the result, valid by its schema."""
    return runner(tested_build / "microbench")


@pytest.fixture(scope="session")
def released(release_build: Path) -> Run:
    """The same with the program as it is installed."""
    return runner(release_build / "microbench")
