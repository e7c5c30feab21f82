"""A supervisor with a state directory of its own, and small harness programs to be killed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import started_processes
from narrowed import present
from patience import PATIENCE_S
from started_processes import processes_of

import harness
from harness.supervise import supervisor as supervisor_module
from harness.supervise import undo
from harness.supervise.process import kill_all, mark_of
from harness.supervise.supervisor import Supervisor

#: The supervisor process with bounds of time that no busy machine reaches. What is given time
#: must end by itself: one that does not is killed at the end of it.
PATIENT_DAEMON = f"""
import sys
sys.path.insert(0, {str(Path(harness.__file__).parents[1])!r})
from harness.supervise import daemon, undo
daemon.GRACE_S = daemon._KILL_S = undo._CGROUP_S = {PATIENCE_S}
daemon.main()
"""


@pytest.fixture(autouse=True)
def earlier_processes():
    """Servers that other tests of this session keep are none of this test's processes."""
    started_processes.earlier.clear()
    started_processes.earlier.update(mark_of(pid) for pid in processes_of(os.getpid()))


@pytest.fixture(autouse=True)
def patient_harness(monkeypatch):
    """Extend the time limits of the harness in this process, too."""
    monkeypatch.setattr(supervisor_module, "_END_S", 4 * PATIENCE_S)
    monkeypatch.setattr(undo, "kill_all", lambda find, timeout_s: kill_all(find, PATIENCE_S))


@pytest.fixture
def patient_daemon(tmp_path_factory):
    """The program of a supervisor process that gives time."""
    program = tmp_path_factory.mktemp("daemon") / "patient.py"
    program.write_text(PATIENT_DAEMON)
    return program


@pytest.fixture
def state(tmp_path):
    return tmp_path / "state"


@pytest.fixture
def supervisor(state):
    with Supervisor(state) as supervisor:
        yield supervisor


@pytest.fixture
def harness_program():
    """Start ``python -c SOURCE ARGUMENTS``, with its first line of output."""
    started: list[subprocess.Popen[str]] = []

    def start(source: str, *arguments: object) -> tuple[subprocess.Popen[str], str]:
        program = subprocess.Popen(
            [sys.executable, "-c", source, *map(str, arguments)],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=os.environ | {"SECRET_OF_THE_USER": "hunter2"},
        )
        started.append(program)
        return program, present(program.stdout).readline().strip()

    yield start
    for program in started:
        program.kill()
        program.wait()
        present(program.stdout).close()
