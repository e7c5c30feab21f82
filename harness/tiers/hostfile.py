"""The host file: the tiers of a host.

Searched: ``--host``, ``$HARNESS_HOST``, ``~/.config/harness/host.yml``,
``/etc/harness/host.yml``. The first that exists is the one; a named one must exist.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from harness import paths
from harness.errors import UsageError
from harness.structs import Misfit, Struct, whole
from harness.tiers.linux.model import Policy, TierClaim, TierKind
from harness.yamlfile import load_yaml


@dataclass(frozen=True)
class HostFile:
    """A read and schema-checked host file; its claims are not yet verified."""

    path: Path
    claims: tuple[TierClaim, ...]
    data_dir: Path | None = None


def search_order() -> list[Path]:
    """Paths at which a host file is looked for when none is named."""
    folders = [paths.config_dir(), Path("/etc/harness")]
    return [folder / "host.yml" for folder in folders if folder is not None]


def find_host_file(named: Path | None = None) -> Path | None:
    """The host file in force, None if there is none; UsageError if a named one is missing."""
    environment = os.environ.get("HARNESS_HOST")
    for option, path in (("--host", named), ("$HARNESS_HOST", environment)):
        if path:
            if not Path(path).is_file():
                raise UsageError(f"{option} {path}", "no such file", "name an existing host file")
            return Path(path)
    return next((path for path in search_order() if path.is_file()), None)


def load_host_file(path: Path) -> HostFile:
    """Read and check a host file; UsageError with file, line and the nearest valid key."""
    document = load_yaml(path)
    stated = document.to(HostDocument)
    claims = tuple(
        tier.claim(name, document.at(("tiers", name))) for name, tier in stated.tiers.items()
    )
    return HostFile(path, claims, Path(stated.data_dir) if stated.data_dir else None)


#: The keys that say where a tier is, by its kind; of other kinds it is a path.
_PLACES: Mapping[str, tuple[str, ...]] = {
    "devdax": ("device",),
    "numa": ("node", "nodes"),
    "modelled": ("on",),
}
_Node = Annotated[int, Meta(ge=0, description="a NUMA node number")]


class _TierEntry(Struct, frozen=True):
    """One tier: its kind and its place (path, device, or node)."""

    documented = "docs/tiers.md"
    kind: Annotated[
        TierKind,
        Meta(
            description="block, fsdax, fs-nodax, sector, tmpfs: a path; devdax: a device; numa: "
            "a node; modelled: a model, on a faster directory"
        ),
    ]
    model: (
        Annotated[
            str,
            Meta(
                min_length=1,
                description="of a modelled tier: a device model, such as zero or latency:20us "
                "(harness model list)",
            ),
        ]
        | None
    ) = None
    on: (
        Annotated[
            str,
            Meta(
                pattern="^/",
                description="of a modelled tier: an absolute directory on a tmpfs, a DAX file "
                "system or a RAM disk [the RAM disk of harness host apply ramdisk, else /dev/shm]",
            ),
        ]
        | None
    ) = None
    path: Annotated[str, Meta(pattern="^/", description="an absolute directory")] | None = None
    device: (
        Annotated[
            str,
            Meta(pattern="^/dev/dax", description="a DAX character device, such as /dev/dax0.0"),
        ]
        | None
    ) = None
    node: _Node | None = None
    nodes: (
        Annotated[
            tuple[_Node, ...],
            Meta(min_length=1, description="NUMA node numbers, to spread memory over"),
        ]
        | None
    ) = None
    policy: (
        Annotated[
            Policy,
            Meta(
                description="bind (only there), preferred (there first), interleave (in turn), "
                "weighted (in turn, by weights), or tiered (nodes from fast to slow, between which "
                "Linux moves pages)"
            ),
        ]
        | None
    ) = None
    weights: (
        Annotated[
            tuple[Annotated[int, Meta(ge=1, le=255)], ...],
            Meta(
                min_length=2,
                description="pages that each of nodes gets in a turn, of policy weighted [computed "
                "by Linux from the nodes' bandwidths]",
            ),
        ]
        | None
    ) = None
    price_per_gb: Annotated[float, Meta(gt=0, description="USD for 10⁹ bytes")] | None = None
    emulates: (
        Annotated[
            str,
            Meta(
                min_length=1,
                description="what this tier stands in for without being it, such as pmem",
            ),
        ]
        | None
    ) = None

    def __post_init__(self) -> None:
        """Check that the place fits the kind."""
        fitting = _PLACES.get(self.kind, ("path",))
        hint = f"a {self.kind} tier is placed by {' or '.join(fitting)}"
        places = [
            key
            for key in ("path", "device", "node", "nodes", "on")
            if getattr(self, key) is not None
        ]
        of_memory = ("policy", "weights")
        stated = [key for key in of_memory if getattr(self, key) is not None]
        for key in (*places, *stated):
            if key not in (*fitting, *(of_memory if self.kind == "numa" else ())):
                raise Misfit(f"it is not valid with kind {self.kind}", hint, key)
        if len(places) > 1 or (not places and self.kind != "modelled"):
            raise Misfit(f"the tier has {' and '.join(places) or 'no place'}", hint)
        if len(set(self.nodes or ())) < len(self.nodes or ()):
            raise Misfit("a node is given twice", "name each node once", "nodes")
        if self.weights and self.policy != "weighted":
            raise Misfit("only policy: weighted has weights", "write policy: weighted", "weights")
        if self.weights and len(self.weights) != len(self.nodes or ()):
            raise Misfit("there must be a weight for each of nodes", "nodes: [0, 2]", "weights")

    def claim(self, name: str, source: str) -> TierClaim:
        """Return the tier as the rest of the harness knows it."""
        return TierClaim(
            name=name,
            kind=self.kind,
            path=self.on if self.kind == "modelled" else self.path,
            model=self.model,
            device=self.device,
            nodes=self.nodes or (() if self.node is None else (self.node,)),
            policy=self.policy,
            weights=self.weights or (),
            price_per_gb=self.price_per_gb,
            emulates=self.emulates,
            source=source,
        )


_TierName = Annotated[
    str,
    whole(
        "[a-z][a-z0-9_]*", "a tier name is a small letter, then small letters, digits, underscores"
    ),
]


class HostDocument(Struct, frozen=True, tag_field="schema", tag=1):
    """The tiers of a host as its owner states them; every claim is verified against the kernel."""

    documented = "docs/tiers.md"
    tiers: Annotated[
        dict[_TierName, Annotated[_TierEntry, Meta(description=_TierEntry.__doc__)]],
        Meta(
            min_length=1,
            description="tiers by name: a small letter, then small letters, digits, underscores",
        ),
    ]
    data_dir: (
        Annotated[
            str,
            Meta(pattern="^/", description="an absolute directory for source data and datasets"),
        ]
        | None
    ) = None
