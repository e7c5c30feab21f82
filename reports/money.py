"""Price of an arm's performance: of the capacity that it uses, at the prices of its tiers.

The price of a run is Σ over parts of the bytes on the part's tier × the tier's price per GB (10⁹
bytes). The memory part counts as its limit: so much must be bought, of each of its tiers in the
proportion of its weights, or else of its memory at the end of the window: that of its control
group, page cache included; without one of version 2, the engine's pages alone. In a panel where
an arm places memory, the others' limit counts as the host's DRAM: the same memory is bought there.
Performance per unit of money is compared by the speed-up and its interval; prices have no interval.

The *break-even price* is that of a GB of the tier that only the compared arm uses, at which its
performance per unit of money equals the baseline's. With A the baseline, B the compared arm, S the
speed-up, and GB of B on that tier::

    S / (GB · x + rest of B) = 1 / price of A    →    x = (S · price of A − rest of B) / GB
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from harness.errors import UsageError
from harness.metrics import standing_for
from harness.sequences import grouped
from harness.store.runs import StoredRun
from reports.arm import Arm
from reports.compare import Group
from reports.formatting import NOTHING, interval_text, quantity_text, significant, times
from reports.headline import headline
from reports.performance import performance
from reports.price_list import RECORDED_CURRENCY, RECORDED_SOURCE, PriceList, tier_price
from reports.sections import Block, Paragraph, Section, Table
from reports.series import Panel
from reports.statistics import Ratio, Value
from reports.values import Quantity, Summary, summarise

_GB = 1e9
#: Without the page cache, and shared pages once for each process.
_GROUP, _ENGINES_PAGES = "group_bytes", ("anonymous_bytes", "shared_bytes")
#: Part of the memory on nodes without a tier, at most; of a tier that has no more, none is used.
_STRAY = 0.01
#: The tier of the nodes with processors (harness.tiers.discovery).
_DRAM = "dram"


@dataclass(frozen=True)
class Share:
    """Capacity of one tier that parts of a database use. ``per_gb``: None without a price."""

    tier: str
    parts: tuple[str, ...]
    gb: float
    per_gb: float | None

    @property
    def price(self) -> float:
        """Return the price of these GB; only where there is one per GB."""
        assert self.per_gb is not None
        return self.gb * self.per_gb


@dataclass(frozen=True)
class Capacity:
    """Capacity that a run uses, by tier. ``problem``: why it is not known; empty where it is."""

    shares: tuple[Share, ...] = ()
    problem: str = ""

    @property
    def unpriced(self) -> tuple[str, ...]:
        return tuple(share.tier for share in self.shares if share.per_gb is None)

    @property
    def price(self) -> float | None:
        """Return the price of all shares; None where one has no price, or nothing is used."""
        if self.unpriced or not self.shares:
            return None
        return sum(share.price for share in self.shares) or None


@dataclass(frozen=True, kw_only=True)
class BreakEven(Value):
    """The price of a GB of ``tier`` up to which the compared arm pays; at 0 it never does.

    Its interval is by that of the speed-up. ``now``: the price that it has.
    """

    tier: str
    now: float | None


@dataclass(frozen=True)
class MoneyRow:
    """One arm. ``price``: None where ``note`` says what is missing.

    ``per_unit``: performance for each unit of money; ``ratio``: how many times better than the
    baseline's that is; ``shares``: medians of its runs. ``break_even``: by the measured speed-up.
    """

    arm: Arm
    shares: tuple[Share, ...]
    price: Summary | None
    performance: Summary | None
    per_unit: Summary | None
    note: str
    ratio: Ratio | None = None
    break_even: BreakEven | None = None


@dataclass(frozen=True)
class MoneyTable:
    """The arms of a panel. ``unit``: of the performance, which ``title`` names."""

    where: str
    title: str
    unit: str
    rows: tuple[MoneyRow, ...]


@dataclass(frozen=True)
class Money:
    """The tables of a report, with the currency and the source of the prices."""

    currency: str
    source: str
    tables: tuple[MoneyTable, ...]
    #: Whether memory is divided by engines' pages alone.
    without_page_cache: bool = False


def money(panels: Sequence[Panel], prices: PriceList | None = None) -> Money | None:
    """Return the price-performance of the panels; None where no arm has a price.

    UsageError where prices were given and no arm has one.
    """
    priced = (_table(panel, prices) for panel in panels)
    tables = tuple(table for table in priced if table is not None)
    engines_alone = any(_leaves_out_page_cache(run) for panel in panels for run in panel.runs)
    if tables and prices is None:
        source = f"{RECORDED_SOURCE}, as recorded with each run"
        return Money(RECORDED_CURRENCY, source, tables, engines_alone)
    if tables and prices is not None:
        return Money(prices.currency, prices.source, tables, engines_alone)
    if prices is not None and (prices.devices or not prices.hosts) and panels:
        tiers = dict.fromkeys(tier.name for p in panels for run in p.runs for tier in run.tiers)
        raise UsageError(
            "prices of a report",
            f"no arm has a price of all that it uses (tiers: {', '.join(tiers) or 'none'})",
            "name hosts and tiers in the file (* stands for any)",
        )
    return None


#: Of memory that is divided by the pages of engines.
_WITHOUT_PAGE_CACHE = (
    " On which nodes the page cache was is not known of all runs (no control group of version 2): "
    "their memory is divided between tiers by the engine's own pages."
)


def money_section(money: Money) -> Section:
    """Prices, and a table for each panel."""
    about = Paragraph(
        f"Prices: {money.source}, {money.currency} for a GB (10⁹ bytes). An arm costs what the "
        "files of its parts use of each tier at the end of the run, times that tier's price; a "
        "memory part counts as its limit, of several tiers in proportion; where an arm places "
        "memory, that of the others is DRAM at the price of the tier dram. Files removed before "
        "the end, such as spills, memory that no arm places and processors are not in it. The "
        "break-even price is that of a GB of the tier that only the compared arm uses, at which "
        "both arms give the same for their price." + _WITHOUT_PAGE_CACHE * money.without_page_cache
    )
    tables: list[Block] = [_shown(table, money.currency) for table in money.tables]
    return Section("Price-performance", [about, *tables], "money")


def _shown(table: MoneyTable, currency: str) -> Table:
    columns = {
        "measured on": [row.arm.marked_name for row in table.rows],
        "capacity used": ["; ".join(map(_used, row.shares)) or NOTHING for row in table.rows],
        "price": [
            f"{significant(row.price.median)} {currency}" if row.price else row.note or NOTHING
            for row in table.rows
        ],
        table.title or "performance": [_median(r.performance, table.unit) for r in table.rows],
        f"for each {currency}": [_median(r.per_unit, table.unit) for r in table.rows],
        "times better for its price": [
            f"{times(row.ratio.value)} {interval_text(row.ratio)}" if row.ratio else ""
            for row in table.rows
        ],
        "break-even price": [_even(r.break_even) if r.break_even else "" for r in table.rows],
    }
    shown = {name: cells for name, cells in columns.items() if any(cells)}
    return Table(table.where, [*shown], [*zip(*shown.values(), strict=True)])


def _used(share: Share) -> str:
    price = "" if share.per_gb is None else f" at {significant(share.per_gb)}"
    return f"{share.tier} {significant(share.gb)} GB ({', '.join(share.parts)}){price}"


def _median(summary: Summary | None, unit: str) -> str:
    return quantity_text(summary.median, unit) if summary else NOTHING


def _even(break_even: BreakEven) -> str:
    interval = (
        f" {interval_text(break_even)}"
        if break_even.low is not None and break_even.high is not None
        else ""
    )
    now = "" if break_even.now is None else f", now {significant(break_even.now)}"
    return f"{break_even.tier}: {significant(break_even.value)}{interval}{now}"


def money_rows(panel: Panel, prices: PriceList | None) -> dict[str, MoneyRow]:
    """Return the rows of a panel's usable arms by their names, whether or not they have a price."""
    arms = [arm for arm in panel.arms if arm.usable]
    name = performance_metric(arms)
    dram = _dram_of(panel.runs)
    rows = {arm.name: _row(arm, name, prices, dram) for arm in arms}
    for group in panel.groups:
        if group.a.name in rows and group.b.name in rows and name:
            a, b = rows[group.a.name], rows[group.b.name]
            rows[group.b.name] = _compared(a, b, group, name)
    return rows


