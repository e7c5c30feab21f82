"""A place to run engines in: a real supervisor, directories a server's user can enter."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import paths, registry
from harness.engine import Credentials, DataDirectories, EngineContext
from harness.experiment.placement import DIRECTORY_PARTS
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

    def engine(
        self,
        name: str,
        settings: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Any:
        context = EngineContext(
            settings=settings or {},
            options=options or {},
            scratch=self.directory("s"),
            engines_prefix=paths.engines_prefix(),
            processes=self.supervisor,
            credentials=self.credentials,
            threads=2,
            memory_limit_bytes=1 << 30,
        )
        return registry.engine(name).create(context)

    def started(
        self,
        name: str,
        dataset: Path,
        settings: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Any:
        """An engine that runs on a copy of the dataset."""
        engine = self.engine(name, settings, options)
        engine.restore(dataset, self.places())
        engine.start()
        return engine


def memory() -> Path | None:
    """A tmpfs of this process (``conftest.own_mounts``): these tests need no disk's syncs.

    Not /dev/shm, where MariaDB maps its log, and which is another tier for some tests.
    """
    folder = Path("/run/lock")
    found = os.statvfs(folder) if folder.is_dir() else None
    return folder if found and found.f_bavail * found.f_frsize >= _ROOM_BYTES else None


@contextmanager
def strict_umask() -> Iterator[None]:
    """The strictest that a user may have: what is the servers' stays readable to them."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def open_lab() -> Iterator[Lab]:
    root = Path(tempfile.mkdtemp(prefix="tb-test-", dir=memory()))
    root.chmod(0o755)
    try:
        with Supervisor(root / "state") as supervisor:
            yield Lab(root, supervisor)
    finally:
        shutil.rmtree(root, ignore_errors=True)
