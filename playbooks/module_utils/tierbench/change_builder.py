"""Builds the list of changes: steps, what they destroy, and refusals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .commands import Refusal
from .desired_state import DesiredState
from .namespace_users import MountedAt, is_our_filesystem
from .ndctl import Namespace
from .state import State


@dataclass(frozen=True)
class Step:
    """One change. ``command``: its shell command; ``destroys``: names of namespaces.

    ``args``: arguments of the step's function in apply.py.
    """

    do: str
    object: str
    why: str
    command: str
    destroys: tuple[str, ...] = ()
    args: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self, done: bool = False) -> dict[str, Any]:
        """The step as in the fact ``provisioning``."""
        return {
            "do": self.do,
            "object": self.object,
            "why": self.why,
            "command": self.command,
            "destroys": list(self.destroys),
            "done": done,
        }


@dataclass
class ChangeBuilder:
    """Collects changes and checks every destroying step."""

    state: State
    desired: DesiredState
    steps: list[Step] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    reboot: bool = False

    def add(self, do: str, object: str, why: str, command: str, **args: Any) -> None:
        """A step that destroys nothing."""
        self.steps.append(Step(do, object, why, command, (), args))

    def run(self, do: str, object: str, why: str, *argv: str) -> None:
        """A step that is one command and destroys nothing."""
        self.add(do, object, why, " ".join(argv), argv=argv)

    def enable_region(self, region: str, why: str) -> None:
        """Show what is in a disabled region."""
        self.run("enable-region", region, why, "ndctl", "enable-region", region)

    def unmount(self, point: str, why: str) -> None:
        """Unmount a file system of ours."""
        self.run("unmount", point, why, "umount", point)

    def release_memory(self, device: str, why: str) -> None:
        """Turn a memory node into a DAX device; the kernel moves its pages, or refuses."""
        command = (
            f"daxctl offline-memory {device}; daxctl reconfigure-device --mode=devdax {device}"
        )
        self.add("release-memory", device, why, command)

    def destroy_namespace(self, namespace: Namespace, why: str) -> None:
        argv = ("ndctl", "destroy-namespace", "-f", namespace.name)
        command = " ".join(argv)
        self.destroy("destroy-namespace", namespace.name, why, command, [namespace], argv=argv)

    def refuse_in_use(self, object: str, users: Sequence[str]) -> None:
        """Refuse an object for each of its users."""
        for user in users:
            self.refuse(object, f"it is in use: {user}", "stop that first")

    def refuse_auto_online(self, object: str) -> None:
        """Refuse to add memory that the kernel would put online by itself, in a zone of its choice:
        daxctl-reconfigure-device(1) aborts then, and the memory may never be released.
        """
        if self.state.auto_online not in (None, "offline"):
            self.refuse(
                object,
                "the kernel puts added memory online by itself (auto_online_blocks is"
                f" {self.state.auto_online}), and cannot always take it back",
                "echo offline >/sys/devices/system/memory/auto_online_blocks; for later starts, the"
                " kernel parameter memhp_default_state=offline",
            )

    def destroy(
        self, do: str, object: str, why: str, command: str, gone: list[Namespace], **args: Any
    ) -> None:
        """A step that destroys these namespaces, or their content."""
        before = len(self.refusals)
        for namespace in gone:
            self.refuse_destruction(namespace, content_matters=not args.get("dead"))
        if len(self.refusals) == before:
            names = tuple(namespace.name for namespace in gone)
            self.steps.append(Step(do, object, why, command, names, args))

    def refuse(self, object: str, why: str, do: str) -> None:
        """Nothing at all will be done."""
        refusal = Refusal(object, why, do)
        if refusal not in self.refusals:
            self.refusals.append(refusal)

    def refuse_divided(self, namespace: Namespace) -> bool:
        """Refuse a namespace of several DAX devices, whose users and modes are not all known."""
        if len(namespace.devices) < 2:
            return False
        self.refuse(
            namespace.name,
            f"it is divided into the DAX devices {', '.join(namespace.devices)}",
            "remove all but the first (daxctl destroy-device), or name other regions",
        )
        return True

    def refuse_foreign_label(self, namespace: Namespace) -> bool:
        """Refuse a namespace of another system or of a newer Linux: its content cannot be known.

        A run of ours that was cut off leaves a label without size.
        """
        ours = self.state.is_ours(namespace) or self.in_flight(namespace)
        if ours or namespace.region == self.state.record.creating or not namespace.foreign_label:
            return False
        self.refuse(
            namespace.name,
            f"{namespace.foreign_label}: another system wrote it",
            "name other regions (-e pmem_regions=[NAME]); if it may be destroyed: "
            f"ndctl destroy-namespace -f {namespace.name}",
        )
        return True

    def refuse_destruction(self, namespace: Namespace, *, content_matters: bool = True) -> None:
        """Whatever speaks against destroying a namespace, confirmed or not.

        ``content_matters`` False: a run of ours was cut off before anything could be put on it.
        """
        self.refuse_divided(namespace)
        users, name = self.state.users_of(namespace), namespace.name
        ours = self.state.is_ours(namespace)
        in_flight = self.in_flight(namespace)
        for mount in users.mounts:
            self.refuse(name, describe_mount(namespace, mount), _unmount_hint(mount, ours))
        self.refuse_in_use(name, users.others)
        if namespace.label and not ours:
            self.refuse(
                name,
                f"its label is {namespace.label!r}, not ours",
                f"if it may be destroyed: ndctl destroy-namespace -f {name}",
            )
        content = users.content
        if not content.determined and not in_flight and not (ours and not namespace.enabled):
            self.refuse(
                name,
                f"its content cannot be read: {content.why}",
                f"inspect it (ndctl enable-namespace {name}; blkid -p), then destroy it yourself",
            )
        elif (
            content_matters
            and content.type
            and not is_our_filesystem(content, self.state.record.filesystems)
        ):
            label = f" labelled {content.label!r}" if content.label else ""
            self.refuse(
                name,
                f"/dev/{namespace.block} has {content.type}{label} (UUID {content.uuid}), not ours",
                f"save its data; if it may be destroyed: wipefs -a /dev/{namespace.block}",
            )

    def in_flight(self, namespace: Namespace) -> bool:
        """Return whether a run that was cut off had the right to destroy this very namespace."""
        return self.state.record.approved.get(namespace.name) == (namespace.uuid or "")


def describe_mount(namespace: Namespace, mount: MountedAt) -> str:
    """``it is mounted at /mnt/x (xfs): …``, with what a DAX option is worth there."""
    if mount.point == "/":
        return f"it holds / ({mount.filesystem} on /dev/{namespace.block})"
    through = f" through {', '.join(mount.through)}" if mount.through else ""
    words = f"it is mounted at {mount.point} ({mount.filesystem}{through})"
    if namespace.mode == "sector" and any(o.partition("=")[0] == "dax" for o in mount.options):
        # xfs accepts dax=always, mounts without DAX and shows dax=never.
        words += "; without DAX, whatever its mount options: a sector namespace has no DAX"
    return words


def _unmount_hint(mount: MountedAt, ours: bool) -> str:
    if mount.point == "/":
        return "boot from another device, or name the other regions: -e pmem_regions=[NAME]"
    if ours:
        return f"run teardown.yml first, or umount {mount.point}"
    return f"if it may be destroyed: umount {mount.point} and wipe it"