def _table(panel: Panel, prices: PriceList | None) -> MoneyTable | None:
    rows = money_rows(panel, prices)
    if not any(row.price for row in rows.values()):
        return None
    arms = [arm for arm in panel.arms if arm.usable]
    name = performance_metric(arms)
    rates = (performance(run, name) for arm in arms for run in arm.usable if name)
    rate = next(filter(None, rates), None)
    title, unit = (rate.title, rate.unit) if rate else ("", "")
    return MoneyTable(panel.title_with_workload, title, unit, tuple(rows.values()))


def performance_metric(arms: Sequence[Arm]) -> str:
    """Return the metric whose rate stands for the performance of all these arms.

    Empty where the arms have none in common, or a rate was set: then it is no result.
    """
    if any(headline(arm.usable, arm.usable, {}).rate for arm in arms):
        return ""
    names = standing_for("price")
    return next((name for name in names if all(_performances(arm, name) for arm in arms)), "")


def _performances(arm: Arm, name: str) -> list[float]:
    return [rate.value for run in arm.usable if (rate := performance(run, name))]


#: Prices of a GB by tier, as a run's host file has them.
Recorded = Mapping[str, float | None]


def _dram_of(runs: Sequence[StoredRun]) -> Recorded | None:
    """The price of the host's DRAM that one of these runs recorded.

    None where no run places memory: it is alike in all then, and not counted.
    """
    placements = [run.spec.placement for run in runs]
    if not any(placement is not None and placement.memory is not None for placement in placements):
        return None
    recorded = (run.manifest.prices_per_gb for run in runs if run.manifest)
    return next(({_DRAM: prices[_DRAM]} for prices in recorded if _DRAM in prices), {})


