"""The state of a host, read before every step from ndctl, blkid and the kernel."""

from __future__ import annotations

import grp
import os
import pwd
import re
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from . import fstab, hostfile
from .commands import Commands, Refused
from .cxl import LIST as LIST_CXL
from .cxl import CxlRegion, Fabric, parse_cxl, read_fabric, region_of_device
from .desired_state import DesiredState
from .ipmctl import Goals, read_goals
from .linux import LIVE, Kernel, all_mounts, dax_origin, facts_of_directory, memory_nodes
from .namespace_users import Content, NamespaceUsers, namespace_users, open_devices, users_of_mount
from .ndctl import OUR_NAME, DaxDevice, Inventory, Namespace, Region, parse_daxctl, parse_ndctl
from .record import Record, load_record
from .tools import missing_tools

#: Of the bus of persistent CXL memory.
CXL_PROVIDER = "CXL"
#: What to do about a state that cannot be read.
_UNCHANGED = "the host is left unchanged"
_Listing = TypeVar("_Listing")


@dataclass(frozen=True)
class Place:
    """A mount point that is wanted. ``kind``: absent, empty, full or other (no folder).

    ``source``: what is mounted there now; ``owner``: ``user:group`` ids of the folder.
    """

    kind: str = "absent"
    source: str | None = None
    owner: tuple[int, int] | None = None


@dataclass(frozen=True)
class State:
    """All input of the planning."""

    inventory: Inventory = field(default_factory=Inventory)
    namespace_users: Mapping[str, NamespaceUsers] = field(default_factory=dict)
    dax: tuple[DaxDevice, ...] = ()
    record: Record = field(default_factory=Record)
    #: What of it was not on record though it is ours, in words (see below).
    lost: tuple[str, ...] = ()
    #: UUIDs of namespaces that the run under way has made, and that have no file system yet.
    made: frozenset[str] = frozenset()
    places: Mapping[str, Place] = field(default_factory=dict)
    #: Whether statx shows DAX below a mount point of ours; None where it cannot say.
    statx_dax: Mapping[str, bool | None] = field(default_factory=dict)
    #: Processes on a mount of ours, in words: what keeps it from being unmounted.
    mount_users: Mapping[str, Sequence[str]] = field(default_factory=dict)
    fstab: str = ""
    host_file: str | None = None
    daxctl_conf: str | None = None
    #: Whether anything acts by daxctl.conf(5) when the host starts.
    daxctl_conf_is_read: bool = True
    udev_rules: str | None = None
    #: User, group and mode bits of the node of each DAX device, by the device's name.
    nodes: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    #: Who has a DAX device open or mapped, in words, by its name.
    dax_users: Mapping[str, Sequence[str]] = field(default_factory=dict)
    goals: Goals | None = None
    cmdline: str = ""
    #: Another one after every start of the host.
    boot_id: str = ""
    iomem: str = ""
    fabric: Fabric = field(default_factory=Fabric)
    #: What the kernel does with memory that is added: offline, online, online_kernel or
    #: online_movable; None: not known.
    auto_online: str | None = None
    boot_loader: str | None = None
    #: The ``memmap=`` in our file of the boot loader's (Debian family).
    boot_loader_file: str | None = None
    missing_tools: tuple[str, ...] = ()
    disabled_regions: tuple[str, ...] = ()
    #: The tier of ordinary disks where the host file names none: (kind, path).
    default_tier: tuple[str, str] | None = None
    #: Memory nodes with processors, which the harness names ``dram``.
    dram_nodes: tuple[int, ...] = ()

    def users_of(self, namespace: Namespace) -> NamespaceUsers:
        """Its content and users; unknown where it was not examined."""
        return self.namespace_users.get(
            namespace.name, NamespaceUsers(Content(False, why="it was not examined"))
        )

    def of_region(self, region: Region) -> list[Namespace]:
        """The namespaces of a region."""
        return [each for each in self.inventory.namespaces if each.region == region.name]

    def is_ours(self, namespace: Namespace) -> bool:
        """Made by us: by its UUID on record, or by the name in its label."""
        return namespace.uuid in self.record.namespaces or namespace.label == OUR_NAME

    def device(self, namespace: Namespace) -> DaxDevice | None:
        """The DAX device of a devdax namespace."""
        return next((each for each in self.dax if each.name == namespace.chardev), None)

    def is_our_region(self, region: CxlRegion) -> bool:
        """Made by us: on record, and not another that was made after a restart."""
        entry = self.record.cxl.get(self.fabric.identity(region))
        if entry is None:
            return False
        return entry["boot"] == self.boot_id or (
            region.type == "pmem" and entry["uuid"] is not None and entry["uuid"] == region.uuid
        )

    def dax_of(self, region: CxlRegion) -> list[DaxDevice]:
        """The DAX devices of a volatile CXL region."""
        return [each for each in self.dax if each.cxl_region == region.name]

    def nd_region_of(self, region: CxlRegion) -> Region | None:
        """The region of ndctl's that a persistent CXL region is; the names may differ."""
        there = (r for r in self.inventory.regions if r.provider == CXL_PROVIDER)
        return next((each for each in there if each.start == region.start), None)

    def identities(self) -> dict[str, str]:
        """Identity of each object that can be destroyed, by its name."""
        spaces = {each.name: each.uuid or "" for each in self.inventory.namespaces}
        return (
            {f"{d.name}": f"{d.size_bytes} bytes, node {d.target_node}" for d in self.dax}
            | {each.name: each.identity for each in self.fabric.memdevs}
            | spaces
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "dimms": dict(self.inventory.dimms),
            "regions": [vars_of(region) for region in self.inventory.regions],
            "namespaces": [
                {
                    **vars_of(each),
                    "ours": self.is_ours(each),
                    "content": vars_of(self.users_of(each).content),
                    "mounts": [vars_of(mount) for mount in self.users_of(each).mounts],
                    "used_by": list(self.users_of(each).others),
                }
                for each in self.inventory.namespaces
            ],
            "dax_devices": [vars_of(each) for each in self.dax],
            "memdevs": [vars_of(each) for each in self.fabric.memdevs],
            "cxl_regions": [
                {**vars_of(each), "ours": self.is_our_region(each)} for each in self.fabric.regions
            ],
            "goals": None if self.goals is None else vars_of(self.goals),
            "record": vars_of(self.record),
        }


