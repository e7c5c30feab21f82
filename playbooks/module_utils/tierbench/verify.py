"""Verify the end state with the code that verifies the harness's tiers."""

from __future__ import annotations

from .change_builder import ChangeBuilder
from .changes import selected_regions
from .commands import Refusal
from .desired_state import DesiredState
from .devices import ours, selected_devices
from .goals import requested_goal
from .linux import LIVE, Kernel, TierFacts, facts_of_devdax, facts_of_directory, facts_of_numa
from .ndctl import Namespace, Region
from .nodes import SHARED_MODE, expected_owner
from .regions import find_existing
from .state import State, mount_point


def drift(state: State, desired: DesiredState, kernel: Kernel = LIVE) -> list[Refusal]:
    """Return the deviations from the desired state."""
    if desired.mode == "memory-mode":
        return _memory_mode(state, desired)
    if desired.mode == "teardown":
        return _teardown(state, desired)
    found = []
    for region in selected_regions(state, desired):
        found += _region(state, region, desired, kernel)
    if desired.mode == "system-ram":
        for device in selected_devices(ChangeBuilder(state, desired)):
            found += _memory_node(state, device.name, kernel)
    return found


def _region(state: State, region: Region, desired: DesiredState, kernel: Kernel) -> list[Refusal]:
    namespace = find_existing(state, region, desired)
    if namespace is None:
        return [_other(region.name, f"no namespace in it is {desired.namespace_mode}")]
    if desired.has_filesystem:
        return _directory(region, namespace.name, desired, kernel)
    facts = _facts_of_device(namespace.chardev, kernel)
    if facts is None:
        return [_other(namespace.name, "the kernel has no DAX device of it")]
    if desired.mode == "devdax":
        if not facts.dax:
            return [_other(str(facts.device), f"no device to map: {facts.notes}")]
        return _node(state, namespace, desired)
    return _memory_node(state, str(namespace.chardev), kernel)


def _directory(region: Region, name: str, desired: DesiredState, kernel: Kernel) -> list[Refusal]:
    point = mount_point(desired, region)
    try:
        facts = facts_of_directory(point, kernel)
    except OSError as error:
        return [_other(point, str(error))]
    fsdax = "fsdax" if desired.dax else "fs-nodax"
    kind = "sector" if desired.mode == "sector" else fsdax
    if facts.mount_point != point or facts.namespace != name:
        return [_other(point, f"it is on {facts.device}, not on {name}")]
    if facts.kind != kind:
        return [_other(point, f"the kernel says {facts.kind} (statx DAX: {facts.dax}), not {kind}")]
    if facts.filesystem != desired.filesystem:
        return [_other(point, f"it has {facts.filesystem}, not {desired.filesystem}")]
    if facts.block_size_bytes != desired.block_size:
        found = f"its blocks have {facts.block_size_bytes} bytes, not {desired.block_size}"
        return [_other(point, found)]
    return []


def _node(state: State, namespace: Namespace, desired: DesiredState) -> list[Refusal]:
    """Check the device's owner, if one is expected."""
    owner, name = expected_owner(state, namespace, desired), str(namespace.chardev)
    if owner is None or state.nodes.get(name) == (*owner, SHARED_MODE):
        return []
    return [_other(f"/dev/{name}", f"user, group and mode are {state.nodes.get(name)}")]


def _facts_of_device(chardev: str | None, kernel: Kernel) -> TierFacts | None:
    try:
        return facts_of_devdax(chardev or "none", kernel)
    except OSError:
        return None


def _memory_node(state: State, name: str, kernel: Kernel) -> list[Refusal]:
    device = next((each for each in state.dax if each.name == name), None)
    if device is None or device.mode != "system-ram" or device.target_node is None:
        return [_other(name, f"daxctl says {device.mode if device else 'there is none'}")]
    try:
        facts = facts_of_numa(device.target_node, kernel)
    except LookupError as error:
        return [_other(name, str(error))]
    if not facts.size_bytes:
        return [_other(f"node {device.target_node}", "it has no memory")]
    return []


def _memory_mode(state: State, desired: DesiredState) -> list[Refusal]:
    goals = state.goals
    if goals and requested_goal(desired).is_met(goals):
        return []
    found = f"{goals.volatile_bytes} bytes are memory" if goals else "ipmctl was not run"
    return [_other("goal", found)]


def _teardown(state: State, desired: DesiredState) -> list[Refusal]:
    found = []
    regions = [region.name for region in selected_regions(state, desired)]
    for namespace in state.inventory.namespaces:
        if namespace.region in regions and state.is_ours(namespace):
            found.append(_other(namespace.name, "it is ours and still there"))
    if desired.regions is None:
        found += [_other(each.name, "it is still memory") for each in ours(state)]
    return found


def _other(object: str, found: str) -> Refusal:
    return Refusal(object, f"deviates: {found}", "run the playbook with --check")
