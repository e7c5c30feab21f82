"""DAX devices that are on no NVDIMM: CXL memory, and soft-reserved memory (hmem).

They have no namespace, label or UUID, and cannot carry a mark of ours: a device is ours while it is
on record, by its name, size and node. daxctl-reconfigure-device(1) calls making
one the kernel's memory destructive, so it is confirmed by the device's name.
"""

from __future__ import annotations

import contextlib
import re

from .change_builder import ChangeBuilder, Step
from .desired_state import DesiredState
from .ndctl import DaxDevice, Namespace, Region
from .state import State, ids_of


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
    names = (each.name for each in state.inventory.namespaces if each.chardev == name)
    return next(names, "an NVDIMM region")


def plan_devices(builder: ChangeBuilder) -> None:
    """Plan each selected device as a memory node."""
    for device in selected_devices(builder):
        plan_device(builder, device)


def plan_device(
    builder: ChangeBuilder,
    device: DaxDevice,
    *,
    ours: bool = False,
    serves_as_memory: bool = False,
) -> None:
    """Plan a device as a memory node, or (``serves`` devdax) as a device.

    ``ours``: it is in a region of ours. ``serves_as_memory``: no program keeps data in it.
    """
    desired, zone = builder.desired, _zone(builder.desired.movable)
    if device.target_node is None or not device.size_bytes:
        builder.refuse(
            device.name,
            f"the kernel knows no memory node for its {device.size_bytes} bytes",
            "see daxctl list -D; update the firmware, or name other devices",
        )
    elif device.mode not in ("system-ram", "devdax"):
        why = f"daxctl says its mode is {device.mode}"
        builder.refuse(device.name, why, "see dmesg; enable it, then rerun")
    elif desired.serves == "devdax" and device.mode == "system-ram":
        _release(builder, device, ours, f"it is memory of node {device.target_node}")
    elif desired.serves == "devdax":
        return
    elif device.mode == "devdax":
        _give(builder, device, serves_as_memory)
    elif desired.mode == "cxl" and device.online_blocks and device.movable is (not desired.movable):
        _release(builder, device, ours, f"its memory is not in {zone}")
    else:
        plan_online(builder, device)


def _zone(movable: bool) -> str:
    return "the zone of movable memory" if movable else "a zone of the kernel's own"


def _release(builder: ChangeBuilder, device: DaxDevice, ours: bool, why: str) -> None:
    """Make a memory node a device again, if it became one by us."""
    if ours:
        builder.release_memory(device.name, why)
        return
    name = device.name
    builder.refuse(
        name,
        f"{why}, and was not made so by us",
        f"daxctl offline-memory {name}; daxctl reconfigure-device --mode=devdax {name}; then rerun",
    )


def plan_online(builder: ChangeBuilder, device: DaxDevice) -> None:
    """Put all of its memory online."""
    if device.online_blocks < device.total_blocks:
        what = f"{device.online_blocks} of {device.total_blocks} blocks of memory are online"
        zone = [] if builder.desired.movable else ["--no-movable"]
        argv = ["daxctl", "online-memory", *zone, device.name]
        builder.run("online-memory", device.name, what, *argv)


def _give(builder: ChangeBuilder, device: DaxDevice, serves_as_memory: bool) -> None:
    name, zone = device.name, "" if builder.desired.movable else " --no-movable"
    builder.refuse_auto_online(name)
    users = builder.state.dax_users.get(name, ())
    builder.refuse_in_use(name, [f"/dev/{name} is open in {user}" for user in users])
    if users:
        return
    lost = "; data that programs keep in it are lost"
    what = "CXL memory" if device.origin == "cxl" else "soft-reserved memory"
    builder.steps.append(
        Step(
            "to-system-ram",
            name,
            f"its {device.size_bytes} bytes ({what}, node {device.target_node}) do not belong"
            f" to the kernel{'' if serves_as_memory else lost}",
            f"daxctl reconfigure-device --mode=system-ram{zone} {name}",
            () if serves_as_memory else (name,),
            {"volatile": True},
        )
    )
    if builder.desired.mode == "cxl":
        return
    builder.notes.append(
        f"{name}: daxctl.conf(5) identifies devices only by an NVDIMM's UUID, so firmware and"
        " kernel decide what it is after a restart; rerun the command to make it memory again"
    )


