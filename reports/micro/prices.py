"""Price-performance as PerMA-Bench has it (VLDB 2022, Section 5 and Table 2).

What a device costs for each GB of its capacity, divided by what it delivers: by GiB/s of
bandwidth (the paper's GB of bandwidth are 2³⁰ bytes, those of capacity are as DIMMs are
sold), by millions of index operations a second; and multiplied by its latency in units of
100 ns. Less is better in every column. Where prices come from: ``reports.price_list``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from harness.errors import UsageError
from harness.units import GIB
from reports.formatting import NOTHING, significant
from reports.micro.devices import DURATION, NEAR_NODES, OPERATIONS, RATE, Device, best
from reports.micro.instructions import LOAD, NTSTORE, Instructions, sequence_of
from reports.micro.sweeps import beyond_caches, experiments
from reports.price_list import RECORDED_SOURCE, Price, PriceList, tier_price
from reports.values import Point

#: What Section 4.4.1 models: two buckets of 256 bytes read and two lines flushed (Dash), three
#: nodes of 512 bytes read (FAST+FAIR). The suites have smaller and larger ones too.
HASH_UPDATE = "rp_512,wp_64_cache_128,wp_64_cache_-128"
TREE_LOOKUP = "rp_512,rp_512,rp_512"
#: Section 4.3.1; a suite may call its measurement as it likes.
LATENCY_READ, LATENCY_THREADS = "rp_256", 16
_MILLION = 1e6
_LATENCY_STEP_NS = 100.0


def price_of(device: Device, prices: PriceList | None) -> Price | None:
    """By the file, where there is one; else as its runs recorded it."""
    recorded = device.tier.price_per_gb if device.tier else None
    price = tier_price(device.host, device.tier_name, recorded, prices)
    return price if price is None or prices is not None else replace(price, name=device.name)


@dataclass(frozen=True)
class PriceColumn:
    """One of Table 2. ``per``: what the price is for; ``value``: of a device and price per GB."""

    per: str
    measured: Callable[[Device], float | None]
    multiplied: bool = False

    def value(self, device: Device, per_gb: float) -> float | None:
        """Price for each unit of what was measured; None where it was not."""
        measured = self.measured(device)
        if not measured:
            return None
        return per_gb * measured if self.multiplied else per_gb / measured


def _rate(pattern: str, size: int, kind: Instructions) -> Callable[[Device], float | None]:
    def of_device(device: Device) -> float | None:
        points = [
            p
            for p in device.select(
                RATE, pattern=pattern, access_size_bytes=str(size), numa=NEAR_NODES
            )
            if sequence_of(p) == kind and not p["job"] and not p["place"]
        ]
        experiment = _by_threads(device, points)
        return best(experiment).median / GIB if experiment else None

    return of_device


def _operations(measurement: str, chain: str) -> Callable[[Device], float | None]:
    def of_device(device: Device) -> float | None:
        points = device.select(OPERATIONS, measurement=measurement, chain=chain, numa=NEAR_NODES)
        experiment = _by_threads(device, points)
        return best(experiment).median / _MILLION if experiment else None

    return of_device


def _by_threads(device: Device, points: Sequence[Point]) -> list[Point]:
    """The experiment of the most thread counts: the best of them is the one compared."""
    candidates = experiments(beyond_caches(device, points), "threads")
    return max(
        candidates,
        key=lambda candidate: (len({p["threads"] for p in candidate}), len(candidate)),
        default=[],
    )


def _latency(device: Device) -> float | None:
    """The mean with 16 threads, as in the paper's Figure 7; else with the most measured."""
    points = device.select(DURATION, chain=LATENCY_READ, mode="dependent", numa=NEAR_NODES)
    points = _by_threads(device, points)
    if not points:
        return None
    counts = {p.number("threads"): p.compared for p in points}
    return counts.get(LATENCY_THREADS, counts[max(counts)]) / _LATENCY_STEP_NS or None


#: Access sizes and instructions of PerMA-Bench's Sections 4.2 and 4.4.
COLUMNS = (
    PriceColumn("GiB/s seq. read 4 KiB", _rate("sequential", 4096, LOAD)),
    PriceColumn("GiB/s rnd. read 256 B", _rate("random", 256, LOAD)),
    PriceColumn("GiB/s seq. write 512 B", _rate("sequential", 512, NTSTORE)),
    PriceColumn("GiB/s rnd. write 64 B", _rate("random", 64, NTSTORE)),
    PriceColumn("100 ns latency", _latency, multiplied=True),
    PriceColumn("M hash index updates/s", _operations("hash_index_update", HASH_UPDATE)),
    PriceColumn("M tree index lookups/s", _operations("tree_index_lookup", TREE_LOOKUP)),
)


@dataclass(frozen=True)
class PriceTable:
    """Table 2 of the devices that have a price; cells are text."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    source: str
    without: tuple[str, ...]


def price_table(devices: Iterable[Device], prices: PriceList | None) -> PriceTable | None:
    """None where no device has a price. UsageError where a file was given and fits none."""
    device_prices = [(device, price_of(device, prices)) for device in devices]
    priced = [(device, price) for device, price in device_prices if price is not None]
    if not priced:
        if prices is not None and (prices.devices or not prices.hosts):
            raise UsageError(
                f"prices of {', '.join(device.name for device, _ in device_prices)}",
                "no entry of the file fits one of them",
                "name their hosts and tiers in it (* stands for any)",
            )
        return None
    currency = priced[0][1].currency
    head = ("", currency, f"{currency}/GB", *(f"{currency}/GB per {c.per}" for c in COLUMNS))
    head = tuple(h.replace("per 100 ns", "× 100 ns") for h in head)
    return PriceTable(
        head,
        tuple(_row(device, price) for device, price in priced),
        prices.source if prices else RECORDED_SOURCE,
        tuple(device.name for device, price in device_prices if price is None),
    )


def _row(device: Device, price: Price) -> tuple[str, ...]:
    name = device.marked_name + (f" ({price.name})" if price.name != device.name else "")
    whole = f"{significant(price.whole)} ({price.gb:g} GB)" if price.whole else NOTHING
    cells = [column.value(device, price.per_gb) for column in COLUMNS]
    texts = (NOTHING if cell is None else significant(cell) for cell in cells)
    return (name, whole, f"{price.per_gb:.2f}", *texts)
