"""microbench, built from its sources: with the sanitizers on, and as it is installed."""

from __future__ import annotations

from pathlib import Path

import pytest
from microbench_build import Run, build, runner


@pytest.fixture(scope="session")
def sanitized_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Under the address and undefined-behaviour sanitizers: for what it does."""
    options = ("-DCMAKE_BUILD_TYPE=Debug", "-DNATIVE_SANITIZE=ON")
    return build(tmp_path_factory.mktemp("microbench-sanitized"), *options)


@pytest.fixture(scope="session")
def release_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As it is installed: for what it measures, and what its loops were compiled to."""
    return build(tmp_path_factory.mktemp("microbench-release"), "-DCMAKE_BUILD_TYPE=Release")


@pytest.fixture(scope="session")
def microbench(sanitized_build: Path) -> Run:
    """Run measurements that end well, under the sanitizers; the result, valid by its schema."""
    return runner(sanitized_build / "microbench")


@pytest.fixture(scope="session")
def released(release_build: Path) -> Run:
    """The same with the program as it is installed."""
    return runner(release_build / "microbench")
