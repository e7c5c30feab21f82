"""Rows of the three tables that are added to TPC-C's: region, nation and supplier.

A nation's key is the code of a character: that of a supplier is drawn, that of a customer is the
first character of ``c_state``, which is one of 62. The supplier of a row of stock follows from its
key: ``mod(s_w_id * s_i_id, 10000)``. So TPC-C's tables are as they are without the queries.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

#: Raised whenever other rows are made from the same seed.
GENERATION = 1
SUPPLIERS = 10_000
#: Of the suppliers, those whose comments have complaints of customers, and recommendations.
_COMPLAINTS = 5
_CHARACTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_NATIONS: Mapping[str, tuple[str, ...]] = {
    "Africa": (
        "Algeria", "Angola", "Botswana", "Egypt", "Ethiopia", "Ghana", "Kenya", "Morocco",
        "Mozambique", "Namibia", "Nigeria", "Senegal", "Tanzania", "Tunisia", "Uganda",
    ),
    "America": (
        "Argentina", "Bolivia", "Brazil", "Canada", "Chile", "Colombia", "Costa Rica", "Ecuador",
        "Jamaica", "Mexico", "Panama", "Peru", "United States", "Uruguay",
    ),
    "Asia": (
        "Cambodia", "China", "India", "Indonesia", "Japan", "Jordan", "Malaysia", "Mongolia",
        "Nepal", "Philippines", "Saudi Arabia", "Thailand", "Turkey", "Vietnam",
    ),
    "Europe": (
        "Austria", "Belgium", "Denmark", "Finland", "France", "Germany", "Greece", "Ireland",
        "Italy", "Netherlands", "Poland", "Portugal", "Spain", "Sweden",
    ),
    "Oceania": ("Australia", "Fiji", "New Zealand", "Samoa", "Tonga"),
}  # fmt: skip

Rows = Iterator[Sequence[object]]


def files(folder: Path) -> dict[str, tuple[Path, ...]]:
    """Return the files of :func:`write` by table."""
    return {table: (folder / f"{table}.csv",) for table in row_counts()}


def row_counts() -> dict[str, int]:
    """Return the number of rows by table."""
    return {"region": len(_NATIONS), "nation": len(_CHARACTERS), "supplier": SUPPLIERS}


def write(folder: Path, seed: int) -> None:
    """Write the rows of each table to a CSV file with a header."""
    tables: Mapping[str, tuple[str, Rows]] = {
        "region": ("r_regionkey,r_name,r_comment", _regions()),
        "nation": ("n_nationkey,n_regionkey,n_name,n_comment", _nations()),
        "supplier": (
            "su_suppkey,su_nationkey,su_acctbal,su_name,su_phone,su_address,su_comment",
            _suppliers(seed),
        ),
    }
    for table, (columns, rows) in tables.items():
        with (folder / f"{table}.csv").open("w", encoding="utf-8", newline="") as file:
            file.write(f"{columns}\n")
            csv.writer(file, lineterminator="\n").writerows(rows)


def _regions() -> Rows:
    for key, name in enumerate(_NATIONS):
        yield key, name, f"region {name}"


def _nations() -> Rows:
    """Nations get their characters in turn over the regions."""
    nations = sorted((name, key) for key, of in enumerate(_NATIONS.values()) for name in of)
    for character, (name, region) in zip(_CHARACTERS, nations, strict=True):
        yield ord(character), region, name, f"nation {name}"


def _suppliers(seed: int) -> Rows:
    draw = random.Random(seed)
    remarked = draw.sample(range(SUPPLIERS), 2 * _COMPLAINTS)
    complaints, praised = {*remarked[:_COMPLAINTS]}, {*remarked[_COMPLAINTS:]}
    for key in range(SUPPLIERS):
        comment = _text(draw, 25, 60)
        if key in complaints:
            comment += " Customer Complaints"
        elif key in praised:
            comment += " Customer Recommends"
        yield (
            key,
            ord(draw.choice(_CHARACTERS)),
            f"{draw.randint(-99_999, 999_999) / 100:.2f}",
            f"Supplier#{key:09}",
            f"{draw.randint(10, 34)}-{draw.randint(100, 999)}-{draw.randint(1000, 9999)}",
            _text(draw, 10, 40),
            comment,
        )


def _text(draw: random.Random, least: int, most: int) -> str:
    return "".join(draw.choices(_CHARACTERS, k=draw.randint(least, most)))
