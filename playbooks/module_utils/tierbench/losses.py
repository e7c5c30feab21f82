"""What is ours without being on record: the proof that the record was lost, and what is left of it.

A record goes with a reinstalled system disk, or by hand. What we mark ourselves still says that it
is ours; what was there before, a firmware goal and ``memmap=`` by grubby have no mark.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING

from . import fstab, hostfile
from .ndctl import OUR_NAME, Namespace

if TYPE_CHECKING:
    from .state import State


def with_what_was_lost(state: State) -> State:
    """The state with everything of ours on its record; ``lost``: what was not, in words."""
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
    """Put a namespace that is ours, and its file system, on record; what was missing there."""
    record, content = state.record, state.use(namespace).content
    uuid, name = namespace.uuid, namespace.name
    if not uuid or record.creating == namespace.region or record.making == uuid:
        return []  # a run was cut off, which is no loss
    lines = fstab.points_of(state.fstab, content.uuid or "")
    lost = []
    if uuid not in record.namespaces and (namespace.label == OUR_NAME or lines):
        device = state.device(namespace)
        as_memory = device is not None and device.mode == "system-ram"
        serves = "system-ram" if as_memory else namespace.mode
        record.namespaces[uuid] = {"mode": namespace.mode, "asked_bytes": None, "serves": serves}
        lost.append(f"{name} is ours by {'its label' if namespace.label else '/etc/fstab'}")
    points = lines or [each.point for each in state.use(namespace).mounts if each.whole]
    known = content.uuid in record.filesystems or content.label != OUR_NAME
    if uuid in record.namespaces and content.uuid and points and not known:
        size = content.block_size or 4096
        record.filesystems[content.uuid] = {"point": points[0], "block_size": size}
        lost.append(f"the {content.type} on {name} is ours by its label")
    return lost


def note_of(state: State) -> list[str]:
    """What was lost, and what to do; nothing where nothing was."""
    if not state.lost:
        return []
    foreign = [
        word
        for word in state.cmdline.split()
        if word.startswith("memmap=") and "!" in word and word != state.record.memmap
    ]
    grubby = f" {' '.join(foreign)} of the kernel's command line," if foreign else ""
    return [
        f"record-lost: {'; '.join(state.lost)}; none of it is on record. If a backup of"
        " /var/lib/harness/provisioning.json (provisioning_record) exists, put it back before you"
        " go on. Without it teardown.yml takes away what is marked as ours; what was there before"
        f" does not come back, and{grubby} labels and a firmware goal (ipmctl show -goal) stay"
    ]
