"""The user's own servers by their addresses: the option ``--dsn``, and DSNs that are URLs."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

from harness.errors import UsageError, nearest


@dataclass(frozen=True)
class DsnUrl:
    """A DSN that is a URL, without its escapes. ``parameters``: of its query."""

    user: str
    password: str
    host: str
    port: int | None
    database: str
    parameters: Mapping[str, str]

    @classmethod
    def of(
        cls, text: str, problem: str, form: str, schemes: Collection[str], supported: Sequence[str]
    ) -> DsnUrl:
        """Read ``text``; UsageError, which does not contain it: it may contain a password.

        ``form``: the hint. ``supported``: the parameters.
        """
        try:
            url = urlsplit(text)
            parameters = dict(parse_qsl(url.query, strict_parsing=bool(url.query)))
            port = url.port
        except ValueError as error:
            raise UsageError(problem, "not a URL", form) from error
        if url.scheme not in schemes or not url.username:
            forms = " or ".join(f"{scheme}://" for scheme in schemes)
            raise UsageError(problem, f"not a {forms} URL with a user", form)
        for name in parameters:
            if name not in supported:
                raise UsageError(
                    problem,
                    f"unknown parameter {name!r}{nearest(name, list(supported))}",
                    f"known: {', '.join(supported)}",
                )
        user, password = unquote(url.username), unquote(url.password or "")
        database = unquote(url.path.lstrip("/"))
        return cls(user, password, url.hostname or "", port, database, parameters)


#: The DSN ``env`` is the value of this variable, which may contain a password.
ENVIRONMENT = "HARNESS_DSN"


def option_text(dsn: str) -> str:
    """Return the text of the option ``--dsn``; UsageError where the variable is not set."""
    text = os.environ.get(ENVIRONMENT, "") if dsn == "env" else dsn
    if not text:
        raise UsageError("--dsn env", f"${ENVIRONMENT} is not set", f"export {ENVIRONMENT}=…")
    return text


def refuse_password(dsn: str, has_password: bool) -> None:
    """UsageError for a password in the option ``--dsn``."""
    if dsn != "env" and has_password:
        raise UsageError(
            "--dsn",
            "it contains a password, which other users of this host can see",
            f"export it as {ENVIRONMENT} and use --dsn env",
        )
