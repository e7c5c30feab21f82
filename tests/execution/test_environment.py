"""Directories of a run, on tiers that other users may write to, whatever the umask."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from harness.errors import UsageError
from harness.execution.environment import Environment
from harness.progress import SilentProgress
from harness.store.datasets import DatasetStore
from harness.supervise import workdirs
from harness.supervise.credentials import unprivileged
from harness.supervise.supervisor import Supervisor
from harness.supervise.user_files import refuse_writable

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="concerns root only")


@pytest.fixture
def tier() -> Iterator[Path]:
    """A directory in which the servers' user may look around."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Environment]:
    with Supervisor(tmp_path / "state") as supervisor:
        yield Environment(
            tiers={}, host={}, credentials=unprivileged(), engines_prefix=tmp_path,
            datasets=cast(DatasetStore, None), source=cast(DatasetStore, None),
            supervisor=supervisor, progress=SilentProgress(), argv=(),
        )  # fmt: skip


@pytest.fixture(params=[0o022, 0o027, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_servers_user_reaches_its_directories(environment, tier, umask):
    with environment.directory(tier / "tierbench-work" / "run-data") as made:
        assert (mode(made.parent), mode(made)) == (0o755, 0o700)
        user = environment.credentials
        assert made.stat().st_uid == (os.geteuid() if user is None else user.uid)
    assert not made.parent.exists()


@needs_root
@pytest.mark.parametrize("what", ["another's", "everybody's", "a link", "a tier of the user's"])
def test_where_another_user_can_write_nothing_is_made(environment, tier, what):
    user: Any = environment.credentials
    work = tier / "tierbench-work"
    if what == "a link":
        (tier / "elsewhere").mkdir()
        work.symlink_to(tier / "elsewhere")
    else:
        work.mkdir()
    if what == "another's":
        os.chown(work, user.uid, user.gid)
    elif what == "everybody's":
        work.chmod(0o1777)
    elif what == "a tier of the user's":
        os.chown(tier, user.uid, user.gid)
    with pytest.raises(UsageError) as refused, environment.directory(work / "run-data"):
        pass
    assert refused.value.exit_code == 2
    assert not (work / "run-data").exists()


@needs_root
@pytest.mark.parametrize("place", ["open", "closed", "another's", "a blank", "a colon"])
def test_a_library_is_preloaded_from_where_only_root_writes(environment, tier, place):
    folder = tier / {"a blank": "a b", "a colon": "a:b"}.get(place, "plain")
    folder.mkdir(mode=0o700 if place == "closed" else 0o755)
    library = folder / "lib.so"
    library.write_bytes(b"code")
    library.chmod(0o644)  # as it is installed: it is never executed
    if place == "another's":
        user: Any = environment.credentials
        os.chown(folder, user.uid, user.gid)
    with environment.readable(library) as used:
        assert (used == library) == (place == "open")
        assert used.read_bytes() == b"code"
        assert not set(str(used)) & set(" :")
        refuse_writable(used.parent)
    assert library.exists()
    assert used.exists() == (place == "open")


def test_scratch_is_short_and_in_no_temporary_directory_of_the_environment(
    environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / ("x" * 100)))
    with environment.scratch() as scratch:
        assert scratch.parent == workdirs.base()
    assert not scratch.exists()
