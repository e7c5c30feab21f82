"""The environment that all runs of one command share: host, tiers, datasets, supervisor."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from harness import paths, structs
from harness.engine import Credentials
from harness.errors import HarnessError, RunFailed, UsageError, as_failure, interruption
from harness.experiment.placement import Part
from harness.host import cgroup
from harness.host.cpu_quota import within_quota
from harness.host.facts import host_facts
from harness.host.inode_flags import TOP_OF_HIERARCHIES, add_inode_flag
from harness.host.process_limits import room_to_commit
from harness.native_programs import native_folders, readable_to
from harness.progress import Progress, progress_on_stderr
from harness.store.datasets import DatasetStore
from harness.store.host import HostFacts
from harness.supervise import workdirs
from harness.supervise.credentials import unprivileged
from harness.supervise.journal import recover
from harness.supervise.own_files import make_passable, owned_on_the_way, refuse_writable
from harness.supervise.supervisor import Supervisor
from harness.supervise.user_files import copy_file
from harness.tiers.discovery import find_tiers
from harness.tiers.hostfile import find_host_file, load_host_file
from harness.tiers.linux.model import Tier
from harness.warnings import RunWarning, warn

#: How work directories stay until the end.
KEEP_AWAY = (
    "keep programs that clean up away from it (tmpfiles.d; RemoveIPC=no in logind.conf), then run "
    "again"
)


@dataclass(frozen=True)
class Environment:
    """Everything a run needs that is not in its spec.

    ``tiers``: verified, by name; an emulated one among them says so itself.
    ``host``: facts as in the manifest. ``failed_loads``: by the dataset's name, why it could not be
    loaded: no run of this command tries it again.
    """

    tiers: Mapping[str, Tier]
    host: HostFacts
    credentials: Credentials | None
    engines_prefix: Path
    datasets: DatasetStore
    source: DatasetStore
    supervisor: Supervisor
    progress: Progress
    argv: Sequence[str]
    failed_loads: dict[str, HarnessError] = field(default_factory=dict)

    def cores(self, cpus: Collection[int] = ()) -> int:
        """Processors of an engine: all usable ones or ``cpus``, fewer where a quota holds us."""
        return within_quota(len(cpus or os.sched_getaffinity(0)))

    @property
    def memory_bytes(self) -> int:
        """Memory that may be used: the host's memory, or less.

        Less where a control group holds us, or where Linux does not overcommit.
        """
        limits = (self.host.memory_bytes, cgroup.own_limit_bytes(), room_to_commit())
        return min(limit for limit in limits if limit is not None)

    @contextmanager
    def directory(self, path: Path) -> Iterator[Path]:
        """A new directory of the engine's user, removed at the end whatever happens.

        So is the one it lies in, where that was made for it and is empty. UsageError
        where another user could put something else in its place.
        """
        new = not path.parent.exists()
        try:
            make_passable(path.parent)
        except OSError as error:
            raise UsageError(f"directory {path}", str(error), "choose a writable tier") from error
        try:
            refuse_writable(path.parent)
        except OSError as error:
            raise UsageError(
                f"directory {path}",
                f"{error.strerror}: {error.filename or path.parent}",
                "let no other user write there (chown, chmod), or remove it",
            ) from error
        if new:
            # ext4 without a journal avoids inodes for minutes after they were deleted, and looks at
            # each of them: what one run removes would slow the files that the next one makes.
            with suppress(OSError):
                add_inode_flag(path.parent, TOP_OF_HIERARCHIES)
        try:
            with self._registered(path) as registered:
                yield registered
        finally:
            if new:
                with suppress(OSError):
                    path.parent.rmdir()

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A directory for sockets, pid files and logs, short enough for a unix socket path."""
        with self._registered(workdirs.fresh(workdirs.disk_base())) as path:
            yield path

    @contextmanager
    def readable(self, file: Path) -> Iterator[Path]:
        """``file`` of ours where the servers' user can read it and no other user can exchange it.

        A copy in a fresh directory of ours if that user cannot read it, another user can write
        there, or ``LD_PRELOAD`` would end within its path (at a blank or a colon).
        """
        if _preloadable(file) and (self.credentials is None or readable_to(file, self.credentials)):
            yield file
            return
        journal = self.supervisor.journal
        folder = workdirs.fresh(workdirs.base())
        registered = journal.register_directory(folder, mode=0o755)
        try:
            copy_file(file, registered / file.name, None, 0o755)
            yield registered / file.name
        finally:
            journal.remove_directory(registered)

    @contextmanager
    def _registered(self, path: Path) -> Iterator[Path]:
        journal = self.supervisor.journal
        registered = journal.register_directory(path, self.credentials)
        try:
            yield registered
            if journal.lost(registered):
                raise _lost(registered)
        except Exception as error:
            if interruption(error) is not None or not journal.lost(registered):
                raise
            raise _lost(registered, as_failure(error, "measure")) from error
        finally:
            journal.remove_directory(registered)


