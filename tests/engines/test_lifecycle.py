"""Start, stop, kill, restore and privileges of every engine that has a process of its own, under a
strict umask; under the usual one, other tests start them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from lab import empty, strict_umask
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

    def restored(
        self,
        lab: Any,
        places: Any = None,
        settings: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Any:
        engine = lab.engine(self.name, SETTINGS.get(self.name, {}) | dict(settings or {}), options)
        engine.restore(self.dataset, places or lab.places())
        return engine

    def started(self, lab: Any) -> Any:
        engine = self.restored(lab)
        engine.start()
        return engine


def insert(engine: Any, value: int) -> None:
    with closing(engine.connect()) as connection:
        connection.execute(f"insert into n values ({value})")


def rows(engine: Any) -> list[int]:
    with closing(engine.connect()) as connection:
        return sorted(row[0] for row in connection.execute("select i from n").rows)


@pytest.fixture(scope="module", autouse=True)
def strict() -> Iterator[None]:
    """All of it under a strict umask."""
    with strict_umask():
        yield


@pytest.fixture(scope="module", params=(*SERVERS, "duckdb"))
def stored(request: pytest.FixtureRequest, module_lab: Any) -> Stored:
    name = request.param
    engine = Stored(name, empty(name)).started(module_lab)
    with closing(engine.connect()) as connection:
        for statement in TABLES.get(name, TABLE):
            connection.execute(statement)
    insert(engine, 1)
    insert(engine, 2)
    engine.stop()
    dataset = module_lab.directory("dataset")
    engine.snapshot(dataset)
    return Stored(name, dataset)


@pytest.fixture(scope="module")
def running(stored: Stored, module_lab: Any) -> Iterator[Any]:
    """One engine for the tests that leave it as it is."""
    engine = stored.started(module_lab)
    yield engine
    engine.kill()


def read_while_there(path: str) -> bytes:
    with suppress(FileNotFoundError, ProcessLookupError):  # a worker process has ended
        return Path(path).read_bytes()
    return b""


def test_no_process_has_the_rights_of_root(running: Any, module_lab: Any) -> None:
    expected = module_lab.credentials.uid if module_lab.credentials else os.geteuid()
    owners = set()
    for process in running.processes():
        with suppress(FileNotFoundError):  # a worker process has ended
            owners.add(Path(f"/proc/{process.pid}").stat().st_uid)
    assert owners == {expected} != {0}


@pytest.mark.only(*SERVERS)
def test_the_password_is_in_no_file_and_no_command_line(running: Any, module_lab: Any) -> None:
    password = running._password.encode()
    paths = [
        f"/proc/{p.pid}/{name}" for p in running.processes() for name in ("cmdline", "environ")
    ]
    for folder, _, names in os.walk(module_lab.root):
        found = (Path(folder, name) for name in names)
        paths += [str(path) for path in found if path.is_file() and not path.is_symlink()]
    assert len(paths) > 10
    assert [path for path in paths if password in read_while_there(path)] == []
    assert password.decode() not in str(running.effective_config())


def test_a_dataset_is_restored_elsewhere_and_a_stop_keeps_all_and_a_kill_what_was_committed(
    lab: Any, stored: Stored, running: Any
) -> None:
    engine = stored.started(lab)
    assert rows(engine) == rows(running) == [1, 2]
    if stored.name in ("postgres", "mariadb"):
        own, engine._password = engine._password, running._password
        with pytest.raises(RunFailed, match=r"Access denied|password authentication failed"):
            engine.connect()
        engine._password = own
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
def test_a_server_that_died_is_reported_with_its_log(lab: Any, stored: Stored) -> None:
    engine = stored.started(lab)
    number, words = DEATHS[stored.name]
    process = engine.processes()[0]
    os.kill(process.pid, number)
    assert eventually(lambda: not alive(process))
    if stored.name in SERVERS:
        assert eventually(lambda: not engine.running)  # the supervisor has reaped it
    with pytest.raises(RunFailed, match=words):
        engine.stop()
    engine.kill()


@pytest.mark.only("postgres", "mariadb")
def test_a_server_that_cannot_start_shows_its_log(lab: Any, stored: Stored) -> None:
    places, settings, words = lab.places(), {}, r"(?s)exit status .*ibdata1"
    if stored.name == "postgres":
        settings = {"shared_buffers": "4TB", "huge_pages": "off"}
        words = "could not map anonymous shared memory"
    engine = stored.restored(lab, places, settings)
    if not settings:
        (places["data"] / "data/ibdata1").write_bytes(b"not a tablespace")
    with pytest.raises(RunFailed, match=words):
        engine.start()
    assert engine.processes() == []


@pytest.mark.only("postgres")  # of several processes
def test_no_server_outlives_a_killed_harness(stored: Stored) -> None:
    program = (
        "import pathlib, sys, time; sys.path.insert(0, sys.argv[1]); import test_lifecycle\n"
        "from lab import open_lab\n"
        "with open_lab() as lab:\n"
        "    stored = test_lifecycle.Stored(sys.argv[2], pathlib.Path(sys.argv[3]))\n"
        "    engine = stored.started(lab)\n"
        "    print(engine.processes()[0].pid, flush=True); time.sleep(600)\n"
    )
    arguments = [str(Path(__file__).parent), stored.name, str(stored.dataset)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    harness = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert harness.stdout is not None
    pid = int(harness.stdout.readline())
    harness.kill()
    harness.wait()
    assert eventually(lambda: not Path(f"/proc/{pid}").exists())


@pytest.mark.only(*SERVERS)
def test_a_start_that_takes_too_long_is_ended(lab: Any, stored: Stored) -> None:
    engine = lab.engine(
        stored.name, SETTINGS.get(stored.name), options={"start_timeout_s": "0.001"}
    )
    with pytest.raises(RunFailed, match=r"after 0\.001 s") as caught:
        engine.restore(stored.dataset, lab.places())
        engine.start()
    assert "start_timeout_s" in caught.value.hint
    assert engine.processes() == []