def _row(arm: Arm, name: str, prices: PriceList | None, dram: Recorded | None) -> MoneyRow:
    capacities = [(run, capacity(run, prices, dram)) for run in arm.usable]
    unpriced = dict.fromkeys(tier for _, used in capacities for tier in used.unpriced)
    problems = dict.fromkeys(used.problem for _, used in capacities if used.problem)
    notes = [*problems, *(f"no price of {tier}" for tier in unpriced)]
    if not name:
        notes.append("no throughput, or its rate was set")
    complete = not problems and not unpriced
    per_unit = [
        rate.value / used.price
        for run, used in capacities
        if complete and name and used.price and (rate := performance(run, name))
    ]
    costs = [used.price for _, used in capacities if complete and used.price]
    return MoneyRow(
        arm,
        _medians([used.shares for _, used in capacities if not used.problem]),
        summarise(costs),
        summarise(_performances(arm, name)) if name else None,
        summarise(per_unit),
        "; ".join(notes),
    )


def _medians(runs: Sequence[Sequence[Share]]) -> tuple[Share, ...]:
    """Return the medians of the runs' shares by tier, without tiers that most runs do not use."""
    by_tier = grouped((share.tier, share) for shares in runs for share in shares)
    medians = (
        replace(
            tier_shares[0],
            parts=tuple(dict.fromkeys(part for share in tier_shares for part in share.parts)),
            gb=median([share.gb for share in tier_shares] + [0.0] * (len(runs) - len(tier_shares))),
        )
        for tier_shares in by_tier.values()
    )
    return tuple(share for share in medians if share.gb)


def capacity(
    run: StoredRun, prices: PriceList | None = None, dram: Recorded | None = None
) -> Capacity:
    """Return the capacity that the run's parts use of their tiers.

    ``dram``: of the memory where the placement names no tier for it; None: it is not counted.
    """
    placement = run.spec.placement
    sizes: dict[str, int] = dict(run.result.part_bytes or {})
    if placement is None or not sizes or not run.manifest:
        return Capacity(problem="its capacity is not stored")
    recorded: Recorded = {tier.name: tier.price_per_gb for tier in run.manifest.tiers}
    # Bytes by tier and part.
    used = {
        (tier, part): float(sizes.get(part, 0))
        for part in placement.directory_parts
        if (tier := placement.tier_of(part))
    }
    proportions: Mapping[str, float] = {}
    if placement.memory is not None:
        proportions = _memory_proportions(run)
        recorded = {**recorded, **run.manifest.prices_per_gb}
    elif dram is not None:
        if run.result.host_mode not in ("Default", "AppDirect"):
            return Capacity(problem="its main memory is not DRAM alone")
        proportions, recorded = {_DRAM: 1.0}, {**dram, **recorded}
    if placement.memory is not None and not proportions:
        return Capacity(problem="on which tiers its memory was is not stored")
    if proportions and run.manifest.memory_cap.method == "none":
        return Capacity(problem="its memory has no limit")
    for tier, proportion in proportions.items():
        used[tier, "memory"] = proportion * (run.result.memory_bytes or 0)
    parts = grouped((tier, part) for (tier, part), size in used.items() if size)
    host = run.manifest.host.hostname
    shares = []
    for tier, tier_parts in parts.items():
        price = tier_price(host, tier, recorded.get(tier), prices)
        gb = sum(used[tier, part] for part in tier_parts) / _GB
        shares.append(Share(tier, tuple(tier_parts), gb, price.per_gb if price else None))
    return Capacity(tuple(shares))


