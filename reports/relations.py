"""Single tables and indexes on a faster tier: which share of the bytes gives which of the gain.

The baseline has all files on one tier; other arms have relations that the placement names on a
faster one, and an arm has everything there but the log. Gains are those of the time that an
operation, or the workload, takes, so that those of several relations add up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from harness.experiment.placement import Placement, Relation
from harness.store.documents import as_json
from harness.store.runs import StoredRun
from harness.units import format_bytes, format_ns
from reports.arm import Arm
from reports.compare import Group
from reports.compared_rows import interim_analyses_of
from reports.formatting import NOTHING, interval_text, percent, ratio_text, verdict_text
from reports.matching import block_of
from reports.sections import Table
from reports.series import Panel
from reports.statistics import Ratio, Value, share_of_difference
from reports.values import measured_value

#: Of the gain of moving everything: the smallest arm with so much of it is what to move.
MOST_OF_IT = 0.9
#: More names than these are a number.
_MOST_NAMES = 4


@dataclass(frozen=True)
class RelationUse:
    """Size and I/O of a relation in a run; ``table``: an index's.

    ``device_ns``: time of calls that sessions made, and waited for; ``background_ns``: of others.
    """

    relation: Relation
    table: str
    size_bytes: int
    device_ns: int
    background_ns: int


def relation_uses(run: StoredRun) -> list[RelationUse]:
    """Return the relations of a run; none where the trace did not see them."""
    return [
        RelationUse(
            Relation(entry["kind"], entry["name"]),
            entry["table"],
            entry["bytes"],
            _ns(entry["io"], "foreground"),
            _ns(entry["io"], "background"),
        )
        for entry in run.artifact("io-relations") or ()
    ]


def _ns(calls: Sequence[Mapping[str, Any]], role: str) -> int:
    return sum(call["ns"] for call in calls if call["role"] == role)


@dataclass(frozen=True)
class RelationArm:
    """An arm against the baseline. ``relations``: placed by name; none where everything moved.

    ``bytes_share``: of all relations. ``gain``: share of what moving everything gains; None where
    that is not known.
    """

    group: Group
    relations: tuple[Relation, ...]
    size_bytes: int
    bytes_share: float
    gain: Value | None

    @property
    def estimate(self) -> Ratio | None:
        """Return the speed-up that its runs show over today's."""
        row = self.group.deciding
        return row.estimate if row else None

    @property
    def names(self) -> str:
        """``table stock and index stock_pkey``."""
        words = [f"{each.kind} {each.name}" for each in self.relations]
        if len(words) > _MOST_NAMES:
            words = [*words[: _MOST_NAMES - 1], f"{len(words) - _MOST_NAMES + 1} more"]
        return " and ".join([*([", ".join(words[:-1])] if words[1:] else []), *words[-1:]])

    def to_json(self) -> dict[str, Any]:
        """As in ``harness advise --json``."""
        return {
            "placement": self.group.b.name,
            "relations": [str(each) for each in self.relations],
            "bytes": self.size_bytes,
            "bytes_share": self.bytes_share,
            "verdict": self.group.verdict,
            "speed_up": as_json(self.estimate.to_json() if self.estimate else None),
            "gain_share": as_json(self.gain.to_json() if self.gain else None),
        }


