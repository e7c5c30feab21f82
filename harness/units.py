"""Sizes, durations and their text forms: the one place where units are converted.

Bytes and monotonic nanoseconds everywhere inside; GB is 10⁹ and GiB 2³⁰.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from harness.errors import UsageError

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
NS_PER_S = 1_000_000_000
NS_PER_US = 1000

_SIZE_FACTORS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
}
_DURATION_FACTORS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
}
#: Of programs that mean 1024 by K.
_SUFFIXES = ("", "K", "M", "G", "T", "P", "E")
_SUFFIXED = re.compile(r"([+-]?\d+(?:\.\d+)?(?:E[+-]?\d+)?)([KMGTPE]?)B?", re.IGNORECASE)
_QUANTITY = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([A-Za-zµ]*)\s*$")


def parse_size(text: str | int) -> int:
    """Bytes from ``4GiB``, ``512MB`` or a plain number of bytes.

    A lone K, M or G is refused: it means 10³ to one reader and 2¹⁰ to another.
    """
    value = _quantity("size", text, _SIZE_FACTORS, "512MiB or 4GB")
    if value >= 1 << 63:
        raise UsageError(f"size {text!r}", "larger than any storage", "write a smaller one")
    return round(value)


def parse_duration_ns(text: str) -> int:
    """Nanoseconds from ``30s``, ``3m``, ``250ms``; a bare number is refused."""
    value = _quantity("duration", text, _DURATION_FACTORS, "200us, 30s or 3m")
    if value >= 1 << 63:
        raise UsageError(f"duration {text!r}", "longer than 292 years", "write a shorter one")
    return round(value)


def _quantity(kind: str, text: str | int, factors: Mapping[str, int], examples: str) -> float:
    match = _QUANTITY.match(str(text))
    factor = factors.get(match.group(2).lower()) if match else None
    if match is None or factor is None:
        hint = f"write a number with a unit, such as {examples}"
        raise UsageError(f"{kind} {text!r}", f"not a {kind}", hint)
    return float(match.group(1)) * factor


def suffixed_number(text: str, bare: str = "") -> float | None:
    """Number with a suffix of other programs, 1024-based: ``64M``, ``4gb``; None for other texts.

    It is whole where its digits are. ``bare``: the suffix of one without.
    """
    match = _SUFFIXED.fullmatch(text.strip())
    if match is None:
        return None
    factor: int = 1024 ** _SUFFIXES.index((match[2] or bare).upper())
    whole = match[1].lstrip("+-").isdigit()
    return (int(match[1]) if whole else float(match[1])) * factor


def parse_share(text: str) -> float:
    """0.05 from ``5%``; above 0 and at most 1."""
    number = text.strip().removesuffix("%").strip()
    try:
        share = float(number) / 100
    except ValueError:
        share = 0.0
    if not (text.strip().endswith("%") and 0 < share <= 1):
        raise UsageError(f"share {text!r}", "not a percentage up to 100", "write it as in 5%")
    return share


def format_bytes(size_bytes: float) -> str:
    """``1.5 GiB``: binary units, three significant figures."""
    value = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1023.5:
            return f"{_three(value)} {unit}" if unit != "B" else f"{value:.0f} B"
        value /= 1024
    return f"{_three(value)} TiB"


def format_ns(duration_ns: float) -> str:
    """``1.23 s``, ``45.6 ms``, ``789 ns``: three significant figures."""
    for limit, factor, unit in ((1e3, 1, "ns"), (1e6, 1e3, "µs"), (1e9, 1e6, "ms")):
        if abs(duration_ns) < limit * 0.9995:  # 999.7 ns is 1 µs in three figures
            return f"{_three(duration_ns / factor)} {unit}"
    return f"{_three(duration_ns / 1e9)} s"


def _three(value: float) -> str:
    """Three significant figures, never an exponent; whole numbers from a thousand on."""
    return f"{value:.3g}" if 0 < abs(value) < 999.5 else f"{value:,.0f}"


def counted(number: int, noun: str) -> str:
    """``1 configuration``, ``1,200 configurations``: of nouns that take an s."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
