"""The plan of a file system: made where nothing is, mounted where nothing is hidden."""

from __future__ import annotations

from . import fstab
from .draft import Draft, mounted_words
from .ndctl import OUR_NAME, Namespace, Region
from .state import Place, ids_of, mount_point
from .use import MountedAt, is_our_filesystem
from .wish import Wish


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


def mkfs_argv(device: str, wish: Wish) -> list[str]:
    """Aligned to 2 MiB, so that a huge page of a file is one of the namespace.

    ext4: blocks of a page (DAX needs it, and small devices would get 1 KiB); xfs: no reflinks,
    which kernels before 6.1 do not take together with DAX.
    """
    if wish.filesystem == "ext4":
        stride = ["-E", "stride=512,stripe_width=512"]
        return ["mkfs.ext4", "-q", "-b", "4096", *stride, "-L", OUR_NAME, device]
    return ["mkfs.xfs", "-q", "-m", "reflink=0", "-d", "su=2m,sw=1", "-L", OUR_NAME, device]


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
    """Whether a file system is made; a foreign one is refused, whatever is confirmed."""
    if kept is None:
        argv = mkfs_argv(device, wish)
        draft.add("make-filesystem", device, "there will be none on it yet", " ".join(argv))
        return True
    state, content = draft.state, draft.state.use(kept).content
    ours = content.known and content.type and is_our_filesystem(content, state.record.filesystems)
    unfinished = is_unfinished(draft, kept)
    if ours and content.type == wish.filesystem and not unfinished:
        return False
    argv = mkfs_argv(device, wish)
    args = {"argv": argv, "region": region.name}
    if unfinished and (ours or content.empty):
        draft.add(
            "make-filesystem", device, "making it was cut off", " ".join(argv), again=True, **args
        )
    elif unfinished:
        why = f"making {kept.name} was cut off; what was there before shows through: {content.type}"
        draft.destroy(
            "make-filesystem", device, why, " ".join(argv), [kept], again=True, dead=True, **args
        )
    elif content.empty and state.is_ours(kept):
        why = f"{kept.name} is ours and has none"
        draft.add("make-filesystem", device, why, " ".join(argv), **args)
    else:
        why = f"{kept.name} has {content.type or 'nothing that can be seen'}, not {wish.filesystem}"
        draft.destroy("make-filesystem", device, why, " ".join(argv), [kept], again=True, **args)
    return True


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
    line = fstab.our_line(uuid or "<its new UUID>", point, wish)
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