def _memory_proportions(run: StoredRun) -> Mapping[str, float]:
    """Return the share of memory by tier; empty where it is not known.

    What weights say is what has to be bought, though the engine may use less of it.
    """
    assert run.spec.placement is not None and run.manifest is not None
    place = run.spec.placement.memory_place
    if place is None or place.nodes:
        return {}
    if len(place.tiers) == 1 and place.policy in (None, "bind"):
        return {place.tiers[0]: 1.0}
    if place.weights:
        # A weight is that of each node of its tier.
        nodes = (len(run.manifest.memory_nodes.get(tier, ())) for tier in place.tiers)
        pages = [w * number for w, number in zip(place.weights, nodes, strict=True)]
        if not all(pages):
            return {}
        return {t: part / sum(pages) for t, part in zip(place.tiers, pages, strict=True)}
    tier_of = {str(node): t for t, nodes in run.manifest.memory_nodes.items() for node in nodes}
    reading = _last_reading(run)
    bytes_on: dict[str, float] = {}
    for kind in (_GROUP,) if _GROUP in reading else _ENGINES_PAGES:
        for node, size in reading.get(kind, {}).items():
            tier = tier_of.get(node, "")
            bytes_on[tier] = bytes_on.get(tier, 0.0) + size
    elsewhere, whole = bytes_on.pop("", 0.0), sum(bytes_on.values())
    if elsewhere > _STRAY * whole:
        return {}
    used = {t: size for t, size in bytes_on.items() if size > _STRAY * whole}
    return {t: size / sum(used.values()) for t, size in used.items()}


def _last_reading(run: StoredRun) -> Mapping[str, Mapping[str, float]]:
    """Return the last reading of memory by node (harness.monitors.vm); empty without one."""
    readings: Sequence[Mapping[str, Mapping[str, float]]] = (run.artifact("monitor-vm") or {}).get(
        "engine_memory"
    ) or [{}]
    return readings[-1]


def _leaves_out_page_cache(run: StoredRun) -> bool:
    """Return whether a run's memory is divided by its engine's pages alone."""
    place = run.spec.placement.memory_place if run.spec.placement else None
    if place is None or place.weights or place.policy in (None, "bind"):
        return False
    reading = _last_reading(run)
    return bool(reading) and _GROUP not in reading


def _compared(a: MoneyRow, b: MoneyRow, group: Group, name: str) -> MoneyRow:
    row = group.row(Quantity(name))
    if row is None or row.estimate is None or a.price is None:
        return b
    speedup = row.estimate
    ratio = speedup.scaled(a.price.median / b.price.median) if b.price else None
    return replace(b, ratio=ratio, break_even=_break_even(a, b, speedup))


def _break_even(a: MoneyRow, b: MoneyRow, speedup: Ratio) -> BreakEven | None:
    """None unless B uses exactly one tier that A does not, and all others have a price."""
    added = [s for s in b.shares if s.tier not in {other.tier for other in a.shares}]
    others = [s for s in b.shares if s not in added]
    if len(added) != 1 or a.price is None or any(s.per_gb is None for s in others):
        return None
    (share,) = added
    price_a, rest = a.price.median, sum(s.price for s in others)

    def price(ratio: float) -> float:
        return max(0.0, (ratio * price_a - rest) / share.gb)

    low, high = (None if bound is None else price(bound) for bound in (speedup.low, speedup.high))
    value = price(speedup.value)
    return BreakEven(value, low, high, speedup.confidence, tier=share.tier, now=share.per_gb)
