"""What a GB of a tier costs, and a host: from a file of prices, else as recorded with the run.

A file (folder profiles/prices) says where its prices come from and when. The host file's
``price_per_gb`` is in USD and travels in each run's manifest.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from harness.structs import Struct, whole
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


class PricedDevice(Struct, frozen=True):
    """Modules that a tier is made of, and their price."""

    name: Annotated[str, Meta(min_length=1, description="its name next to the numbers")]
    tier: Annotated[str, Meta(min_length=1, description="the tier's name, * for any part of it")]
    modules: Annotated[int, Meta(ge=1, description="how many DIMMs or drives the tier is made of")]
    price_per_module: Annotated[float, Meta(gt=0, description="of one, in the currency")]
    gb_per_module: Annotated[float, Meta(gt=0, description="capacity of one in GB, as it is sold")]
    host: Annotated[
        str, Meta(min_length=1, description="the host's name, * for any part of it [*]")
    ] = "*"


class PricedHost(Struct, frozen=True):
    """A whole server and its price: as it is bought, or for each hour of use."""

    host: Annotated[str, Meta(min_length=1, description="the host's name, * for any part of it")]
    price: Annotated[float, Meta(gt=0, description="of all of it, in the currency")]


class PriceList(Struct, frozen=True, tag_field="schema", tag=1):
    """Prices of devices (profiles/prices/*.yml), for price-performance as PerMA-Bench has it
    (VLDB 2022, Table 2), and of hosts.
    """

    currency: Annotated[str, whole("[A-Z]{3}", "three letters: EUR, USD")]
    source: Annotated[
        str, Meta(min_length=1, description="where these prices come from, and their date")
    ]
    devices: Annotated[
        tuple[PricedDevice, ...],
        Meta(min_length=1, description="the first entry whose host and tier fit is taken"),
    ] = ()
    hosts: Annotated[
        tuple[PricedHost, ...],
        Meta(min_length=1, description="all bought, or all by the hour; the first that fits"),
    ] = ()

    def of_host(self, host: str) -> float | None:
        """The price of a host; None where no entry fits."""
        return next((h.price for h in self.hosts if fnmatchcase(host, h.host)), None)

    def of(self, host: str, tier_name: str) -> Price | None:
        """The first entry that fits; None where none does."""
        for device in self.devices:
            if fnmatchcase(host, device.host) and fnmatchcase(tier_name, device.tier):
                price = device.modules * device.price_per_module
                gb = device.modules * device.gb_per_module
                return Price(device.name, self.currency, price / gb, price, gb)
        return None


def read_prices(path: Path) -> PriceList:
    """A prices file; UsageError names file and line of what is wrong."""
    return load_yaml(path).to(PriceList)


def tier_price(
    host: str, tier_name: str, recorded: float | None, prices: PriceList | None
) -> Price | None:
    """By the file, where there is one; else as the manifest recorded it, per GB."""
    if prices is not None:
        return prices.of(host, tier_name)
    return None if recorded is None else Price(tier_name, RECORDED_CURRENCY, float(recorded))
