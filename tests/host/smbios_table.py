"""SMBIOS tables for tests, built from the offsets of the specification."""

import struct
from pathlib import Path


def memory_device(
    *, size_mib: int, technology: int, volatile: int, persistent: int, locator: str,
    speed_mts: int = 2666, able_mts: int = 0,
) -> bytes:  # fmt: skip
    """A type 17 structure of SMBIOS 3.2 (DSP0134 §7.18), built by its offsets."""
    body = bytearray(0x54)
    struct.pack_into("<BBH", body, 0, 17, len(body), 0x1100)
    extended = size_mib >= 0x7FFF
    struct.pack_into("<H", body, 0x0C, 0x7FFF if extended else size_mib)
    struct.pack_into("<I", body, 0x1C, size_mib if extended else 0)
    body[0x10], body[0x12], body[0x17] = 1, 0x1A, 2
    struct.pack_into("<H", body, 0x15, able_mts)
    struct.pack_into("<H", body, 0x20, speed_mts)
    body[0x28] = technology
    struct.pack_into("<QQ", body, 0x34, persistent, volatile)
    return bytes(body) + locator.encode() + b"\0Maker\0\0"


def write_table(root: Path, *devices: bytes) -> None:
    """The firmware's table below ``root``, where Linux shows it."""
    table = root / "sys/firmware/dmi/tables/DMI"
    table.parent.mkdir(parents=True)
    table.write_bytes(b"".join(devices))
