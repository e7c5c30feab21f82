"""Environment variables of an engine's processes: an allocator to preload, and its options.

They are recorded with the run, and an engine gets them in addition to what the harness sets.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.native_programs import readable_to
from harness.supervise.user_files import Credentials

#: The libraries that the dynamic linker loads first; those of the harness come before these.
PRELOAD = "LD_PRELOAD"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Variables by which the harness starts its processes, and programs find their files and servers.
_RESERVED = re.compile(
    r"PATH|HOME|LANG|LANGUAGE|LC_.*|TZ|USER|LOGNAME|SHELL|PWD|TMPDIR|TEMP|TMP|IFS|ENV|BASH_.*"
    r"|LD_(?!PRELOAD$|BIND_NOW$).*|(HARNESS|TIERBENCH|PG|MYSQL|MARIADB|PYTHON|XDG|SYSTEMD)_?.*"
    r"|.*_PATH|CLASSPATH|NOTIFY_SOCKET|LISTEN_.*"
)
_SECRET = re.compile(r"PASS(?!IVE)|PWD|SECRET|TOKEN|CREDENTIAL|(^|_)API_?KEY|PRIVATE_KEY", re.I)
_USER_OF_URL = re.compile(r"//[^/\s]*@")
_LONGEST = 4096
_ELF = b"\x7fELF"


def parse_environment(name: str, value: Any) -> str:
    """Return the value of a variable as it is recorded; UsageError for what must not be set."""
    text = str(value)
    problem = f"environment {name}={text}"
    if not _NAME.fullmatch(name):
        raise UsageError(problem, "not the name of a variable", "write NAME=VALUE")
    if _SECRET.search(name) or _USER_OF_URL.search(text):
        raise UsageError(
            f"environment {name}",
            "it may be a secret, and a run stores the environment of its engine",
            "leave it out",
        )
    if _RESERVED.fullmatch(name):
        raise UsageError(
            problem,
            "reserved for the harness (programs, files, locale, access)",
            "leave it out; --option and --set configure the engine",
        )
    if isinstance(value, bool) or not text.isprintable() or len(text) > _LONGEST:
        raise UsageError(
            f"environment {name}",
            f"not a text of up to {_LONGEST} printable characters",
            "write it in quotes",
        )
    return ":".join(text.replace(":", " ").split()) if name == PRELOAD else text


def preloaded(environment: Mapping[str, str]) -> list[Path]:
    """Return the libraries that are to be preloaded."""
    return [Path(path) for path in environment.get(PRELOAD, "").split(":") if path]


def check_environment(environment: Mapping[str, str], user: Credentials | None) -> None:
    """UsageError for a library that would not be loaded: the dynamic linker only warns."""
    for path in preloaded(environment):
        context = ""
        if not path.is_absolute():
            context = "not an absolute path"
        elif not path.is_file():
            context = "there is no such file"
        elif user is not None and not readable_to(path, user):
            context = f"the user {user.name}, as which engines run, cannot read it"
        else:
            with path.open("rb") as file:
                if file.read(len(_ELF)) != _ELF or not os.access(path, os.R_OK):
                    context = "not a shared library"
        if context:
            raise UsageError(
                f"environment {PRELOAD}: {path}",
                context,
                "name an installed library such as /usr/lib/x86_64-linux-gnu/libjemalloc.so.2",
            )
