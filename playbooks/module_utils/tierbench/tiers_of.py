"""The tiers of a host file that our namespaces are, by what the host has now."""

from __future__ import annotations

from typing import Any

from . import hostfile
from .devices import ours
from .ndctl import Namespace
from .state import State

Wanted = list[tuple[str, dict[str, Any]]]


def our_tiers(state: State) -> Wanted:
    """(base name, tier) in the order of the namespaces' names; a disk's ``ssd`` last."""
    found: Wanted = []
    for namespace in state.inventory.namespaces:
        found += _tiers_of(namespace, state)
    for device in ours(state):
        node = {"kind": "numa", "node": device.target_node, "policy": "bind"}
        found.append(("cxl" if device.origin == "cxl" else "farmem", node))
    return found


def _tiers_of(namespace: Namespace, state: State) -> Wanted:
    if namespace.chardev:
        return _dax_tiers(namespace, state)
    tiers: Wanted = []
    for mount in state.users_of(namespace).mounts:
        if mount.point in state.record.points and mount.whole:
            base, kind = _kind(namespace, mount.point, state)
            tiers.append((base, {"kind": kind, "path": mount.point, **_emulates(namespace, state)}))
    return tiers


def _kind(namespace: Namespace, point: str, state: State) -> tuple[str, str]:
    """Base name and kind; blocks smaller than a page are in the name (``pmem_nodax_1k``)."""
    if state.statx_dax.get(point):
        return "pmem", "fsdax"
    on_record = state.record.filesystems.get(state.users_of(namespace).content.uuid or "", {})
    size = on_record.get("block_size", 4096)
    blocks = "" if size == 4096 else f"_{size // 1024}k"
    if namespace.mode == "sector":
        return f"pmem_log{blocks}", "sector"
    return f"pmem_nodax{blocks}", "fs-nodax"


def _dax_tiers(namespace: Namespace, state: State) -> Wanted:
    device = state.device(namespace)
    if device is None or not state.is_ours(namespace):
        return []
    emulates = _emulates(namespace, state)
    if device.mode == "system-ram":
        node = {"kind": "numa", "node": device.target_node, "policy": "bind"}
        return [("pmem_ram", {**node, **emulates})]
    return [("pmem_raw", {"kind": "devdax", "device": f"/dev/{device.name}", **emulates})]


def _emulates(namespace: Namespace, state: State) -> dict[str, Any]:
    """DRAM set aside by ``memmap=`` says in the host file what it stands in for."""
    region = next((r for r in state.inventory.regions if r.name == namespace.region), None)
    return {"emulates": "pmem"} if region and region.provider == "e820" else {}


def host_file(state: State) -> str | None:
    """Return the host file with our tiers updated and the owner's unchanged."""
    wanted = our_tiers(state)
    text = state.host_file or ""
    if wanted and state.default_tier and not _has_disk(text):
        kind, path = state.default_tier
        wanted.append(("ssd", {"kind": kind, "path": path}))
    named = hostfile.name_tiers(wanted, text)
    if not wanted and state.host_file is None:
        return None
    new = hostfile.write(state.host_file, named)
    if new is None and state.host_file is not None and not state.record.host_file_made:
        return "".join(line + "\n" for line in hostfile.split(state.host_file)[0])
    return new


def _has_disk(text: str) -> bool:
    """Whether the owner named an ordinary disk, or anything ``ssd``."""
    owned = hostfile.entries(hostfile.split(text)[0])
    return "ssd" in owned or any("block" in rest for rest in owned.values())
