"""DAX devices that are on no NVDIMM: CXL memory, and soft-reserved memory (hmem).

They have no namespace, label or UUID, and cannot carry a mark of ours: a device is ours while it is
on record, by its name, size and node. daxctl-reconfigure-device(1) calls making
one the kernel's memory destructive, so it is confirmed by the device's name.
"""

from __future__ import annotations

from .change_builder import ChangeBuilder, Step
from .ndctl import DaxDevice
from .state import State


def selected_devices(builder: ChangeBuilder) -> list[DaxDevice]:
    """Return the selected devices; refuse unknown names and devices on NVDIMMs."""
    there = {device.name: device for device in builder.state.dax}
    others = [device for device in there.values() if device.origin not in ("nvdimm", None)]
    if builder.desired.devices is None:
        return others
    names = ", ".join(device.name for device in others) or "none"
    for name in builder.desired.devices:
        if name not in there:
            builder.refuse(
                name, "there is no such DAX device", f"those on no NVDIMM (daxctl list): {names}"
            )
        elif there[name].origin == "nvdimm":
            builder.refuse(
                name,
                f"it is of {_namespace_of(builder.state, name)}: persistent memory on NVDIMMs",
                "name its region instead: -e pmem_regions=[NAME]",
            )
        elif there[name].origin is None:
            builder.refuse(
                name,
                f"/sys/bus/dax/devices/{name} does not show its origin",
                "it is left as it is; reconfigure it yourself (daxctl reconfigure-device)",
            )
    return [there[name] for name in builder.desired.devices if there.get(name) in others]


def _namespace_of(state: State, name: str) -> str:
    found = (each.name for each in state.inventory.namespaces if each.chardev == name)
    return next(found, "an NVDIMM region")


def plan_devices(builder: ChangeBuilder) -> None:
    """Plan each selected device as a memory node."""
    for device in selected_devices(builder):
        if device.target_node is None or not device.size_bytes:
            builder.refuse(
                device.name,
                f"the kernel knows no memory node for its {device.size_bytes} bytes",
                "see daxctl list -D; update the firmware, or name other devices",
            )
        elif device.mode == "system-ram":
            plan_online(builder, device)
        elif device.mode == "devdax":
            _give(builder, device)
        else:
            why = f"daxctl says its mode is {device.mode}"
            builder.refuse(device.name, why, "see dmesg; enable it, then rerun")


def plan_online(builder: ChangeBuilder, device: DaxDevice) -> None:
    """Put all of its memory online."""
    if device.online_blocks < device.total_blocks:
        what = f"{device.online_blocks} of {device.total_blocks} blocks of memory are online"
        builder.run("online-memory", device.name, what, "daxctl", "online-memory", device.name)


def _give(builder: ChangeBuilder, device: DaxDevice) -> None:
    name = device.name
    users = builder.state.dax_users.get(name, ())
    builder.refuse_in_use(name, [f"/dev/{name} is open in {user}" for user in users])
    if users:
        return
    what = "CXL memory" if device.origin == "cxl" else "soft-reserved memory"
    builder.steps.append(
        Step(
            "to-system-ram",
            name,
            f"its {device.size_bytes} bytes ({what}, node {device.target_node}) do not belong"
            " to the kernel; data that programs keep in it are lost",
            f"daxctl reconfigure-device --mode=system-ram {name}",
            (name,),
        )
    )
    builder.notes.append(
        f"{name}: daxctl.conf(5) identifies devices only by an NVDIMM's UUID, so firmware and"
        " kernel decide what it is after a restart; rerun the command to make it memory again"
    )


def ours(state: State) -> list[DaxDevice]:
    """Devices that are memory nodes by us, and unchanged since."""
    return [
        device
        for device in state.dax
        if device.mode == "system-ram"
        and state.record.dax.get(device.name) == identity_on_record(device)
    ]


def identity_on_record(device: DaxDevice) -> dict[str, int | None]:
    """Identity of a device, beyond its name."""
    return {"size_bytes": device.size_bytes, "target_node": device.target_node}


def plan_release(builder: ChangeBuilder) -> None:
    """Plan to turn our memory nodes into devices again."""
    for device in ours(builder.state):
        if device.movable is False:
            builder.refuse(
                device.name,
                f"its memory is online as not movable: the kernel may have unmovable data on node"
                f" {device.target_node}",
                "restart the host, which restores it",
            )
            continue
        builder.release_memory(device.name, f"it is memory of node {device.target_node}, by us")
    there = {device.name for device in builder.state.dax}
    for name in builder.state.record.dax:
        if name not in there:
            builder.notes.append(f"{name}, which we made memory, is gone")
