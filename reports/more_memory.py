"""Does more, slower memory pay? A sentence for each panel of arms with memory of several sizes.

The baseline has less memory than the others, which take what they have in addition from a slower
tier. An arm that is faster pays up to the break-even price of a GB of that tier (reports.money).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from harness.store.documents import as_json
from reports.arm import Arm
from reports.compare import Group
from reports.formatting import interval_text, ratio_text, significant, verdict_text
from reports.money import BreakEven, MoneyRow, money_rows
from reports.price_list import RECORDED_CURRENCY, PriceList
from reports.series import Panel


@dataclass(frozen=True)
class MemoryPrice:
    """What an arm with more memory says. ``missing``: why there is no break-even price.

    ``unused``: the slower memory was, so that the arm shows nothing of it, however fast it is.
    """

    group: Group
    tier: str | None
    break_even: BreakEven | None
    missing: str = ""
    unused: bool = False

    @property
    def pays(self) -> bool | None:
        """Return whether it pays at the price of its tier; None where that is not known.

        Where no difference is shown, it does not pay only if it costs more than it would be worth
        at the upper end of the interval.
        """
        verdict, even = self.group.verdict, self.break_even
        if self.unused:
            return None
        if verdict not in ("faster", "no difference"):
            return None if verdict == "not resolvable" else False
        if even is None:
            return None
        worth = even.value if verdict == "faster" else even.high
        if worth is None or (worth and even.now is None):
            return None
        pays = bool(worth) and even.now is not None and even.now < worth
        return None if pays and verdict == "no difference" else pays

    def to_json(self) -> dict[str, Any]:
        """As in ``harness advise --json``."""
        return {
            "arm": self.group.b.name,
            "verdict": self.group.verdict,
            "tier": self.tier,
            "break_even": as_json(self.break_even),
            "pays": self.pays,
            "missing": self.missing,
        }


@dataclass(frozen=True)
class MemoryAnswer:
    """The answer of a panel, the arm that pays up to the highest price first."""

    where: str
    currency: str
    prices: tuple[MemoryPrice, ...]

    @property
    def sentence(self) -> str:
        """``Yes: weighted pays below 31.3 [30, 33] USD for a GB of cxl, …``."""
        texts = "; ".join(self._text(price) for price in self.prices)
        return f"Does more, slower memory pay than {self._base}? {self._head}: {texts}."

    @property
    def _base(self) -> str:
        return self.prices[0].group.a.marked_name

    @property
    def _head(self) -> str:
        pays = {price.pays for price in self.prices}
        if True in pays:
            return "Yes"
        used = [price for price in self.prices if not price.unused]
        if any(price.group.verdict == "faster" and price.pays is None for price in used):
            return "Up to a price"
        return "Not known yet" if None in pays else "No"

    def _text(self, price: MemoryPrice) -> str:
        group, even = price.group, price.break_even
        row = group.deciding
        name = group.b.marked_name
        ratio = f", {ratio_text(row.estimate)}" if row and row.estimate else ""
        if price.unused:
            return f"{name}: no answer ({price.missing}){ratio}"
        if group.verdict != "faster":
            return f"{name}: {verdict_text(group.verdict)}{ratio}{self._at_most(price)}"
        if even is None:
            return (
                f"{name} is faster{ratio}, up to which price it pays is not known: {price.missing}"
            )
        if not even.value:
            return f"{name} is faster{ratio}, but pays at no price of {even.tier}"
        interval = "" if even.low is None else f" {interval_text(even)}"
        now = "" if even.now is None else f", which costs {significant(even.now)}"
        amount = f"{significant(even.value)}{interval} {self.currency}"
        return f"{name} pays below {amount} for a GB of {even.tier}{now}{ratio}"

    def _at_most(self, price: MemoryPrice) -> str:
        """Say up to which price it pays at the upper end of an interval without a difference."""
        even = price.break_even
        if price.group.verdict != "no difference" or even is None or even.high is None:
            return ""
        if not even.high:
            return f", which pays at no price of {even.tier}, even at the upper end"
        now = "" if even.now is None else f", which costs {significant(even.now)}"
        amount = f"{significant(even.high)} {self.currency}"
        return f", which pays at most below {amount} for a GB of {even.tier}{now}"


def memory_answers(
    panels: Sequence[Panel], prices: PriceList | None = None
) -> Iterator[MemoryAnswer]:
    """Yield the answer of each panel whose baseline has less memory than other arms."""
    currency = prices.currency if prices else RECORDED_CURRENCY
    for panel in panels:
        groups = [group for group in panel.groups if _has_more(group)]
        if not groups:
            continue
        rows = money_rows(panel, prices)
        answers = [
            _price(group, rows[group.a.name], rows[group.b.name])
            for group in groups
            if group.a.name in rows and group.b.name in rows
        ]
        answers.sort(key=lambda price: -(price.break_even.value if price.break_even else -1.0))
        answers.sort(key=lambda price: (price.unused, price.group.verdict != "faster"))
        if answers:
            yield MemoryAnswer(panel.title_with_workload, currency, tuple(answers))


def _has_more(group: Group) -> bool:
    """Return whether both arms place memory, and B has more of it."""
    a, b = _memory_bytes(group.a), _memory_bytes(group.b)
    return a is not None and b is not None and b > a


def _memory_bytes(arm: Arm) -> int | None:
    if not arm.usable:
        return None
    spec = arm.usable[0].spec
    placed = spec.placement is not None and spec.placement.memory is not None
    return spec.memory_limit_bytes if placed else None


def _price(group: Group, a: MoneyRow, b: MoneyRow) -> MemoryPrice:
    tiers = {share.tier for share in a.shares}
    added = [share.tier for share in b.shares if share.tier not in tiers]
    tier = added[0] if len(added) == 1 else None
    if b.break_even is not None:
        return MemoryPrice(group, tier, b.break_even)
    unpriced = dict.fromkeys(
        share.tier
        for share in (*a.shares, *b.shares)
        if share.per_gb is None and share.tier not in added
    )
    if not a.shares or not b.shares:
        missing = a.note or b.note
    elif not added:
        return MemoryPrice(group, None, None, "it used no slower memory", unused=True)
    elif unpriced:
        missing = f"no price of {', '.join(unpriced)} (price_per_gb in the host file, or --prices)"
    else:
        missing = b.note or "it uses several other tiers"
    return MemoryPrice(group, tier, None, missing)
