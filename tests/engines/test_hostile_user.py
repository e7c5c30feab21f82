"""A process of the servers' user plants links, FIFOs, directories and forged pid files while root
makes, starts, stops, copies and removes databases: what is root's own stays as it is. A third user
meanwhile watches all directories around, and wins none (watched.py).

What root wants to do may fail then, with an error that says so, and nothing hangs.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from lab import empty
from rocksdb_store import loaded
from watched import watched

from harness.engine import DataDirectories
from harness.errors import HarnessError
from harness.experiment.placement import DIRECTORY_PARTS
from harness.host.listen_address import Address
from harness.host.page_cache import evict, residency
from harness.supervise import silence, workdirs
from harness.supervise.user_files import regular_bytes

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="concerns root only")

ENGINES = ("postgres", "mysql", "rocksdb", "duckdb", "voltdb")
SECRET = "what only root may read"
#: Names that root uses in directories of the servers' user.
NAMES = {
    "postgres": (
        "server.log", "pg_hba.conf", "pg_ident.conf", "postgresql.conf", "pg_control",
        "single-user.log", "postmaster.pid", ".s.PGSQL.5432", "pg_wal", "16384", "pgdata",
        "tblspc",
    ),
    "innodb": (
        "server.cnf", "first_start.sql", "server.log", "initialise.log", "sql.sock",
        "server.pid", "auto.cnf", "ca.pem", "ib_buffer_pool", "data", "redo", "tmp",
    ),
    "rocksdb": ("OPTIONS-000001", "OPTIONS-999999", "LOG", "LOG.old", "rocksdb"),
    "voltdb": (
        "server.log", "initialise.log", "log4j.properties", "deployment.xml", "tmp", "root",
        "voltdbroot", "config", "snapshots", ".initialized",
    ),
    "duckdb": ("duckdb.log", "harness.duckdb", "harness.duckdb.wal", "duckdb"),
}  # fmt: skip
TLS_NAMES = ("tls", "sections.cnf", "authority.key", "authority.pem", "server.csr", "server.key",
             "openssl.log")  # fmt: skip
#: A liveness bound, far above anything a busy machine needs; never a measurement.
PATIENCE_S = 300
#: What root waits for a server that hangs, as one does that opens a FIFO; VoltDB starts slowly.
TIMEOUTS_S = {"voltdb": 20.0, "mysql": 20.0}
TIMEOUT_S = 8.0
#: In the last one it plants everywhere. VoltDB's starts take most of the processor time.
ROUNDS = 3
ROUNDS_OF_VOLTDB = 2


@dataclass
class Victim:
    """Possessions of root: a file, a directory, a process, a System V segment."""

    folder: Path
    process: subprocess.Popen[bytes]
    segment: int
    said: list[str] = field(default_factory=list)

    @classmethod
    @contextmanager
    def made(cls, folder: Path) -> Iterator[Victim]:
        (folder / "secret").write_text(SECRET)
        (folder / "secret").chmod(0o600)
        libc = ctypes.CDLL(None)
        segment = libc.shmget(0, 4096, 0o1666)
        process = subprocess.Popen(["sleep", "1000000"])
        try:
            yield cls(folder, process, segment)
        finally:
            libc.shmctl(segment, 0, None)
            process.kill()
            process.wait()

    def state(self):
        """All that must stay as it is."""
        table = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
        return (
            [
                (path.name, facts.st_uid, facts.st_gid, facts.st_mode, facts.st_mtime_ns,
                 path.read_text() if path.is_file() else "")
                for path in sorted([self.folder, *self.folder.rglob("*")])
                for facts in [path.lstat()]
            ],
            self.process.poll(),
            self.segment in [int(line.split()[1]) for line in table],
        )  # fmt: skip


@pytest.fixture(autouse=True)
def impatient(monkeypatch, request):
    """DuckDB has no option for it, and starts at once or never; VoltDB starts slowly."""
    seconds = TIMEOUTS_S["voltdb"] if "voltdb" in request.node.name else TIMEOUT_S / 2
    monkeypatch.setenv(silence.VARIABLE, f"start={seconds},stop={seconds}")


@pytest.fixture
def victim():
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        with Victim.made(Path(folder)) as victim:
            yield victim


@pytest.fixture(scope="module")
def golden(module_lab):
    stored: list[Path] = []

    def of(name: str) -> Path:
        if name != "rocksdb":
            return empty(name)
        if not stored:
            stored.append(loaded(module_lab))
        return stored[0]

    return of


@contextmanager
def hostile(lab, victim: Victim, scratch, names, seed: int, everything=False) -> Iterator[None]:
    """It is at work, and has planted already where it can."""
    spec = {
        "roots": [str(lab.root), str(scratch)], 
        "uid": lab.credentials.uid, "gid": lab.credentials.gid,
        "names": sorted(names), "everything": everything, "share": 0.05 if everything else 0.3,
        "file": str(victim.folder / "secret"), "folder": str(victim.folder),
        "pid": victim.process.pid, "segment": victim.segment, "seed": seed,
    }  # fmt: skip
    program = Path(__file__).with_name("hostile.py")
    attacker = subprocess.Popen(
        [sys.executable, str(program), json.dumps(spec)], stdout=subprocess.PIPE
    )
    try:
        assert attacker.stdout is not None
        assert attacker.stdout.readline() == b"ready\n"
        yield
    finally:
        assert attacker.poll() is None, "it ended early"
        attacker.kill()
        attacker.wait()


def attempt(victim: Victim, work: Callable[[], Any]) -> bool:
    """Return whether it succeeded; errors that the harness reports are accepted, others raised."""
    ended = threading.Event()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            victim.said.append(str(work()))
        except (HarnessError, OSError) as error:
            failed.append(error)
            victim.said += [str(error), *getattr(error, "__notes__", [])]
        except BaseException as error:
            failed.append(error)
        ended.set()

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    assert ended.wait(PATIENCE_S), "it hangs"
    if failed and not isinstance(failed[0], (HarnessError, OSError)):
        raise failed[0]
    return not failed


def place(lab) -> tuple[DataDirectories, Path, list[Path]]:
    """Places and a scratch directory as a run has them, removed by the supervisor."""
    lab.made += 1
    register = lab.supervisor.journal.register_directory
    made = {
        name: register(lab.root / f"{lab.made}-{name}", lab.credentials) for name in DIRECTORY_PARTS
    }
    scratch = register(workdirs.fresh(workdirs.disk_base()), lab.credentials)
    return DataDirectories(made), scratch, [*made.values(), scratch]


def engine_in(lab, name: str, scratch: Path, listen: bool, **options: str):
    timeout_s = TIMEOUTS_S.get(name, TIMEOUT_S)
    timeouts = dict.fromkeys(("start_timeout_s", "stop_timeout_s"), timeout_s)
    heard = {"listen": Address("127.0.0.1"), "client_addresses": ("127.0.0.1",)} if listen else {}
    return lab.engine(name, options={**options, **timeouts}, scratch=scratch, **heard)


def verbs(lab, engine, golden: Path, places: DataDirectories, snapshot: Path) -> list[Any]:
    """Return the operations of a run on an engine, in its order."""
    user = lab.credentials
    return [
        lambda: engine.restore(golden, places),
        lambda: regular_bytes(places["data"], user),
        lambda: evict(engine.files(), user),
        lambda: residency(engine.files(), user=user),
        lambda: [engine.start(), engine.effective_config()],
        engine.stop,
        lambda: [engine.start(), engine.kill()],
        engine.start,
        engine.stop,
        lambda: engine.snapshot(snapshot),
    ]


def check(victim: Victim, before, lab) -> None:
    assert victim.state() == before
    assert SECRET not in "\n".join(victim.said)


@pytest.mark.parametrize("name", ENGINES)
def test_a_run_harms_nothing_of_roots(lab, victim, golden, name):
    data = golden(name)
    before, names = victim.state(), NAMES.get(name, NAMES["innodb"])
    rounds = ROUNDS_OF_VOLTDB if name == "voltdb" else ROUNDS
    with watched(lab.root, names=names) as third:
        for number in range(rounds):
            places, scratch, directories = place(lab)
            engine = engine_in(lab, name, scratch, listen=False)
            snapshot = lab.root / f"kept-{number}"
            snapshot.mkdir(mode=0o755)
            everything = number == rounds - 1
            with hostile(lab, victim, scratch, names, seed=number, everything=everything):
                for work in verbs(lab, engine, data, places, snapshot):
                    attempt(victim, work)
                attempt(victim, engine.kill)
                for folder in directories:
                    attempt(victim, partial(lab.supervisor.journal.remove_directory, folder))
            check(victim, before, lab)
    assert third.seen >= rounds * (len(DIRECTORY_PARTS) + 1)


@pytest.mark.parametrize("name", ENGINES)
def test_making_a_database_harms_nothing_of_roots(lab, victim, name):
    before = victim.state()
    names = NAMES.get(name, NAMES["innodb"])
    with watched(lab.root, names=names):
        for number in range(2):
            places, scratch, _ = place(lab)
            engine = engine_in(lab, name, scratch, listen=False)
            with hostile(lab, victim, scratch, names, seed=number):
                attempt(victim, partial(engine.initialise, places))
                attempt(victim, engine.start)
                attempt(victim, engine.kill)
            check(victim, before, lab)


@pytest.mark.parametrize("name", ["postgres", "mysql"])
def test_listening_harms_nothing_of_roots(lab, victim, golden, listening_options, name):
    before = victim.state()
    for number in range(2):
        places, scratch, _ = place(lab)
        engine = engine_in(lab, name, scratch, listen=True, **listening_options[name])
        engine.restore(golden(name), places)
        with hostile(lab, victim, scratch, TLS_NAMES, seed=number):
            attempt(victim, engine.start)
            attempt(victim, engine.from_elsewhere)
            attempt(victim, engine.kill)
        check(victim, before, lab)


def test_the_same_run_without_an_attack_succeeds(lab, victim, golden, monkeypatch):
    """Else nothing would have been tried above."""
    monkeypatch.delenv(silence.VARIABLE)
    places, scratch, _ = place(lab)
    engine = engine_in(lab, "duckdb", scratch, listen=False)
    snapshot = lab.root / "kept"
    snapshot.mkdir()
    assert all(
        attempt(victim, work) for work in verbs(lab, engine, golden("duckdb"), places, snapshot)
    )
