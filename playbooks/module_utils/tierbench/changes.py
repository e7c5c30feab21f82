"""The plan: a pure function of the host's state and of what is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import hostfile, ipmctl, memmap
from .change_builder import ChangeBuilder, Step
from .commands import Refusal
from .cxl_regions import plan_cxl, selected_nd_regions
from .desired_state import DesiredState
from .devices import is_of_our_region, ours, plan_devices, udev_rules
from .goals import plan_goal, requested_goal
from .ndctl import Namespace, Region
from .regions import plan_region
from .state import CXL_PROVIDER, State, lost_record_note
from .teardown import plan_teardown
from .tools import NO_REGION_HINT


@dataclass(frozen=True)
class Changes:
    """Steps in their order; with any refusal none of them is carried out."""

    steps: tuple[Step, ...]
    refusals: tuple[Refusal, ...]
    notes: tuple[str, ...]
    reboot_needed: bool

    @property
    def destroys(self) -> tuple[str, ...]:
        """The exact names that must be confirmed, each once."""
        return tuple(dict.fromkeys(name for step in self.steps for name in step.destroys))


def plan_changes(state: State, desired: DesiredState) -> Changes:
    """Changes to do on a host in this state to have what is wanted."""
    builder = ChangeBuilder(state, desired, notes=lost_record_note(state))
    if state.lost and desired.mode != "teardown":
        why = "objects marked as ours are not on record"
        builder.add("write-record", "the record", why, "(the objects marked as ours)")
    regions = selected_regions(state, desired)
    if desired.mode == "teardown":
        _refuse_absent(builder)
        plan_teardown(builder, regions)
    elif desired.mode == "memory-mode":
        _plan_memory_mode(builder, regions)
    elif desired.mode == "cxl":
        plan_cxl(builder)
    elif _is_ready(builder, regions):
        for region in regions:
            plan_region(builder, region)
        if desired.mode == "system-ram":
            plan_devices(builder)
    _plan_files(builder)
    return Changes(
        tuple(builder.steps), tuple(builder.refusals), tuple(builder.notes), builder.reboot
    )


def selected_regions(state: State, desired: DesiredState) -> tuple[Region, ...]:
    """The regions that are meant, as far as the host has them."""
    if desired.mode == "cxl":
        return tuple(selected_nd_regions(ChangeBuilder(state, desired)))
    there = [r for r in state.inventory.regions if r.type == "pmem"]
    if desired.mode in ("appdirect", "sector", "devdax", "system-ram") and desired.regions is None:
        there = [region for region in there if region.provider != "e820"]
    if desired.mode == "emulated":
        given = memmap.effective(state)
        e820 = [region for region in there if region.provider == "e820"]
        return tuple(region for region in e820 if memmap.is_of(given, region))
    return tuple(r for r in there if desired.regions is None or r.name in desired.regions)


def _refuse_absent(builder: ChangeBuilder) -> None:
    """A name that the host has not. A goal makes other regions: only when it has been made."""
    types = {region.name: region.type for region in builder.state.inventory.regions}
    names = [name for name, type in types.items() if type == "pmem"]
    for name in builder.desired.regions or ():
        if name in types and name not in names:
            why = f"its type is {types[name]}, not pmem"
            builder.refuse(name, why, f"name others: {', '.join(names) or 'there are none'}")
        elif name not in names:
            builder.refuse(
                name,
                "there is no such region",
                f"regions of this host (ndctl list -R): {', '.join(names) or 'none'}",
            )


def _is_ready(builder: ChangeBuilder, regions: Sequence[Region]) -> bool:
    """Return whether the regions are there to be planned; if not, what brings them is planned."""
    if builder.desired.dimms is not None and builder.desired.dimms != len(
        builder.state.inventory.dimms
    ):
        dimms = ", ".join(builder.state.inventory.dimms) or "none"
        builder.refuse(
            "dimms",
            f"{builder.desired.dimms} modules are expected (pmem_dimms), ndctl has"
            f" {len(builder.state.inventory.dimms)}: {dimms}",
            "find the missing module, or -e pmem_dimms=NUMBER",
        )
        return False
    if builder.desired.mode == "emulated" and not memmap.plan_memmap(builder):
        return False
    if builder.desired.goal != "none":
        goal = requested_goal(builder.desired)
        if not plan_goal(builder, goal, builder.state.inventory.regions):
            return False
    _refuse_absent(builder)
    if (
        not regions
        and not builder.refusals
        and builder.desired.regions != ()
        and builder.desired.devices == ()
    ):
        builder.refuse(
            "regions",
            "this host has no region of persistent memory",
            NO_REGION_HINT,
        )
    return not builder.refusals


def _plan_memory_mode(builder: ChangeBuilder, regions: tuple[Region, ...]) -> None:
    plan_goal(builder, requested_goal(builder.desired), regions)
    goals = builder.state.goals
    note = ipmctl.ratio_note(goals, builder.desired.memory_mode_percent) if goals else None
    if note:
        builder.notes.append(note)


def _plan_files(builder: ChangeBuilder) -> None:
    """Plan what is written at the end: the host file, and what to do at the next start."""
    state = builder.state
    if builder.refusals or builder.reboot:
        return
    if udev_rules(state, builder.desired) != state.udev_rules or _gives_or_takes(builder):
        builder.add(
            "write-udev-rules",
            "/etc/udev/rules.d/60-tierbench-dax.rules",
            "DAX devices keep their owner after a restart",
            "(one line for each namespace that is not root's)",
        )
    conf = daxctl_conf(state)
    if (
        builder.desired.mode == "system-ram"
        and builder.desired.regions != ()
        and not state.daxctl_conf_is_read
    ):
        builder.notes.append(
            "this host does not apply daxctl.conf(5): after a restart its namespaces are devdax"
            " until the command is rerun"
        )
    if any(_changes_memory(step, state) for step in builder.steps):
        relevant = builder.desired.serves == "system-ram" or state.daxctl_conf is not None
    else:
        relevant = conf != state.daxctl_conf
    if relevant:
        builder.add(
            "write-daxctl-conf",
            "/etc/daxctl.conf.d/tierbench.conf",
            "system-ram stays so after a restart",
            "(one section for each namespace that is system-ram)",
        )
    try:
        text = host_file(state)
    except ValueError as error:
        builder.refuse("the host file", str(error), "change it so; then rerun")
        return
    if text != state.host_file or any(step.do in _CHANGE_TIERS for step in builder.steps):
        builder.add(
            "write-host-file",
            "the host file",
            "the harness reads its tiers from it",
            "(only our block of lines in it)",
        )


def _changes_memory(step: Step, state: State) -> bool:
    """Return whether a namespace becomes memory, or ceases to be; other devices have no section."""
    if step.do == "destroy-namespace":
        return True
    volatile = step.args.get("volatile") or step.object in [each.name for each in ours(state)]
    on_nvdimm = not volatile and step.object not in state.record.dax
    return step.do in ("to-system-ram", "release-memory") and on_nvdimm


def _gives_or_takes(builder: ChangeBuilder) -> bool:
    """Return whether steps before will change what the rules are to say."""
    dos = [step.do for step in builder.steps]
    given = [step.object for step in builder.steps if step.do == "own-device"]
    rules = builder.state.udev_rules is not None
    still_made = any(not name.startswith("/dev/") for name in given)
    return still_made or ("destroy-namespace" in dos and rules)


_CHANGE_TIERS = (
    "mount",
    "unmount",
    "create-namespace",
    "reconfigure-namespace",
    "destroy-namespace",
    "to-system-ram",
    "release-memory",
    "create-cxl-region",
    "destroy-cxl-region",
)


def daxctl_conf(state: State) -> str | None:
    """daxctl.conf(5) for every namespace of ours that is a memory node now; None without any."""
    sections = []
    for namespace in state.inventory.namespaces:
        device = state.device(namespace)
        if device and device.mode == "system-ram" and state.is_ours(namespace):
            sections.append(
                f"[reconfigure-device {namespace.name}]\nnvdimm.uuid = {namespace.uuid}\n"
                "mode = system-ram\nonline = true\n"
                f"movable = {'false' if device.movable is False else 'true'}\n"
            )
    return "\n".join(sections) or None


Wanted = list[tuple[str, dict[str, Any]]]


def our_tiers(state: State) -> Wanted:
    """(base name, tier) in the order of the namespaces' names; a disk's ``ssd`` last."""
    tiers: Wanted = []
    for namespace in state.inventory.namespaces:
        tiers += _tiers_of(namespace, state)
    for device in ours(state):
        node = {"kind": "numa", "node": device.target_node, "policy": "bind"}
        tiers.append(("cxl" if device.origin == "cxl" else "farmem", node))
    for device in state.dax:
        if device.mode == "devdax" and is_of_our_region(state, device):
            tiers.append(("cxl_raw", {"kind": "devdax", "device": f"/dev/{device.name}"}))
    # Devices below one root decoder are memory of one node.
    return [tier for at, tier in enumerate(tiers) if tier not in tiers[:at]]


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
        return [("cxl" if _is_cxl(namespace, state) else "pmem_ram", {**node, **emulates})]
    base = "cxl_raw" if _is_cxl(namespace, state) else "pmem_raw"
    return [(base, {"kind": "devdax", "device": f"/dev/{device.name}", **emulates})]


def _is_cxl(namespace: Namespace, state: State) -> bool:
    regions = (r for r in state.inventory.regions if r.name == namespace.region)
    return any(region.provider == CXL_PROVIDER for region in regions)


def _emulates(namespace: Namespace, state: State) -> dict[str, Any]:
    """DRAM set aside by ``memmap=`` says in the host file what it stands in for."""
    region = next((r for r in state.inventory.regions if r.name == namespace.region), None)
    return {"emulates": "pmem"} if region and region.provider == "e820" else {}


def host_file(state: State) -> str | None:
    """Return the host file with our tiers updated and the owner's unchanged.

    Next to a tier of ours it has ``ssd`` and ``dram``: with a host file none is discovered.
    """
    wanted = our_tiers(state)
    text = state.host_file or ""
    if wanted and state.default_tier and not _has_disk(text):
        kind, path = state.default_tier
        wanted.append(("ssd", {"kind": kind, "path": path}))
    if wanted and not any(name.startswith("dram") for name in _owner_tiers(text)):
        nodes = [{"kind": "numa", "node": node, "policy": "bind"} for node in state.dram_nodes]
        wanted += [("dram", node) for node in nodes]
    named = hostfile.name_tiers(wanted, text)
    if not wanted and state.host_file is None:
        return None
    new = hostfile.write(state.host_file, named)
    if new is None and state.host_file is not None and not state.record.host_file_made:
        return "".join(line + "\n" for line in hostfile.split(state.host_file)[0])
    return new


def _has_disk(text: str) -> bool:
    """Return whether the owner named an ordinary disk, or anything ``ssd``."""
    owned = _owner_tiers(text)
    return "ssd" in owned or any("block" in rest for rest in owned.values())


def _owner_tiers(text: str) -> dict[str, str]:
    return hostfile.entries(hostfile.split(text)[0])