def vars_of(value: Any) -> dict[str, Any]:
    """The fields of a data class, tuples as lists."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in vars(value).items()}


@dataclass(frozen=True)
class Files:
    """Places of the host's files; other places in tests alone."""

    record: Path = Path("/var/lib/harness/provisioning.json")
    host_file: Path = Path("/etc/harness/host.yml")
    fstab: Path = Path("/etc/fstab")
    daxctl_conf: Path = Path("/etc/daxctl.conf.d/tierbench.conf")
    udev_rules: Path = Path("/etc/udev/rules.d/60-tierbench-dax.rules")
    grub: Path = Path("/etc/default/grub.d/60-tierbench-memmap.cfg")
    #: harness.paths.default_tier() as root (a test holds the two together).
    disk_tier: Path = Path("/var/lib/tierbench/tiers/ssd")


def read_state(
    desired: DesiredState, commands: Commands, files: Files, kernel: Kernel = LIVE
) -> State:
    """Read what ``desired`` needs; Refused where a plan would be a guess."""
    missing = missing_tools(desired, commands, kernel)
    if missing:
        return State(missing_tools=missing)
    try:
        record = load_record(files.record)
    except ValueError as error:
        raise Refused(
            "host",
            f"the record of the earlier state cannot be read: {error}",
            "repair it or restore a backup. Without one, move it away: objects marked as ours are"
            " still known then, the earlier state is not",
        ) from error
    if record.cxl and not commands.has("cxl"):
        return State(missing_tools=("cxl",))
    boot_id = kernel.read("/proc/sys/kernel/random/boot_id") or ""
    inventory, disabled = _inventory(commands, kernel)
    shown = [each.name for each in inventory.regions if each.labelled]
    zeroed = {n: b for n, b in record.zeroed.items() if n in shown and b == boot_id}
    record = replace(record, zeroed=zeroed)
    regions = (replace(r, labelled=r.labelled and r.name not in zeroed) for r in inventory.regions)
    inventory = replace(inventory, regions=tuple(regions))
    fstab_text = _text(files.fstab) or ""
    points = _points(desired, inventory, record, fstab_text)
    users_by_namespace = namespace_users(inventory.namespaces, commands, kernel)
    ours = [
        m.point for users in users_by_namespace.values() for m in users.mounts if m.point in points
    ]
    dax = _dax_devices(commands, kernel)
    nodes = {device.name: commands.owner_of(f"/dev/{device.name}") for device in dax}
    gives = desired.mode in ("system-ram", "cxl") or (desired.mode == "teardown" and record.cxl)
    users = open_devices() if kernel is LIVE and gives else {}
    fabric = Fabric()
    if desired.mode == "cxl" or record.cxl:
        fabric = read_fabric(_listed(commands, LIST_CXL, parse_cxl), commands, kernel)
    state = State(
        inventory=inventory,
        namespace_users=users_by_namespace,
        dax=dax,
        record=record,
        places={point: _place(point, kernel) for point in points},
        statx_dax={point: kernel.dax(Path(point)).dax for point in ours},
        mount_users={point: users_of_mount(point) for point in ours if desired.mode == "teardown"}
        if kernel is LIVE
        else {},
        fstab=fstab_text,
        host_file=_text(files.host_file),
        daxctl_conf=_text(files.daxctl_conf),
        daxctl_conf_is_read=_daxctl_conf_is_read(kernel),
        udev_rules=_text(files.udev_rules),
        nodes={name: node for name, node in nodes.items() if node is not None},
        dax_users={path[len("/dev/") :]: who for path, who in users.items()},
        goals=read_goals(commands) if _asks_ipmctl(desired, record) else None,
        cmdline=kernel.read("/proc/cmdline") or "",
        boot_id=boot_id,
        iomem=(kernel.read("/proc/iomem") or "") if desired.mode == "emulated" else "",
        boot_loader=_boot_loader(commands),
        boot_loader_file=_memmap_in(_text(files.grub)),
        fabric=fabric,
        auto_online=kernel.read("/sys/devices/system/memory/auto_online_blocks"),
        disabled_regions=disabled,
        default_tier=_default_tier(kernel, files.disk_tier),
        dram_nodes=tuple(n.node for n in memory_nodes(kernel) if n.cpus and n.memory_bytes),
    )
    return with_lost_entries(state)


