"""Plan CXL memory: a region over memory devices, and what its DAX devices are for.

A region has no label that could carry a mark of ours: it is ours while it is on record, by the
capacity that it takes. A volatile region ends with a restart, a persistent one is forgotten by the
kernel; made again with its UUID, it has its namespaces again.
"""

from __future__ import annotations

from collections.abc import Sequence

from .change_builder import ChangeBuilder, Step
from .cxl import CxlRegion, Memdev, RootDecoder, region_identity
from .devices import plan_device
from .ndctl import Region
from .regions import plan_region
from .state import State
from .tools import NO_CXL_HINT

Group = tuple[Memdev, ...]
_KINDS = {"ram": "volatile", "pmem": "persistent"}


def plan_cxl(builder: ChangeBuilder) -> None:
    """Plan a region over each group of memory devices, and its devices."""
    for group in selected_groups(builder):
        region = _existing(builder, group)
        if region is not None:
            _use(builder, region)
        elif not _is_taken(builder, group):
            _create(builder, group)


def selected_groups(builder: ChangeBuilder) -> list[Group]:
    """Return the memory devices of each wanted region; refuse those that cannot be in one."""
    desired, before = builder.desired, len(builder.refusals)
    devices = _selected_memdevs(builder)
    for device in devices:
        if not device.capacity(desired.type):
            other = "pmem" if desired.type == "ram" else "ram"
            builder.refuse(
                device.name,
                f"it has no {_KINDS[desired.type]} memory, and {device.capacity(other)} bytes of"
                f" {_KINDS[other]}",
                f"-e cxl_type={other}, or name other devices: -e cxl_memdevs=[NAME]",
            )
        for fault in device.faults:
            builder.refuse(
                device.name,
                fault,
                "see dmesg and cxl list -MH; a device that a warm restart left without port (QEMU)"
                " needs the power off and on",
            )
    if len(devices) % desired.ways:
        names = ", ".join(device.name for device in devices)
        builder.refuse(
            "cxl_interleave_ways",
            f"{len(devices)} memory devices ({names}) cannot be divided into regions of"
            f" {desired.ways}",
            "name a multiple of it: -e cxl_memdevs=[NAME, NAME]",
        )
    if len(builder.refusals) > before:
        return []
    ways = desired.ways
    return [tuple(devices[at : at + ways]) for at in range(0, len(devices), ways)]


def _selected_memdevs(builder: ChangeBuilder) -> list[Memdev]:
    there, names = builder.state.fabric.memdevs, builder.desired.memdevs
    if names is None:
        # By address: the kernel numbers them in another order at every start.
        all_devices = sorted(there, key=lambda each: each.host)
        devices = [each for each in all_devices if each.capacity(builder.desired.type)]
        if not devices:
            other = "pmem" if builder.desired.type == "ram" else "ram"
            builder.refuse(
                "CXL memory",
                f"no memory device has {_KINDS[builder.desired.type]} memory: {_described(there)}",
                f"-e cxl_type={other}: their memory is {_KINDS[other]}" if there else NO_CXL_HINT,
            )
        return devices
    by_name = {each.host: each for each in there} | {each.name: each for each in there}
    for name in names:
        if name not in by_name:
            builder.refuse(
                name,
                "there is no such CXL memory device",
                f"those of this host (cxl list -M): {_described(there)}",
            )
    return list(dict.fromkeys(by_name[name] for name in names if name in by_name))


def _described(devices: Sequence[Memdev]) -> str:
    return (
        ", ".join(
            f"{each.name} ({each.host}, {each.ram_bytes} bytes volatile, {each.pmem_bytes}"
            " persistent)"
            for each in devices
        )
        or "none"
    )


def _name(group: Sequence[Memdev]) -> str:
    return "+".join(device.name for device in group)


# Existing regions ------------------------------------------------------------------


def _over(state: State, group: Group, type: str) -> list[CxlRegion]:
    """Return the regions that take capacity of this type of one of these devices."""
    names = {device.name for device in group}
    return [
        each
        for each in state.fabric.regions
        if each.type in (type, None) and names & set(each.memdevs)
    ]


def _existing(builder: ChangeBuilder, group: Group) -> CxlRegion | None:
    names = {device.name for device in group}
    regions = _over(builder.state, group, builder.desired.type)
    return next((each for each in regions if set(each.memdevs) == names), None)


def _is_taken(builder: ChangeBuilder, group: Group) -> bool:
    regions = _over(builder.state, group, builder.desired.type)
    for region in regions:
        builder.refuse(
            _name(group),
            f"{region.name} is over {'+'.join(region.memdevs)}",
            _away(builder.state, region),
        )
    return bool(regions)