def ours(state: State) -> list[DaxDevice]:
    """Devices on no NVDIMM that are memory nodes by us, and unchanged since."""
    return [
        device
        for device in state.dax
        if device.mode == "system-ram"
        and (
            state.record.dax.get(device.name) == identity_on_record(device)
            or is_of_our_region(state, device)
        )
    ]


def is_of_our_region(state: State, device: DaxDevice) -> bool:
    """Return whether a device is of a CXL region that we made."""
    regions = (each for each in state.fabric.regions if each.name == device.cxl_region)
    return any(map(state.is_our_region, regions))


def identity_on_record(device: DaxDevice) -> dict[str, int | None]:
    """Identity of a device, beyond its name."""
    return {"size_bytes": device.size_bytes, "target_node": device.target_node}


def plan_release(builder: ChangeBuilder) -> None:
    """Plan to turn our memory nodes into devices again."""
    for device in ours(builder.state):
        # Into a zone of the kernel's own only cxl_movable=false puts it: the kernel decides.
        if device.movable is False and not is_of_our_region(builder.state, device):
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


#: Mode of a device node with an owner, and of root's (the kernel's default).
SHARED_MODE, PRIVATE_MODE = 0o660, 0o600
_ROOT = (0, 0)
_HEAD = "# Written by tierbench's playbooks; teardown.yml removes it.\n"
_RULE = re.compile(r'^SUBSYSTEM=="dax", ATTRS\{uuid\}=="([^"]+)", OWNER="(\d+)", GROUP="(\d+)"')


def owners(rules: str | None) -> dict[str, tuple[int, int]]:
    """Owner and group of each namespace (by its UUID) that the rules give away."""
    matches = map(_RULE.match, (rules or "").splitlines())
    return {m.group(1): (int(m.group(2)), int(m.group(3))) for m in matches if m}


def expected_owner(
    state: State, namespace: Namespace, desired: DesiredState
) -> tuple[int, int] | None:
    """Return the owner of a namespace's device; None: root (or no such user).

    Namespaces outside the desired state keep their owner.
    """
    meant = desired.regions is None or namespace.region in desired.regions
    if desired.serves in ("devdax", "system-ram") and meant:
        with contextlib.suppress(KeyError):
            return _requested_owner(desired)
        return None
    return owners(state.udev_rules).get(namespace.uuid or "")


def _requested_owner(desired: DesiredState) -> tuple[int, int] | None:
    """The ids of ``pmem_owner``, where devices can be opened at all. KeyError: no such user."""
    return ids_of(desired.owner) if desired.owner and desired.serves == "devdax" else None


def udev_rules(state: State, desired: DesiredState) -> str | None:
    """udev(7) rules for every devdax namespace of ours that is not root's; None without any."""
    lines = []
    for namespace in state.inventory.namespaces:
        if namespace.mode != "devdax" or not namespace.uuid or not state.is_ours(namespace):
            continue
        owner = expected_owner(state, namespace, desired)
        if owner is not None:
            lines.append(
                f'SUBSYSTEM=="dax", ATTRS{{uuid}}=="{namespace.uuid}", OWNER="{owner[0]}",'
                f' GROUP="{owner[1]}", MODE="{SHARED_MODE:04o}"\n'
            )
    return _HEAD + "".join(lines) if lines else None


def plan_node(builder: ChangeBuilder, region: Region, existing: Namespace | None) -> None:
    """Give the node of a devdax namespace to ``pmem_owner``, or back to root."""
    state = builder.state
    try:
        given = _requested_owner(builder.desired)
    except KeyError as error:
        why = f"pmem_owner {builder.desired.owner}: {error.args[0]}"
        builder.refuse(region.name, why, "name a user and group of this host")
        return
    device = state.device(existing) if existing else None
    was_given = existing is not None and (existing.uuid or "") in owners(state.udev_rules)
    if given is None and not was_given:
        return
    ids, mode = given or _ROOT, PRIVATE_MODE if given is None else SHARED_MODE
    if device and state.nodes.get(device.name) == (*ids, mode):
        return
    name = f"/dev/{device.name}" if device else f"the DAX device of {region.name}"
    builder.add(
        "own-device",
        name,
        f"its owner shall be {builder.desired.owner if given else 'root'}",
        f"chown {ids[0]}:{ids[1]} {name}; chmod {mode:o} {name}",
        ids=list(ids),
        mode=mode,
    )
