"""The tiers of this host: from its host file, else discovered; plus emulated ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness import paths
from harness.errors import UsageError
from harness.tiers.host_scan import discover, emulate
from harness.tiers.hostfile import find_host_file, load_host_file
from harness.tiers.linux.model import Tier
from harness.tiers.verify import User, verify


def find_tiers(
    host_file: Path | None = None, emulated: Sequence[str] = (), user: User | None = None
) -> dict[str, Tier]:
    """Every tier by name, verified; UsageError for the first that is not as claimed.

    ``host_file``: the one named with ``--host``. ``emulated``: names (or
    ``name=/path``) that a tmpfs shall stand in for. ``user``: the unprivileged
    user that engines run as.
    """
    tiers, problems = find_tiers_and_problems(host_file, emulated, user)
    if problems:
        raise problems[0]
    return tiers


def find_tiers_and_problems(
    host_file: Path | None = None, emulated: Sequence[str] = (), user: User | None = None
) -> tuple[dict[str, Tier], list[UsageError]]:
    """The tiers that are as claimed, and an error for each that is not (for the doctor)."""
    tiers: dict[str, Tier] = {}
    problems: list[UsageError] = []
    path = find_host_file(host_file)
    if path is None:
        tiers = discover(paths.default_tier())
    else:
        for claim in load_host_file(path).claims:
            try:
                tiers[claim.name] = verify(claim, user)
            except UsageError as error:
                problems.append(error)
    for request in emulated:
        try:
            tier = emulate(request, tiers)
            tiers[tier.name] = tier
        except UsageError as error:
            problems.append(error)
    return tiers, problems
