"""Plan a file system: create it on an empty namespace, mount it on an empty directory."""

from __future__ import annotations

from . import fstab
from .change_builder import ChangeBuilder, describe_mount
from .desired_state import DesiredState
from .linux import EXT4_EAGER
from .namespace_users import MountedAt, is_our_filesystem
from .ndctl import OUR_NAME, Namespace, Region
from .state import Place, ids_of, mount_point

_NEW_UUID = "<a new UUID>"


def plan_filesystem(builder: ChangeBuilder, region: Region, existing: Namespace | None) -> None:
    """Plan the file system of a namespace (None: created by an earlier step)."""
    point = mount_point(builder.desired, region)
    device = f"/dev/{existing.block}" if existing else f"the new namespace of {region.name}"
    mount = _our_mount(builder, existing, point) if existing else None
    if builder.refusals:
        return
    fresh = _make(builder, region, existing, device)
    if mount is None:
        _refuse_hiding(builder, point)
    _mount(builder, device, point, mount, region)
    uuid = None if fresh or existing is None else builder.state.users_of(existing).content.uuid
    _remember(builder, region, uuid, point)
    _plan_owner(builder, point, fresh, mount)


def mkfs_argv(device: str, desired: DesiredState, uuid: str, *, force: bool = False) -> list[str]:
    """Aligned to 2 MiB, so that a huge page of a file is one of the namespace.

    ext4: the block size is always given, since small devices would get 1 KiB, and nothing is left
    to write after the first mount. xfs: no reflinks, which kernels before 6.1 do not take together
    with DAX.
    """
    size = desired.block_size
    if desired.filesystem == "ext4":
        stride = (2 << 20) // size
        align = ["-E", f"stride={stride},stripe_width={stride},{EXT4_EAGER}"]
        options = ["-b", str(size), *align, "-U", uuid, *(["-F"] if force else [])]
        return ["mkfs.ext4", "-q", *options, "-L", OUR_NAME, device]
    metadata = f"reflink=0,uuid={uuid}"
    options = ["-b", f"size={size}", "-m", metadata, "-d", "su=2m,sw=1", *(["-f"] if force else [])]
    return ["mkfs.xfs", "-q", *options, "-L", OUR_NAME, device]


def _our_mount(builder: ChangeBuilder, existing: Namespace, point: str) -> MountedAt | None:
    """Return the mount at ``point``; refuse any other."""
    ours = None
    for mount in builder.state.users_of(existing).mounts:
        if mount.point == point and not mount.through and mount.whole:
            ours = mount
        elif point not in [each.point for each in builder.state.users_of(existing).mounts]:
            builder.refuse(
                existing.name, describe_mount(existing, mount), f"umount {mount.point} first"
            )
    if ours is None:
        builder.refuse_in_use(existing.name, builder.state.users_of(existing).others)
    return ours


def _make(
    builder: ChangeBuilder,
    region: Region,
    existing: Namespace | None,
    device: str,
) -> bool:
    """Plan mkfs where it is needed; return whether it is. Only on a namespace that this run created
    does it go without consent.

    Any other namespace may hold data that no probe can see (a raw database, dm-crypt), even one of
    ours. A foreign file system is refused, with consent or without.
    """
    command = " ".join(mkfs_argv(device, builder.desired, _NEW_UUID))
    if existing is None:
        builder.add("make-filesystem", device, "a new namespace has none", command)
        return True
    state, content = builder.state, builder.state.users_of(existing).content
    if _is_there(builder, existing):
        return False
    if existing.uuid in state.made and content.empty:
        why = f"{existing.name} was created by this run and has none"
        builder.add("make-filesystem", device, why, command, region=region.name)
        return True
    builder.destroy(
        "make-filesystem",
        device,
        _why_again(builder, existing),
        command,
        [existing],
        dead=is_unfinished(builder, existing),
        force=not content.empty,
        region=region.name,
    )
    return True


def _is_there(builder: ChangeBuilder, existing: Namespace) -> bool:
    """Return whether the file system on a namespace is ours and as requested.

    Mounting it later shows whether mkfs had finished.
    """
    record, content = builder.state.record, builder.state.users_of(existing).content
    if not (content.determined and content.type == builder.desired.filesystem):
        return False
    if is_unfinished(builder, existing) and content.uuid != record.making_filesystem:
        return False  # it shows through from before the namespace was made
    ours = is_our_filesystem(content, record.filesystems)
    return ours and block_size(builder, existing) in (None, builder.desired.block_size)


