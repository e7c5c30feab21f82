"""A plan in the making: steps, what they destroy, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .ndctl import Namespace
from .state import State
from .use import MountedAt, is_our_filesystem


@dataclass(frozen=True)
class Step:
    """One change. ``command``: what a person would type; ``destroys``: names of namespaces.

    ``args``: what it is carried out with (apply.py), by the step's name ``do``.
    """

    do: str
    object: str
    why: str
    command: str
    destroys: tuple[str, ...] = ()
    args: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self, done: bool = False) -> dict[str, Any]:
        """As it is told to people."""
        return {
            "do": self.do,
            "object": self.object,
            "why": self.why,
            "command": self.command,
            "destroys": list(self.destroys),
            "done": done,
        }


@dataclass(frozen=True)
class Refusal:
    """Why nothing is done: the object by name, what was found, what to do."""

    object: str
    why: str
    do: str


@dataclass
class Draft:
    """Collects a plan; whoever adds a destroying step is checked here, in one place."""

    state: State
    steps: list[Step] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    reboot: bool = False

    def add(self, do: str, object: str, why: str, command: str, **args: Any) -> None:
        """A step that destroys nothing."""
        self.steps.append(Step(do, object, why, command, (), args))

    def destroy(
        self, do: str, object: str, why: str, command: str, gone: list[Namespace], **args: Any
    ) -> None:
        """A step after which these namespaces, or what is on them, are no more."""
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

    def refuse_destruction(self, namespace: Namespace, *, content_matters: bool = True) -> None:
        """Whatever speaks against destroying a namespace, confirmed or not.

        ``content_matters`` False: a run of ours was cut off before anything could be put on it.
        """
        use, name = self.state.use(namespace), namespace.name
        ours = self.state.is_ours(namespace)
        in_flight = self.in_flight(namespace)
        for mount in use.mounts:
            self.refuse(name, mounted_words(namespace, mount), _unmount_words(mount, ours))
        for other in use.others:
            self.refuse(name, f"it is in use: {other}", "end that use first")
        if namespace.label and not ours:
            self.refuse(
                name,
                f"its label names it {namespace.label!r}: somebody made it for something",
                f"if it may go, its owner destroys it: ndctl destroy-namespace -f {name}",
            )
        content = use.content
        if not content.known and not in_flight and not (ours and not namespace.enabled):
            self.refuse(
                name,
                f"what is on it cannot be seen: {content.why}",
                f"look at it (ndctl enable-namespace {name}; blkid -p), and destroy it yourself",
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
                f"save what is on it; if it may go: wipefs -a /dev/{namespace.block}",
            )

    def in_flight(self, namespace: Namespace) -> bool:
        """Whether a run that was cut off had the right to destroy this very namespace."""
        return self.state.record.approved.get(namespace.name) == (namespace.uuid or "")


def mounted_words(namespace: Namespace, mount: MountedAt) -> str:
    """``it is mounted at /mnt/x (xfs): …``, with what a DAX option is worth there."""
    if mount.point == "/":
        return f"it holds / ({mount.filesystem} on /dev/{namespace.block})"
    through = f" through {', '.join(mount.through)}" if mount.through else ""
    words = f"it is mounted at {mount.point} ({mount.filesystem}{through})"
    if namespace.mode == "sector" and any(o.partition("=")[0] == "dax" for o in mount.options):
        # xfs takes dax=always, mounts without, and shows dax=never: nobody sees what was asked for.
        words += "; without DAX, whatever it was mounted with: a sector namespace has no DAX"
    return words


def _unmount_words(mount: MountedAt, ours: bool) -> str:
    if mount.point == "/":
        return "boot from another device, or leave this region out (pmem_regions)"
    if ours:
        return f"run teardown.yml first, or umount {mount.point}"
    return f"if it may go: umount {mount.point} and clear what is on it"