def _away(state: State, region: CxlRegion) -> str:
    if state.is_our_region(region):
        return "run teardown.yml first"
    return (
        f"use its DAX devices as they are: setup-system-ram.yml -e pmem_dax_devices=[NAME]. If it"
        f" may go: cxl disable-region {region.name}; cxl destroy-region {region.name}"
    )


def _use(builder: ChangeBuilder, region: CxlRegion) -> None:
    """Plan what the memory of a region is for."""
    state, desired = builder.state, builder.desired
    ours = state.is_our_region(region)
    if not region.active and ours:
        _destroy(builder, region, "it is not committed: a run was interrupted", forget=False)
        return
    if not region.active:
        builder.refuse(
            region.name, "it is not committed, or disabled", f"cxl enable-region {region.name}"
        )
    elif desired.granularity not in (None, region.granularity):
        builder.refuse(
            region.name,
            f"it is interleaved by {region.granularity} bytes, not {desired.granularity}",
            _away(state, region),
        )
    elif region.type == "pmem":
        _use_persistent(builder, region)
    else:
        _use_volatile(builder, region, ours)


def _use_persistent(builder: ChangeBuilder, region: CxlRegion) -> None:
    nd_region = builder.state.nd_region_of(region)
    if nd_region is None:
        builder.refuse(
            region.name,
            "ndctl does not list it",
            "modprobe cxl_pmem nd_pmem; see dmesg",
        )
        return
    plan_region(builder, nd_region)


def _use_volatile(builder: ChangeBuilder, region: CxlRegion, ours: bool) -> None:
    state = builder.state
    devices = state.dax_of(region)
    if not devices:
        builder.refuse(
            region.name,
            "it has no DAX device",
            "modprobe dax_cxl (CONFIG_DEV_DAX_CXL); one that was destroyed: daxctl create-device",
        )
    entry = state.record.cxl.get(state.fabric.identity(region), {})
    as_memory = ours and entry.get("serves") == "system-ram"
    for device in devices:
        plan_device(builder, device, ours=ours, serves_as_memory=as_memory)


def selected_nd_regions(builder: ChangeBuilder) -> list[Region]:
    """Return ndctl's regions of the selected persistent regions."""
    regions = [_existing(builder, group) for group in selected_groups(builder)]
    nd_regions = [builder.state.nd_region_of(each) for each in regions if each is not None]
    return [each for each in nd_regions if each is not None]


def selected_regions(builder: ChangeBuilder) -> list[tuple[Group, CxlRegion | None]]:
    """Return each group with its region."""
    return [(group, _existing(builder, group)) for group in selected_groups(builder)]


# New regions -----------------------------------------------------------------------


def _create(builder: ChangeBuilder, group: Group) -> None:
    desired, state, name = builder.desired, builder.state, _name(group)
    decoder = _decoder(builder, group)
    if desired.type == "ram" or desired.serves == "system-ram":
        builder.refuse_auto_online(name)
    if desired.type == "ram" and not state.fabric.tool_is_complete:
        builder.refuse(
            name,
            f"the cxl tool, {state.fabric.version}, makes only persistent regions: it would print"
            " 'not supported yet', with exit status 0",
            "install cxl 77 or later (Debian 13 has 81), or -e cxl_type=pmem",
        )
    if decoder is None:
        return
    identity = region_identity(desired.type, [device.identity for device in group])
    entry = state.record.cxl.get(identity)
    uuid = entry["uuid"] if entry and state.fabric.tool_is_complete else None
    argv = ["cxl", "create-region", "-m", "-t", desired.type, "-d", decoder, "-w", str(len(group))]
    if desired.granularity:
        argv += ["-g", str(desired.granularity)]
    if desired.type == "pmem" and uuid:
        argv += ["-U", uuid]
    argv += [device.name for device in group]
    # A volatile one that was ours lost its content with its region; a UUID brings namespaces back.
    again = entry is not None and (desired.type == "ram" or uuid is not None)
    lost = "" if again else "; what is in that memory is lost"
    builder.steps.append(
        Step(
            "create-cxl-region",
            name,
            f"no region is over its {_KINDS[desired.type]} memory{lost}",
            " ".join(argv),
            () if again else tuple(device.name for device in group),
            {"argv": argv, "identity": identity},
        )
    )
    _announce(builder, name)


