"""The plan of a file system: made where nothing is, mounted where nothing is hidden."""

from __future__ import annotations

from . import fstab
from .draft import Draft, mounted_words
from .ndctl import OUR_NAME, Namespace, Region
from .state import Place, ids_of, mount_point
from .use import MountedAt, is_our_filesystem
from .wish import Wish

_NEW_UUID = "<a new UUID>"


def plan_filesystem(draft: Draft, region: Region, kept: Namespace | None, wish: Wish) -> None:
    """From a namespace (None: it is made by a step before) to a mounted file system."""
    point = mount_point(wish, region)
    device = f"/dev/{kept.block}" if kept else f"the new namespace of {region.name}"
    mount = _our_mount(draft, kept, point) if kept else None
    if draft.refusals:
        return
    fresh = _make(draft, region, kept, device, wish)
    if mount is None:
        _refuse_hiding(draft, point)
    _mount(draft, device, point, mount, wish, region)
    uuid = None if fresh or kept is None else draft.state.use(kept).content.uuid
    _remember(draft, region, uuid, point, wish)
    _own(draft, point, fresh, mount, wish)


def mkfs_argv(device: str, wish: Wish, uuid: str, *, force: bool = False) -> list[str]:
    """Aligned to 2 MiB, so that a huge page of a file is one of the namespace.

    ext4: the block size is always given, since small devices would get 1 KiB; xfs: no reflinks,
    which kernels before 6.1 do not take together with DAX.
    """
    size = wish.block_size
    if wish.filesystem == "ext4":
        stride = (2 << 20) // size
        align = ["-E", f"stride={stride},stripe_width={stride}"]
        options = ["-b", str(size), *align, "-U", uuid, *(["-F"] if force else [])]
        return ["mkfs.ext4", "-q", *options, "-L", OUR_NAME, device]
    metadata = f"reflink=0,uuid={uuid}"
    options = ["-b", f"size={size}", "-m", metadata, "-d", "su=2m,sw=1", *(["-f"] if force else [])]
    return ["mkfs.xfs", "-q", *options, "-L", OUR_NAME, device]


def _our_mount(draft: Draft, kept: Namespace, point: str) -> MountedAt | None:
    """The mount at the wanted point; any other one is refused."""
    found = None
    for mount in draft.state.use(kept).mounts:
        if mount.point == point and not mount.through and mount.whole:
            found = mount
        elif point not in [each.point for each in draft.state.use(kept).mounts]:
            draft.refuse(kept.name, mounted_words(kept, mount), f"umount {mount.point} first")
    for other in draft.state.use(kept).others if found is None else ():
        draft.refuse(kept.name, f"it is in use: {other}", "end that use first")
    return found


def _make(draft: Draft, region: Region, kept: Namespace | None, device: str, wish: Wish) -> bool:
    """Plan mkfs where it is needed; return whether it is. Only on a namespace that this run created
    does it go without consent.

    Any other namespace may hold data that no probe can see (a raw database, dm-crypt), even one of
    ours. A foreign file system is refused, with consent or without.
    """
    command = " ".join(mkfs_argv(device, wish, _NEW_UUID))
    if kept is None:
        draft.add("make-filesystem", device, "there will be none on it yet", command)
        return True
    state, content = draft.state, draft.state.use(kept).content
    if _is_there(draft, kept, wish):
        return False
    if kept.uuid in state.made and content.empty:
        why = f"{kept.name} was created by this run and has none"
        draft.add("make-filesystem", device, why, command, region=region.name)
        return True
    draft.destroy(
        "make-filesystem",
        device,
        _why_again(draft, kept, wish),
        command,
        [kept],
        dead=is_unfinished(draft, kept),
        force=not content.empty,
        region=region.name,
    )
    return True


def _is_there(draft: Draft, kept: Namespace, wish: Wish) -> bool:
    """Whether the file system on a namespace is ours and as requested. Mounting it later shows
    whether mkfs had finished.
    """
    record, content = draft.state.record, draft.state.use(kept).content
    if not (content.known and content.type == wish.filesystem):
        return False
    if is_unfinished(draft, kept) and content.uuid != record.making_filesystem:
        return False  # it shows through from before the namespace was made
    ours = is_our_filesystem(content, record.filesystems)
    return ours and block_size(draft, kept) in (None, wish.block_size)


