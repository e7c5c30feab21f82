"""The memory cap: one control group for a server, its helpers and their page cache.

A database that is "larger than memory" on a large host needs less memory, not more data.
The kernel charges a page of the page cache to the group that first touches it, so pages
already cached for another group stay outside the cap: evict the files first
(harness.host.page_cache). Swap is off within the cap: a swapping server measures the swap.

Ways, best first: cgroup v1's memory controller (below our own group), a delegated
cgroup v2 subtree, a slice of the user's systemd manager. Where there is none, the cap
says so (``method="none"`` and a reason) and the caller decides.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from harness.supervise import programs
from harness.supervise.supervisor import Confinement, ProcessStarter, Supervisor
from harness.supervise.undo import GROUP_PREFIX
from harness.tiers.linux.kernel import LIVE
from harness.tiers.linux.mounts import Mount, parse_mountinfo

if TYPE_CHECKING:  # takes long to import
    from harness.iotrace.page import IoTrace

CapMethod = Literal["none", "cgroup-v1", "cgroup-v2", "systemd-run"]
_COMMAND_TIMEOUT_S = 10
#: v1 says "no limit" with the largest number of pages.
_NO_LIMIT = 1 << 62
#: Were both limits equal, the kernel (6.18) would run into the sum's first and count
#: nothing in memory.failcnt. More than one charge of a huge page.
_V1_SWAP_SLACK_BYTES = 4 << 20


@dataclass(frozen=True)
class CapSite:
    """Way in which a cap can be set here.

    ``parent``: the control group it is made in; ``reason``: why there is none.
    """

    method: CapMethod
    parent: Path | None
    reason: str


@dataclass(frozen=True)
class CapEvents:
    """Events that the kernel counted for a cap; None where this kernel does not say.

    ``oom_kills``: processes it killed. ``limit_hits``: how often the limit was reached
    and pages had to be reclaimed (v1 memory.failcnt, v2 the ``max`` event).
    """

    peak_bytes: int | None
    oom_kills: int | None
    limit_hits: int | None


@dataclass(frozen=True)
class MemoryCap:
    """A cap in force, or (method ``none``) the reason why there is none.

    ``limit_bytes``: as requested; ``path``: the control group's directory.
    """

    method: CapMethod
    limit_bytes: int
    reason: str
    path: Path | None
    confinement: Confinement

    @property
    def v2_path(self) -> Path | None:
        """The control group's directory where it is of version 2."""
        return self.path if self.method in ("cgroup-v2", "systemd-run") else None

    def set_limit(self, limit_bytes: int) -> None:
        """Change the limit in force; a lower one reclaims, as far as that is possible."""
        if self.path is None:
            return
        if self.method == "cgroup-v1":
            _set_v1_limit(self.path, limit_bytes)
        else:
            (self.path / "memory.max").write_text(str(limit_bytes))

    def pids(self) -> list[int]:
        """The processes in it now."""
        files = self.path.rglob("cgroup.procs") if self.path else ()
        return [int(word) for file in files for word in _words(file)]

    def events(self) -> CapEvents:
        """Peak and limit events so far (bytes; counts)."""
        if self.path is None:
            return CapEvents(None, None, None)
        if self.method == "cgroup-v1":
            return CapEvents(
                LIVE.read_int(self.path / "memory.max_usage_in_bytes"),
                _field(self.path / "memory.oom_control", "oom_kill"),
                LIVE.read_int(self.path / "memory.failcnt"),
            )
        return CapEvents(
            LIVE.read_int(self.path / "memory.peak"),
            _field(self.path / "memory.events", "oom_kill"),
            _field(self.path / "memory.events", "max"),
        )


def available(proc: Path = Path("/proc/self")) -> CapSite:
    """The best way to cap memory here. ``proc``: whose mountinfo and cgroup files to read."""
    seen = parse_mountinfo((proc / "mountinfo").read_text())
    groups = _own_groups(proc / "cgroup")
    v1 = next((m for m in seen if m.filesystem == "cgroup" and "memory" in m.options), None)
    v2 = next((m for m in seen if m.filesystem == "cgroup2"), None)
    if v1 is not None:
        sites = [_v1_site(v1, groups)]
    elif v2 is not None:
        directory = _own_directory(v2, groups.get("", "/"))
        sites = [
            _within_quota(directory, site)
            for site in (_v2_site(v2, groups), _systemd_site(Path(v2.point)))
        ]
    else:
        sites = [CapSite("none", None, "no memory control group is mounted")]
    usable = next((site for site in sites if site.method != "none"), None)
    return usable or CapSite("none", None, "; ".join(site.reason for site in sites))


