"""The desired state of a host, as the roles define it; validated before the host is read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

MODES = (
    *("appdirect", "sector", "devdax", "system-ram", "cxl", "memory-mode", "emulated", "teardown"),
)
#: Modes that make one namespace in each region, and the mode of that namespace.
NAMESPACE_MODES = {
    "appdirect": "fsdax",
    "sector": "sector",
    "devdax": "devdax",
    "system-ram": "devdax",
    "cxl": "devdax",
    "emulated": "fsdax",
}
#: Modes with a file system on the namespace.
FILESYSTEM_MODES = ("appdirect", "sector", "emulated")
GOALS = ("none", "AppDirect", "AppDirectNotInterleaved")
_CHOICES = {
    "mode": MODES,
    "goal": GOALS,
    "map": ("dev", "mem"),
    "filesystem": ("ext4", "xfs"),
    "block_size": (1024, 2048, 4096),
    "sector_size": (512, 4096),
    "type": ("ram", "pmem"),
    "use": ("system-ram", "devdax"),
    # CXL 3.1, table 8-117 (decoder control): what a decoder can interleave.
    "ways": (1, 2, 3, 4, 6, 8, 12, 16),
    "granularity": (None, 256, 512, 1024, 2048, 4096, 8192, 16384),
}
#: A memory device by its name, or by its PCI address.
_MEMDEV = r"mem\d+|[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
#: Lists of names to their pattern, and how to write them.
_OBJECTS = {
    "regions": (r"region\d+", "region's name; all, or [region0, region1]"),
    "devices": (r"dax\d+\.\d+", "DAX device's; all, or [dax1.0, dax2.0]"),
    "memdevs": (_MEMDEV, "memory device's; all, or [mem0, mem1]"),
}
#: Of the processors that persistent memory is for.
_PAGE = 4096
_UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


@dataclass(frozen=True)
class DesiredState:
    """One mode and its settings; roles/*/defaults/main.yml say what each means."""

    mode: str
    regions: tuple[str, ...] | None = None  # None: all
    goal: str = "none"
    goal_reserved_percent: int = 0
    dimms: int | None = None
    size_bytes: int | None = None
    map: str = "dev"
    filesystem: str = "ext4"
    block_size: int = 4096
    dax: bool = True
    sector_size: int = 4096
    mount_root: str = "/mnt"
    owner: str | None = None
    devices: tuple[str, ...] | None = ()  # None: all that are on no NVDIMM
    # Of CXL memory.
    memdevs: tuple[str, ...] | None = None  # None: all with memory of the type
    type: str = "ram"
    use: str = "system-ram"
    ways: int = 1
    granularity: int | None = None  # None: the root decoder's
    decoder: str | None = None  # None: the first that suits
    movable: bool = True
    memory_mode_percent: int = 100
    memmap_bytes: int | None = None
    memmap_start: int | None = None

    @property
    def namespace_mode(self) -> str | None:
        """Mode of the namespaces, None for modes without."""
        return NAMESPACE_MODES.get(self.mode)

    @property
    def serves(self) -> str:
        """What DAX devices are for: system-ram or devdax; of other modes, their name."""
        return self.use if self.mode == "cxl" else self.mode

    @property
    def has_filesystem(self) -> bool:
        """Return whether each namespace has a file system."""
        return self.mode in FILESYSTEM_MODES

    @property
    def mounts_with_dax(self) -> bool:
        """Return whether files bypass the page cache."""
        return self.dax and self.namespace_mode == "fsdax"


def parse_desired_state(given: Mapping[str, Any]) -> DesiredState:
    """Parse Ansible's variables, where numbers and booleans may be texts.

    ValueError names the variable, its value and the valid ones.
    """
    settings = [field.name for field in fields(DesiredState)]
    for name in given:
        if name not in settings:
            raise ValueError(f"{name}: no such setting; settings: {', '.join(settings)}")
    desired = DesiredState(**{name: _value(name, value) for name, value in given.items()})
    for name, choices in _CHOICES.items():
        if getattr(desired, name) not in choices:
            raise ValueError(
                f"{name} {getattr(desired, name)!r}: one of {', '.join(map(str, choices))}"
            )
    _check_block_size(desired)
    for name in ("memory_mode_percent", "goal_reserved_percent"):
        if not 0 <= getattr(desired, name) <= 100:
            raise ValueError(f"{name} {getattr(desired, name)}: from 0 to 100")
    if not re.fullmatch(r"/[\w./-]*", desired.mount_root) or ".." in desired.mount_root:
        raise ValueError(f"mount_root {desired.mount_root!r}: an absolute folder, like /mnt")
    if desired.owner and not re.fullmatch(r"[\w.-]+(:[\w.-]+)?", desired.owner):
        raise ValueError(f"owner {desired.owner!r}: user, or user:group")
    return desired


def _check_block_size(desired: DesiredState) -> None:
    if desired.has_filesystem and desired.mounts_with_dax and desired.block_size != _PAGE:
        raise ValueError(
            f"block_size {desired.block_size}: DAX needs blocks of a page, {_PAGE} bytes; give"
            " -e pmem_dax=false too"
        )
    if desired.mode == "sector" and desired.block_size < desired.sector_size:
        raise ValueError(
            f"block_size {desired.block_size}: must be >= pmem_sector_size, {desired.sector_size}"
        )


def _value(name: str, value: Any) -> Any:
    if value is None or value in ("", "null", "None"):
        return {"regions": (), "devices": (), "goal": "none", "memdevs": ()}.get(name)
    if name in _OBJECTS:
        return _names(name, value, *_OBJECTS[name])
    if name == "decoder" and not re.fullmatch(r"decoder\d+\.\d+", str(value)):
        raise ValueError(f"decoder {value!r}: a root decoder's name, like decoder0.0")
    if name in ("dax", "movable"):
        return _truth(name, value)
    if name in (
        "mode",
        "goal",
        "map",
        "filesystem",
        "mount_root",
        "owner",
        "type",
        "use",
        "decoder",
    ):
        return str(value)
    return _number(name, value)


def _names(setting: str, value: Any, pattern: str, what: str) -> tuple[str, ...] | None:
    if value == "all":
        return None
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, (list, tuple)):
        raise ValueError(f"{setting} {value!r}: no {what}")
    names = tuple(str(name).strip() for name in names)
    for name in names:
        if not re.fullmatch(pattern, name):
            raise ValueError(f"{setting}: {name!r} is no {what}")
    return names


def _truth(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if str(value).lower() not in words:
        raise ValueError(f"{name} {value!r}: true or false")
    return words[str(value).lower()]


def _number(name: str, value: Any) -> int:
    match = re.fullmatch(r"(\d+)\s*(|[KMGT]iB)", str(value).strip())
    if isinstance(value, (bool, float)) or match is None:
        raise ValueError(f"{name} {value!r}: a whole number, or one with KiB, MiB, GiB or TiB")
    return int(match.group(1)) * _UNITS[match.group(2)]
