"""Plan the way back: remove our objects, create the earlier ones again (empty)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from . import fstab
from .change_builder import ChangeBuilder
from .cxl_regions import plan_regions_away
from .devices import plan_release
from .goals import plan_goal
from .ipmctl import Goal
from .memmap import plan_removal
from .namespace_users import MountedAt
from .ndctl import Namespace, Region
from .regions import release_memory


def plan_teardown(builder: ChangeBuilder, regions: tuple[Region, ...]) -> None:
    """Region by region, then what belongs to none of them.

    What was there before the goal of ours comes again only in the regions of the goal of before:
    after that one has been made again, and the restart.
    """
    record = builder.state.record
    goal_is_back = _goal_is_back(builder)
    if record.blank and not any(map(builder.state.is_ours, builder.state.inventory.namespaces)):
        builder.notes.append("nothing of ours is on this host")
    for region in regions:
        if region.name in builder.state.disabled_regions and record.approved:
            builder.enable_region(region.name, "a run was interrupted")
        else:
            _plan_region(builder, region, bring_back=goal_is_back)
            if not goal_is_back and builder.desired.regions is not None:
                _refuse_to_forget(builder, region)
    if builder.desired.regions is None:
        plan_release(builder)
        plan_regions_away(builder)
        _forget_mount_points(builder)
        plan_removal(builder)
        if not goal_is_back:
            _goal_back(builder)
        elif record.goal_before is None and record.requested_goal is not None:
            builder.notes.append(
                f"the modules keep the goal {record.requested_goal}: no goal restores their"
                " earlier state (not configured, or of several types)"
            )


def _plan_region(builder: ChangeBuilder, region: Region, *, bring_back: bool) -> None:
    state = builder.state
    ours = [each for each in state.of_region(region) if state.is_ours(each)]
    unmounted = {namespace.name: _unmount(builder, namespace) for namespace in ours}
    for namespace in ours:
        uuid = state.users_of(namespace).content.uuid or ""
        lines = fstab.points_of(state.fstab, uuid)
        on_record = state.record.filesystems.get(uuid, {})
        _forget(builder, lines, [*lines, on_record.get("point", "")])
        release_memory(builder, namespace)
        _destroy(builder, region, namespace, unmounted[namespace.name])
    before = state.record.before.get(region.name)
    if before is None and ours:
        builder.notes.append(
            f"{region.name}: its earlier namespaces are not on record and cannot be restored"
        )
    if before is None or not bring_back:
        return
    others = [each for each in state.of_region(region) if each not in ours]
    if region.dimms and not before["labelled"]:
        _labels_away(builder, region, others)
    elif region.dimms:
        for wanted in missing_of(before["namespaces"], others):
            _create(builder, region, wanted)


def _unmount(builder: ChangeBuilder, namespace: Namespace) -> list[MountedAt]:
    """Our mounts only, which it returns; any other mount of our namespace is refused."""
    planned = []
    for mount in builder.state.users_of(namespace).mounts:
        point = mount.point
        ours = point in builder.state.record.points or point in fstab.our_points(
            builder.state.fstab
        )
        if not ours or mount.through:
            builder.refuse(
                namespace.name,
                f"it is mounted at {point}, not by us",
                f"umount {point} first",
            )
            continue
        users = builder.state.mount_users.get(point, ())
        if users:
            who = ", ".join(users[:5]) + (" …" if len(users) > 5 else "")
            builder.refuse(
                namespace.name, f"it is mounted at {point}, used by {who}", "stop them first"
            )
            continue
        builder.unmount(point, f"{namespace.name} is destroyed")
        planned.append(mount)
    return planned


def _destroy(
    builder: ChangeBuilder, region: Region, namespace: Namespace, unmounted: list[MountedAt]
) -> None:
    """Destroy it after unmounting; all other refusals apply."""
    name = namespace.name
    builder = _without(builder, namespace, unmounted)
    if not region.dimms:
        argv = ["ndctl", "create-namespace", "-f", "-e", name, "-m", "raw"]
        why = "it was raw before"
        builder.destroy(
            "reconfigure-namespace", name, why, " ".join(argv), [namespace], argv=argv, raw=True
        )
        return
    builder.destroy_namespace(namespace, "it is ours")


def _without(
    builder: ChangeBuilder, namespace: Namespace, unmounted: list[MountedAt]
) -> ChangeBuilder:
    """Return the builder without these mounts of the namespace; all other users remain.

    The state is read again before the destruction: if it is still mounted then, it is refused.
    """
    users = builder.state.users_of(namespace)
    left = tuple(mount for mount in users.mounts if mount not in unmounted)
    users = replace(users, mounts=left)
    state = replace(
        builder.state, namespace_users={**builder.state.namespace_users, namespace.name: users}
    )
    return replace(builder, state=state)


def missing_of(before: list[dict[str, Any]], now: list[Namespace]) -> list[dict[str, Any]]:
    """The namespaces of ``before`` that have no like among those of ``now``."""
    left = list(now)
    missing = []
    for wanted in before:
        like = next((each for each in left if _is_like(each, wanted)), None)
        if like is None:
            missing.append(wanted)
        else:
            left.remove(like)
    return missing


def _is_like(namespace: Namespace, wanted: dict[str, Any]) -> bool:
    return (namespace.mode, namespace.raw_bytes, namespace.label) == (
        wanted["mode"],
        wanted["raw_bytes"],
        wanted["label"],
    )


def _create(builder: ChangeBuilder, region: Region, wanted: dict[str, Any]) -> None:
    """As it was: mode, size, name and what goes with the mode; its content is gone."""
    argv = ["ndctl", "create-namespace", "-r", region.name, "-m", wanted["mode"]]
    argv += ["-s", str(wanted["raw_bytes"])]
    if wanted["label"]:
        argv += ["-n", wanted["label"]]
    if wanted["mode"] == "sector":
        argv += ["-l", str(wanted["sector_size"])]
    if wanted["mode"] in ("fsdax", "devdax"):
        argv += ["-M", wanted["map"] or "dev", "-a", str(wanted["align_bytes"] or 1 << 21)]
    why = f"it existed before: {wanted['mode']}, {wanted['raw_bytes']} bytes (its data are lost)"
    builder.add("create-namespace", region.name, why, " ".join(argv), argv=argv, theirs=True)


def _labels_away(builder: ChangeBuilder, region: Region, others: list[Namespace]) -> None:
    if not region.labelled:
        if region.name in builder.state.record.zeroed:
            builder.notes.append(
                f"{region.name} no longer has labels; the kernel shows its raw namespace again"
                " after a restart"
            )
        return
    if others:
        names = ", ".join(each.name for each in others)
        builder.notes.append(f"{region.name} keeps its labels for {names}, created after ours")
        return
    dimms = " ".join(region.dimms)
    builder.add(
        "zero-labels",
        region.name,
        "it had no labels before",
        f"ndctl disable-region {region.name}; ndctl zero-labels {dimms};"
        f" ndctl enable-region {region.name}",
        dimms=list(region.dimms),
    )


def _forget_mount_points(builder: ChangeBuilder) -> None:
    """fstab lines and folders of ours, whatever they were for."""
    _forget(builder, fstab.our_points(builder.state.fstab), builder.state.record.folders)


def _forget(builder: ChangeBuilder, lines: list[str], points: list[str]) -> None:
    """Our lines before what they mount goes, and those of the mount points that we made."""
    planned = [(step.do, step.object) for step in builder.steps]
    for point in lines:
        if ("remove-fstab", point) not in planned:
            builder.add("remove-fstab", point, "the line is ours", f"/etc/fstab: without {point}")
    for point in builder.state.record.folders:
        if point in points and ("remove-folder", point) not in planned:
            builder.add("remove-folder", point, "we created it", f"rmdir {point}")


def _goal_is_back(builder: ChangeBuilder) -> bool:
    """Return whether the modules have the goal from before ours, or an unknown one."""
    record, now = builder.state.record, builder.state.goals
    if record.goal_before is None:
        return True
    return now is not None and Goal.of_text(record.goal_before).is_met(now)


def _goal_back(builder: ChangeBuilder) -> None:
    """Plan the earlier goal, after the steps that remove our objects."""
    state = builder.state
    theirs = tuple(each for each in state.inventory.namespaces if not state.is_ours(each))
    state = replace(state, inventory=replace(state.inventory, namespaces=theirs))
    without_ours = replace(builder, state=state)
    goal = Goal.of_text(str(state.record.goal_before))
    plan_goal(without_ours, goal, state.inventory.regions)
    builder.reboot = without_ours.reboot


def _refuse_to_forget(builder: ChangeBuilder, region: Region) -> None:
    """One region cannot go back to a goal, and with its teardown its past would be forgotten."""
    before = builder.state.record.before.get(region.name)
    if before and before["namespaces"]:
        builder.refuse(
            region.name,
            f"its earlier namespaces belong to another goal ({builder.state.record.goal_before}),"
            " which can be restored only for all regions together",
            "teardown_regions: all",
        )