def own_limit_bytes(proc: Path = Path("/proc/self")) -> int | None:
    """The least memory limit of the control groups this process is in; None without one.

    In a container or a systemd slice the host's memory is not what may be used.
    """
    limits = (
        LIVE.read_int(directory / name)
        for directory in own_groups_of("memory", proc)
        for name in ("memory.limit_in_bytes", "memory.max")
    )
    least = min((limit for limit in limits if limit is not None), default=_NO_LIMIT)
    return least if least < _NO_LIMIT else None


def own_groups_of(controller: str, proc: Path = Path("/proc/self")) -> Iterator[Path]:
    """Yield the directories of our control group and its ancestors, as far as they are in view.

    Of version 1 those of the controller's hierarchy, of version 2 those of the only one. Nothing
    where ``proc`` names no groups (a recorded host).
    """
    try:
        groups = _own_groups(proc / "cgroup")
        mounts = parse_mountinfo((proc / "mountinfo").read_text())
    except FileNotFoundError:
        return
    for mount in mounts:
        if mount.filesystem == "cgroup" and controller in mount.options:
            group = _v1_group(groups, controller)
        elif mount.filesystem == "cgroup2":
            group = groups.get("", "/")
        else:
            continue
        top, directory = Path(mount.point), _own_directory(mount, group)
        yield from (path for path in (directory, *directory.parents) if path.is_relative_to(top))


def _own_groups(path: Path) -> dict[str, str]:
    """Our group in each hierarchy, by its controllers ("" for v2), from /proc/self/cgroup."""
    lines = (line.split(":", 2) for line in path.read_text().splitlines())
    return {controllers: group for _, controllers, group in lines}


def _own_directory(mount: Mount, group: str) -> Path:
    """Our group's directory below a mount that may show only a part of the hierarchy."""
    inside = group.removeprefix(mount.root.rstrip("/"))
    directory = Path(mount.point) / inside.lstrip("/")
    return directory if directory.is_dir() else Path(mount.point)


def _v1_group(groups: dict[str, str], controller: str) -> str:
    return next((g for c, g in groups.items() if controller in c.split(",")), "/")


def _v1_site(mount: Mount, groups: dict[str, str]) -> CapSite:
    parent = _own_directory(mount, _v1_group(groups, "memory"))
    if os.access(parent, os.W_OK):
        return CapSite("cgroup-v1", parent, "")
    return CapSite(
        "none", None, f"{parent} cannot be written (cgroup v1: not root, or mounted read-only)"
    )


def _v2_site(mount: Mount, groups: dict[str, str]) -> CapSite:
    """The nearest group at or above ours whose children have the memory controller.

    Processes may be moved into a child of it if we may write its ``cgroup.procs`` (it
    is then the common ancestor, cgroups(7) "delegation containment").
    """
    directory = _own_directory(mount, groups.get("", "/"))
    top = Path(mount.point)
    for candidate in (directory, *directory.parents):
        if "memory" in _words(candidate / "cgroup.subtree_control"):
            procs = candidate / "cgroup.procs"
            if os.access(candidate, os.W_OK) and os.access(procs, os.W_OK):
                return CapSite("cgroup-v2", candidate, "")
            return CapSite("none", None, f"{candidate} is not delegated to us (not writable)")
        if candidate == top:
            break
    return CapSite(
        "none", None, f"no group from {directory} up gives its children the memory controller"
    )


def _within_quota(directory: Path, site: CapSite) -> CapSite:
    """Not the site where its processes would leave a group of ours that limits processor time."""
    if site.parent is None:
        return site
    for group in (directory, *directory.parents):
        if site.parent.is_relative_to(group):
            break
        quota = LIVE.read(group / "cpu.max")
        if quota is not None and not quota.startswith("max"):
            return CapSite(
                "none", None, f"{site.parent} is outside of {group}, whose CPU quota holds us"
            )
    return site


def _systemd_site(top: Path) -> CapSite:
    """A slice of the user's systemd manager; its controllers must include memory."""
    uid = os.getuid()
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{uid}"
    if uid == 0 or not shutil.which("systemd-run") or not Path(runtime, "systemd/private").exists():
        return CapSite("none", None, "no systemd user manager runs")
    manager = top / f"user.slice/user-{uid}.slice/user@{uid}.service"
    if "memory" not in _words(manager / "cgroup.controllers"):
        return CapSite("none", None, f"{manager} has no memory controller delegated")
    return CapSite("systemd-run", manager, "")


