"""The plan back: what is ours goes, what was there before comes again (empty)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from . import fstab, goals, ipmctl
from .devices import plan_release
from .draft import Draft
from .memmap import plan_removal
from .ndctl import Namespace, Region
from .regions import release_memory
from .use import MountedAt
from .wish import Wish


def plan_teardown(draft: Draft, wish: Wish, regions: tuple[Region, ...]) -> None:
    """Region by region, then what belongs to none of them.

    What was there before the goal of ours comes again only in the regions of the goal of before:
    after that one has been made again, and the restart.
    """
    record = draft.state.record
    goal_is_back = _goal_is_back(draft)
    if record.blank and not any(map(draft.state.is_ours, draft.state.inventory.namespaces)):
        draft.notes.append("nothing of ours is on this host")
    for region in regions:
        if region.name in draft.state.disabled_regions and record.approved:
            command = f"ndctl enable-region {region.name}"
            draft.add("enable-region", region.name, "a run was cut off", command)
        else:
            _plan_region(draft, region, bring_back=goal_is_back)
            if not goal_is_back and wish.regions is not None:
                _refuse_to_forget(draft, region)
    if wish.regions is None:
        plan_release(draft)
        _forget_mount_points(draft)
        plan_removal(draft)
        if not goal_is_back:
            _goal_back(draft)
        elif record.goal_before is None and record.goal_asked is not None:
            draft.notes.append(
                f"the modules stay as {record.goal_asked} made them: no goal brings back what they"
                " were before (not configured, or of several types)"
            )


def _plan_region(draft: Draft, region: Region, *, bring_back: bool) -> None:
    state = draft.state
    ours = [each for each in state.of_region(region) if state.is_ours(each)]
    unmounted = {namespace.name: _unmount(draft, namespace) for namespace in ours}
    for namespace in ours:
        uuid = state.use(namespace).content.uuid or ""
        lines = fstab.points_of(state.fstab, uuid)
        on_record = state.record.filesystems.get(uuid, {})
        _forget(draft, lines, [*lines, on_record.get("point", "")])
        release_memory(draft, namespace)
        _destroy(draft, region, namespace, unmounted[namespace.name])
    before = state.record.before.get(region.name)
    if before is None and ours:
        draft.notes.append(
            f"{region.name}: its earlier namespaces are not on record and cannot be restored"
        )
    if before is None or not bring_back:
        return
    others = [each for each in state.of_region(region) if each not in ours]
    if region.dimms and not before["labelled"]:
        _labels_away(draft, region, others)
    elif region.dimms:
        for wanted in missing_of(before["namespaces"], others):
            _create(draft, region, wanted)


def _unmount(draft: Draft, namespace: Namespace) -> list[MountedAt]:
    """Our mounts only, which it returns; any other mount of our namespace is refused."""
    planned = []
    for mount in draft.state.use(namespace).mounts:
        point = mount.point
        ours = point in draft.state.record.points or point in fstab.our_points(draft.state.fstab)
        if not ours or mount.through:
            draft.refuse(
                namespace.name,
                f"it is mounted at {point}, which is not a mount of ours",
                f"umount {point} first",
            )
            continue
        users = draft.state.mount_users.get(point, ())
        if users:
            who = ", ".join(users[:5]) + (" …" if len(users) > 5 else "")
            draft.refuse(
                namespace.name, f"it is mounted at {point}, used by {who}", "end them first"
            )
            continue
        draft.add("unmount", point, f"{namespace.name} goes", f"umount {point}")
        planned.append(mount)
    return planned


def _destroy(
    draft: Draft, region: Region, namespace: Namespace, unmounted: list[MountedAt]
) -> None:
    """Behind its unmounting; what speaks against it otherwise is refused as everywhere."""
    name = namespace.name
    draft = _without(draft, namespace, unmounted)
    if not region.dimms:
        argv = ["ndctl", "create-namespace", "-f", "-e", name, "-m", "raw"]
        why = "it was the kernel's own before"
        draft.destroy(
            "reconfigure-namespace", name, why, " ".join(argv), [namespace], argv=argv, raw=True
        )
        return
    command = f"ndctl destroy-namespace -f {name}"
    draft.destroy("destroy-namespace", name, "it is ours", command, [namespace])


def _without(draft: Draft, namespace: Namespace, unmounted: list[MountedAt]) -> Draft:
    """The same draft, seen as if these mounts of the namespace were no more; nobody else's use
    is left out.

    The state is read anew before the destruction: were it still mounted then, it is refused.
    """
    use = draft.state.use(namespace)
    left = tuple(mount for mount in use.mounts if mount not in unmounted)
    use = replace(use, mounts=left)
    state = replace(draft.state, uses={**draft.state.uses, namespace.name: use})
    return Draft(state, draft.steps, draft.refusals, draft.notes)


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


def _create(draft: Draft, region: Region, wanted: dict[str, Any]) -> None:
    """As it was: mode, size, name and what goes with the mode; its content is gone."""
    argv = ["ndctl", "create-namespace", "-r", region.name, "-m", wanted["mode"]]
    argv += ["-s", str(wanted["raw_bytes"])]
    if wanted["label"]:
        argv += ["-n", wanted["label"]]
    if wanted["mode"] == "sector":
        argv += ["-l", str(wanted["sector_size"])]
    if wanted["mode"] in ("fsdax", "devdax"):
        argv += ["-M", wanted["map"] or "dev", "-a", str(wanted["align_bytes"] or 1 << 21)]
    why = f"there was {wanted['mode']} of {wanted['raw_bytes']} bytes (its content is gone)"
    draft.add("create-namespace", region.name, why, " ".join(argv), argv=argv, theirs=True)


def _labels_away(draft: Draft, region: Region, others: list[Namespace]) -> None:
    if not region.labelled:
        if region.name in draft.state.record.zeroed:
            draft.notes.append(
                f"{region.name} has no labels any more; the kernel shows its raw namespace again"
                " after a restart"
            )
        return
    if others:
        names = ", ".join(each.name for each in others)
        draft.notes.append(f"{region.name} keeps its labels, since {names} came after us")
        return
    dimms = " ".join(region.dimms)
    draft.add(
        "zero-labels",
        region.name,
        "it had no labels before",
        f"ndctl disable-region {region.name}; ndctl zero-labels {dimms};"
        f" ndctl enable-region {region.name}",
        dimms=list(region.dimms),
    )


def _forget_mount_points(draft: Draft) -> None:
    """fstab lines and folders of ours, whatever they were for."""
    _forget(draft, fstab.our_points(draft.state.fstab), draft.state.record.folders)


def _forget(draft: Draft, lines: list[str], points: list[str]) -> None:
    """Our lines before what they mount goes, and those of the mount points that we made."""
    planned = [(step.do, step.object) for step in draft.steps]
    for point in lines:
        if ("remove-fstab", point) not in planned:
            draft.add("remove-fstab", point, "the line is ours", f"/etc/fstab: without {point}")
    for point in draft.state.record.folders:
        if point in points and ("remove-folder", point) not in planned:
            draft.add("remove-folder", point, "we made it", f"rmdir {point}")


def _goal_is_back(draft: Draft) -> bool:
    """Whether the modules are as before any goal of ours; so, too, where that cannot be told."""
    record, now = draft.state.record, draft.state.goals
    if record.goal_before is None:
        return True
    asked = _goal_of(record.goal_before)
    return now is not None and not now.error and ipmctl.is_met(now, *asked)


def _goal_of(told: str) -> tuple[str, int, int | None]:
    """Type, percentage of memory and reserved one of what ipmctl.current_goal() told."""
    percent, kind, *reserved = told.split()
    return kind, int(percent), int(reserved[0]) if reserved else None


def _goal_back(draft: Draft) -> None:
    """The firmware's goal of before, behind the steps by which what is ours goes."""
    asked = _goal_of(str(draft.state.record.goal_before))
    state = draft.state
    theirs = tuple(each for each in state.inventory.namespaces if not state.is_ours(each))
    state = replace(state, inventory=replace(state.inventory, namespaces=theirs))
    without_ours = Draft(state, draft.steps, draft.refusals, draft.notes)
    goals.plan_goal(without_ours, *asked, state.inventory.regions)
    draft.reboot = draft.reboot or without_ours.reboot


def _refuse_to_forget(draft: Draft, region: Region) -> None:
    """One region cannot go back to a goal, and with its teardown its past would be forgotten."""
    before = draft.state.record.before.get(region.name)
    if before and before["namespaces"]:
        draft.refuse(
            region.name,
            f"its namespaces of before are of another goal ({draft.state.record.goal_before}),"
            " to which only all regions together can go back",
            "teardown_regions: all",
        )