@dataclass(frozen=True)
class RelationAnswer:
    """Which relations to move. ``arms``: fewest bytes first; ``everything``: None if not measured.

    ``uses``: of a run on the baseline.
    """

    where: str
    today: str
    tier: str
    arms: tuple[RelationArm, ...]
    everything: RelationArm | None
    uses: tuple[RelationUse, ...]

    @property
    def every_arm(self) -> tuple[RelationArm, ...]:
        """Return the arms, that of everything last."""
        return (*self.arms, *([self.everything] if self.everything else []))

    @cached_property
    def chosen(self) -> RelationArm | None:
        """The arm that the answer is about; None where nothing should move by name."""
        if self.everything is not None and self.everything.group.verdict != "faster":
            return None
        faster = [arm for arm in self.arms if arm.group.verdict == "faster"]
        enough = (arm for arm in faster if arm.gain and arm.gain.value >= MOST_OF_IT)
        most = max(faster, key=lambda arm: arm.estimate.value if arm.estimate else 0, default=None)
        return next(enough, most)

    @property
    def undecided(self) -> bool:
        """Return whether there are too few repeats to show any difference."""
        return any(arm.group.verdict == "not resolvable" for arm in self.every_arm)

    @property
    def sentence(self) -> str:
        """``Move table hot to pmem: 30 % of the bytes (3 GiB) give 92 % [88, 97] of the gain``."""
        if (arm := self.chosen) is None:
            return self._nothing
        moved = f"{percent(arm.bytes_share)} of the bytes ({format_bytes(arm.size_bytes)})"
        text = f"Move {arm.names} to {self.tier}: {moved} give"
        speed_up = ratio_text(arm.estimate) if arm.estimate else ""
        if arm.gain is None or self.everything is None or self.everything.estimate is None:
            return f"{text} {speed_up}; everything was not measured there."
        return (
            f"{text} {_share_text(arm.gain)} of the gain of moving everything "
            f"({speed_up} of {ratio_text(self.everything.estimate)})."
        )

    @property
    def _nothing(self) -> str:
        """Say why no relation should move by name."""
        arm = self.everything or max(
            self.arms, key=lambda arm: arm.estimate.value if arm.estimate else 0
        )
        what = "everything" if arm is self.everything else arm.names
        ratio = ratio_text(arm.estimate) if arm.estimate else ""
        if arm.group.verdict == "faster":  # everything alone
            return (
                f"Move everything to {self.tier}, {ratio}: the tables and indexes that were moved "
                "by name gain nothing shown."
            )
        if arm.group.verdict in ("no difference", "slower"):
            loses = "is slower" if arm.group.verdict == "slower" else "gains nothing shown"
            return (
                f"Leave tables and indexes on {self.today}: moving {what} to {self.tier} {loses}, "
                f"{ratio}."
            )
        first = max(self.uses, key=lambda use: use.device_ns)
        total, whole = (sum(sizes) or 1 for sizes in zip(*map(_sizes, self.uses), strict=True))
        codes = ", ".join(dict.fromkeys(arm.group.not_kept.values()))
        reason = f"{arm.group.verdict}{f': {codes}' if codes else ''}"
        undecided = (
            f"Not resolvable yet: moving {what} to {self.tier} gives {ratio}"
            if ratio and arm.group.verdict == "not resolvable"
            else f"No verdict on moving {what} to {self.tier} ({reason})"
        )
        return (
            f"{undecided}. By device time, {first.relation.kind} "
            f"{first.relation.name} comes first: {percent(first.device_ns / total)} of the time "
            f"in {percent(first.size_bytes / whole)} of the bytes."
        )

    def rows(self) -> list[dict[str, Any]]:
        """Return the relations, most time for its bytes first, with the measured gain up to each.

        ``gain_share``: of the arm whose last relation it is.
        """
        total = sum(use.device_ns for use in self.uses) or 1
        last = {arm.relations[-1]: arm for arm in self.arms if arm.relations}
        ranked = sorted(self.uses, key=lambda use: -use.device_ns / max(1, use.size_bytes))
        return [
            {
                "relation": str(use.relation),
                "table": use.table,
                "bytes": use.size_bytes,
                "device_ns": use.device_ns,
                "background_ns": use.background_ns,
                "device_share": use.device_ns / total,
                "gain_share": as_json(arm.gain.to_json())
                if (arm := last.get(use.relation)) and arm.gain
                else None,
            }
            for use in ranked
        ]

    def tables(self) -> tuple[Table, Table]:
        """Return the arms, and the relations."""
        arms = Table(
            "What was moved",
            ("moved", "bytes", "share of the bytes", "speed-up", "share of the gain", "verdict"),
            [
                (
                    arm.names or "everything",
                    format_bytes(arm.size_bytes),
                    percent(arm.bytes_share),
                    ratio_text(arm.estimate) if arm.estimate else NOTHING,
                    _share_text(arm.gain) if arm.gain and arm.relations else NOTHING,
                    verdict_text(arm.group.verdict),
                )
                for arm in self.every_arm
            ],
            "numbers",
        )
        relations = Table(
            f"Tables and indexes on {self.today}: device time of sessions",
            ("table or index", "bytes", "device time", "share of it", "share of the gain up to it"),
            [
                (
                    row["relation"],
                    format_bytes(row["bytes"]),
                    format_ns(row["device_ns"]),
                    percent(row["device_share"]),
                    percent(row["gain_share"]["value"]) if row["gain_share"] else NOTHING,
                )
                for row in self.rows()
            ],
            "numbers",
        )
        return arms, relations

    def to_json(self) -> dict[str, Any]:
        """As in ``harness advise --json``."""
        arm = self.chosen or self.everything or self.arms[0]
        return {
            "question": f"Which tables and indexes should move from {self.today} to {self.tier}?",
            "sentence": self.sentence,
            "verdict": arm.group.verdict,
            "a": arm.group.a.name,
            "b": arm.group.b.name,
            "value": as_json(arm.estimate.to_json() if arm.estimate else None),
            "pairs": arm.estimate.repeats if arm.estimate else 0,
            "rows": self.rows(),
            "arms": [each.to_json() for each in self.every_arm],
        }


