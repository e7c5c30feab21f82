"""The table of ``ipmctl show -memoryresources``: how the capacity of Optane modules is used."""

from __future__ import annotations

import re

_UNITS = {
    "B": 1,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
}


def resource_table(text: str) -> dict[str, tuple[int, int]]:
    """Row name to (DDR, modules) in bytes, of versions 2 and 3; empty without such a table.

    DDR is 0 where the table has no such column.
    """
    rows: dict[str, tuple[int, int]] = {}
    columns: tuple[int | None, int] | None = None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if cells[0] == "MemoryType":
            modules = [n for n, cell in enumerate(cells) if cell in ("PMemModule", "DCPMM")]
            ddr = cells.index("DDR") if "DDR" in cells else None
            columns = (ddr, modules[0]) if modules else None
        elif columns and len(cells) > max(columns[0] or 0, columns[1]):
            ddr_bytes = 0 if columns[0] is None else capacity(cells[columns[0]])
            rows[cells[0]] = ddr_bytes, capacity(cells[columns[1]])
    return rows


def capacity(text: str) -> int:
    """Bytes of ``504.000 GiB``; ``-`` and empty cells are 0."""
    match = re.fullmatch(r"([\d.]+)\s*([A-Za-z]+)", text.strip())
    return round(float(match.group(1)) * _UNITS.get(match.group(2), 0)) if match else 0
