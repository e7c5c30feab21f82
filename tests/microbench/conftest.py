"""microbench, built from its sources."""

from pathlib import Path

import pytest
from microbench_build import runner, with_toy_kernel
from native_build import BUILDS, INSTALLED, SANITIZED, build


@pytest.fixture(scope="session")
def release_build():
    """A build as it is installed, with the toy kernel: for its results, and for what its loops were
    compiled to.
    """
    compiled = f"-DMICROBENCH_COMPILED={INSTALLED / 'microbench'}"
    return build(with_toy_kernel(BUILDS / "sources"), compiled)


@pytest.fixture(scope="session")
def tested_build(request):
    """For what it does."""
    if SANITIZED:
        return build("microbench", sanitized=True)
    return Path(request.getfixturevalue("release_build"))


@pytest.fixture(scope="session")
def microbench(tested_build):
    """Run measurements that end well; return the result."""
    return runner(tested_build / "microbench")


@pytest.fixture(scope="session")
def released(release_build):
    """The same with the program as it is installed."""
    return runner(release_build / "microbench")