def _refuse_installation_of(user: Credentials | None) -> None:
    """UsageError where the servers' user could change the programs that we run as root."""
    if user is None:
        return
    for folder in (Path(__file__).parents[1], *native_folders()):
        with suppress(FileNotFoundError):
            if (directory := owned_on_the_way(folder, user)) is not None:
                raise UsageError(
                    f"harness in {folder}",
                    f"{directory} belongs to {user.name}, the user that servers run as",
                    "install it as another user, or export HARNESS_USER=USER",
                )


def _lost(directory: Path, failure: HarnessError | None = None) -> HarnessError:
    context = f"another program removed {directory} meanwhile"
    if failure is None:
        return RunFailed(f"work directory {directory}", context, KEEP_AWAY)
    if failure.hint == KEEP_AWAY:
        return failure  # the first directory is enough
    return failure.amended(f"{failure.context}; {context}", KEEP_AWAY)


def _preloadable(file: Path) -> bool:
    try:
        refuse_writable(file.resolve().parent)
    except OSError:
        return False
    return not set(str(file)) & set(" \t\n:;")


def data_directory(host_file: Path | None) -> Path | None:
    """The host file's directory for datasets; None for the default one."""
    path = find_host_file(host_file)
    return load_host_file(path).data_dir if path is not None else None


def dataset_stores(host_file: Path | None = None) -> Mapping[str, DatasetStore]:
    """Readers of both kinds of datasets."""
    data_dir = data_directory(host_file)
    return {
        "source": DatasetStore(paths.source_root(data_dir)),
        "golden": DatasetStore(paths.golden_root(data_dir)),
    }


@contextmanager
def command_environment(
    host: Path | None, emulate: Sequence[str], quiet: bool
) -> Iterator[Environment]:
    """Open the environment with progress on stderr, unless ``quiet``."""
    with progress_on_stderr(quiet) as progress, open_environment(host, emulate, progress) as env:
        yield env


@contextmanager
def open_environment(
    host_file: Path | None, emulate: Sequence[str], progress: Progress
) -> Iterator[Environment]:
    """Open the environment, and close it in order at the end.

    What an earlier harness left behind (it and its supervisor were killed) is undone first.
    """
    credentials = unprivileged()
    _refuse_installation_of(credentials)
    for recovery in recover(paths.state_dir(), say=progress.say):
        for what in recovery.undone:
            progress.say(f"left by {recovery.owner}, now undone: {what}")
        for what in recovery.failures:
            warn(RunWarning("left-behind", "an earlier harness left something behind", what))
    tiers = find_tiers(host_file, emulate, credentials)
    data_dir = data_directory(host_file)
    with Supervisor(paths.state_dir()) as supervisor:
        yield Environment(
            tiers=tiers,
            host=structs.convert(host_facts(tiers.values()), HostFacts, "host facts"),
            credentials=credentials,
            engines_prefix=paths.engines_prefix(),
            datasets=DatasetStore(paths.golden_root(data_dir), supervisor.journal),
            source=DatasetStore(paths.source_root(data_dir), supervisor.journal),
            supervisor=supervisor,
            progress=progress,
            argv=sys.argv,
        )


def work_directory(tier: Tier, run_id: str, part: Part) -> Path:
    """Directory of a run's part on a tier."""
    if tier.claim.path is None:
        raise UsageError(f"tier {tier.name!r} for {part}", f"a {tier.facts.kind} has no directory")
    return Path(tier.claim.path) / "tierbench-work" / f"{run_id}-{part}"
