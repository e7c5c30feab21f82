"""A place to run engines in: a real supervisor, directories a server's user can enter."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from scratch import session_directory

from harness import paths, registry
from harness.engine import Credentials, DataDirectories, EngineContext
from harness.experiment.placement import DIRECTORY_PARTS
from harness.supervise import silence
from harness.supervise.credentials import unprivileged
from harness.supervise.supervisor import Supervisor

#: What the data of several engines need.
_ROOM_BYTES = 4 << 30


@dataclass
class Lab:
    root: Path
    supervisor: Supervisor
    credentials: Credentials | None = field(default_factory=unprivileged)
    made: int = 0

    def directory(self, name: str) -> Path:
        self.made += 1
        path = self.root / f"{self.made}-{name}"
        path.mkdir(mode=0o700)
        if self.credentials is not None:
            os.chown(path, self.credentials.uid, self.credentials.gid)
        return path

    def places(self, **elsewhere: Path) -> DataDirectories:
        return DataDirectories({p: elsewhere.get(p) or self.directory(p) for p in DIRECTORY_PARTS})

    def engine(self, name: str, settings=None, options=None, **context: Any) -> Any:
        """``context``: what of it is otherwise than for the runs of one host."""
        usual: dict[str, Any] = {
            "settings": settings or {},
            "options": options or {},
            "engines_prefix": paths.engines_prefix(),
            "processes": self.supervisor,
            "credentials": self.credentials,
            "threads": 2,
            "memory_limit_bytes": 1 << 30,
        }
        if "scratch" not in context:
            usual["scratch"] = self.directory("s")
        return registry.engine(name).create(EngineContext(**usual, **context))

    def started(self, name, settings=None, options=None, *, dataset=None, fresh=False, **elsewhere):
        """An engine that runs, in ``places``: on a copy of a dataset, by default of one with
        nothing in it; or with data that it has just made, as one inside its client needs them.
        """
        engine = self.engine(name, settings, options)
        engine.places = self.places(**elsewhere)
        if fresh or engine.inside_client:
            engine.initialise(engine.places)
        else:
            engine.restore(dataset or empty(name, options), engine.places)
        engine.start()
        return engine

    def stored(self, engine: Any) -> Path:
        """Stop an engine; a dataset of what is in it."""
        engine.stop()
        folder = self.directory("dataset")
        engine.snapshot(folder)
        return folder


def execute(engine: Any, *statements: str, timeout_s: float | None = None) -> list[Any]:
    """The rows of the last statement."""
    with closing(engine.connect()) as connection:
        results = [connection.execute(sql, timeout_s=timeout_s) for sql in statements]
        return list(results[-1].rows)


def empty(name: str, options: Mapping[str, Any] | None = None) -> Path:
    """A dataset of an engine with nothing in it: a copy takes less long than making one.

    It was made, started and stopped by the first worker of this session that wanted it. Options:
    the version and prefix of another release than a run's choice.
    """
    chosen = {key: str((options or {}).get(key) or "") for key in ("version", "prefix")}
    stored = session_directory() / "-".join([name, *chosen.values()]).replace("/", "+")
    with stored.with_name(f"{stored.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stored.exists():
            partial = stored.with_name(f"{stored.name}.partial")
            partial.mkdir()
            with strict_umask(), open_lab() as lab, mock.patch("os.fsync"), patient():
                given = {key: value for key, value in chosen.items() if value}
                engine = lab.started(name, options=given, fresh=True)
                engine.stop()
                engine.snapshot(partial)
            partial.rename(stored)
    return stored


def memory() -> Path | None:
    """A tmpfs of this process (``conftest.own_mounts``): these tests need no disk's syncs.

    Not /dev/shm, where MariaDB maps its log, and which is another tier for some tests.
    """
    folder = Path("/run/lock")
    facts = os.statvfs(folder) if folder.is_dir() else None
    return folder if facts and facts.f_bavail * facts.f_frsize >= _ROOM_BYTES else None


@contextmanager
def strict_umask() -> Iterator[None]:
    """The strictest that a user may have: what is the servers' stays readable to them."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def patient() -> Iterator[None]:
    """Limits that the test has set are not for what all tests use."""
    with mock.patch.dict(os.environ):
        os.environ.pop(silence.VARIABLE, None)
        yield


@contextmanager
def open_lab() -> Iterator[Lab]:
    root = Path(tempfile.mkdtemp(prefix="tb-test-", dir=memory()))
    root.chmod(0o755)
    try:
        with Supervisor(root / "state") as supervisor:
            yield Lab(root, supervisor)
    finally:
        shutil.rmtree(root, ignore_errors=True)
