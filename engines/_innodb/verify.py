"""Verification that a started server uses the locations and settings of its option file.

A location that a release silently ignores would make every result of a placement wrong, and so
would a setting that it silently changes. There are two sources: Linux, for the files that the
process has open, and the server, for its variables.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from engines._innodb.cluster import Cluster
from engines._innodb.configuration import same_value
from harness.errors import RunFailed
from harness.host.page_cache import in_memory

_DELETED = " (deleted)"
#: memfd_create(2): no file of a file system.
_MEMORY = "/memfd:"
LOG_BUFFER = "innodb_log_buffer_size"
_DIRECT = {"O_DIRECT", "O_DIRECT_NO_FSYNC"}


@dataclass(frozen=True)
class OpenFile:
    """A file that a process has open; ``flags`` as in open(2)."""

    path: Path
    flags: int

    @property
    def writable(self) -> bool:
        """Whether the process may write it."""
        return self.flags & os.O_ACCMODE != os.O_RDONLY

    @property
    def direct(self) -> bool:
        """Whether its reads and writes bypass the page cache."""
        return bool(self.flags & os.O_DIRECT)


def open_files(pid: int) -> list[OpenFile]:
    """The files with a path that a process has open."""
    return list(_descriptors(pid))


def verify_locations(pid: int, cluster: Cluster, also: tuple[Path, ...] = ()) -> None:
    """RunFailed unless the server's open files are in the directories of the run or in ``also``.

    InnoDB keeps a file of every part open, so every part must show; and the server may write no
    file elsewhere.
    """
    files = open_files(pid)
    seen = {
        "data": any(f.path == cluster.data / "ibdata1" for f in files),
        "redo log": any(cluster.redo in f.path.parents for f in files)
        or redo_is_mapped(pid, cluster),
        "temporary tablespaces": any(
            cluster.temporary_tablespaces in f.path.parents for f in files
        ),
        "temporary files": any(cluster.tmp in f.path.parents for f in files),
    }
    if missing := [part for part, present in seen.items() if not present]:
        raise RunFailed(
            f"{cluster.title}: {', '.join(missing)} not in the directory of the placement",
            f"the server has no file open there; it has {_listed(files)}",
            "this release ignores the option for the location: use another release",
        )
    allowed = (*cluster.directories(), cluster.doublewrite, *also, Path("/dev"), Path("/proc"))
    strays = [f for f in files if f.writable and not any(f.path.is_relative_to(a) for a in allowed)]
    if strays:
        raise RunFailed(
            f"{cluster.title}: files outside the directories of the placement",
            f"the server may write {_listed(strays)}",
            "remove the setting that puts them there",
        )


def redo_is_mapped(pid: int, cluster: Cluster) -> bool:
    """Whether the redo log is mapped into memory, as MariaDB does on a DAX file system."""
    return any(cluster.redo in path.parents for path in _shared_mappings(pid))


def verify_variables(
    pid: int, variables: Mapping[str, str], cluster: Cluster, settings: Mapping[str, str]
) -> None:
    """RunFailed if a variable of the server differs from its option file."""
    requested = dict(settings) | cluster.locations(variables.__contains__)
    if redo_is_mapped(pid, cluster):
        requested.pop(LOG_BUFFER, None)  # there is none: the variable is the log's size
    for name, value in requested.items():
        found = variables.get(name)
        if found is not None and not same_value(value, found):
            raise RunFailed(
                f"{cluster.title} with {name}={value}",
                f"the server has {found}",
                "set a value that it does not adjust",
            )
    binary_log = variables.get("log_bin_basename", "")
    if binary_log and Path(binary_log).parent != cluster.binary_log:
        raise RunFailed(
            f"the binary log of {cluster.title} in {cluster.binary_log}",
            f"the server has it in {Path(binary_log).parent}",
            "remove log_bin, or use another release",
        )
    if variables.get("innodb_flush_method", "").upper() in _DIRECT:
        _verify_direct(pid, cluster)


def _verify_direct(pid: int, cluster: Cluster) -> None:
    """RunFailed if O_DIRECT was refused: InnoDB then only warns and uses the page cache.

    A tmpfs may refuse it (Linux before 6.6), but its data are only in the page cache, so nothing
    is cached twice.
    """
    if in_memory(cluster.data.parent):
        return
    for file in open_files(pid):
        if file.path == cluster.data / "ibdata1" and not file.direct:
            raise RunFailed(
                f"{cluster.title} with innodb_flush_method=O_DIRECT",
                f"the file system of {cluster.data} does not support O_DIRECT: reads and writes "
                "would go through the page cache",
                "use --set innodb_flush_method=fsync for every placement of the comparison",
            )


def _descriptors(pid: int) -> Iterator[OpenFile]:
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(descriptor.readlink())
            info = Path(f"/proc/{pid}/fdinfo/{descriptor.name}").read_text()
        except OSError:
            continue  # closed in the meantime
        if target.startswith("/") and not target.startswith(_MEMORY):
            flags = next(line.split()[1] for line in info.splitlines() if line[:6] == "flags:")
            yield OpenFile(Path(target.removesuffix(_DELETED)), int(flags, 8))


def _shared_mappings(pid: int) -> Iterator[Path]:
    """Files with shared mappings; MariaDB closes a mapped redo log's descriptor."""
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        _, modes, _, _, _, *path = line.split(maxsplit=5)
        if path and modes.endswith("s") and path[0].startswith("/"):
            yield Path(path[0])


def _listed(files: list[OpenFile]) -> str:
    names = sorted({str(f.path) for f in files if f.writable})
    return ", ".join(names[:6]) + (" …" if len(names) > 6 else "")
