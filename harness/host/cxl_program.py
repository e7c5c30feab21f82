"""Output of ``cxl list`` (package cxl or ndctl): what sysfs does not have.

The program prints nothing where there is nothing, an array or an object for objects of one kind,
and an array of objects with an array each for several kinds; below a bus, decoder or port its
objects have keys such as ``regions:decoder0.0``.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness import jsonfile
from harness.host.tools import run_tool

_COMMAND = ("list", "-M", "-R", "-D", "-H", "-i")
_TIMEOUT_S = 30
#: A flag of a device's health that is as it should be; the others name a fault.
_SOUND = "media_normal"
_CRITICAL = ("critical", "fatal")
#: Objects that are only named in a region or decoder.
_REFERENCES = ("mappings", "targets")


@dataclass(frozen=True)
class CxlListing:
    """``faults``: of a device's health, by device. ``states``: of regions' decoding, by region
    (``commit``: the region is in use). ``problem``: why there is no listing.
    """

    faults: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    states: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""


def cxl_listing() -> CxlListing:
    """The listing of this host."""
    path = shutil.which("cxl") or shutil.which("cxl", path="/usr/sbin:/sbin")
    if path is None:
        return CxlListing(problem="cxl is not installed (package cxl, or ndctl)")
    done = run_tool(path, *_COMMAND, timeout_s=_TIMEOUT_S)
    if done is None:
        return CxlListing(problem=f"cxl list did not end in {_TIMEOUT_S} s")
    if done.returncode:
        words = done.stderr.strip().splitlines() or ["no message"]
        return CxlListing(problem=f"cxl list: exit {done.returncode}: {words[0]}")
    try:
        return parse_cxl_list(done.stdout)
    except ValueError as error:
        return CxlListing(problem=f"cxl list printed something else than a listing: {error}")


def parse_cxl_list(text: str) -> CxlListing:
    """``cxl list`` with any of its options for kinds; ValueError where it is no JSON."""
    document = jsonfile.parse(text) if text.strip() else []
    faults: dict[str, tuple[str, ...]] = {}
    states: dict[str, str] = {}
    for entry in _objects(document):
        if isinstance(name := entry.get("memdev"), str):
            faults[name] = _faults(entry)
        elif "decoder" in entry:  # that of a port names its region, too
            continue
        elif isinstance(name := entry.get("region"), str):
            states[name] = str(entry.get("decode_state") or entry.get("state") or "unknown")
    return CxlListing(faults, states)


def _objects(document: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects, at any level; not those that a region or decoder refers to."""
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            yield value
            waiting += [each for key, each in value.items() if key not in _REFERENCES]


def _faults(device: Mapping[str, Any]) -> tuple[str, ...]:
    health = device.get("health")
    flags = health.items() if isinstance(health, dict) else ()
    faults = [name for name, value in flags if value is True and name != _SOUND]
    faults += [f"{name} {value}" for name, value in flags if value in _CRITICAL]
    faults += ["disabled"] * (device.get("state") == "disabled")
    return tuple(faults)
