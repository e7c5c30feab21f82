"""The host file: the tiers of a host.

Searched: ``--host``, ``$HARNESS_HOST``, ``~/.config/harness/host.yml``,
``/etc/harness/host.yml``. The first that exists is the one; a named one must exist.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import paths
from harness.errors import UsageError
from harness.tiers.linux.model import TierClaim
from harness.yamlfile import Document, load_yaml


@dataclass(frozen=True)
class HostFile:
    """A read and schema-checked host file; its claims are not yet verified."""

    path: Path
    claims: tuple[TierClaim, ...]
    data_dir: Path | None = None


def search_order() -> list[Path]:
    """Where a host file is looked for when none is named."""
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
    document = load_yaml(path, "host-file")
    claims = tuple(_claim(document, name) for name in document.value["tiers"])
    data_dir = document.value.get("data_dir")
    return HostFile(path, claims, Path(data_dir) if data_dir else None)


def _claim(document: Document, name: str) -> TierClaim:
    tier: dict[str, Any] = document.value["tiers"][name]
    _check_keys(document, name, tier)
    return TierClaim(
        name=name,
        kind=tier["kind"],
        path=tier.get("on" if tier["kind"] == "modelled" else "path"),
        model=tier.get("model"),
        device=tier.get("device"),
        nodes=tuple(tier.get("nodes", [tier["node"]] if "node" in tier else [])),
        policy=tier.get("policy"),
        price_per_gb=tier.get("price_per_gb"),
        emulates=tier.get("emulates"),
        source=document.at(("tiers", name)),
    )


#: The keys that say where a tier is: exactly one, by its kind.
_PLACE_KEYS = ("path", "device", "node", "nodes", "on")


def _check_keys(document: Document, name: str, tier: dict[str, Any]) -> None:
    """Check that the place fits the kind (JSON Schema's message would be unclear)."""
    kind = tier["kind"]
    fitting = {"devdax": ("device",), "numa": ("node", "nodes"), "modelled": ("on",)}.get(
        kind, ("path",)
    )
    value = [key for key in _PLACE_KEYS if key in tier]
    for key in [*value, *(("policy",) if "policy" in tier else ())]:
        if key not in (*fitting, *(("policy",) if kind == "numa" else ())):
            raise UsageError(
                document.at(("tiers", name, key)),
                f"{key!r} is not valid with kind {kind}",
                f"a {kind} tier is placed by {' or '.join(fitting)}",
            )
    if len(value) > 1 or (not value and kind != "modelled"):
        raise UsageError(
            document.at(("tiers", name)),
            f"tier {name!r} has {'no place' if not value else ' and '.join(value)}",
            f"a {kind} tier is placed by {' or '.join(fitting)}",
        )