def _asks_ipmctl(desired: DesiredState, record: Record) -> bool:
    return desired.goal != "none" or desired.mode == "memory-mode" or record.goal_before is not None


def _listed(commands: Commands, command: str, parse: Callable[[str], _Listing]) -> _Listing:
    done = commands.run(command.split())
    if done.rc:
        raise Refused("host", f"{command}: exit {done.rc}: {done.words}", _UNCHANGED)
    try:
        return parse(done.out)
    except ValueError as error:
        why = f"{command} printed something else than a listing: {error}"
        raise Refused("host", why, _UNCHANGED) from error


def _inventory(commands: Commands, kernel: Kernel) -> tuple[Inventory, tuple[str, ...]]:
    if not commands.has("ndctl"):
        return Inventory(), ()  # a teardown without hardware
    inventory = _listed(commands, "ndctl list -DRNXHiv", parse_ndctl)
    regions = tuple(_with_kernel(region, inventory, kernel) for region in inventory.regions)
    namespaces = tuple(
        replace(
            each,
            raw_bytes=kernel.read_int(f"{_ND}/{each.name}/size") or each.raw_bytes,
            claim_class=kernel.read(f"{_ND}/{each.name}/holder_class") or "",
        )
        for each in inventory.namespaces
    )
    disabled = tuple(
        r.name for r in regions if not (kernel.path(f"{_ND}/{r.name}/driver")).exists()
    )
    return Inventory(inventory.dimms, regions, namespaces), disabled


_ND = "/sys/bus/nd/devices"


def _with_kernel(region: Region, inventory: Inventory, kernel: Kernel) -> Region:
    """The region with its bus, and label-less where the kernel says so of a namespace in it."""
    folder = kernel.path(f"{_ND}/{region.name}")
    provider = kernel.read(folder.resolve().parent / "provider") if folder.exists() else None
    types = {
        kernel.read(f"{_ND}/{each.name}/devtype")
        for each in inventory.namespaces
        if each.region == region.name
    }
    labelled = region.labelled and "nd_namespace_io" not in types and bool(region.dimms)
    resource = kernel.read(f"{_ND}/{region.name}/resource") or ""  # 0x380000000; root's to read
    start = int(resource, 16) if re.fullmatch(r"0x[0-9a-f]+", resource) else None
    return replace(region, provider=provider, labelled=labelled, start=start)


def _dax_devices(commands: Commands, kernel: Kernel) -> tuple[DaxDevice, ...]:
    if not commands.has("daxctl"):
        return ()  # a teardown without hardware
    devices = _listed(commands, "daxctl list -D", parse_daxctl)
    return tuple(
        replace(
            each,
            origin=dax_origin(each.name, kernel),
            cxl_region=region_of_device(each.name, kernel),
        )
        for each in devices
    )


def _daxctl_conf_is_read(kernel: Kernel) -> bool:
    """Return whether daxctl's udev rule works.

    Debian 12's (76.1) calls ``daxctl -C``, which is an error; later ones start
    daxdev-reconfigure@.service.
    """
    folders = ("/usr/lib/udev/rules.d", "/lib/udev/rules.d")
    texts = [kernel.read(f"{folder}/90-daxctl-device.rules") or "" for folder in folders]
    return any(texts) and not any("daxctl -C " in text for text in texts)


def _points(
    desired: DesiredState, inventory: Inventory, record: Record, fstab_text: str
) -> set[str]:
    """Mount points that are wanted, or of ours."""
    wanted = {mount_point(desired, region) for region in inventory.regions}
    return (
        (wanted if desired.has_filesystem else set())
        | record.points
        | set(fstab.our_points(fstab_text))
    )


