"""libiotrace.so, built from its sources, and programs that run under it."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from native_build import build

from harness.iotrace.page import LIBRARY, IoTrace

#: Starts a Python program under the trace; the process.
Start = Callable[[str], "subprocess.Popen[str]"]
#: The same, to its end; what it printed.
Run = Callable[[str], str]


@pytest.fixture(scope="session")
def library():
    return build("iotrace") / LIBRARY


@pytest.fixture
def place():
    """On a tmpfs, where a sync takes next to nothing."""
    with TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.fixture
def trace(library, place):
    """With a directory for data, one for the log, and one outside of the parts."""
    for name in ("data", "wal", "elsewhere"):
        (place / name).mkdir()
    traced = IoTrace(library, ["thread=flusher", "title=writer:"])
    traced.directories = {"data": place / "data", "wal": place / "wal"}
    yield traced
    traced.page.close()


@pytest.fixture
def start(trace, place):
    def start(program: str, cwd: Path = place, **options) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", f"import os\n{program}"],
            cwd=cwd,
            env=trace.environment(trace.page.descriptor),
            pass_fds=[trace.page.descriptor],
            stdout=subprocess.PIPE,
            text=True,
            **options,
        )

    return start


@pytest.fixture
def run(start):
    def run(program):
        with start(program) as process:
            printed, _ = process.communicate()
            assert process.returncode == 0
        return printed

    return run


@pytest.fixture(scope="session")
def late_wakes(tmp_path_factory):
    library = tmp_path_factory.mktemp("late") / "late_wakes.so"
    source = Path(__file__).with_name("late_wakes.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


@pytest.fixture
def virtual_time(trace, late_wakes, monkeypatch):
    """Give programs the clock of late_wakes.c; their sleeps end late by so many milliseconds."""

    def virtual_time(late_ms=()):
        traced = trace.environment(trace.page.descriptor)
        both = f"{late_wakes}:{traced['LD_PRELOAD']}"
        late = ",".join(str(ms * 1000) for ms in late_ms)
        environment = traced | {"LD_PRELOAD": both, "LATE_WAKES": late}
        monkeypatch.setattr(trace, "environment", lambda _: environment)

    return virtual_time
