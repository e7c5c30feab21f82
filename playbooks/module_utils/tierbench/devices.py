"""DAX devices that are on no NVDIMM: CXL memory, and memory that firmware set apart (hmem).

They have no namespace, no label, no UUID, and nothing of ours can be written on them: a device is
ours while it is on record, by its name, size and node. daxctl-reconfigure-device(1) calls making
one the kernel's memory destructive, so it is confirmed by the device's name.
"""

from __future__ import annotations

from .draft import Draft, Step
from .ndctl import DaxDevice
from .state import State
from .wish import Wish


def wanted_devices(draft: Draft, wish: Wish) -> list[DaxDevice]:
    """The devices that are meant; a name that the host has not, or has on an NVDIMM, is refused."""
    there = {device.name: device for device in draft.state.dax}
    others = [device for device in there.values() if device.origin not in ("nvdimm", None)]
    if wish.devices is None:
        return others
    names = ", ".join(device.name for device in others) or "none"
    for name in wish.devices:
        if name not in there:
            draft.refuse(
                name, "there is no such DAX device", f"those on no NVDIMM (daxctl list): {names}"
            )
        elif there[name].origin == "nvdimm":
            draft.refuse(
                name,
                f"it is of {_namespace_of(draft.state, name)}: persistent memory on NVDIMMs",
                "name its region (pmem_regions) instead",
            )
        elif there[name].origin is None:
            draft.refuse(
                name,
                f"/sys/bus/dax/devices/{name} does not tell what it is of",
                "it is left alone; daxctl reconfigure-device is yours to use",
            )
    return [there[name] for name in wish.devices if there.get(name) in others]


def _namespace_of(state: State, name: str) -> str:
    found = (each.name for each in state.inventory.namespaces if each.chardev == name)
    return next(found, "an NVDIMM region")


def plan_devices(draft: Draft, wish: Wish) -> None:
    """Each device that is wanted as a memory node."""
    for device in wanted_devices(draft, wish):
        if device.mode == "system-ram":
            plan_online(draft, device)
        elif device.mode == "devdax":
            _give(draft, device)
        else:
            why = f"daxctl says its mode is {device.mode}"
            draft.refuse(device.name, why, "look at dmesg; enable it, then run this again")


def plan_online(draft: Draft, device: DaxDevice) -> None:
    """All of its memory online."""
    if device.online_blocks < device.total_blocks:
        what = f"{device.online_blocks} of {device.total_blocks} blocks of memory are online"
        draft.add("online-memory", device.name, what, f"daxctl online-memory {device.name}")


def _give(draft: Draft, device: DaxDevice) -> None:
    name = device.name
    users = draft.state.dax_users.get(name, ())
    for who in users:
        draft.refuse(name, f"it is in use: /dev/{name} is open in {who}", "end that use first")
    if users:
        return
    what = "CXL memory" if device.origin == "cxl" else "memory that firmware set apart"
    draft.steps.append(
        Step(
            "to-system-ram",
            name,
            f"its {device.size_bytes} bytes ({what}, node {device.target_node}) are not the"
            " kernel's; what programs keep in it is lost",
            f"daxctl reconfigure-device --mode=system-ram {name}",
            (name,),
        )
    )
    draft.notes.append(
        f"{name}: daxctl.conf(5) names devices by an NVDIMM's UUID alone, so after a restart it is"
        " what firmware and kernel make of it; the same command makes it memory again"
    )


def ours(state: State) -> list[DaxDevice]:
    """The devices that we made memory nodes, as far as they are still there, the same and so."""
    return [
        device
        for device in state.dax
        if device.mode == "system-ram"
        and state.record.dax.get(device.name) == identity_on_record(device)
    ]


def identity_on_record(device: DaxDevice) -> dict[str, int | None]:
    """What tells a device from another of its name."""
    return {"size_bytes": device.size_bytes, "target_node": device.target_node}


def plan_release(draft: Draft) -> None:
    """Back to devices, where the kernel can give the memory back."""
    for device in ours(draft.state):
        if device.movable is False:
            draft.refuse(
                device.name,
                f"its memory went online as not movable: the kernel may have put things of its own"
                f" on node {device.target_node} that it cannot move",
                "restart the host: it then comes up as before",
            )
            continue
        draft.add(
            "release-memory",
            device.name,
            f"it is memory of node {device.target_node} since we made it so",
            f"daxctl offline-memory {device.name};"
            f" daxctl reconfigure-device --mode=devdax {device.name}",
        )
    there = {device.name for device in draft.state.dax}
    for name in draft.state.record.dax:
        if name not in there:
            draft.notes.append(f"{name}, which we made memory, is not there any more")
