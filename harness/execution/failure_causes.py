"""Causes of failures that an engine's own message may not name: removed data, full file systems."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from harness.engine import Credentials, DataDirectories
from harness.errors import HarnessError, RunFailed, amending
from harness.execution.environment import KEEP_AWAY
from harness.supervise.user_files import regular_bytes
from harness.tiers.linux.model import Tier
from harness.tiers.resolve import free_now
from harness.units import MIB, format_bytes

#: Below it, a server may fail to write a file, however much it needs for the data.
_FULL_BYTES = MIB


@contextmanager
def naming_lost_data(
    places: Callable[[], DataDirectories | None], user: Credentials | None
) -> Iterator[None]:
    """RunFailed if another program removes the data; an error that follows from it says so.

    A server whose files are removed has other words, or none: it has them open. ``places``: None
    while none are there.
    """

    def lost(_: HarnessError | None = None) -> tuple[str, str] | None:
        directories = places()
        if directories is None or regular_bytes(directories["data"], user):
            return None
        return f"another program removed the files in {directories['data']} meanwhile", KEEP_AWAY

    with amending(lost):
        yield
    if (problem := lost()) is not None:
        raise RunFailed("measure", *problem)


@contextmanager
def naming_full_tiers(tiers: Iterable[Tier]) -> Iterator[None]:
    """Name file systems without space in an error: not every message of a server does.

    PostgreSQL 15 and its log have "could not write init file" alone.
    """

    def full(failure: HarnessError) -> tuple[str, str] | None:
        sizes = [(tier, free_now(tier)) for tier in tiers if tier.claim.path is not None]
        named = [
            f"{format_bytes(size)} are free in {tier.claim.path} ({tier.name})"
            for tier, size in sizes
            if size is not None and size < _FULL_BYTES
        ]
        if not named:
            return None
        reason = os.strerror(errno.ENOSPC)
        prefix = "" if reason in failure.context else f"{reason}: "
        hint = failure.hint or "free space there, or place less data on it"
        return f"{prefix}{', '.join(named)}", hint

    with amending(full):
        yield