def _sizes(use: RelationUse) -> tuple[int, int]:
    return use.device_ns, use.size_bytes


def _share_text(share: Value) -> str:
    """``92 % [88, 97]``."""
    if share.low is None or share.high is None:
        return percent(share.value)
    scaled = Value(100 * share.value, 100 * share.low, 100 * share.high, share.confidence)
    return f"{percent(share.value)} {interval_text(scaled)}"


def relation_answers(panels: Sequence[Panel]) -> Iterator[RelationAnswer]:
    """Yield the answer of each panel with arms that differ in the relations that were moved."""
    for panel in panels:
        if not panel.groups or (base := _placement(panel.groups[0].a)) is None or base.relations:
            continue
        uses = next(filter(None, map(relation_uses, panel.groups[0].a.usable)), [])
        named = [
            (group, placement)
            for group in panel.groups
            if (placement := _placement(group.b)) and _moves_relations(base, placement)
        ]
        if not named or not uses:
            continue
        tier = named[0][1].relations or ""
        every = next((group for group in panel.groups if _is_everything(base, group, tier)), None)
        arms = [
            _arm(group, every, placement.placed_relations, uses)
            for group, placement in named
            if placement.relations == tier
        ]
        arms.sort(key=lambda arm: (arm.size_bytes, len(arm.relations)))
        everything = _arm(every, every, (), uses) if every else None
        where = panel.title_with_workload
        yield RelationAnswer(where, base.data, tier, tuple(arms), everything, tuple(uses))


def _placement(arm: Arm) -> Placement | None:
    return arm.usable[0].spec.placement if arm.usable else None


def _moves_relations(base: Placement, other: Placement) -> bool:
    """Return whether nothing else is elsewhere."""
    same = all(base.tier_of(part) == other.tier_of(part) for part in base.directory_parts)
    return same and other.relations is not None and base.memory == other.memory


def _is_everything(base: Placement, group: Group, tier: str) -> bool:
    other = _placement(group.b)
    if other is None or other.relations is not None or other.memory != base.memory:
        return False
    return (other.data, other.index, other.wal) == (tier, tier, base.wal)


def _arm(
    group: Group,
    everything: Group | None,
    relations: tuple[Relation, ...],
    uses: Sequence[RelationUse],
) -> RelationArm:
    """``relations``: none for all."""
    total = sum(use.size_bytes for use in uses)
    chosen = set(relations)
    size = sum(use.size_bytes for use in uses if not chosen or chosen & {use.relation, _whole(use)})
    gain = None if everything is None else _gain(group, everything)
    return RelationArm(group, relations, size, size / total if total else 0.0, gain)


def _whole(use: RelationUse) -> Relation:
    """Return the partitioned table that a partition is named after; else the relation itself."""
    return Relation("table", use.table) if use.relation.kind == "table" else use.relation


def _gain(group: Group, everything: Group) -> Value | None:
    """Return the share of the time that moving everything saves, by blocks that have all three."""
    row = everything.deciding
    if row is None or row.estimate is None:
        return None
    sides = [
        {
            block_of(run): 1 / value if row.better == "higher" else value
            for run in arm.usable
            if (value := measured_value(run, row.quantity))
        }
        for arm in (everything.a, group.b, everything.b)
    ]
    blocks = sorted(set.intersection(*map(set, sides)))
    if not blocks:
        return None
    today, some, all_of_it = (np.array([side[block] for block in blocks]) for side in sides)
    looks = interim_analyses_of(everything.a.usable, group.b.usable)
    return share_of_difference((today, some), (today, all_of_it), "paired", looks)
