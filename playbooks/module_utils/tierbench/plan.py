"""The plan: a pure function of the host's state and of what is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from . import ipmctl, memmap
from .devices import plan_devices
from .draft import Draft, Refusal, Step
from .goals import plan_goal
from .losses import note_of
from .ndctl import Region
from .nodes import udev_rules
from .regions import plan_region
from .state import State
from .teardown import plan_teardown
from .tiers_of import host_file
from .wish import Wish


@dataclass(frozen=True)
class Plan:
    """Steps in their order; with any refusal none of them is carried out."""

    steps: tuple[Step, ...]
    refusals: tuple[Refusal, ...]
    notes: tuple[str, ...]
    reboot_needed: bool

    @property
    def destroys(self) -> tuple[str, ...]:
        """The exact names that must be confirmed, each once."""
        return tuple(dict.fromkeys(name for step in self.steps for name in step.destroys))


def make_plan(state: State, wish: Wish) -> Plan:
    """What is to be done on a host in this state to have what is wanted."""
    draft = Draft(state, notes=note_of(state))
    if state.lost and wish.mode != "teardown":
        why = "what is marked as ours is not on record"
        draft.add("write-record", "the record", why, "(what is marked as ours, as it is now)")
    regions = wanted_regions(draft, wish)
    if wish.mode == "teardown":
        _refuse_absent(draft, wish)
        plan_teardown(draft, wish, regions)
    elif wish.mode == "memory-mode":
        _plan_memory_mode(draft, wish, regions)
    elif _is_ready(draft, wish, regions):
        for region in regions:
            plan_region(draft, region, wish)
        if wish.mode == "system-ram":
            plan_devices(draft, wish)
    _plan_files(draft, wish)
    return Plan(tuple(draft.steps), tuple(draft.refusals), tuple(draft.notes), draft.reboot)


def wanted_regions(draft: Draft, wish: Wish) -> tuple[Region, ...]:
    """The regions that are meant, as far as the host has them."""
    there = [r for r in draft.state.inventory.regions if r.type == "pmem"]
    if wish.mode in ("appdirect", "sector", "devdax", "system-ram") and wish.regions is None:
        there = [region for region in there if region.provider != "e820"]
    if wish.mode == "emulated":
        given = memmap.effective(draft.state)
        e820 = [region for region in there if region.provider == "e820"]
        return tuple(region for region in e820 if memmap.is_of(given, region))
    return tuple(r for r in there if wish.regions is None or r.name in wish.regions)


def _refuse_absent(draft: Draft, wish: Wish) -> None:
    """A name that the host has not. A goal makes other regions: only when it has been made."""
    names = [region.name for region in draft.state.inventory.regions if region.type == "pmem"]
    for name in wish.regions or ():
        if name not in names:
            draft.refuse(
                name,
                "there is no such region",
                f"regions of this host (ndctl list -R): {', '.join(names) or 'none'}",
            )


def _is_ready(draft: Draft, wish: Wish, regions: Sequence[Region]) -> bool:
    """Whether the regions are there to be planned; if not, what brings them is planned."""
    if wish.dimms is not None and wish.dimms != len(draft.state.inventory.dimms):
        found = ", ".join(draft.state.inventory.dimms) or "none"
        draft.refuse(
            "dimms",
            f"{wish.dimms} modules are expected (pmem_dimms), ndctl has"
            f" {len(draft.state.inventory.dimms)}: {found}",
            "find out which is missing, or correct pmem_dimms",
        )
        return False
    if wish.mode == "emulated" and not memmap.plan_memmap(draft, wish):
        return False
    if wish.goal != "none" and not plan_goal(
        draft, wish.goal, 0, wish.goal_reserved_percent or None, draft.state.inventory.regions
    ):
        return False
    _refuse_absent(draft, wish)
    if not regions and not draft.refusals and wish.regions != () and wish.devices == ():
        draft.refuse(
            "regions",
            "this host has no region of persistent memory",
            "Optane: pmem_goal=AppDirect makes one of the modules. CXL memory has none, and needs"
            " none: it is a memory node already, or pmem_dax_devices makes it one. Without either,"
            " setup-emulated.yml sets DRAM aside for trying things out",
        )
    return not draft.refusals


def _plan_memory_mode(draft: Draft, wish: Wish, regions: Sequence[Region]) -> None:
    kind = "none" if wish.memory_mode_percent == 100 else wish.goal
    if wish.memory_mode_percent < 100 and kind == "none":
        kind = "AppDirect"
    plan_goal(
        draft, kind, wish.memory_mode_percent, wish.goal_reserved_percent or None, tuple(regions)
    )
    goals = draft.state.goals
    note = ipmctl.ratio_note(goals, wish.memory_mode_percent) if goals else None
    if note:
        draft.notes.append(note)


def _plan_files(draft: Draft, wish: Wish) -> None:
    """What is written down at the end: the host file, and what to do at the next start."""
    state = draft.state
    if draft.refusals or draft.reboot:
        return
    if udev_rules(state, wish) != state.udev_rules or _gives_or_takes(draft):
        draft.add(
            "write-udev-rules",
            "/etc/udev/rules.d/60-tierbench-dax.rules",
            "DAX devices belong to whom they were given after a restart, too",
            "(one line for each namespace that is not root's)",
        )
    conf = daxctl_conf(state)
    if wish.mode == "system-ram" and wish.regions != () and not state.daxctl_conf_is_read:
        draft.notes.append(
            "nothing on this host acts by daxctl.conf(5): after a restart its namespaces are devdax"
            " until the same command makes them memory again"
        )
    if any(_changes_memory(step, state) for step in draft.steps):
        relevant = wish.mode == "system-ram" or state.daxctl_conf is not None
    else:
        relevant = conf != state.daxctl_conf
    if relevant:
        draft.add(
            "write-daxctl-conf",
            "/etc/daxctl.conf.d/tierbench.conf",
            "what is memory of the kernel is so again after a restart",
            "(one section for each namespace that is system-ram)",
        )
    try:
        text = host_file(state)
    except ValueError as error:
        draft.refuse("the host file", str(error), "its owner writes it so; then run this again")
        return
    if text != state.host_file or any(step.do in _CHANGE_TIERS for step in draft.steps):
        draft.add(
            "write-host-file",
            "the host file",
            "the harness finds its tiers there",
            "(only our block of lines in it)",
        )


def _changes_memory(step: Step, state: State) -> bool:
    """Whether a namespace becomes memory, or ceases to be; other devices have no section."""
    if step.do == "destroy-namespace":
        return True
    on_nvdimm = step.object not in step.destroys and step.object not in state.record.dax
    return step.do in ("to-system-ram", "release-memory") and on_nvdimm


def _gives_or_takes(draft: Draft) -> bool:
    """Whether steps before will change what the rules are to say."""
    dos = [step.do for step in draft.steps]
    given = [step.object for step in draft.steps if step.do == "own-device"]
    rules = draft.state.udev_rules is not None
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
)


def daxctl_conf(state: State) -> str | None:
    """daxctl.conf(5) for every namespace of ours that is a memory node now; None without any."""
    sections = []
    for namespace in state.inventory.namespaces:
        device = state.device(namespace)
        if device and device.mode == "system-ram" and state.is_ours(namespace):
            sections.append(
                f"[reconfigure-device {namespace.name}]\nnvdimm.uuid = {namespace.uuid}\n"
                "mode = system-ram\nonline = true\nmovable = true\n"
            )
    return "\n".join(sections) or None