def block_size(builder: ChangeBuilder, existing: Namespace) -> int | None:
    """Return a file system's block size: ext4's by blkid, xfs's by our record; None: not known."""
    content = builder.state.users_of(existing).content
    on_record = builder.state.record.filesystems.get(content.uuid or "", {}).get("block_size")
    return content.block_size or on_record


def _why_again(builder: ChangeBuilder, existing: Namespace) -> str:
    content = builder.state.users_of(existing).content
    if not content.type:
        return (
            f"{existing.name} existed before this run and may hold data, although blkid finds no"
            f" file system on it{'' if content.determined else ' (' + content.why + ')'}"
        )
    label = f" labelled {content.label!r}" if content.label else ""
    signature = f"{content.type}{label} (UUID {content.uuid})"
    if is_unfinished(builder, existing):
        return f"creating {existing.name} was interrupted; {signature} is on it"
    if content.type == builder.desired.filesystem:
        return f"{signature} on {existing.name} has blocks of {block_size(builder, existing)} bytes"
    return f"{existing.name} has {signature}, not {builder.desired.filesystem}"


def is_unfinished(builder: ChangeBuilder, existing: Namespace) -> bool:
    """Return whether a run of ours was cut off between making the namespace and its file system."""
    record = builder.state.record
    # Ours have our name from the start.
    unknown = existing.uuid not in record.namespaces and existing.label == OUR_NAME
    return (record.making is not None and record.making == existing.uuid) or (
        record.creating == existing.region and unknown
    )


def _refuse_hiding(builder: ChangeBuilder, point: str) -> None:
    place = builder.state.places.get(point, Place())
    if place.source is not None:
        builder.refuse(
            point, f"{place.source} is mounted there", "umount it, or -e pmem_mount_root=DIR"
        )
    elif place.kind == "full":
        builder.refuse(
            point, "it is not empty: a mount would hide its content", "move it away first"
        )
    elif place.kind == "other":
        builder.refuse(point, "it is not a directory", "remove it, or -e pmem_mount_root=DIR")
    line = fstab.foreign_line(builder.state.fstab, point)
    if line:
        builder.refuse(point, f"/etc/fstab has {line!r}, not ours", "remove that line first")


def _mount(
    builder: ChangeBuilder,
    device: str,
    point: str,
    mount: MountedAt | None,
    region: Region,
) -> None:
    if mount is not None and _is_as_wanted(builder, point, mount):
        return
    options = fstab.mount_options(builder.desired)
    if mount is not None:
        preposition = "with" if builder.state.statx_dax.get(point) else "without"
        builder.unmount(point, f"statx reports that it is mounted {preposition} DAX")
    command = f"mount -t {builder.desired.filesystem} -o {options} {device} {point}"
    builder.add(
        "mount",
        point,
        f"{device} is not mounted with these options",
        command,
        region=region.name,
        filesystem=builder.desired.filesystem,
        options=options,
    )


def _is_as_wanted(builder: ChangeBuilder, point: str, mount: MountedAt) -> bool:
    """Decide on DAX by statx: xfs ignores the mount option silently."""
    if "ro" in mount.options:
        return False
    if builder.desired.namespace_mode != "fsdax":
        return True
    return builder.state.statx_dax.get(point) is builder.desired.mounts_with_dax


def _remember(builder: ChangeBuilder, region: Region, uuid: str | None, point: str) -> None:
    """Plan the fstab line; the UUID of a new file system is not known yet."""
    line = fstab.our_line(uuid or _NEW_UUID, point, builder.desired)
    if uuid is None or not fstab.has_line(builder.state.fstab, line):
        why = "after a restart it would not be mounted with these options"
        builder.add("write-fstab", point, why, f"/etc/fstab: {line}", region=region.name)


def _plan_owner(builder: ChangeBuilder, point: str, fresh: bool, mount: MountedAt | None) -> None:
    if builder.desired.owner is None:
        return
    try:
        ids = ids_of(builder.desired.owner)
    except KeyError as error:
        builder.refuse(
            point,
            f"pmem_owner {builder.desired.owner}: {error.args[0]}",
            "name a user and group of this host",
        )
        return
    if fresh or mount is None or builder.state.places.get(point, Place()).owner != ids:
        why = f"the root of the file system belongs to {builder.desired.owner}"
        builder.add("own", point, why, f"chown {builder.desired.owner} {point}", ids=list(ids))
