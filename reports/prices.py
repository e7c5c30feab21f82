"""What a GB (10⁹ bytes) of a tier costs: from a file of prices, else as recorded with the run.

A file (schema ``prices``, folder profiles/prices) says where its prices come from and when. The
host file's ``price_per_gb`` is in USD and travels in each run's manifest.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from harness.yamlfile import load_yaml

RECORDED_CURRENCY, RECORDED_SOURCE = "USD", "price_per_gb of the host file"


@dataclass(frozen=True)
class Price:
    """``per_gb``: of a GB of capacity. ``whole``: of all modules, 0 where only per_gb is known."""

    name: str
    currency: str
    per_gb: float
    whole: float = 0.0
    gb: float = 0.0


@dataclass(frozen=True)
class PriceList:
    """Prices by host and tier, with where they come from."""

    currency: str
    source: str
    devices: tuple[dict[str, Any], ...]

    def of(self, host: str, tier_name: str) -> Price | None:
        """The first entry that fits; None where none does."""
        for one in self.devices:
            if fnmatchcase(host, one.get("host", "*")) and fnmatchcase(tier_name, one["tier"]):
                whole = one["modules"] * one["price_per_module"]
                gb = one["modules"] * one["gb_per_module"]
                return Price(one["name"], self.currency, whole / gb, whole, gb)
        return None


def read_prices(path: Path) -> PriceList:
    """A prices file; UsageError names file and line of what is wrong."""
    value = load_yaml(path, "prices").value
    return PriceList(value["currency"], value["source"], tuple(value["devices"]))


def tier_price(
    host: str, tier_name: str, recorded: float | None, prices: PriceList | None
) -> Price | None:
    """By the file, where there is one; else as the manifest recorded it, per GB."""
    if prices is not None:
        return prices.of(host, tier_name)
    return None if recorded is None else Price(tier_name, RECORDED_CURRENCY, float(recorded))
