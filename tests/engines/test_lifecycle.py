"""Start, stop, kill, restore and privileges of every engine that has a process of its own, under a
strict umask; under the usual one, other tests start them.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from lab import empty, execute, strict_umask
from patience import eventually

from harness.errors import RunFailed
from harness.supervise.process import alive

TABLE = ("create table n (i integer not null primary key)",)
#: Statements that make the table, where they differ.
TABLES = {
    "voltdb": (
        "create table n (i integer not null, primary key (i))",
        "partition table n on column i",
    )
}
SETTINGS = {"voltdb": {"sitesperhost": "2", "snapshot_enabled": "false"}}
#: MariaDB stands for MySQL, too, whose servers start in several times the processor time.
SERVERS = ("postgres", "mariadb", "voltdb")


@dataclass(frozen=True)
class Stored:
    """An engine's name, and a dataset of it with the rows 1 and 2."""

    name: str
    dataset: Path

    def started(self, lab):
        return lab.started(self.name, SETTINGS.get(self.name), dataset=self.dataset)


def insert(engine, value: int) -> None:
    execute(engine, f"insert into n values ({value})")


def rows(engine) -> list[int]:
    return sorted(row[0] for row in execute(engine, "select i from n"))


@pytest.fixture(scope="module", autouse=True)
def strict():
    """All of it under a strict umask."""
    with strict_umask():
        yield


@pytest.fixture(scope="module", params=(*SERVERS, "duckdb"))
def stored(request, module_lab):
    name = request.param
    engine = Stored(name, empty(name)).started(module_lab)
    execute(engine, *TABLES.get(name, TABLE))
    insert(engine, 1)
    insert(engine, 2)
    return Stored(name, module_lab.stored(engine))


@pytest.fixture(scope="module")
def running(stored, module_lab):
    """One engine for the tests that leave it as it is."""
    engine = stored.started(module_lab)
    yield engine
    engine.kill()


def read_while_there(path: str) -> bytes:
    with suppress(FileNotFoundError, ProcessLookupError):  # a worker process has ended
        return Path(path).read_bytes()
    return b""


def test_no_process_has_the_rights_of_root(running, module_lab):
    expected = module_lab.credentials.uid if module_lab.credentials else os.geteuid()
    owners = set()
    for process in running.processes():
        with suppress(FileNotFoundError):  # a worker process has ended
            owners.add(Path(f"/proc/{process.pid}").stat().st_uid)
    assert owners == {expected} != {0}


@pytest.mark.only(*SERVERS)
def test_the_password_is_in_no_file_and_no_command_line(running, module_lab):
    password = running._password.encode()
    paths = [
        f"/proc/{p.pid}/{name}" for p in running.processes() for name in ("cmdline", "environ")
    ]
    for folder, _, names in os.walk(module_lab.root):
        files = (Path(folder, name) for name in names)
        paths += [str(path) for path in files if path.is_file() and not path.is_symlink()]
    assert len(paths) > 10
    assert [path for path in paths if password in read_while_there(path)] == []
    assert password.decode() not in str(running.effective_config())


def test_what_was_committed_outlives_a_stop_and_a_kill(lab, stored, running):
    """The last that needs the running one: VoltDB's, which starts slowly, is used for it."""
    engine = running if stored.name == "voltdb" else stored.started(lab)
    assert rows(engine) == rows(running) == [1, 2]
    if stored.name in ("postgres", "mariadb"):
        password, engine._password = engine._password, running._password
        with pytest.raises(RunFailed, match=r"Access denied|password authentication failed"):
            engine.connect()
        engine._password = password
    insert(engine, 3)
    engine.stop()
    engine.stop()
    assert engine.processes() == []
    engine.start()
    insert(engine, 4)
    processes = engine.processes()
    engine.kill()
    assert [process for process in processes if alive(process)] == []
    assert engine.processes() == []
    if stored.name in SERVERS:
        with pytest.raises(RunFailed, match="shut down"):
            engine.snapshot(lab.directory("dataset"))
    engine.start()
    assert rows(engine) == ([1, 2, 3] if engine.lost_when_killed else [1, 2, 3, 4])
    engine.stop()


#: The signal that ends the server by itself, and what is reported then: its log's last lines.
DEATHS = {
    "postgres": (signal.SIGQUIT, "immediate shutdown"),
    "mariadb": (signal.SIGKILL, "ready for connections"),
    "duckdb": (signal.SIGKILL, "status -9"),
}


@pytest.mark.only(*DEATHS)
def test_a_server_that_died_is_reported_with_its_log(lab, stored):
    engine = stored.started(lab)
    number, words = DEATHS[stored.name]
    process = engine.processes()[0]
    os.kill(process.pid, number)
    assert eventually(lambda: not alive(process))
    if stored.name in SERVERS:
        assert eventually(lambda: not engine.running)  # the supervisor has reaped it
    with pytest.raises(RunFailed, match=words):
        engine.stop()


@pytest.mark.only("postgres", "mariadb")
def test_a_server_that_cannot_start_shows_its_log(lab, stored):
    places, settings, words = lab.places(), {}, r"(?s)exit status .*ibdata1"
    if stored.name == "postgres":
        settings = {"shared_buffers": "4TB", "huge_pages": "off"}
        words = "could not map anonymous shared memory"
    engine = lab.engine(stored.name, settings)
    engine.restore(stored.dataset, places)
    if not settings:
        (places["data"] / "data/ibdata1").write_bytes(b"not a tablespace")
    with pytest.raises(RunFailed, match=words):
        engine.start()
    assert engine.processes() == []


@pytest.mark.only("postgres")  # of several processes
def test_no_server_outlives_a_killed_harness(stored):
    program = (
        "import pathlib, sys, time\n"
        "from lab import open_lab\n"
        "with open_lab() as lab:\n"
        "    engine = lab.started('postgres', dataset=pathlib.Path(sys.argv[1]))\n"
        "    print(engine.processes()[0].pid, flush=True); time.sleep(600)\n"
    )
    harness = subprocess.Popen(
        [sys.executable, "-c", program, str(stored.dataset)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
    )
    assert harness.stdout is not None
    pid = int(harness.stdout.readline())
    harness.kill()
    harness.wait()
    assert eventually(lambda: not Path(f"/proc/{pid}").exists())


@pytest.mark.only(*SERVERS)
def test_a_start_that_takes_too_long_is_ended(lab, stored):
    options = {"start_timeout_s": "0.001"}
    engine = lab.engine(stored.name, SETTINGS.get(stored.name), options)
    with pytest.raises(RunFailed, match=r"after 0\.001 s") as caught:
        engine.restore(stored.dataset, lab.places())
        engine.start()
    assert "start_timeout_s" in caught.value.hint
    assert engine.processes() == []
