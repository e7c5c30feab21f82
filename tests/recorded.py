"""Recorded answers of ndctl, daxctl and ipmctl, and states of a host made from them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from tierbench.changes import Changes
from tierbench.commands import Commands, Done
from tierbench.namespace_users import Content, MountedAt, NamespaceUsers
from tierbench.ndctl import parse_ndctl
from tierbench.record import Record
from tierbench.state import Place, State

_FOLDER = Path(__file__).parent / "playbooks" / "recordings"
EMPTY = NamespaceUsers(Content(True))


def recording(name: str, file: str = "nvdimm-guest") -> str:
    told = json.loads((_FOLDER / f"{file}.json").read_text(encoding="utf-8"))
    return str(told["recordings"][name]["out"])


def optane(name: str) -> str:
    return recording(name, "ipmctl-optane")


class Answers(Commands):
    """Make all programs answer the same."""

    def __init__(self, rc: int, out: str = "", err: str = "") -> None:
        self.done = Done(rc, out, err)

    def has(self, program: str) -> bool:
        return True

    def unreadable(self, device: str) -> str | None:
        return None

    def run(self, argv: object) -> Done:
        return self.done


def state_of(
    name: str,
    namespace_users: dict[str, NamespaceUsers] | None = None,
    *,
    file: str = "nvdimm-guest",
    **more: Any,
) -> State:
    """The host of a recording of ``ndctl list``, on whose namespaces nothing is but ``uses``."""
    inventory = parse_ndctl(recording(name, file))
    users = {each.name: EMPTY for each in inventory.namespaces} | (namespace_users or {})
    return State(inventory=inventory, namespace_users=users, **more)


def two_fsdax(
    namespace_users: dict[str, NamespaceUsers] | None = None, namespace1_0: str = "bench1"
) -> State:
    """Two fsdax namespaces, of which the recording has no regions, in those of another one.

    ``namespace1_0``: the name in its label.
    """
    state = state_of("two-fsdax", namespace_users)
    regions = state_of("fresh-labels").inventory.regions
    state = replace(state, inventory=replace(state.inventory, regions=regions))
    return with_labels(state, namespace1_0=namespace1_0)


def with_first(state: State, **changes: Any) -> State:
    """The first namespace alone, changed."""
    first = replace(state.inventory.namespaces[0], **changes)
    return replace(state, inventory=replace(state.inventory, namespaces=(first,)))


def used_by(*users: str) -> NamespaceUsers:
    return NamespaceUsers(Content(True), (), users)


def with_labels(state: State, **labels: str) -> State:
    """The same host with names in its namespaces' labels: ``namespace1_0="theirs"``."""
    names = {name.replace("_", "."): label for name, label in labels.items()}
    namespaces = tuple(
        replace(each, label=names.get(each.name, each.label)) for each in state.inventory.namespaces
    )
    return replace(state, inventory=replace(state.inventory, namespaces=namespaces))


def filesystem(kind: str, label: str | None = None, uuid: str = "0f-theirs") -> NamespaceUsers:
    return NamespaceUsers(Content(True, kind, label, uuid))


def mounted(
    point: str, kind: str = "ext4", *options: str, label: str | None = None
) -> NamespaceUsers:
    return NamespaceUsers(
        Content(True, kind, label, "0f-theirs"), (MountedAt(point, kind, options),)
    )


def ours(name: str = "namespace0.0", point: str = "/mnt/pmem0", **more: Any) -> State:
    """The recording of two fsdax namespaces, the first ours, with our ext4, mounted with DAX."""
    uuid = "2f8adfea-31a2-4ec1-b277-10f1e17de42c"
    users = NamespaceUsers(
        Content(True, "ext4", "tierbench", "aa-1"),
        (MountedAt(point, "ext4", ("rw", "noatime", "dax=always")),),
    )
    state = state_of(
        "two-fsdax",
        {name: users},
        record=Record(
            namespaces={uuid: {"mode": "fsdax", "requested_bytes": None}},
            filesystems={"aa-1": {"point": "/mnt/pmem0", "block_size": 4096}},
        ),
        places={"/mnt/pmem0": Place("full", "/dev/pmem0", (0, 0))},
        statx_dax={"/mnt/pmem0": True},
        fstab="UUID=aa-1 /mnt/pmem0 ext4 noatime,dax,nofail,x-tierbench 0 2\n",
        host_file=(
            "schema: 1\ntiers:\n"
            "  # BEGIN tierbench playbooks: they replace these lines\n"
            "  pmem: {kind: fsdax, path: /mnt/pmem0}\n"
            "  # END tierbench playbooks\n"
        ),
    )
    full = state_of("fresh-labels").inventory
    regions = tuple(replace(region, available_bytes=0, extent_bytes=0) for region in full.regions)
    inventory = replace(state.inventory, regions=regions, dimms=full.dimms)
    return replace(state, inventory=inventory, **more)


def planned_steps(changes: Changes) -> list[tuple[str, str]]:
    return [(step.do, step.object) for step in changes.steps]


def refused(changes: Changes) -> dict[str, str]:
    reasons: dict[str, str] = {}
    for each in changes.refusals:
        reasons[each.object] = "; ".join(filter(None, [reasons.get(each.object), each.why]))
    return reasons
