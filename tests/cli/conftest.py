"""The real command in a real process, on data of its own."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import forked
import pytest
from generated import little_taken_back, shared_files
from open_files import opened
from patience import PATIENCE_S, eventually
from pools import small_pools
from scratch import open_directory, session_directory

from harness.micro.metrics import NOTHING_DONE
from harness.supervise.credentials import unprivileged
from harness.supervise.process import ProcessId, process_identity


@dataclass
class Done:
    """Result of a finished command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def document(self) -> Any:
        """Return the output of a command that succeeds."""
        assert self.code == 0, self.err + self.out
        return self.json

    @property
    def run(self) -> Any:
        """The run of a command that makes one, and succeeds."""
        (run,) = self.document["runs"]
        return run


_MAIN = f"""
import sys
sys.path.append({str(Path(__file__).parents[1])!r})
from pools import small_pools
sys.path.pop()
from harness.cli import main
with small_pools():
    main()
"""


@dataclass
class Harness:
    """``harness`` with directories of its own, which servers' users can enter."""

    root: Path

    @property
    def results(self) -> Path:
        return self.root / "results"

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def environment(self) -> dict[str, str]:
        mine = {
            "HARNESS_DATA": str(self.data),
            "HARNESS_RESULTS": str(self.results),
            "TMPDIR": str(self.root / "tmp"),
        }
        engines = {"HARNESS_ENGINES": os.environ["HARNESS_ENGINES"]}
        plain = {k: v for k, v in os.environ.items() if not k.startswith("HARNESS_")}
        return plain | mine | engines

    def start(self, *argv: object, first: str = "", **env: str) -> subprocess.Popen[str]:
        """The command in a process of its own, which runs the code ``first`` before it."""
        return subprocess.Popen(
            [sys.executable, "-c", first + _MAIN, *map(str, argv)],
            cwd=self.root,
            env=self.environment | env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __call__(self, *argv: object, **env: str) -> Done:
        if not env.keys() & forked.READ_BY_IMPORTS:
            return Done(*forked.run([*map(str, argv)], self.root, self.environment | env))
        return self.ended(self.start(*argv, **env))

    def refused(self, *argv: object, **env: str) -> str:
        """The problem, context and hint of what is refused before anything is started."""
        done = self(*argv, "--json", **env)
        assert done.code == 2, done.out + done.err
        assert "Traceback" not in done.err
        assert not list(self.results.glob("runs/*"))
        error = done.json["error"]
        return "\n".join(error[part] for part in ("problem", "context", "hint"))

    def failed_run(self, process: subprocess.Popen[str]) -> Any:
        """The run of a command that fails long before its time is over."""
        try:
            out, err = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()  # else it is found by later tests
            raise
        assert process.returncode == 1, out + err
        assert "Traceback" not in err
        run = self("runs", "list", "--json").json["runs"][-1]
        assert run["status"] == "failed"
        assert self.settled() == []
        return run

    def microbench(self, *argv: object, **env: str) -> Done:
        """``run micro``, again where threads stood still for all of their measurement."""
        for _ in range(5):
            done = self("run", "micro", *argv, **env)
            if NOTHING_DONE not in done.out + done.err:
                break
        return done

    def interrupt(self, process: subprocess.Popen[str], number: int = signal.SIGINT) -> Done:
        process.send_signal(number)
        return self.ended(process)

    def ended(self, process: subprocess.Popen[str]) -> Done:
        out, err = process.communicate(timeout=PATIENCE_S)
        return Done(process.returncode, out, err)

    def leftovers(self) -> list[str]:
        """Processes, mounts, work directories, journals, scratch that should not be there."""
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        ours = [f"mount {line}" for line in mounts if f"{self.data}/" in line]
        shared = self._shared_memory()
        return [*self._processes(), *ours, *self._files(), *self._emulated(), *shared]

    def settled(self) -> list[str]:
        """Return what is left over in the end: a supervisor needs time to clean up."""
        deadline = time.monotonic() + PATIENCE_S
        while (left := self.leftovers()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return left

    def _processes(self) -> list[str]:
        mark = f"HARNESS_DATA={self.data}".encode()
        left = []
        for folder in Path("/proc").glob("[0-9]*"):
            pid = int(folder.name)
            try:
                told = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
                command = told.decode(errors="replace")
                named = str(self.root) in command or mark in (folder / "environ").read_bytes()
                mine = named or any(file.is_relative_to(self.root) for file in opened(pid))
            except OSError:
                continue
            if mine and pid != os.getpid():
                left.append(f"process {pid}: {command}")
        return left

    def driving(self, process: subprocess.Popen[str], program: bytes) -> ProcessId:
        """The client with the engine in it, once that has driven a run's data for a moment.

        Its command line begins with *program*, and names no folder of the harness.
        """
        while process.poll() is None:
            for folder in Path("/proc").glob("[0-9]*"):
                if self._drives(folder, program) and (
                    process_id := process_identity(int(folder.name))
                ):
                    time.sleep(1.0)
                    return process_id
            time.sleep(0.05)
        raise AssertionError(process.communicate())

    def _drives(self, folder: Path, program: bytes) -> bool:
        try:
            files = opened(int(folder.name)) if program in (folder / "cmdline").read_bytes() else ()
        except OSError:
            return False
        return any(f.is_relative_to(self.data) and "tierbench-work" in f.parts for f in files)

    def _files(self) -> list[str]:
        scratch = [str(path) for path in (self.root / "tmp").iterdir()]
        if (folder := Path("/run/tierbench")).is_mount():  # of these tests alone
            scratch += [str(path) for path in entries(folder) if path.suffix != ".lock"]
        return scratch + [str(path) for path in below(self.data) if _of_a_run(path)]

    def at_work(self) -> list[Path]:
        """Return the content of runs' work directories on the disk."""
        runs = entries(self.data / "tiers/ssd/tierbench-work")
        return [path for run in runs for path in entries(run)]

    def _shared_memory(self) -> list[str]:
        """Segments that a server of ours made since the test began, and no process has mapped.

        A segment names neither its server nor its data. What other servers of this host make is
        out of sight (``conftest.own_mounts``), or another user's where that needs root.
        """
        started = self.root.stat().st_mtime
        server = unprivileged()
        uid = server.uid if server else os.geteuid()
        segments = Path("/dev/shm").glob("PostgreSQL.*")
        left = [path for path in segments if _made_by(uid, path) >= started]
        mapped = "".join(map(_maps, Path("/proc").glob("[0-9]*"))) if left else ""
        return [str(path) for path in left if str(path) not in mapped]

    def _emulated(self) -> list[str]:
        """Work directories of our runs on the tmpfs that stands in for PMem."""
        runs = {path.name for path in (self.results / "runs").glob("*")}
        tiers = Path("/dev/shm").glob("tierbench-*")
        places = [path for tier in tiers for path in entries(tier / "tierbench-work")]
        return [str(path) for path in places if any(path.name.startswith(run) for run in runs)]


def entries(folder: Path) -> list[Path]:
    """Return the entries of a folder; none if it is missing, where ``glob`` fails."""
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def below(folder: Path) -> Iterator[Path]:
    """All that lies in a folder at any depth, whatever goes meanwhile."""
    for root, folders, files in os.walk(folder):
        yield from (Path(root) / name for name in (*folders, *files))


def _of_a_run(path: Path) -> bool:
    """Return whether it is one of those that a run has while it is under way, and no longer."""
    return (
        path.parent.name in ("tierbench-work", "run")
        or ".partial-" in path.name
        or (path.parent.name == "state" and path.suffix == ".journal")
    )


def _made_by(uid: int, path: Path) -> float:
    """Return when that user made or changed it, in seconds; 0 if another did, or it has gone."""
    try:
        facts = path.stat()
    except OSError:
        return 0.0
    return facts.st_ctime if facts.st_uid == uid else 0.0


def _maps(process: Path) -> str:
    try:
        return (process / "maps").read_text(errors="replace")
    except OSError:
        return ""


@contextmanager
def _new_harness() -> Iterator[Harness]:
    with open_directory() as root:
        (root / "tmp").mkdir()
        (root / "tmp").chmod(0o1777)
        yield Harness(root)


@pytest.fixture(scope="module", autouse=True)
def shared() -> Iterator[None]:
    """Commands within a test do what forked ones do."""
    with shared_files(session_directory()), little_taken_back(), small_pools():
        yield


@pytest.fixture
def harness() -> Iterator[Harness]:
    """A harness with nothing in it."""
    with _new_harness() as made:
        yield made


@pytest.fixture
def in_process(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> Harness:
    """The same for commands that run within the test."""
    for name, value in harness.environment.items():
        monkeypatch.setenv(name, value)
    return harness


@pytest.fixture(scope="session")
def loaded() -> Iterator[Harness]:
    """A harness that keeps its data over the whole test session."""
    with _new_harness() as made:
        yield made


_SSH = """#!/bin/sh
# ssh -T -o A=B … [-R REMOTE:LOCAL] HOST COMMAND
folder=$(dirname "$0") forward=
while [ "${1#-}" != "$1" ]; do
  case $1 in
    -R) forward=$2; shift 2 ;;
    -o) shift 2 ;;
    *) shift ;;
  esac
done
echo "$*" >> "$folder/commands"
case $1 in unreachable*) echo "ssh: connect to host $1: refused" >&2; exit 255 ;; esac
[ -z "$forward" ] || ln -s "${forward#*:}" "${forward%%:*}"
[ -z "$forward" ] || echo "$forward" >> "$folder/tunnels"
exec sh -c "$2"
"""


@pytest.fixture
def ssh(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a stand-in for ssh, first on the PATH: it runs commands on this host, and makes
    of a tunnel a symbolic link.
    """
    folder = harness.root / "bin"
    folder.mkdir()
    (folder / "ssh").write_text(_SSH)
    (folder / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    monkeypatch.setenv("HARNESS_CLIENT_PYTHON", sys.executable)
    yield folder
    shutil.rmtree(folder)


@dataclass
class SmallDisk:
    """A real file system that is soon full, and a host file with it as the tier ``small``."""

    path: Path
    host: Path
    size: str

    def used(self) -> int:
        """Bytes of what is in it."""
        space = os.statvfs(self.path)
        return (space.f_blocks - space.f_bfree) * space.f_frsize

    def fill(self) -> None:
        """To its last byte, as another program might: it becomes as small as what is in it."""

        def shrunk() -> bool:  # 0 would be no limit
            return self._resize(str(max(self.used(), 1))).returncode == 0

        assert eventually(shrunk)  # more may be written meanwhile

    def free(self) -> None:
        """Free the space that filled the file system."""
        assert self._resize(self.size).returncode == 0

    def _resize(self, size: str) -> subprocess.CompletedProcess[bytes]:
        command = ["mount", "-o", f"remount,size={size}", str(self.path)]
        return subprocess.run(command, capture_output=True, check=False)


@pytest.fixture
def small_disk(harness: Harness, request: pytest.FixtureRequest) -> Iterator[SmallDisk]:
    """A tmpfs of the size that the test names (needs root)."""
    target, host = harness.root / "small", harness.root / "host.yml"
    target.mkdir()
    size = f"size={request.param}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", target], check=True)
    target.chmod(0o755)
    host.write_text(f"schema: 1\ntiers:\n  small: {{kind: tmpfs, path: {target}}}\n")
    yield SmallDisk(target, host, request.param)
    subprocess.run(["umount", "-l", target], check=False)