@contextmanager
def memory_cap(limit_bytes: int | None, supervisor: Supervisor) -> Iterator[MemoryCap | None]:
    """A fresh cap of ``limit_bytes``, gone with all its processes at the end.

    None in, None out. Processes enter it through :func:`capped_starter`. Where no cap can be made,
    a MemoryCap of method ``none`` with the reason.
    """
    if limit_bytes is None:
        yield None
        return
    site = available()
    if site.method == "none" or site.parent is None:
        yield MemoryCap("none", limit_bytes, site.reason, None, Confinement())
        return
    token, name = _note(site, supervisor)
    try:
        try:
            make = _make_slice if site.method == "systemd-run" else _make_group
            cap = make(site.parent / name, limit_bytes, site.method)
        except (OSError, subprocess.SubprocessError) as error:
            cap = MemoryCap("none", limit_bytes, f"{site.method}: {error}", None, Confinement())
        yield cap
    finally:
        supervisor.journal.undo(token)


def capped_starter(
    supervisor: Supervisor,
    cap: MemoryCap | None,
    cpus: tuple[int, ...] = (),
    trace: IoTrace | None = None,
    engine_env: Mapping[str, str] | None = None,
) -> ProcessStarter:
    """Return a starter whose ``capped`` processes go into this cap and on these processors.

    Those that are ``traced``, too, get the trace and ``engine_env``.
    """
    confinement = cap.confinement if cap else Confinement()
    return ProcessStarter(
        supervisor, replace(confinement, cpus=cpus, trace=trace, engine_env=engine_env or {})
    )


def _note(site: CapSite, supervisor: Supervisor) -> tuple[int, str]:
    """The cap's journal entry, written before there is a cap, and the cap's name."""
    journal = supervisor.journal
    serial = secrets.token_hex(2)
    if site.method == "systemd-run":  # a dash would nest the slice in another
        name = f"{GROUP_PREFIX}{journal.owner.replace('-', '')}{serial}.slice"
        return journal.note_unit(name), name
    assert site.parent is not None
    name = f"{GROUP_PREFIX}-{journal.owner}-{serial}"
    return journal.note_cgroup(site.parent / name), name


def _make_group(path: Path, limit_bytes: int, method: CapMethod) -> MemoryCap:
    path.mkdir()
    if method == "cgroup-v1":
        _set_v1_limit(path, limit_bytes)
        (path / "memory.swappiness").write_text("0")
    else:
        (path / "memory.max").write_text(str(limit_bytes))
        swap = path / "memory.swap.max"
        if swap.exists():
            swap.write_text("0")
    return MemoryCap(method, limit_bytes, "", path, Confinement((path / "cgroup.procs",)))


def _set_v1_limit(path: Path, limit_bytes: int) -> None:
    """The limit, and the one of memory and swap together, which is never below it."""
    memory, both = path / "memory.limit_in_bytes", path / "memory.memsw.limit_in_bytes"
    limits = [(memory, limit_bytes)]
    if both.exists():
        limits.append((both, limit_bytes + _V1_SWAP_SLACK_BYTES))
    if limit_bytes > (LIVE.read_int(memory) or 0):
        limits.reverse()
    for file, limit in limits:
        file.write_text(str(limit))


def _make_slice(path: Path, limit_bytes: int, method: CapMethod) -> MemoryCap:
    """A slice with the limit; each process enters it by ``systemd-run --scope``, which execs it."""
    name = path.name
    control = ["systemctl", "--user"]
    limits = [f"MemoryMax={limit_bytes}", "MemorySwapMax=0"]
    env = programs.inherited(("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"))
    for command in (
        [*control, "set-property", "--runtime", name, *limits],
        [*control, "start", name],
    ):
        programs.run(command, timeout_s=_COMMAND_TIMEOUT_S, env=env).check_returncode()
    launcher = ("systemd-run", "--user", "--scope", "--quiet", "--collect", f"--slice={name}", "--")
    return MemoryCap(method, limit_bytes, "", path, Confinement((), launcher, env))


def _words(path: Path) -> list[str]:
    return (LIVE.read(path) or "").split()


def _field(path: Path, name: str) -> int | None:
    lines = [line.split() for line in (LIVE.read(path) or "").splitlines()]
    return next((int(value) for key, value in lines if key == name), None)
