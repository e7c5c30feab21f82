"""Owner of a DAX device's node below /dev: now (chown) and after a restart (udev).

The rule names a device by the UUID of its namespace, which the device's parent in sysfs shows
(``ATTRS{uuid}``, drivers/nvdimm/pfn_devs.c): a name such as dax0.0 may be another device's at the
next start. Owners stand in it by number, since no user database may be there when udev starts.
"""

from __future__ import annotations

import contextlib
import re

from .change_builder import ChangeBuilder
from .desired_state import DesiredState
from .ndctl import Namespace, Region
from .state import State, ids_of

#: Mode of a device node with an owner, and of root's (the kernel's default).
SHARED_MODE, PRIVATE_MODE = 0o660, 0o600
_ROOT = (0, 0)
_HEAD = "# Written by tierbench's playbooks; teardown.yml removes it.\n"
_RULE = re.compile(r'^SUBSYSTEM=="dax", ATTRS\{uuid\}=="([^"]+)", OWNER="(\d+)", GROUP="(\d+)"')


def owners(rules: str | None) -> dict[str, tuple[int, int]]:
    """Owner and group of each namespace (by its UUID) that the rules give away."""
    found = map(_RULE.match, (rules or "").splitlines())
    return {m.group(1): (int(m.group(2)), int(m.group(3))) for m in found if m}


def expected_owner(
    state: State, namespace: Namespace, desired: DesiredState
) -> tuple[int, int] | None:
    """Return the owner of a namespace's device; None: root (or no such user).

    Namespaces outside the desired state keep their owner.
    """
    meant = desired.regions is None or namespace.region in desired.regions
    if desired.mode in ("devdax", "system-ram") and meant:
        with contextlib.suppress(KeyError):
            return _requested_owner(desired)
        return None
    return owners(state.udev_rules).get(namespace.uuid or "")


def _requested_owner(desired: DesiredState) -> tuple[int, int] | None:
    """The ids of ``pmem_owner``, where devices can be opened at all. KeyError: no such user."""
    return ids_of(desired.owner) if desired.owner and desired.mode == "devdax" else None


def udev_rules(state: State, desired: DesiredState) -> str | None:
    """udev(7) rules for every devdax namespace of ours that is not root's; None without any."""
    lines = []
    for namespace in state.inventory.namespaces:
        if namespace.mode != "devdax" or not namespace.uuid or not state.is_ours(namespace):
            continue
        owner = expected_owner(state, namespace, desired)
        if owner is not None:
            lines.append(
                f'SUBSYSTEM=="dax", ATTRS{{uuid}}=="{namespace.uuid}", OWNER="{owner[0]}",'
                f' GROUP="{owner[1]}", MODE="{SHARED_MODE:04o}"\n'
            )
    return _HEAD + "".join(lines) if lines else None


def plan_node(builder: ChangeBuilder, region: Region, existing: Namespace | None) -> None:
    """Give the node of a devdax namespace to ``pmem_owner``, or back to root."""
    state = builder.state
    try:
        given = _requested_owner(builder.desired)
    except KeyError as error:
        why = f"pmem_owner {builder.desired.owner}: {error.args[0]}"
        builder.refuse(region.name, why, "name a user and group of this host")
        return
    device = state.device(existing) if existing else None
    was_given = existing is not None and (existing.uuid or "") in owners(state.udev_rules)
    if given is None and not was_given:
        return
    ids, mode = given or _ROOT, PRIVATE_MODE if given is None else SHARED_MODE
    if device and state.nodes.get(device.name) == (*ids, mode):
        return
    name = f"/dev/{device.name}" if device else f"the DAX device of {region.name}"
    builder.add(
        "own-device",
        name,
        f"its owner shall be {builder.desired.owner if given else 'root'}",
        f"chown {ids[0]}:{ids[1]} {name}; chmod {mode:o} {name}",
        ids=list(ids),
        mode=mode,
    )
