"""Parameters of scripts that pgbench or sysbench runs."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.drivers.script_client import Script
from harness.errors import UsageError
from harness.supervise.user_files import read_text
from harness.workloads import parameters
from harness.workloads.parameters import (
    Choice,
    Count,
    Duration,
    Outline,
    Parameters,
    Texts,
    parameter,
)

_USERS_PER_THREAD, _MOST_THREADS = 16, 8
_NS_PER_S = 10**9
#: A file of the user's with its weight.
_FILE = r"(?P<path>.+\.(?:sql|lua|pgbench))(?:@(?P<weight>\d{1,9}))?"
_DIGEST = "[0-9a-f]{16}"


@dataclass(frozen=True)
class _Scripts(Texts):
    def parse(self, name: str, value: Any) -> tuple[str, ...]:
        """Give each file its whole path and its weight."""
        return tuple(
            f"{Path(match['path']).absolute()}@{int(match['weight'] or 1)}" if match else one
            for one in super().parse(name, value)
            for match in [re.fullmatch(_FILE, one)]
        )


@dataclass(frozen=True)
class Digests:
    """Digests of files, computed; ``count`` of them with a hyphen between."""

    count: int = 1
    values = "digests"

    def parse(self, name: str, value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch("-".join([_DIGEST] * self.count), value):
            raise UsageError(f"{name} {value!r}", "not digests of files", "leave it out")
        return value


@dataclass(frozen=True, kw_only=True)
class ClientParams(Parameters):
    """Parameters that take effect with a script alone."""

    script: tuple[str, ...] = parameter(
        _Scripts(
            "FILE[@WEIGHT], or a bundled script of sysbench",
            rf"[a-z][a-z0-9_]*|{_FILE}",
            "neither a file with a weight nor a script of sysbench",
            "write new_order.sql@10, my.lua or oltp_read_write",
        ),
        default_text="none",
        option=True,
        help="Script of --driver pgbench (FILE@WEIGHT) or sysbench (its name, or FILE.lua).",
        repeats=True,
        omit_unset=True,
    )
    define: tuple[str, ...] = parameter(
        Texts(
            "NAME=VALUE",
            "[A-Za-z_][A-Za-z0-9_-]*=[A-Za-z0-9_.:+-]*",
            "not a name and a plain value",
            "write tables=4",
        ),
        default_text="none",
        option=True,
        help="Variable of pgbench's scripts, or option of sysbench's: NAME=VALUE.",
        repeats=True,
        omit_unset=True,
    )
    users: int | None = parameter(
        Count(10_000),
        derive=lambda params: 8 if params.script else None,
        default_text="8",
        option=True,
        help="Connections that run scripts, each in turn (pgbench -c).",
        omit_unset=True,
    )
    client_threads: int | None = parameter(
        Count(1_024),
        derive=lambda params: (
            min(_MOST_THREADS, -(-params.users // _USERS_PER_THREAD)) if params.users else None
        ),
        default_text=f"1 per {_USERS_PER_THREAD} users",
        help="Threads of pgbench (-j); sysbench has one for each user.",
        omit_unset=True,
    )
    rate: float | None = parameters.rate("transactions", omit_unset=True)
    ramp_up: Duration | None = parameters.ramp_up(
        derive=lambda params: "1m" if params.script else None, default_text="1m", omit_unset=True
    )
    duration: Duration | None = parameters.duration(
        derive=lambda params: "3m" if params.script else None, default_text="3m", omit_unset=True
    )
    protocol: Literal["simple", "extended", "prepared"] | None = parameter(
        Choice(("simple", "extended", "prepared")),
        derive=lambda params: "prepared" if params.script else None,
        default_text="prepared",
        option=True,
        help="How statements are sent (pgbench -M).",
        omit_unset=True,
    )
    max_tries: int | None = parameter(
        Count(1_000_000),
        derive=lambda params: 1 if params.script else None,
        default_text="1",
        option=True,
        help="Tries of a transaction with a serialization failure or deadlock (pgbench).",
        omit_unset=True,
    )
    script_digest: str | None = parameter(
        Digests(),
        derive=lambda params: digest(scripts(params)) if params.script else None,
        default_text="computed",
        help="Digest of the scripts.",
        omit_unset=True,
    )

    def check_scripts(self) -> None:
        """UsageError for parameters that only scripts have, and for times that are not whole."""
        for name in ("ramp_up", "duration"):
            given: Duration | None = getattr(self, name)
            if given is not None and given.ns % _NS_PER_S:
                raise UsageError(
                    f"{name} {given}", "pgbench and sysbench count whole seconds", "round it"
                )
        if self.script:
            return
        for name in ("users", "rate", "ramp_up", "duration", "max_tries", "define"):
            if getattr(self, name):
                raise UsageError(
                    f"{name} without a script",
                    "the harness runs each query of the folder by itself",
                    "add --driver pgbench --script FILE.sql, or leave it out",
                )

    def client_outline(self) -> Outline:
        """The facts of :meth:`outline`, with a script."""
        assert self.users and self.duration and self.ramp_up
        return Outline(
            connections=self.users, ramp_up_ns=self.ramp_up.ns, window_ns=self.duration.ns
        )


def scripts(params: ClientParams) -> list[Script]:
    """Read the scripts; UsageError for one that cannot be read.

    Two files of one name are distinguished by their number.
    """
    found: list[Script] = []
    for one in params.script or ():
        path, at, weight = one.rpartition("@")
        if not at:
            found.append(Script(one, ""))
            continue
        try:
            text = read_text(Path(path), None)
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"script {path}", str(error), "name a text file") from error
        stem = Path(path).stem
        taken = {script.name for script in found}
        name = stem if stem not in taken else f"{stem}-{len(found) + 1}"
        found.append(Script(name, text or "\n", int(weight)))
    return found


def digest(found: list[Script]) -> str:
    """Return a digest of the scripts' texts."""
    texts = "\0".join(one.text for one in found)
    return hashlib.blake2b(texts.encode(), digest_size=8).hexdigest()
