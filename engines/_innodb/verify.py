"""Whether a started server really has its parts and settings where and as it should.

A location that a release quietly ignores would make every number of a placement wrong, and
so would a setting that it quietly changes. Two witnesses are asked: the kernel, for the
files that the process has open, and the server, for its own variables.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from engines._innodb.cluster import Cluster
from engines._innodb.values import same_value
from harness.errors import RunFailed
from harness.host.page_cache import in_memory

_DELETED = " (deleted)"
LOG_BUFFER = "innodb_log_buffer_size"
_DIRECT = {"O_DIRECT", "O_DIRECT_NO_FSYNC"}


@dataclass(frozen=True)
class OpenFile:
    """A file that a process has open: where it lies, whether deleted, and how it was opened."""

    path: Path
    deleted: bool
    flags: int

    @property
    def writable(self) -> bool:
        """Whether the process may write it."""
        return self.flags & os.O_ACCMODE != os.O_RDONLY

    @property
    def direct(self) -> bool:
        """Whether its reads and writes pass by the page cache."""
        return bool(self.flags & os.O_DIRECT)


def open_files(pid: int) -> list[OpenFile]:
    """Files that a process has open, of those that have a path."""
    return list(_descriptors(pid))


def verify_locations(pid: int, cluster: Cluster, also: tuple[Path, ...] = ()) -> None:
    """RunFailed where a part is not in its place, by the kernel's word.

    Each part must show: InnoDB keeps a file of every one open. And no file that the server
    may write lies anywhere but in the places of the run or in ``also``.
    """
    files = open_files(pid)
    shown = {
        "data": any(f.path == cluster.data / "ibdata1" for f in files),
        "redo log": any(cluster.redo in f.path.parents for f in files)
        or redo_is_mapped(pid, cluster),
        "temporary tablespaces": any(
            cluster.temporary_tablespaces in f.path.parents for f in files
        ),
        "temporary files": any(cluster.tmp in f.path.parents for f in files),
    }
    if missing := [part for part, there in shown.items() if not there]:
        raise RunFailed(
            f"{', '.join(missing)} of {cluster.title} in its place",
            f"the server has no file open there; it has {_listed(files)}",
            "this release ignores the option that places it: use another release",
        )
    allowed = (*cluster.directories(), cluster.doublewrite, *also, Path("/dev"), Path("/proc"))
    strays = [f for f in files if f.writable and not any(f.path.is_relative_to(a) for a in allowed)]
    if strays:
        raise RunFailed(
            f"all files of {cluster.title} in their places",
            f"the server may write {_listed(strays)}",
            "leave out the setting that puts it there",
        )


def redo_is_mapped(pid: int, cluster: Cluster) -> bool:
    """Whether the redo log is mapped into memory, as MariaDB does on a DAX file system."""
    return any(cluster.redo in path.parents for path in _shared_mappings(pid))


def verify_variables(
    pid: int, variables: Mapping[str, str], cluster: Cluster, settings: Mapping[str, str]
) -> None:
    """RunFailed where a variable of the server is not what its option file says."""
    wanted = dict(settings) | cluster.locations(variables.__contains__)
    if redo_is_mapped(pid, cluster):
        wanted.pop(LOG_BUFFER, None)  # there is none then: the variable tells the log's size
    for name, asked in wanted.items():
        found = variables.get(name)
        if found is not None and not same_value(asked, found):
            raise RunFailed(
                f"{cluster.title} with {name}={asked}",
                f"the server has {found}",
                "say a value that it takes as it is",
            )
    binary_log = variables.get("log_bin_basename", "")
    if binary_log and Path(binary_log).parent != cluster.binary_log:
        raise RunFailed(
            f"the binary log of {cluster.title} in {cluster.binary_log}",
            f"the server has it in {Path(binary_log).parent}",
            "leave log_bin out, or use another release",
        )
    if variables.get("innodb_flush_method", "").upper() in _DIRECT:
        _verify_direct(pid, cluster)


def _verify_direct(pid: int, cluster: Cluster) -> None:
    """That O_DIRECT was not refused: InnoDB then only warns, and goes through the page cache.

    A tmpfs may refuse it (Linux before 6.6): its data have no other place than the page
    cache, with O_DIRECT or without, so that nothing is cached twice.
    """
    if in_memory(cluster.data.parent):
        return
    for file in open_files(pid):
        if file.path == cluster.data / "ibdata1" and not file.direct:
            raise RunFailed(
                f"{cluster.title} with innodb_flush_method=O_DIRECT",
                f"the file system of {cluster.data} does not take O_DIRECT: reads and writes "
                "would go through the page cache",
                "say --set innodb_flush_method=fsync for every placement of the comparison",
            )


def _descriptors(pid: int) -> Iterator[OpenFile]:
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(descriptor.readlink())
            info = Path(f"/proc/{pid}/fdinfo/{descriptor.name}").read_text()
        except OSError:
            continue  # closed meanwhile
        if target.startswith("/"):
            flags = next(line.split()[1] for line in info.splitlines() if line[:6] == "flags:")
            yield OpenFile(
                Path(target.removesuffix(_DELETED)), target.endswith(_DELETED), int(flags, 8)
            )


def _shared_mappings(pid: int) -> Iterator[Path]:
    """A redo log on a DAX file system is mapped, and its descriptor closed (MariaDB)."""
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        _, modes, _, _, _, *path = line.split(maxsplit=5)
        if path and modes.endswith("s") and path[0].startswith("/"):
            yield Path(path[0])


def _listed(files: list[OpenFile]) -> str:
    names = sorted({str(f.path) for f in files if f.writable})
    return ", ".join(names[:6]) + (" …" if len(names) > 6 else "")
