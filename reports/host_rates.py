"""Hosts compared by what they do for each core, and for each unit of their price.

A rate for each core is the performance of a host (``reports.money``) divided by the cores that its
runs could use: those of the host, or the processors that a quota or ``--cpus`` left them. Their
ratio is the speed-up times the ratio of the cores, and its interval that of the speed-up: cores
and prices are known. A price is that of the whole host (``hosts`` in a price file).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from harness.host.processors import cpu_numbers
from harness.store.documents import attributes, members
from harness.store.runs import StoredRun
from reports.arm import Arm
from reports.compare import Group
from reports.formatting import NOTHING, quantity_text, ratio_text
from reports.hosts import HostDifference, host_differences, on_different_hosts
from reports.money import performance_metric
from reports.performance import Performance, performance
from reports.price_list import PriceList
from reports.sections import Block, Cell, Table, note
from reports.series import Panel
from reports.statistics import Ratio
from reports.values import Quantity, Summary, summarise

_CORE, _PROCESSOR = "core", "processor"
_NO_RATE = "no throughput, or its rate was set"


@dataclass(frozen=True)
class HostRate:
    """Performance of a host divided by what it has: ``amount`` in units of ``per``.

    ``rate``: None where ``missing`` says why.
    """

    per: str
    amount: float | None
    rate: Summary | None
    missing: str = ""


@dataclass(frozen=True)
class RatedHost:
    """A side of a comparison of hosts: its performance, whole, for each core and by its price."""

    arm: Arm
    hostname: str
    host_id: str
    whole: Performance | None
    per_core: HostRate
    per_price: HostRate

    def to_json(self) -> dict[str, Any]:
        return {
            **attributes(self, "hostname", "host_id"),
            "per_core": members(self.per_core),
            "per_price": members(self.per_price),
        }


@dataclass(frozen=True)
class ComparedHosts:
    """Two hosts: what differs, and how many times more B does for each core and for its price."""

    a: RatedHost
    b: RatedHost
    differences: tuple[HostDifference, ...]
    per_core: Ratio | None
    per_price: Ratio | None

    def to_json(self) -> dict[str, Any]:
        """Return it as ``harness compare --json`` prints it."""
        ratios = {"per_core": self.per_core, "per_price": self.per_price}
        return {
            "a": self.a.to_json(),
            "b": self.b.to_json(),
            "differences": [
                {"name": differing.name, "a": differing.values[0], "b": differing.values[1]}
                for differing in self.differences
            ],
            **{name: ratio and ratio.to_json() for name, ratio in ratios.items()},
        }


def compared_hosts(group: Group, prices: PriceList | None = None) -> ComparedHosts | None:
    """Compare the hosts of a group; None where its sides share one."""
    sides = (group.a, group.b)
    if not on_different_hosts(*(side.runs for side in sides)):
        return None
    a, b = rated_hosts(sides, prices)
    row = group.row(Quantity(performance_metric(sides)))
    speed_up = row.estimate if row else None

    def ratio(of_a: HostRate, of_b: HostRate) -> Ratio | None:
        if not speed_up or not of_a.rate or not of_b.rate or of_a.per != of_b.per:
            return None
        assert of_a.amount and of_b.amount
        return speed_up.scaled(of_a.amount / of_b.amount)

    return ComparedHosts(
        a,
        b,
        tuple(host_differences(group.a.runs, group.b.runs)),
        ratio(a.per_core, b.per_core),
        ratio(a.per_price, b.per_price),
    )


def rated_hosts(arms: Sequence[Arm], prices: PriceList | None = None) -> list[RatedHost]:
    """Return the performance of each arm for its cores and its price."""
    metric = performance_metric(arms)
    return [_rated(arm, metric, prices) for arm in arms]


def _rated(arm: Arm, metric: str, prices: PriceList | None) -> RatedHost:
    run = arm.usable[0]
    hostname = run.head.host.hostname if run.head.host else "unknown"
    rates = [rate for run in arm.usable if metric and (rate := performance(run, metric))]
    per, cores = _cores(arm.usable)
    price = prices.of_host(hostname) if prices else None
    entry = f"hosts: [{{host: {hostname}, price: …}}]"
    no_price = f"no price of {hostname}: write {entry} into a price file, and add --prices FILE"
    currency = prices.currency if prices else "unit of price"
    no_cores = "its runs had different numbers of processors"
    return RatedHost(
        arm,
        hostname,
        run.host_id,
        rates[0] if rates else None,
        _rate(per, cores, rates, no_cores),
        _rate(currency, price, rates, no_price),
    )


def _rate(per: str, amount: float | None, rates: Sequence[Performance], no_amount: str) -> HostRate:
    missing = "" if amount else no_amount
    missing = missing or ("" if rates else _NO_RATE)
    values = [rate.value / amount for rate in rates] if amount else []
    return HostRate(per, amount, summarise(values), missing)


def _cores(runs: Sequence[StoredRun]) -> tuple[str, float | None]:
    """Return what runs could compute on and how much of it; None where they differ in it."""
    each = {_cores_of(run) for run in runs}
    return each.pop() if len(each) == 1 else (_CORE, None)


def _cores_of(run: StoredRun) -> tuple[str, float | None]:
    if run.manifest is None:
        return _CORE, None
    cpu, quota = run.manifest.host.cpu, run.manifest.run_state.get("cpu_quota", "none")
    limits = [float(quota.split()[0])] if quota[:1].isdigit() else []
    if chosen := run.manifest.processors:
        limits.append(len(cpu_numbers(chosen, f"processors of {run.run_id}")))
    limits = [limit for limit in limits if limit < cpu.threads]
    return (_PROCESSOR, min(limits)) if limits else (_CORE, float(cpu.cores))


def hosts_json(panels: Sequence[Panel], prices: PriceList | None) -> Iterator[dict[str, Any]]:
    """Yield the comparisons of hosts in these panels as JSON."""
    for panel in panels:
        for group in panel.groups:
            if hosts := compared_hosts(group, prices):
                sides = {"where": panel.title_with_workload, "verdict": group.verdict}
                yield sides | hosts.to_json()


# As a reader sees it ---------------------------------------------------------------------


def comparison_blocks(hosts: ComparedHosts) -> Iterator[Block]:
    """Yield what differs between two hosts, and their rates."""
    names = [side.arm.marked_name for side in (hosts.a, hosts.b)]
    yield from _difference_tables(names, hosts.differences)
    yield from _rate_tables([hosts.a, hosts.b], [(None, None), (hosts.per_core, hosts.per_price)])


def panel_blocks(panel: Panel, prices: PriceList | None) -> Iterator[Block]:
    """Yield the same of all hosts of a panel; nothing of a panel of other arms."""
    arms = [arm for arm in panel.arms if arm.usable]
    if panel.over != "host" or len(arms) < 2:
        return
    names = [arm.marked_name for arm in arms]
    where = panel.title_with_workload
    yield from _difference_tables(names, host_differences(*(arm.runs for arm in arms)), where)
    compared = {group.b.name: compared_hosts(group, prices) for group in panel.groups}
    ratios = [
        (hosts.per_core, hosts.per_price) if (hosts := compared.get(arm.name)) else (None, None)
        for arm in arms
    ]
    yield from _rate_tables(rated_hosts(arms, prices), ratios, where)


def _difference_tables(
    names: Sequence[str], differences: Sequence[HostDifference], where: str = ""
) -> Iterator[Table]:
    title = ": ".join(filter(None, ("What differs between the hosts", where)))
    if differences:
        rows = [(differing.name, *differing.values) for differing in differences]
        yield Table(title, ("", *names), rows)


def _rate_tables(
    hosts: Sequence[RatedHost],
    ratios: Sequence[tuple[Ratio | None, Ratio | None]],
    where: str = "",
) -> Iterator[Block]:
    """Yield the table of the rates, and what is missing in it."""
    whole = next((host.whole for host in hosts if host.whole), None)
    if whole is None:
        yield note(f"For each core and price: {_NO_RATE}.")
        return
    rows = []
    for host, (by_core, by_price) in zip(hosts, ratios, strict=True):
        cells: list[Cell] = [host.arm.marked_name]
        for rate, ratio in ((host.per_core, by_core), (host.per_price, by_price)):
            amount = NOTHING if rate.amount is None else _amount_text(rate)
            value = quantity_text(rate.rate.median, whole.unit) if rate.rate else NOTHING
            cells += [amount, value, ratio_text(ratio) if ratio else ""]
        rows.append(cells)
    title = f"For each core, and for the price: {where or whole.title}"
    head = ("", "has", "for each", "times more", "price", "for its price", "times more")
    yield Table(title, head, rows, "numbers")
    missing = dict.fromkeys(
        text for host in hosts for rate in (host.per_core, host.per_price) if (text := rate.missing)
    )
    if missing:
        yield note(f"Missing: {'; '.join(missing)}.")


def _amount_text(rate: HostRate) -> str:
    """``40 cores``, ``8,000 EUR``."""
    assert rate.amount is not None
    several = rate.per in (_CORE, _PROCESSOR) and rate.amount != 1
    return f"{rate.amount:,.10g} {rate.per}{'s' * several}"
