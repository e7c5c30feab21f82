"""Recorded answers of ndctl, daxctl and ipmctl, and states of a host made from them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from tierbench.namespace_users import Content, MountedAt, NamespaceUsers
from tierbench.ndctl import parse_ndctl
from tierbench.state import State

_FOLDER = Path(__file__).parent / "recordings"
EMPTY = NamespaceUsers(Content(True))


def recording(name: str, file: str = "nvdimm-guest") -> str:
    told = json.loads((_FOLDER / f"{file}.json").read_text(encoding="utf-8"))
    return str(told["recordings"][name]["out"])


def optane(name: str) -> str:
    return recording(name, "ipmctl-optane")


def state_of(
    name: str,
    namespace_users: dict[str, NamespaceUsers] | None = None,
    *,
    file: str = "nvdimm-guest",
    **more: Any,
) -> State:
    """The host of a recording of ``ndctl list``, on whose namespaces nothing is but ``uses``."""
    inventory = parse_ndctl(recording(name, file))
    found = {each.name: EMPTY for each in inventory.namespaces} | (namespace_users or {})
    return State(inventory=inventory, namespace_users=found, **more)


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
