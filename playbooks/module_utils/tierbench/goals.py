"""The plan of a firmware goal (Optane): namespaces go, the goal is made, the host restarts."""

from __future__ import annotations

from .change_builder import ChangeBuilder
from .desired_state import DesiredState
from .ipmctl import Goal
from .ndctl import Region
from .regions import release_memory


def requested_goal(desired: DesiredState) -> Goal:
    """The goal of a desired state that has one."""
    percent = desired.memory_mode_percent if desired.mode == "memory-mode" else 0
    rest = "AppDirect" if desired.goal == "none" else desired.goal
    kind = "none" if percent == 100 else rest
    return Goal(kind, percent, desired.goal_reserved_percent or None)


def plan_goal(builder: ChangeBuilder, goal: Goal, regions: tuple[Region, ...]) -> bool:
    """Return whether the modules meet the goal; otherwise plan the steps up to the restart."""
    goals = builder.state.goals
    if goals is None or goals.error:
        builder.refuse(
            "goal",
            f"{goal}: {goals.error if goals else 'ipmctl was not run'}",
            "without Optane modules there are no goals: use the regions as they are:"
            " -e pmem_goal=none",
        )
        return False
    if goal.is_met(goals):
        note = goal.reserved_note(goals)
        builder.notes += [note] if note else []
        return True
    record = builder.state.record
    if goals.pending and record.requested_goal != str(goal):
        builder.refuse(
            "goal",
            "another goal is pending, not ours: the next restart changes the modules",
            "inspect it (ipmctl show -goal); to cancel it: ipmctl delete -goal",
        )
        return False
    restarted = record.goal_boot not in (None, builder.state.boot_id)
    if record.requested_goal == str(goal) and restarted and not goals.pending:
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
    why = f"the modules have {goals.volatile_bytes} bytes as memory, {goals.app_direct_bytes} as"
    why += f" AppDirect ({', '.join(sorted(set(goals.types))) or 'no regions'})"
    builder.add("create-goal", "goal", why, " ".join(goal.argv), argv=goal.argv, goal=str(goal))
    builder.add("reboot", "host", "the firmware carries out a goal at start", "reboot")
    return False