def block_size(draft: Draft, kept: Namespace) -> int | None:
    """Of a namespace's file system: ext4 by blkid, xfs by our record; None: not known."""
    content = draft.state.use(kept).content
    on_record = draft.state.record.filesystems.get(content.uuid or "", {}).get("block_size")
    return content.block_size or on_record


def _why_again(draft: Draft, kept: Namespace, wish: Wish) -> str:
    content = draft.state.use(kept).content
    if not content.type:
        return (
            f"{kept.name} existed before this run and may hold data, although blkid finds no"
            f" file system on it{'' if content.known else ' (' + content.why + ')'}"
        )
    label = f" labelled {content.label!r}" if content.label else ""
    found = f"{content.type}{label} (UUID {content.uuid})"
    if is_unfinished(draft, kept):
        return f"making {kept.name} was cut off; {found} is on it"
    if content.type == wish.filesystem:
        return f"{found} on {kept.name} has blocks of {block_size(draft, kept)} bytes"
    return f"{kept.name} has {found}, not {wish.filesystem}"


def is_unfinished(draft: Draft, kept: Namespace) -> bool:
    """Whether a run of ours was cut off between making the namespace and its file system."""
    record = draft.state.record
    # Ours have our name from the start: one without, or with another, somebody else made.
    unknown = kept.uuid not in record.namespaces and kept.label == OUR_NAME
    return (record.making is not None and record.making == kept.uuid) or (
        record.creating == kept.region and unknown
    )


def _refuse_hiding(draft: Draft, point: str) -> None:
    place = draft.state.places.get(point, Place())
    if place.source is not None:
        draft.refuse(point, f"{place.source} is mounted there", "umount it, or pmem_mount_root")
    elif place.kind == "full":
        draft.refuse(
            point, "it is not empty: a mount would hide what is in it", "move it away first"
        )
    elif place.kind == "other":
        draft.refuse(point, "it is not a folder", "remove it, or choose pmem_mount_root")
    line = fstab.foreign_line(draft.state.fstab, point)
    if line:
        draft.refuse(point, f"/etc/fstab has {line!r}, not ours", "take that line out first")


def _mount(
    draft: Draft, device: str, point: str, mount: MountedAt | None, wish: Wish, region: Region
) -> None:
    if mount is not None and _is_as_wanted(draft, point, mount, wish):
        return
    options = fstab.mount_options(wish)
    if mount is not None:
        found = "with" if draft.state.statx_dax.get(point) else "without"
        draft.add("unmount", point, f"statx says it is mounted {found} DAX", f"umount {point}")
    command = f"mount -t {wish.filesystem} -o {options} {device} {point}"
    draft.add(
        "mount",
        point,
        f"{device} is not mounted so",
        command,
        region=region.name,
        filesystem=wish.filesystem,
        options=options,
    )


def _is_as_wanted(draft: Draft, point: str, mount: MountedAt, wish: Wish) -> bool:
    """statx decides about DAX: the option is a wish that xfs drops in silence."""
    if "ro" in mount.options:
        return False
    if wish.namespace_mode != "fsdax":
        return True
    return draft.state.statx_dax.get(point) is wish.mounts_with_dax


def _remember(draft: Draft, region: Region, uuid: str | None, point: str, wish: Wish) -> None:
    """The fstab line; the UUID of a file system still to be made is not known yet."""
    line = fstab.our_line(uuid or _NEW_UUID, point, wish)
    if uuid is None or not fstab.has_line(draft.state.fstab, line):
        why = "after a restart it would not be mounted so"
        draft.add("write-fstab", point, why, f"/etc/fstab: {line}", region=region.name)


def _own(draft: Draft, point: str, fresh: bool, mount: MountedAt | None, wish: Wish) -> None:
    if wish.owner is None:
        return
    try:
        ids = ids_of(wish.owner)
    except KeyError as error:
        draft.refuse(
            point, f"pmem_owner {wish.owner}: {error.args[0]}", "name a user and group of this host"
        )
        return
    if fresh or mount is None or draft.state.places.get(point, Place()).owner != ids:
        why = f"the root of the file system belongs to {wish.owner}"
        draft.add("own", point, why, f"chown {wish.owner} {point}", ids=list(ids))
