"""Memory nodes and CXL devices of ``harness doctor``, as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.terminal import print_table, say
from harness.units import format_bytes, format_ns

_KINDS = {
    "pmem": "pmem/system-ram",
    "unknown": "memory without processors, unknown",
    "none": "no memory",
}
_SEES = {
    "bytes": "counted in bytes",
    "requests": "seen as requests, not bytes",
    "mixed": "seen, mixed with PCIe",
    "nothing": "not seen",
}


def print_memory(document: Mapping[str, Any]) -> None:
    """Print the table of nodes, Linux's settings, and the CXL devices with their counters."""
    print_table(
        ("node", "memory", "CPUs", "zones (free)", "firmware", "measured", "tier", "distance"),
        [_row(node) for node in document["nodes"]],
    )
    settings = document["memory"]
    say(f"  {'; '.join(_settings(settings))}", hanging=2)
    for entry in settings["problems"]:
        say(f"  {entry['code']}: {entry['what']}: {entry['found']}\n    {entry['do']}")
    for line in _cxl(document):
        say(line, hanging=9)


def _row(node: Mapping[str, Any]) -> tuple[Any, ...]:
    zones = [
        f"{name} {format_bytes(zone['bytes'])} ({format_bytes(zone['free_bytes'])})"
        for name, zone in node["zone"].items()
    ]
    promised = node["hmat"].get("access1") or node["hmat"].get("access0") or {}
    bandwidth = promised.get("read_bandwidth_mb_per_s")
    measured = node.get("measured") or {}
    tier = node["memory_tier"]
    return (
        node["node"],
        _KINDS.get(node["kind"], node["kind"]),
        node["processors"] or "none",
        ", ".join(zones) or "none",
        _figures(promised.get("read_latency_ns"), bandwidth and bandwidth * 1e6),
        _figures(measured.get("read_latency_ns"), measured.get("read_bytes_per_s")),
        "–" if tier is None else tier,
        " ".join(map(str, node["distances"])),
    )


def _figures(latency_ns: float | None, bytes_per_s: float | None) -> str:
    """``110 ns, 98.0 GB/s``; a dash for what is not known."""
    latency = "" if latency_ns is None else format_ns(latency_ns)
    rate = "" if bytes_per_s is None else f"{bytes_per_s / 1e9:.3g} GB/s"
    return ", ".join(filter(None, (latency, rate))) or "–"


def _settings(settings: Mapping[str, Any]) -> Iterator[str]:
    blocks = settings["blocks"]
    if blocks:
        yield f"{settings['online_blocks']} of {blocks} memory blocks online"
    if settings["auto_online"]:
        yield f"memory that is added: {settings['auto_online']}"
    yield f"NUMA balancing: {settings['numa_balancing'] or 'not in this kernel'}"
    demotion = {None: "not in this kernel", True: "on", False: "off"}[settings["demotion"]]
    yield f"demotion: {demotion}"
    if weights := settings["interleave_weights"]:
        by_node = ", ".join(f"node {node}: {weight}" for node, weight in weights.items())
        by_kernel = " (by the kernel)" * bool(settings["weights_by_kernel"])
        yield f"weights of interleaving: {by_node}{by_kernel}"


def _cxl(document: Mapping[str, Any]) -> Iterator[str]:
    cxl = document["cxl"]
    for device in cxl["devices"]:
        gpf = {True: "yes", False: "no", None: "not known"}[device["gpf"]]
        yield (
            f"cxl      {device['name']}: {format_bytes(device['ram_bytes'])} volatile,"
            f" {format_bytes(device['pmem_bytes'])} persistent; Global Persistent Flush: {gpf}"
            f" ({device['gpf_source']})"
        )
    for region in cxl["regions"]:
        dax = [
            f"{each['name']} ({each['mode']})"
            + (f", node {each['node']}" if each["node"] is not None else "")
            for each in region["dax"]
        ]
        devices, mode = ", ".join(region["devices"]), region["mode"] or "of unknown mode"
        yield (
            f"cxl      {region['name']}: {format_bytes(region['size_bytes'])} {mode} on"
            f" {devices or 'no device'} by {region['decoder']}: {'; '.join(dax) or 'no DAX device'}"
        )
    if cxl["program_problem"]:
        yield f"cxl      without health: {cxl['program_problem']}"
    if cxl["devices"] or any(node["kind"] == "cxl" for node in document["nodes"]):
        for counter in cxl["counters"]:
            reader = f" (monitor {counter['monitor']})" if counter["monitor"] else ""
            seen = _SEES[counter["sees"]]
            yield f"counter  {counter['counter']}{reader}: traffic of CXL is {seen}"
        if not any(counter["sees"] == "bytes" for counter in cxl["counters"]):
            yield "counter  nothing here counts the bytes of CXL devices"
