"""The plan of a firmware goal (Optane): namespaces go, the goal is made, the host restarts."""

from __future__ import annotations

from . import ipmctl
from .draft import Draft
from .ndctl import Region
from .regions import release_memory


def plan_goal(
    draft: Draft, kind: str, percent: int, reserved: int | None, regions: tuple[Region, ...]
) -> bool:
    """Whether the modules are as wanted; if not, all that comes before the restart is planned.

    ``kind``: AppDirect, AppDirectNotInterleaved, or none; ``percent``: of Memory Mode;
    ``reserved``: percentage, None: none is asked for, and what is so may stay so.
    """
    goals = draft.state.goals
    asked = " ".join(ipmctl.goal_argv(kind, percent, reserved or 0)[4:])
    if goals is None or goals.error:
        draft.refuse(
            "goal",
            f"{asked}: {goals.error if goals else 'ipmctl was not asked'}",
            "without Optane modules there are no goals: take the regions as they are"
            " (pmem_goal: none)",
        )
        return False
    if ipmctl.is_met(goals, kind, percent, reserved):
        note = ipmctl.reserved_note(goals, percent, reserved)
        draft.notes += [note] if note else []
        return True
    record = draft.state.record
    if goals.pending and record.goal_asked != asked:
        draft.refuse(
            "goal",
            "another goal is pending, not ours: with the next restart it changes the modules",
            "look at it (ipmctl show -goal); if it is not wanted: ipmctl delete -goal",
        )
        return False
    restarted = record.goal_boot not in (None, draft.state.boot_id)
    if record.goal_asked == asked and restarted and not goals.pending:
        draft.refuse(
            "goal",
            f"{asked} was asked for, the host was restarted, and the modules have"
            f" {goals.volatile_bytes} bytes as memory, {goals.app_direct_bytes} as AppDirect",
            "the firmware did not carry it out: look at its settings (volatile memory mode: 2LM for"
            " Memory Mode) and at ipmctl show -memoryresources",
        )
        return False
    draft.reboot = True
    if goals.pending:
        draft.notes.append("a goal is pending: the firmware carries it out at the next restart")
        draft.add("reboot", "host", "a goal waits for it", "reboot")
        return False
    for namespace in draft.state.inventory.namespaces:
        if not any(region.name == namespace.region and region.dimms for region in regions):
            continue
        release_memory(draft, namespace)
        draft.destroy(
            "destroy-namespace",
            namespace.name,
            "a goal can be made only where no namespace is",
            f"ndctl destroy-namespace -f {namespace.name}",
            [namespace],
        )
    argv = ipmctl.goal_argv(kind, percent, reserved or 0)
    why = f"the modules have {goals.volatile_bytes} bytes as memory, {goals.app_direct_bytes} as"
    why += f" AppDirect ({', '.join(sorted(set(goals.types))) or 'no regions'})"
    draft.add("create-goal", "goal", why, " ".join(argv), argv=argv, asked=asked)
    draft.add("reboot", "host", "the firmware carries a goal out at the start", "reboot")
    return False