def _announce(builder: ChangeBuilder, name: str) -> None:
    """Plan what comes after the region, as far as it is known."""
    desired, device = builder.desired, f"the DAX device of {name}"
    if desired.type == "pmem":
        builder.add(
            "create-namespace",
            f"the region of {name}",
            "a new region has no namespace",
            "ndctl create-namespace -r REGION -m devdax",
        )
    if desired.serves == "system-ram":
        zone = "" if desired.movable else " --no-movable"
        builder.add(
            "to-system-ram",
            device,
            "its memory does not belong to the kernel",
            f"daxctl reconfigure-device --mode=system-ram{zone} DEVICE",
            volatile=desired.type == "ram",
        )
        if not desired.movable:
            builder.notes.append(
                f"{name}: in a kernel zone the kernel may put data that cannot be moved; then only"
                " a restart takes the memory back"
            )
    builder.notes.append(f"{name}: a restart ends the region; rerun the command to have it again")


def _decoder(builder: ChangeBuilder, group: Group) -> str | None:
    """Choose the root decoder; refuse where none suits, with each one's reason."""
    desired, decoders = builder.desired, builder.state.fabric.decoders
    if desired.decoder is not None:
        decoders = tuple(each for each in decoders if each.name == desired.decoder)
    reasons = {each.name: _unsuited(each, group, desired.type) for each in decoders}
    suited = [name for name, reason in reasons.items() if reason is None]
    if suited:
        return suited[0]
    all_names = ", ".join(each.name for each in builder.state.fabric.decoders) or "none"
    why = "; ".join(f"{name} {reason}" for name, reason in reasons.items())
    builder.refuse(
        _name(group),
        f"no root decoder can hold its region: {why or f'{desired.decoder} is not there'}",
        f"root decoders (cxl list -D): {all_names}. The firmware makes them; the kernel's part"
        " needs CONFIG_CXL_REGION",
    )
    return None


def _unsuited(decoder: RootDecoder, group: Group, type: str) -> str | None:
    """Why a root decoder cannot hold a region of these devices; None where it can."""
    if type not in decoder.types:
        return f"takes no {_KINDS[type]} memory"
    if type not in decoder.kernel_types:
        since = "6.3" if type == "ram" else "6.0"
        return f"has no create_{type}_region: the kernel cannot make one (Linux {since} or later)"
    bridges = {device.bridge for device in group if device.bridge}
    if bridges and not bridges <= decoder.targets:
        return f"does not reach {', '.join(sorted(bridges - decoder.targets))}"
    needed = min(device.capacity(type) for device in group) * len(group)
    if needed > decoder.available_bytes:
        return f"has {decoder.available_bytes} bytes free, and {needed} are needed"
    return None


# The way back ----------------------------------------------------------------------


def plan_regions_away(builder: ChangeBuilder) -> None:
    """Plan to destroy our regions, once their memory and their namespaces are released."""
    state = builder.state
    there = {state.fabric.identity(region): region for region in state.fabric.regions}
    for identity in state.record.cxl:
        region = there.get(identity)
        if region is None or not state.is_our_region(region):
            builder.notes.append(f"the region that we made over {identity} is gone")
            continue
        nd_region = state.nd_region_of(region)
        for namespace in state.of_region(nd_region) if nd_region else ():
            if not state.is_ours(namespace):
                builder.refuse(
                    namespace.name,
                    f"it lies in {region.name}, and is not ours",
                    f"save its data; if it may go: ndctl destroy-namespace -f {namespace.name}",
                )
        _destroy(builder, region, "it is ours", forget=True)


def _destroy(builder: ChangeBuilder, region: CxlRegion, why: str, *, forget: bool) -> None:
    """``cxl disable-region`` would take an open device away from its users: they are refused."""
    state, before = builder.state, len(builder.refusals)
    identity = state.fabric.identity(region)
    devices = [each.name for each in state.dax_of(region)]
    for name in devices:
        users = state.dax_users.get(name, ())
        builder.refuse_in_use(name, [f"/dev/{name} is open in {user}" for user in users])
    if len(builder.refusals) > before:
        return
    holds_data = state.record.cxl[identity]["serves"] == "devdax"
    builder.steps.append(
        Step(
            "destroy-cxl-region",
            region.name,
            why,
            f"cxl disable-region {region.name}; cxl destroy-region {region.name}",
            tuple(devices) if holds_data else (),
            {"identity": identity, "forget": forget},
        )
    )


def note_cxl_service(state: State, serves: str) -> bool:
    """Put on record what our regions serve; return whether that is new (regions.note_service)."""
    changed = False
    for region in state.fabric.regions:
        entry = state.record.cxl.get(state.fabric.identity(region))
        as_memory = any(each.mode == "system-ram" for each in state.dax_of(region))
        if entry and (serves != "system-ram" or as_memory) and entry["serves"] != serves:
            entry["serves"], changed = serves, True
    return changed
