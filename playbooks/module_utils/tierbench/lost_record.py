"""Detect a lost record: objects that are marked as ours and that the record does not list.

A reinstalled system disk loses the record. Labels, fstab lines, tiers and the boot loader's file
still carry our marks; the earlier namespaces, a firmware goal and ``memmap=`` set by grubby do not.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING

from . import fstab, hostfile
from .ndctl import OUR_NAME, Namespace

if TYPE_CHECKING:
    from .state import State


def with_lost_entries(state: State) -> State:
    """Return the state with all that is ours in its record; ``lost`` lists what was missing."""
    state = replace(state, record=deepcopy(state.record))
    lost: list[str] = []
    for namespace in state.inventory.namespaces:
        lost += _namespace(state, namespace)
    for point in fstab.our_points(state.fstab):
        if point not in state.record.points:
            lost.append(f"the line of {point} in /etc/fstab is marked as ours")
    if state.boot_loader_file and state.record.memmap is None:
        state.record.memmap, state.record.memmap_done = state.boot_loader_file, True
        lost.append(f"the boot loader has {state.boot_loader_file} in a file of ours")
    if state.record.blank and hostfile.split(state.host_file or "")[1]:
        lost.append("the host file has tiers between our marks")
    return replace(state, lost=tuple(lost))


def _namespace(state: State, namespace: Namespace) -> list[str]:
    """Add a namespace of ours and its file system to the record; return what was missing."""
    record, content = state.record, state.users_of(namespace).content
    uuid, name = namespace.uuid, namespace.name
    if not uuid or record.creating == namespace.region or record.making == uuid:
        return []  # a run was interrupted, which is not a loss
    lines = fstab.points_of(state.fstab, content.uuid or "")
    lost = []
    if uuid not in record.namespaces and (namespace.label == OUR_NAME or lines):
        device = state.device(namespace)
        as_memory = device is not None and device.mode == "system-ram"
        serves = "system-ram" if as_memory else namespace.mode
        record.namespaces[uuid] = {
            "mode": namespace.mode,
            "requested_bytes": None,
            "serves": serves,
        }
        lost.append(f"{name} is ours by {'its label' if namespace.label else '/etc/fstab'}")
    points = lines or [each.point for each in state.users_of(namespace).mounts if each.whole]
    known = content.uuid in record.filesystems or content.label != OUR_NAME
    if uuid in record.namespaces and content.uuid and points and not known:
        size = content.block_size or 4096
        record.filesystems[content.uuid] = {"point": points[0], "block_size": size}
        lost.append(f"the {content.type} on {name} is ours by its label")
    return lost


def lost_record_note(state: State) -> list[str]:
    """The note on a lost record, with what to do; empty where nothing was lost."""
    if not state.lost:
        return []
    foreign = [
        word
        for word in state.cmdline.split()
        if word.startswith("memmap=") and "!" in word and word != state.record.memmap
    ]
    unknown = ["earlier namespaces", "labels", *foreign, "a firmware goal (ipmctl show -goal)"]
    return [
        f"record-lost: {'; '.join(state.lost)}, but not in the record. Restore"
        " /var/lib/harness/provisioning.json (provisioning_record) from a backup first, if there is"
        " one. Without it, teardown.yml removes what is marked as ours and cannot restore what was"
        f" there before: {', '.join(unknown)}"
    ]
