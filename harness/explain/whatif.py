"""The conclusions of one run with varied delays: fits, and the answers to "what if".

The stored artifact ``whatif`` has a list of fits, one per kind of operation: a window's mean
operation, or a query. Predictions are made from it, for any device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from harness.explain.fit import Block, Change, Estimate, Fit, Level, Refusal
from harness.iotrace.plant import SPIN_NS, Plant
from harness.store.result import Metric
from harness.waits import Resource

#: Waits that a delay of a part's operations can cause: directly, and in sessions that wait for
#: a lock, a latch or a page that a delayed session holds.
_LOG: tuple[Resource, ...] = ("log write", "log sync")
_CAUSED: Mapping[str, tuple[Resource, ...]] = {"wal": _LOG}
_HELD: tuple[Resource, ...] = ("lock", "buffer")
#: Time that nothing accounts for may have been spent anywhere.
_UNKNOWN: Resource = "other"
#: In the names of metrics: of server, client, or the process that is both, per operation.
_CPU = "_cpu_per_"


@dataclass(frozen=True)
class Calls:
    """The calls of one operation on one part, by the threads that serve clients.

    ``mean_ns``: duration of a call without its planted delay. ``count``: calls in the timed
    intervals. ``sum_ns``: of all of them, with the achieved delays.
    """

    count: int
    mean_ns: float
    sum_ns: float = 0.0


@dataclass(frozen=True)
class WhatIf:
    """The fit of one kind of operation.

    ``labels``: of a query; empty for a window. ``per_operation``: calls of the operation on the
    part. ``floor_ns``: see :func:`floor_ns`. ``suited_ns``: the duration of a call by which the
    levels were chosen; None of given ones.
    """

    part: str
    operation: str
    blocks: Sequence[Block]
    calls: Calls
    per_operation: float
    floor_ns: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    suited_ns: float | None = None
    fit: Fit = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fit", Fit(self.blocks, self.calls.mean_ns))

    def at_latency(self, latency_ns: float) -> Estimate | Refusal:
        """The mean latency of an operation if each call took ``latency_ns``."""
        return self.fit.predict(latency_ns - self.calls.mean_ns, self.floor_ns)

    def change(self, latency_ns: float) -> Change:
        """To calls of that duration."""
        return Change(self.fit, latency_ns - self.calls.mean_ns, self.floor_ns)

    @property
    def now(self) -> Estimate:
        """The mean latency without a planted delay, if a thread slept in each call all the same."""
        return self.fit.at(0.0)

    def to_json(self) -> dict[str, Any]:
        """As stored."""
        problem = self.fit.not_linear
        return {
            "part": self.part,
            "operation": self.operation,
            "labels": dict(self.labels),
            "slope": self.fit.slope.to_json(),
            "linear": problem is None,
            "not_linear": problem.to_json() if problem else None,
            "bend": self.fit.bend.to_json(),
            "gap_ns": self.fit.gap.to_json() if self.fit.gap else None,
            "latency_ns": self.now.to_json(),
            "levels": [level.to_json() for level in self.fit.levels],
            "levels_suit_call_ns": self.suited_ns,
            "calls_count": self.calls.count,
            "call_ns": self.calls.mean_ns,
            "calls_per_operation": self.per_operation,
            "floor_ns": self.floor_ns,
            "blocks": [asdict(block) for block in self.blocks],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> WhatIf:
        """The inverse of :meth:`to_json`; the rest is computed from its blocks."""
        return cls(
            document["part"],
            document["operation"],
            [Block(**block) for block in document["blocks"]],
            Calls(document["calls_count"], document["call_ns"]),
            document["calls_per_operation"],
            document["floor_ns"],
            document["labels"],
            document["levels_suit_call_ns"],
        )

    def metrics(self) -> Iterator[Metric]:
        """Slope with its interval, and whether it is one line."""
        labels = {"part": self.part, "operation": self.operation, **self.labels}
        slope = self.fit.slope
        for name, value in (
            ("whatif_slope", slope.value),
            ("whatif_slope_low", slope.low),
            ("whatif_slope_high", slope.high),
            ("whatif_linear", int(self.fit.linear)),
        ):
            yield Metric(name, "1", "none", labels, value=value)

    @property
    def levels(self) -> Sequence[Level]:
        """Of the fit."""
        return self.fit.levels


def calls_of(plant: Plant, operations: Sequence[Mapping[str, Any]]) -> Calls:
    """From a run's ``io-operations``: of foreground threads, of others where those make none."""
    cells = [
        cell
        for cell in operations
        if (cell["part"], cell["operation"]) == (plant.part, plant.operation)
    ]
    foreground = [cell for cell in cells if cell["role"] != "background"]
    chosen = foreground or cells
    timed = sum(cell["timed"] for cell in chosen)
    spent_ns = sum(cell["ns"] for cell in chosen)
    delays_ns = sum(cell["delay_ns"] for cell in chosen)
    return Calls(
        sum(cell["calls"] for cell in chosen),
        spent_ns / timed if timed else 0.0,
        float(spent_ns + delays_ns),
    )


def floor_ns(plant: Plant, metrics: Sequence[Metric], calls: Calls, done: int) -> float | None:
    """Time of a mean operation that no delay of the part's operation can cause: a lower bound.

    From the waits of the same window, without time that is not accounted for, and without waits for
    what other sessions hold. Of a busy host, on which a delayed thread is woken late, only the
    processor time that was used counts, and no more than what an operation's own calls leave:
    their processor time is part of them.
    """
    waits = {m.labels["resource"]: float(m.value or 0) for m in metrics if m.name == "wait_ns"}
    if not waits or not done:
        return None
    cpu = {m.name.partition(_CPU)[0]: float(m.value or 0) for m in metrics if _CPU in m.name}
    server_ns = cpu.get("server", cpu.get("process", 0.0)) - SPIN_NS * calls.count / done
    used = {"processor": max(0.0, server_ns), "client": cpu.get("client", 0.0)}
    own = (f"data {plant.operation}",)
    caused = {*_CAUSED.get(plant.part, own), *_HELD, _UNKNOWN}
    elsewhere_ns = sum(
        min(ns, used.get(name, ns)) for name, ns in waits.items() if name not in caused
    )
    held_ns = sum(waits.get(name, 0.0) for name in (*_HELD, _UNKNOWN))
    return min(elsewhere_ns, max(0.0, sum(waits.values()) - held_ns - calls.sum_ns / done))
