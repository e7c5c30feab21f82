"""Latency and bandwidth of a host's memory nodes as measured, by stored microbenchmarks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.store.runs import StoredRun
from reports.micro.devices import LATENCY, NEAR_NODES, RATE, Device, best, devices, is_micro
from reports.micro.sweeps import beyond_caches


@dataclass(frozen=True)
class NodeFigures:
    """Of loads from near processors, None where it was not measured. ``runs``: their ids."""

    tier: str
    read_latency_ns: float | None
    read_bytes_per_s: float | None
    runs: tuple[str, ...]


def node_figures(runs: Iterable[StoredRun], host_id: str) -> dict[int, NodeFigures]:
    """Return the figures of each node of this host that has any; of several devices the last."""
    of_host = [
        run for run in runs if is_micro(run) and not run.head.failed and run.host_id == host_id
    ]
    figures = {}
    for device in devices(of_host) if of_host else ():
        tier = device.tier
        if tier is None or tier.kind != "numa" or device.emulated or len(tier.nodes) != 1:
            continue
        measured = _figures(device)
        if measured.runs:
            figures[tier.nodes[0]] = measured
    return figures


def _figures(device: Device) -> NodeFigures:
    chased = beyond_caches(device, device.select(LATENCY, numa=NEAR_NODES, load_operation=""))
    latency = max(chased, key=lambda point: point.number("range_bytes"), default=None)
    loads = beyond_caches(device, device.select(RATE, numa=NEAR_NODES, operation="load"))
    rate = best(loads) if loads else None
    points = [point for point in (latency, rate) if point]
    return NodeFigures(
        device.name,
        latency.median if latency else None,
        rate.median if rate else None,
        tuple(dict.fromkeys(run for point in points for run in point.runs)),
    )
