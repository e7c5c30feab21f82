"""The unprivileged user that servers run as."""

from __future__ import annotations

import os
import pwd

from harness.engine import Credentials
from harness.errors import UsageError

_DEDICATED = "tierbench"
_FALLBACK = "nobody"


def unprivileged() -> Credentials | None:
    """Whom servers run as; None where the harness itself is unprivileged.

    As root: the user in ``$HARNESS_USER``, else ``tierbench`` where there is one, else
    ``nobody``. UsageError for an unknown user and for root by any name.
    """
    if os.geteuid() != 0:
        return None
    if named := os.environ.get("HARNESS_USER"):
        return _named(named)
    try:
        return _named(_DEDICATED)
    except UsageError:
        return _named(_FALLBACK)


def _named(name: str) -> Credentials:
    asked = f"run servers as user {name!r}"
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise UsageError(
            asked, "there is no such user", "set $HARNESS_USER to an existing unprivileged user"
        ) from None
    if entry.pw_uid == 0:
        raise UsageError(asked, "it is root", "set $HARNESS_USER to an unprivileged user")
    return Credentials(entry.pw_uid, entry.pw_gid, entry.pw_name)
