"""The plan of a firmware goal (Optane): namespaces go, the goal is made, the host restarts."""

from __future__ import annotations

from . import ipmctl
from .change_builder import ChangeBuilder
from .ndctl import Region
from .regions import release_memory


def plan_goal(
    builder: ChangeBuilder,
    kind: str,
    percent: int,
    reserved: int | None,
    regions: tuple[Region, ...],
) -> bool:
    """Return whether the modules meet the goal; otherwise plan the steps up to the restart.

    ``kind``: AppDirect, AppDirectNotInterleaved, or none; ``percent``: of Memory Mode;
    ``reserved``: percentage, None: not requested; any reserved part is accepted.
    """
    goals = builder.state.goals
    goal = " ".join(ipmctl.goal_argv(kind, percent, reserved or 0)[4:])
    if goals is None or goals.error:
        builder.refuse(
            "goal",
            f"{goal}: {goals.error if goals else 'ipmctl was not run'}",
            "without Optane modules there are no goals: use the regions as they are"
            " (pmem_goal: none)",
        )
        return False
    if ipmctl.is_met(goals, kind, percent, reserved):
        note = ipmctl.reserved_note(goals, percent, reserved)
        builder.notes += [note] if note else []
        return True
    record = builder.state.record
    if goals.pending and record.requested_goal != goal:
        builder.refuse(
            "goal",
            "another goal is pending, not ours: the next restart changes the modules",
            "inspect it (ipmctl show -goal); to cancel it: ipmctl delete -goal",
        )
        return False
    restarted = record.goal_boot not in (None, builder.state.boot_id)
    if record.requested_goal == goal and restarted and not goals.pending:
        builder.refuse(
            "goal",
            f"{goal} was requested and the host restarted, but the modules have"
            f" {goals.volatile_bytes} bytes as memory, {goals.app_direct_bytes} as AppDirect",
            "the firmware did not carry it out: check its settings (volatile memory mode: 2LM for"
            " Memory Mode) and ipmctl show -memoryresources",
        )
        return False
    builder.reboot = True
    if goals.pending:
        builder.notes.append("a goal is pending: the firmware carries it out at the next restart")
        builder.add("reboot", "host", "a goal is pending", "reboot")
        return False
    for namespace in builder.state.inventory.namespaces:
        if not any(region.name == namespace.region and region.dimms for region in regions):
            continue
        release_memory(builder, namespace)
        builder.destroy_namespace(namespace, "a goal requires modules without namespaces")
    argv = ipmctl.goal_argv(kind, percent, reserved or 0)
    why = f"the modules have {goals.volatile_bytes} bytes as memory, {goals.app_direct_bytes} as"
    why += f" AppDirect ({', '.join(sorted(set(goals.types))) or 'no regions'})"
    builder.add("create-goal", "goal", why, " ".join(argv), argv=argv, goal=goal)
    builder.add("reboot", "host", "the firmware carries out a goal at start", "reboot")
    return False
