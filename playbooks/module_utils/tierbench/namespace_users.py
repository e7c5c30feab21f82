"""Users and content of a namespace, which are checked before it is destroyed.

Nothing is written, not even an access time: devices are examined by blkid's low-level probing and
by an exclusive open for reading, which the kernel denies where anything claims the device.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Container, Iterator
from dataclasses import dataclass

from .commands import Commands
from .linux import LIVE, Kernel, Mount, Stack, all_mounts, namespace_of, stack_of, stacks_of
from .ndctl import OUR_NAME, Namespace


@dataclass(frozen=True)
class Content:
    """Content that blkid finds on a namespace's block device.

    ``determined`` False: blkid could not read it (``why``), which does not mean empty. ``type``
    None and ``determined``: no signature. ``type``: ext4, xfs, LVM2_member, gpt … ``block_size``:
    of ext4.
    """

    determined: bool
    type: str | None = None
    label: str | None = None
    uuid: str | None = None
    why: str = ""
    block_size: int | None = None

    @property
    def empty(self) -> bool:
        """Return whether blkid read it and found no signature of anything."""
        return self.determined and self.type is None


@dataclass(frozen=True)
class MountedAt:
    """A mount of a namespace. ``through``: layers between (``LVM vg-data``)."""

    point: str
    filesystem: str
    options: tuple[str, ...]
    through: tuple[str, ...] = ()
    whole: bool = True  # not a bind mount of a folder of it


@dataclass(frozen=True)
class NamespaceUsers:
    """Content of a namespace, its mounts and other users (as texts)."""

    content: Content
    mounts: tuple[MountedAt, ...] = ()
    others: tuple[str, ...] = ()


def namespace_users(
    namespaces: tuple[Namespace, ...], commands: Commands, kernel: Kernel = LIVE
) -> dict[str, NamespaceUsers]:
    """Content and users of each namespace, by its name."""
    mounted = mounts_of_namespaces(kernel)
    swaps = _swaps(kernel)
    open_files = open_devices() if kernel is LIVE else {}
    loops = _loops(kernel)
    users = {}
    for each in namespaces:
        others = [f"swap on {device}" for name, device in swaps if name == each.name]
        others += _holders(each, kernel)
        device = f"/dev/{each.block or each.chardev}"
        for name in dict.fromkeys((device, *(f"/dev/{name}" for name in each.devices))):
            others += [f"{name} is open in {who}" for who in open_files.get(name, [])]
        others += [f"/dev/{loop} loops over it" for loop in loops.get(device, [])]
        here = mounted.get(each.name, ())
        if each.block and kernel is LIVE and not here and not others and _claimed(device):
            others.append(f"{device} is busy: claimed, perhaps in a container")
        users[each.name] = NamespaceUsers(_content(each, commands), here, tuple(others))
    return users


# Content -------------------------------------------------------------------------


def _content(namespace: Namespace, commands: Commands) -> Content:
    if not namespace.enabled:
        return Content(False, why="it is disabled")
    if namespace.block is None:
        return Content(True) if namespace.chardev else Content(False, why="it has no block device")
    return probe(f"/dev/{namespace.block}", commands)


def probe(device: str, commands: Commands) -> Content:
    """Content that blkid's low-level probing finds (blkid(8): 0 found, 2 nothing, 8 ambivalent)."""
    done = commands.run(["blkid", "--probe", "--output", "export", device])
    if done.rc == 2 and not done.words:
        # The same answer as for a device that cannot be opened or read.
        unread = commands.unreadable(device)
        return Content(False, why=unread) if unread else Content(True)
    if done.rc != 0:
        what = "several signatures at once" if done.rc == 8 else done.words or "nothing"
        return Content(False, why=f"blkid fails (exit {done.rc}: {what})")
    fields = parse_blkid(done.out)
    kind = fields.get("TYPE") or fields.get("PTTYPE")
    if kind is None:
        return Content(False, why="blkid finds an unnamed signature")
    # Of ext4 it is the file system's; of xfs the sector's.
    size = fields.get("BLOCK_SIZE", "") if kind == "ext4" else ""
    return Content(
        True,
        kind,
        fields.get("LABEL"),
        fields.get("UUID") or fields.get("PTUUID"),
        block_size=int(size) if size.isdigit() else None,
    )


