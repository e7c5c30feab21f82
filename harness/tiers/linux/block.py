"""Block devices in sysfs: from a device number down to the disks it stands on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .kernel import Kernel

#: Deeper stacks of device mapper and md than this are a loop in a broken tree.
_MAX_DEPTH = 16


@dataclass(frozen=True)
class Disk:
    """A disk: no partition, no mapping. ``sysfs`` is its directory in the device tree."""

    name: str
    sysfs: Path
    model: str | None
    rotational: bool | None
    #: Whether a flush has to empty a cache that loses its content without power.
    numa_node: int | None


@dataclass(frozen=True)
class Stack:
    """A mounted block device and what is below it.

    ``through``: the layers between, outermost first (``LVM vg-data``, ``md0 raid0``).
    """

    name: str
    disks: tuple[Disk, ...]
    through: tuple[str, ...]


def stack_of(device_number: str, kernel: Kernel) -> Stack | None:
    """The device ``major:minor`` and its disks, None where sysfs knows no such device."""
    link = kernel.path(f"/sys/dev/block/{device_number}")
    if not link.exists():
        return None
    sysfs = link.resolve()
    through: list[str] = []
    disks = {disk.name: disk for disk in _disks(sysfs, kernel, through, 0)}
    return Stack(_device_name(sysfs, kernel), tuple(disks.values()), tuple(dict.fromkeys(through)))


def _device_name(sysfs: Path, kernel: Kernel) -> str:
    mapped = kernel.read(sysfs / "dm" / "name")
    return f"mapper/{mapped}" if mapped else sysfs.name.replace("!", "/")


def _disks(sysfs: Path, kernel: Kernel, through: list[str], depth: int) -> Iterator[Disk]:
    """The disks below a device; each layer passed is added to ``through``."""
    below = kernel.names(sysfs / "slaves")
    if below and depth < _MAX_DEPTH:
        through.append(_layer(sysfs, kernel))
        for name in below:
            yield from _disks((sysfs / "slaves" / name).resolve(), kernel, through, depth + 1)
        return
    if (sysfs / "partition").exists():
        yield from _disks(sysfs.parent, kernel, through, depth + 1)
        return
    if backing := kernel.read(sysfs / "loop" / "backing_file"):
        through.append(f"loop device over the file {backing}")
    yield Disk(
        name=sysfs.name.replace("!", "/"),
        sysfs=sysfs,
        model=_model(sysfs, kernel),
        rotational=_rotational(sysfs, kernel),
        numa_node=numa_node_above(sysfs, kernel),
    )


def _layer(sysfs: Path, kernel: Kernel) -> str:
    if level := kernel.read(sysfs / "md" / "level"):
        return f"{sysfs.name} {level}"
    kind = (kernel.read(sysfs / "dm" / "uuid") or "").partition("-")[0] or "device mapper"
    return f"{kind} {kernel.read(sysfs / 'dm' / 'name') or sysfs.name}"


def _model(sysfs: Path, kernel: Kernel) -> str | None:
    """Vendor and model as the bus gives them; of virtio disks only that they are virtual."""
    device = sysfs / "device"
    words = [kernel.read(device / name) for name in ("vendor", "model")]
    model = " ".join(word for word in words if word and not word.startswith("0x"))
    if model:
        return model
    if name := kernel.read(device / "name"):  # mmc
        return name
    if _is_virtio(sysfs):
        return "virtio disk (the hypervisor hides the real one)"
    return None


def _is_virtio(sysfs: Path) -> bool:
    driver = sysfs / "device" / "driver"
    return driver.exists() and driver.resolve().name == "virtio_blk"


def _rotational(sysfs: Path, kernel: Kernel) -> bool | None:
    """None for virtio too: it says 1 whatever the hypervisor keeps the bytes on."""
    text = kernel.read(sysfs / "queue" / "rotational")
    return None if text is None or _is_virtio(sysfs) else text == "1"


def numa_node_above(sysfs: Path, kernel: Kernel) -> int | None:
    """``numa_node`` of the device or the nearest one above it; None where the bus has none."""
    for directory in (sysfs, *sysfs.parents):
        node = kernel.read_int(directory / "numa_node")
        if node is not None:
            return node if node >= 0 else None
        if directory.name == "devices":
            break
    return None


def btrfs_members(device: str, kernel: Kernel) -> tuple[str, ...]:
    """Devices of the btrfs that ``device`` (its sysfs name) is a member of."""
    for volume in kernel.names("/sys/fs/btrfs"):
        members = kernel.names(f"/sys/fs/btrfs/{volume}/devices")
        if device in members:
            return tuple(members)
    return (device,)