def mount_point(desired: DesiredState, region: Region) -> str:
    """Point where the file system of a region is mounted: by the region's number."""
    return f"{desired.mount_root.rstrip('/')}/pmem{region.number}"


def _place(point: str, kernel: Kernel) -> Place:
    sources = [mount.source for mount in all_mounts(kernel) if mount.point == point]
    try:
        status = os.lstat(point)
    except FileNotFoundError:
        return Place()
    except OSError:
        return Place("other")
    path = Path(point)
    if path.is_symlink() or not path.is_dir():
        return Place("other")
    kind = "full" if any(path.iterdir()) else "empty"
    return Place(kind, sources[-1] if sources else None, (status.st_uid, status.st_gid))


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise Refused("host", f"{path}: {error}", _UNCHANGED) from error


def _boot_loader(commands: Commands) -> str | None:
    """grubby (RHEL family) or update-grub (Debian family), where the host boots by it."""
    for program, folder in (("grubby", "/boot/grub2"), ("update-grub", "/boot/grub")):
        if commands.has(program) and Path(folder).is_dir():
            return program
    return None


def _memmap_in(text: str | None) -> str | None:
    match = re.search(r"memmap=[0-9A-Za-z!,]+", text or "")
    return match.group() if match else None


def _default_tier(kernel: Kernel, folder: Path) -> tuple[str, str] | None:
    """``folder``, where that is on a disk: what the harness calls ``ssd`` by itself."""
    above = next(each for each in (folder, *folder.parents) if each.exists())
    try:
        facts = facts_of_directory(above, kernel)
    except OSError:
        return None
    return ("block", str(folder)) if facts.kind == "block" and facts.disks else None


def ids_of(owner: str) -> tuple[int, int]:
    """uid and gid of ``user`` or ``user:group``; KeyError where there is no such."""
    user, _, group = owner.partition(":")
    entry = pwd.getpwnam(user)
    return entry.pw_uid, grp.getgrnam(group).gr_gid if group else entry.pw_gid


def with_lost_entries(state: State) -> State:
    """Return the state with all that is ours in its record; ``lost`` lists what was missing."""
    state = replace(state, record=deepcopy(state.record))
    lost: list[str] = []
    for namespace in state.inventory.namespaces:
        lost += _namespace(state, namespace)
    for point in fstab.our_points(state.fstab):
        if point not in state.record.points:
            lost.append(f"the line of {point} in /etc/fstab is marked as ours")
    if state.boot_loader_file and state.record.memmap is None:
        state.record.memmap, state.record.memmap_done = state.boot_loader_file, True
        lost.append(f"the boot loader has {state.boot_loader_file} in a file of ours")
    if state.record.blank and hostfile.split(state.host_file or "")[1]:
        lost.append("the host file has tiers between our marks")
    return replace(state, lost=tuple(lost))


def _namespace(state: State, namespace: Namespace) -> list[str]:
    """Add a namespace of ours and its file system to the record; return what was missing."""
    record, content = state.record, state.users_of(namespace).content
    uuid, name = namespace.uuid, namespace.name
    if not uuid or record.creating == namespace.region or record.making == uuid:
        return []  # a run was interrupted, which is not a loss
    lines = fstab.points_of(state.fstab, content.uuid or "")
    lost = []
    if uuid not in record.namespaces and (namespace.label == OUR_NAME or lines):
        device = state.device(namespace)
        as_memory = device is not None and device.mode == "system-ram"
        serves = "system-ram" if as_memory else namespace.mode
        record.namespaces[uuid] = {
            "mode": namespace.mode,
            "requested_bytes": None,
            "serves": serves,
        }
        lost.append(f"{name} is ours by {'its label' if namespace.label else '/etc/fstab'}")
    points = lines or [each.point for each in state.users_of(namespace).mounts if each.whole]
    expected = content.uuid in record.filesystems or content.label != OUR_NAME
    if uuid in record.namespaces and content.uuid and points and not expected:
        size = content.block_size or 4096
        record.filesystems[content.uuid] = {"point": points[0], "block_size": size}
        lost.append(f"the {content.type} on {name} is ours by its label")
    return lost


def lost_record_note(state: State) -> list[str]:
    """The note on a lost record, with what to do; empty where nothing was lost."""
    if not state.lost:
        return []
    foreign = [
        word
        for word in state.cmdline.split()
        if word.startswith("memmap=") and "!" in word and word != state.record.memmap
    ]
    unknown = ["earlier namespaces", "labels", *foreign, "a firmware goal (ipmctl show -goal)"]
    return [
        f"record-lost: {'; '.join(state.lost)}, but not in the record. Restore"
        " /var/lib/harness/provisioning.json (provisioning_record) from a backup first, if there is"
        " one. Without it, teardown.yml removes what is marked as ours and cannot restore what was"
        f" there before: {', '.join(unknown)}"
    ]