def parse_blkid(text: str) -> dict[str, str]:
    """``NAME=value`` lines of ``blkid --output export``, with its escapes undone."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {name: re.sub(r"\\(.)", r"\1", value) for name, _, value in pairs}


def is_our_filesystem(content: Content, made: Container[str]) -> bool:
    """By its UUID on record (``made``), or by its label."""
    return content.uuid in made or content.label == OUR_NAME


# Users ---------------------------------------------------------------------------


def mounts_of_namespaces(kernel: Kernel) -> dict[str, tuple[MountedAt, ...]]:
    """Mounts by the namespace that holds their bytes, through device mapper, md and partitions."""
    mounts_of: dict[str, list[MountedAt]] = {}
    for mount in all_mounts(kernel):
        for stack in stacks_of(mount, kernel):
            for name in _namespaces_of(stack, kernel):
                mounts_of.setdefault(name, []).append(_mounted_at(mount, stack))
    return {name: tuple(each) for name, each in mounts_of.items()}


def _mounted_at(mount: Mount, stack: Stack) -> MountedAt:
    return MountedAt(mount.point, mount.filesystem, mount.options, stack.through, mount.root == "/")


def _namespaces_of(stack: Stack, kernel: Kernel) -> Iterator[str]:
    for disk in stack.disks:
        namespace = namespace_of(disk.sysfs, kernel)
        if namespace is not None:
            yield namespace.name


def _swaps(kernel: Kernel) -> list[tuple[str, str]]:
    """(namespace, device) of every swap area on persistent memory."""
    devices = []
    for line in (kernel.read("/proc/swaps") or "").splitlines()[1:]:
        device = line.split()[0]
        number = kernel.device_number(device) if device.startswith("/dev/") else None
        stack = stack_of(number, kernel) if number else None
        for name in _namespaces_of(stack, kernel) if stack else ():
            devices.append((name, device))
    return devices


def _holders(namespace: Namespace, kernel: Kernel) -> list[str]:
    """Device mapper, md … on the block device or on one of its partitions."""
    if namespace.block is None:
        return []
    folder = f"/sys/class/block/{namespace.block}"
    users = [f"{name} is built on it" for name in kernel.names(f"{folder}/holders")]
    for part in kernel.names(folder):
        if part.startswith(namespace.block) and kernel.read(f"{folder}/{part}/partition"):
            users.append(f"it has the partition {part}")
            users += [f"{n} is built on {part}" for n in kernel.names(f"{folder}/{part}/holders")]
    return users


def _loops(kernel: Kernel) -> dict[str, list[str]]:
    """Loop devices by the device they are over: an exclusive open does not notice them."""
    loops: dict[str, list[str]] = {}
    for name in kernel.names("/sys/block"):
        if backing := kernel.read(f"/sys/block/{name}/loop/backing_file"):
            loops.setdefault(backing.strip(), []).append(name)
    return loops


def _claimed(device: str) -> bool:
    """Return whether a block device is claimed exclusively: a mount in any mount namespace, md …"""
    try:
        os.close(os.open(device, os.O_RDONLY | os.O_EXCL))
    except OSError as error:
        return error.errno == errno.EBUSY
    return False


def open_devices() -> dict[str, list[str]]:
    """``/dev/pmem…`` and ``/dev/dax…`` that processes have open or mapped, with who they are."""
    processes: dict[str, list[str]] = {}
    for pid in _pids():
        for device in _devices_of(pid):
            processes.setdefault(device, []).append(who(pid))
    return processes


def _pids() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdigit()]


def _devices_of(pid: str) -> set[str]:
    targets = {fields[5] for fields in _maps(pid) if len(fields) > 5}
    for link in _open_files(pid):
        with contextlib.suppress(OSError):
            targets.add(os.readlink(link))
    return {name for name in targets if re.match(r"^/dev/(pmem|dax)[\d.]+", name)}


def _open_files(pid: str) -> list[str]:
    try:
        return [entry.path for entry in os.scandir(f"/proc/{pid}/fd")]
    except OSError:
        return []


def _maps(pid: str) -> list[list[str]]:
    """The fields of each mapping (proc(5)): the device is the fourth, a path the sixth."""
    return [line.split(None, 5) for line in (LIVE.read(f"/proc/{pid}/maps") or "").splitlines()]


def who(pid: str) -> str:
    """Name a process: ``pid 123 (postgres)``."""
    return f"pid {pid} ({LIVE.read(f'/proc/{pid}/comm') or 'gone'})"


def users_of_mount(point: str) -> list[str]:
    """Processes with a file, folder or mapping on the mount: who keeps it from being unmounted."""
    try:
        device = os.stat(point).st_dev
    except OSError:
        return []
    numbers = f"{os.major(device):02x}:{os.minor(device):02x}"
    return [
        who(pid)
        for pid in _pids()
        if _is_on(pid, device) or any(fields[3:4] == [numbers] for fields in _maps(pid))
    ]


def _is_on(pid: str, device: int) -> bool:
    links = [f"/proc/{pid}/cwd", f"/proc/{pid}/root", f"/proc/{pid}/exe", *_open_files(pid)]
    for link in links:
        try:
            if os.stat(link).st_dev == device:
                return True
        except OSError:
            continue
    return False
