"""The plan of one region: its namespace, and what is done with it (mode by mode)."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

from . import filesystems
from .devices import plan_online
from .draft import Draft
from .ndctl import OUR_NAME, Namespace, Region
from .nodes import plan_node
from .state import State
from .wish import Wish


def plan_region(draft: Draft, region: Region, wish: Wish) -> None:
    """Every step from what the region is now to what is wanted of it."""
    state = draft.state
    if region.name in state.disabled_regions:
        _enable(draft, region)
        return
    if not _size_fits(draft, region, wish):
        return
    kept = find_kept(state, region, wish)
    if kept is None:
        _replace(draft, region, wish)
    if wish.has_filesystem:
        filesystems.plan_filesystem(draft, region, kept, wish)
    elif wish.mode in ("devdax", "system-ram"):
        _plan_dax_device(draft, region, kept, wish)


def _enable(draft: Draft, region: Region) -> None:
    """We disable regions for an instant; one that is so is ours only if we were cut off."""
    if draft.state.record.approved:
        command = f"ndctl enable-region {region.name}"
        draft.add("enable-region", region.name, "a run was cut off while it was disabled", command)
        return
    draft.refuse(
        region.name,
        "it is disabled: what is on it cannot be seen",
        f"find out why, then ndctl enable-region {region.name}",
    )


def _size_fits(draft: Draft, region: Region, wish: Wish) -> bool:
    size = wish.size_bytes
    if size is None:
        return True
    if size == 0 or size % region.align_bytes:
        below = size // region.align_bytes * region.align_bytes
        near = [n for n in (below, below + region.align_bytes) if 0 < n <= region.size_bytes]
        draft.refuse(
            region.name,
            f"pmem_namespace_size {size} is no multiple of its alignment, {region.align_bytes}",
            f"the nearest that are: {' and '.join(map(str, near))}",
        )
        return False
    if size > region.size_bytes:
        draft.refuse(
            region.name,
            f"pmem_namespace_size {size} is more than it has, {region.size_bytes} bytes",
            "ask for less, or leave the size out to take the whole region",
        )
        return False
    return True


def find_kept(state: State, region: Region, wish: Wish) -> Namespace | None:
    """The namespace that is already as wanted: one of ours before one that merely fits."""
    fitting = [n for n in state.of_region(region) if _fits(n, region, wish, state)]
    ours = [n for n in fitting if state.is_ours(n)]
    if ours:
        return ours[0]
    # Somebody's nameless one may serve where a file system is made on it (if that is confirmed).
    alone = [n for n in fitting if not n.label and len(state.of_region(region)) == 1]
    return alone[0] if alone and wish.has_filesystem else None


def _fits(namespace: Namespace, region: Region, wish: Wish, state: State) -> bool:
    if namespace.mode != wish.namespace_mode or not namespace.enabled:
        return False
    if namespace.mode == "sector" and namespace.sector_size != wish.sector_size:
        return False
    if namespace.mode in ("fsdax", "devdax") and namespace.map not in (None, wish.map):
        return False
    if region.dimms and not region.labelled:
        return False  # without labels nothing says whose it is
    if wish.size_bytes is not None:
        return namespace.raw_bytes == wish.size_bytes
    asked = state.record.namespaces.get(namespace.uuid or "", {}).get("asked_bytes")
    return asked is None and region.available_bytes < max(region.align_bytes, 1)


def _replace(draft: Draft, region: Region, wish: Wish) -> None:
    """Make the namespace, beside the others where it fits, in their place otherwise."""
    there = draft.state.of_region(region)
    if region.dimms and not region.labelled:
        _write_labels(draft, region, there)
    elif not region.dimms:
        _reconfigure(draft, region, there, wish)
        return
    elif there and not (wish.size_bytes and wish.size_bytes <= region.extent_bytes):
        for namespace in there:
            release_memory(draft, namespace)
            draft.destroy(
                "destroy-namespace",
                namespace.name,
                f"{_described(namespace)} takes the place in {region.name}",
                f"ndctl destroy-namespace -f {namespace.name}",
                [namespace],
            )
    create(draft, region.name, create_argv(region.name, wish), wish.size_bytes)


def _described(namespace: Namespace) -> str:
    label = f" {namespace.label!r}" if namespace.label else ""
    return f"{namespace.name}{label} ({namespace.mode}, {namespace.size_bytes} bytes)"


def create(draft: Draft, region: str, argv: list[str], size_bytes: int | None) -> None:
    """The step that makes a namespace; its name is whatever ndctl then says."""
    command = " ".join(argv)
    why = f"a namespace as wanted is not there in {region}"
    draft.add("create-namespace", region, why, command, argv=argv, asked_bytes=size_bytes)


def create_argv(region: str, wish: Wish) -> list[str]:
    """ndctl-create-namespace(1) of the wish, named as ours."""
    return ["ndctl", "create-namespace", "-r", region, "-n", OUR_NAME, *mode_argv(wish)]


def mode_argv(wish: Wish) -> list[str]:
    """Mode, size and what goes with the mode."""
    argv = ["-m", str(wish.namespace_mode)]
    if wish.size_bytes:
        argv += ["-s", str(wish.size_bytes)]
    if wish.namespace_mode == "sector":
        return [*argv, "-l", str(wish.sector_size)]
    # 2 MiB, so that huge pages can be mapped.
    return [*argv, "-M", wish.map, "-a", "2M"]


def _write_labels(draft: Draft, region: Region, there: list[Namespace]) -> None:
    """Label areas for a region without: it has one nameless raw namespace until then."""
    sharing = [
        other
        for other in draft.state.inventory.regions
        if other.name != region.name and set(other.dimms) & set(region.dimms)
    ]
    for other in sharing:
        draft.refuse(
            other.name,
            f"it shares modules with {region.name}, whose labels would be written anew",
            "write the labels yourself: ndctl init-labels",
        )
    dimms = " ".join(region.dimms)
    draft.destroy(
        "write-labels",
        region.name,
        f"{region.name} has no labels: "
        + (", ".join(_described(each) for each in there) or "no namespace can be made in it"),
        f"ndctl disable-region {region.name}; ndctl init-labels -f {dimms};"
        f" ndctl enable-region {region.name}",
        there,
        dimms=list(region.dimms),
    )


def _reconfigure(draft: Draft, region: Region, there: list[Namespace], wish: Wish) -> None:
    """A region without modules (memmap=) has one namespace for good, which changes its mode."""
    if len(there) != 1:
        draft.refuse(
            region.name,
            f"it has no modules, and {len(there)} namespaces instead of one",
            "restart the host",
        )
        return
    name = there[0].name
    argv = ["ndctl", "create-namespace", "-f", "-e", name, *mode_argv(wish)]
    why = f"{_described(there[0])} is not {wish.namespace_mode} with map={wish.map}"
    command = " ".join(argv)
    args = {"argv": argv, "asked_bytes": wish.size_bytes}
    draft.destroy("reconfigure-namespace", name, why, command, there, **args)


# DAX devices ---------------------------------------------------------------------


def _plan_dax_device(draft: Draft, region: Region, kept: Namespace | None, wish: Wish) -> None:
    if wish.mode == "devdax" and kept is not None:
        release_memory(draft, kept)
    plan_node(draft, region, kept, wish)
    if wish.mode == "devdax":
        return
    device = draft.state.device(kept) if kept else None
    if device is not None and device.mode == "system-ram":
        plan_online(draft, device)
    else:
        _give(draft, device.name if device else f"the DAX device of {region.name}", kept)


def _give(draft: Draft, device: str, kept: Namespace | None) -> None:
    """To the kernel. What is in a device is lost by that: confirmed, unless nobody was given it."""
    do, command = "to-system-ram", f"daxctl reconfigure-device --mode=system-ram {device}"
    why = "its memory is not the kernel's"
    if kept is None:
        draft.add(do, device, why, command)
    elif not _serves_as_memory(draft.state, kept):
        why = f"{why}; what programs keep in {kept.name} is lost"
        draft.destroy(do, device, why, command, [kept])
    elif users := draft.state.use(kept).others:
        for who in users:
            draft.refuse(kept.name, f"it is in use: {who}", "end that use first")
    else:
        draft.add(do, device, why, command)


def _serves_as_memory(state: State, namespace: Namespace) -> bool:
    """Whether it was made to be memory, or was memory last (a restart may undo that)."""
    record = state.record
    known = record.namespaces.get(namespace.uuid or "")
    if known is None:  # a run was cut off between making it and writing that down
        return record.creating == namespace.region and record.creating_for == "system-ram"
    return known.get("serves") == "system-ram"


def note_service(state: State, regions: Sequence[Region], mode: str) -> bool:
    """Put on record what the namespaces of ours in these regions serve; whether that is new.

    To be done before the first step: a device that is given to programs, even by a run that
    fails, is not taken from them unasked afterwards. Memory is what already is so.
    """
    record, names = state.record, [region.name for region in regions]
    before = deepcopy((record.namespaces, record.creating_for))
    for namespace in state.inventory.namespaces:
        known = record.namespaces.get(namespace.uuid or "")
        device = state.device(namespace)
        as_memory = device is not None and device.mode == "system-ram"
        if known and namespace.region in names and (mode != "system-ram" or as_memory):
            known["serves"] = mode
    if record.creating in names and mode != "system-ram":
        record.creating_for = mode
    return before != (record.namespaces, record.creating_for)


def release_memory(draft: Draft, namespace: Namespace) -> None:
    """Back from a memory node to a device; the kernel moves what is in it, or says no."""
    device = draft.state.device(namespace)
    if device is None or device.mode != "system-ram":
        return
    draft.add(
        "release-memory",
        device.name,
        f"{namespace.name} is memory of node {device.target_node}",
        f"daxctl offline-memory {device.name};"
        f" daxctl reconfigure-device --mode=devdax {device.name}",
    )
