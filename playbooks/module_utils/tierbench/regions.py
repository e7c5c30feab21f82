"""The plan of one region: its namespace, and what is done with it (mode by mode)."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

from . import filesystems
from .change_builder import ChangeBuilder
from .desired_state import DesiredState
from .devices import plan_node, plan_online
from .ndctl import OUR_NAME, Namespace, Region
from .state import State


def plan_region(builder: ChangeBuilder, region: Region) -> None:
    """Plan every step of one region."""
    state = builder.state
    if region.name in state.disabled_regions:
        _enable(builder, region)
        return
    if not _is_sound(builder, region) or not _size_fits(builder, region):
        return
    existing = find_existing(state, region, builder.desired)
    if existing is None:
        _replace(builder, region)
    if builder.desired.has_filesystem:
        filesystems.plan_filesystem(builder, region, existing)
    elif builder.desired.serves in ("devdax", "system-ram"):
        _plan_dax_device(builder, region, existing)


def _enable(builder: ChangeBuilder, region: Region) -> None:
    """We disable regions only for a moment: a disabled one is ours only after an interruption."""
    if builder.state.record.approved:
        builder.enable_region(region.name, "a run was interrupted while it was disabled")
        return
    builder.refuse(
        region.name,
        "it is disabled: its content cannot be read",
        f"find out why, then ndctl enable-region {region.name}",
    )


def _is_sound(builder: ChangeBuilder, region: Region) -> bool:
    if region.faults:
        builder.refuse(
            region.name,
            "; ".join(region.faults),
            "see ndctl list -DRHM; repair it, or name other regions: -e pmem_regions=[NAME]",
        )
    namespaces = builder.state.of_region(region)
    refused = [builder.refuse_divided(each) for each in namespaces]
    refused += [builder.refuse_foreign_label(each) for each in namespaces]
    return not region.faults and not any(refused)


def _size_fits(builder: ChangeBuilder, region: Region) -> bool:
    size = builder.desired.size_bytes
    if size is None:
        return True
    if size == 0 or size % region.align_bytes:
        below = size // region.align_bytes * region.align_bytes
        near = [n for n in (below, below + region.align_bytes) if 0 < n <= region.size_bytes]
        builder.refuse(
            region.name,
            f"pmem_namespace_size {size} is no multiple of its alignment, {region.align_bytes}",
            f"the nearest that are: {' and '.join(map(str, near))}",
        )
        return False
    if size > region.size_bytes:
        builder.refuse(
            region.name,
            f"pmem_namespace_size {size} is more than it has, {region.size_bytes} bytes",
            "request less, or omit the size to use the whole region",
        )
        return False
    return True


def find_existing(state: State, region: Region, desired: DesiredState) -> Namespace | None:
    """The namespace that is already as wanted: one of ours before one that merely fits."""
    fitting = [n for n in state.of_region(region) if _fits(n, region, desired, state)]
    ours = [n for n in fitting if state.is_ours(n)]
    if ours:
        return ours[0]
    # A foreign one without a label may be used for a file system (if confirmed).
    alone = [n for n in fitting if not n.label and len(state.of_region(region)) == 1]
    return alone[0] if alone and desired.has_filesystem else None


def _fits(namespace: Namespace, region: Region, desired: DesiredState, state: State) -> bool:
    if namespace.mode != desired.namespace_mode or not namespace.enabled:
        return False
    if namespace.mode == "sector" and namespace.sector_size != desired.sector_size:
        return False
    if namespace.mode in ("fsdax", "devdax") and namespace.map not in (None, desired.map):
        return False
    if region.dimms and not region.labelled:
        return False  # without labels nothing says whose it is
    if desired.size_bytes is not None:
        return namespace.raw_bytes == desired.size_bytes
    requested = state.record.namespaces.get(namespace.uuid or "", {}).get("requested_bytes")
    return requested is None and region.available_bytes < max(region.align_bytes, 1)


def _replace(builder: ChangeBuilder, region: Region) -> None:
    """Plan the namespace: next to the others where it fits, else in their place."""
    there = builder.state.of_region(region)
    if region.dimms and not region.labelled:
        _write_labels(builder, region, there)
    elif not region.dimms:
        _reconfigure(builder, region, there)
        return
    elif there and not (
        builder.desired.size_bytes and builder.desired.size_bytes <= region.extent_bytes
    ):
        for namespace in there:
            release_memory(builder, namespace)
            builder.destroy_namespace(namespace, f"{_described(namespace)} occupies {region.name}")
    argv = ["ndctl", "create-namespace", "-r", region.name, "-n", OUR_NAME]
    argv += mode_argv(builder.desired)
    builder.add(
        "create-namespace",
        region.name,
        f"{region.name} has no namespace of that kind",
        " ".join(argv),
        argv=argv,
        requested_bytes=builder.desired.size_bytes,
    )


def _described(namespace: Namespace) -> str:
    label = f" {namespace.label!r}" if namespace.label else ""
    return f"{namespace.name}{label} ({namespace.mode}, {namespace.size_bytes} bytes)"


def mode_argv(desired: DesiredState) -> list[str]:
    """Mode, size and what goes with the mode."""
    argv = ["-m", str(desired.namespace_mode)]
    if desired.size_bytes:
        argv += ["-s", str(desired.size_bytes)]
    if desired.namespace_mode == "sector":
        return [*argv, "-l", str(desired.sector_size)]
    # 2 MiB, so that huge pages can be mapped.
    return [*argv, "-M", desired.map, "-a", "2M"]


def _write_labels(builder: ChangeBuilder, region: Region, there: list[Namespace]) -> None:
    """Label areas for a region without: it has one nameless raw namespace until then."""
    sharing = [
        other
        for other in builder.state.inventory.regions
        if other.name != region.name and set(other.dimms) & set(region.dimms)
    ]
    for other in sharing:
        builder.refuse(
            other.name,
            f"it shares modules with {region.name}, whose labels would be overwritten",
            "write the labels yourself: ndctl init-labels",
        )
    dimms = " ".join(region.dimms)
    builder.destroy(
        "write-labels",
        region.name,
        f"{region.name} has no labels: "
        + (", ".join(_described(each) for each in there) or "no namespace can be made in it"),
        f"ndctl disable-region {region.name}; ndctl init-labels -f {dimms};"
        f" ndctl enable-region {region.name}",
        there,
        dimms=list(region.dimms),
    )


def _reconfigure(builder: ChangeBuilder, region: Region, there: list[Namespace]) -> None:
    """A region without modules (memmap=) has one namespace for good, which changes its mode."""
    if len(there) != 1:
        builder.refuse(
            region.name,
            f"it has no modules, and {len(there)} namespaces instead of one",
            "restart the host",
        )
        return
    name = there[0].name
    argv = ["ndctl", "create-namespace", "-f", "-e", name, *mode_argv(builder.desired)]
    wanted = f"{builder.desired.namespace_mode} with map={builder.desired.map}"
    why = f"{_described(there[0])} is not {wanted}"
    command = " ".join(argv)
    args = {"argv": argv, "requested_bytes": builder.desired.size_bytes}
    builder.destroy("reconfigure-namespace", name, why, command, there, **args)


# DAX devices ---------------------------------------------------------------------


def _plan_dax_device(builder: ChangeBuilder, region: Region, existing: Namespace | None) -> None:
    if builder.desired.serves == "devdax" and existing is not None:
        release_memory(builder, existing)
    plan_node(builder, region, existing)
    if builder.desired.serves == "devdax":
        return
    device = builder.state.device(existing) if existing else None
    if device is not None and device.mode == "system-ram":
        plan_online(builder, device)
    else:
        _give(builder, device.name if device else f"the DAX device of {region.name}", existing)


def _give(builder: ChangeBuilder, device: str, existing: Namespace | None) -> None:
    """Give a device to the kernel: its data are lost, so confirmed, unless it was memory before."""
    zone = "" if builder.desired.movable else " --no-movable"
    do, command = "to-system-ram", f"daxctl reconfigure-device --mode=system-ram{zone} {device}"
    builder.refuse_auto_online(device)
    why = "its memory does not belong to the kernel"
    if existing is None:
        builder.add(do, device, why, command)
    elif not _serves_as_memory(builder.state, existing):
        why = f"{why}; data that programs keep in {existing.name} are lost"
        builder.destroy(do, device, why, command, [existing])
    elif users := builder.state.users_of(existing).others:
        builder.refuse_in_use(existing.name, users)
    else:
        builder.add(do, device, why, command)


def _serves_as_memory(state: State, namespace: Namespace) -> bool:
    """Return whether it was made to be memory, or was memory last (a restart may undo that)."""
    record = state.record
    entry = record.namespaces.get(namespace.uuid or "")
    if entry is None:  # a run was cut off between making it and writing that down
        return record.creating == namespace.region and record.creating_for == "system-ram"
    return entry.get("serves") == "system-ram"


def note_service(state: State, regions: Sequence[Region], mode: str) -> bool:
    """Put on record what the namespaces of ours in these regions serve; whether that is new.

    To be done before the first step: a device that is given to programs, even by a run that
    fails, is not taken from them unasked afterwards. Memory is what already is so.
    """
    record, names = state.record, [region.name for region in regions]
    before = deepcopy((record.namespaces, record.creating_for))
    for namespace in state.inventory.namespaces:
        entry = record.namespaces.get(namespace.uuid or "")
        device = state.device(namespace)
        as_memory = device is not None and device.mode == "system-ram"
        if entry and namespace.region in names and (mode != "system-ram" or as_memory):
            entry["serves"] = mode
    if record.creating in names and mode != "system-ram":
        record.creating_for = mode
    return before != (record.namespaces, record.creating_for)


def release_memory(builder: ChangeBuilder, namespace: Namespace) -> None:
    """Back from a memory node to a device; the kernel moves what is in it, or says no."""
    device = builder.state.device(namespace)
    if device is None or device.mode != "system-ram":
        return
    builder.release_memory(device.name, f"{namespace.name} is memory of node {device.target_node}")
