"""Settings: what the harness knows about an engine's, and how its server is made to read some.

The former is ``settings.yml`` in the engine's folder.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from harness.engine import EngineOptions
from harness.errors import UsageError
from harness.supervise.credentials import run_unprivileged, unprivileged
from harness.supervise.programs import minimal_environment
from harness.yamlfile import load_yaml

#: A home directory of programs that need none.
NOWHERE = Path("/nonexistent")
TIMEOUT_S = 60
#: Before the name of a setting that not every release has.
LOOSE = "loose_"
#: Stands for a value that is not recorded.
NOT_RECORDED = "(not recorded)"
_NUMBER = re.compile(
    r"[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?\s*(?:[kmgtp]?i?b?|bytes|ns|us|ms|s|min|m|h|d|%)"
    r"|on|off|true|false|yes|no|auto|none|default|(?:not )?null",
    re.IGNORECASE,
)
_USER_OF_URL = re.compile(r"//[^/\s]*@")
_RESERVED = "reserved for the harness (directories, sockets, access, data format)"


def choice_of(options: EngineOptions, name: str, choices: Collection[str]) -> str:
    """Return an engine option in lower case; the first of ``choices`` where it is not given.

    UsageError for another.
    """
    given = str(options.get(name, next(iter(choices)))).lower()
    if given not in choices:
        raise UsageError(
            f"engine option {name}={options[name]}",
            f"must be {', '.join(choices)}",
            f"omit it for the default, {next(iter(choices))}",
        )
    return given


@dataclass(frozen=True)
class SettingTable:
    """Settings by what the harness does with them; a file may leave out any of these.

    ``values``: what the harness sets itself. ``values_where_known``: the same, for releases
    that have the setting. ``reserved``: other settings that a tuning profile must not change.
    ``stored``: settings that decide what a load leaves on disk, so that they are part of a
    dataset's key; each with the value of a profile that does not have it, None for no entry.
    ``not_stored``: exceptions, where an engine's options of one kind are stored by default.
    ``recorded``: settings that are recorded even at their defaults. ``recorded_texts``: further
    settings whose texts are recorded. Those of others are not, since they may have secrets:
    numbers, sizes and switches alone, of names that begin with one of ``recorded_numbers``.
    ``secret``: parts of the names, in lower case, of settings that are never recorded.
    ``of_server``: patterns of settings that name files, addresses, users or peers of one server,
    which are not taken of its file. ``units``: of sizes in tuning profiles.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    values_where_known: Mapping[str, str] = field(default_factory=dict)
    reserved: Iterable[str] = ()
    stored: Mapping[str, str | None] = field(default_factory=dict)
    not_stored: Iterable[str] = ()
    recorded: Iterable[str] = ()
    recorded_texts: Iterable[str] = ()
    recorded_numbers: Sequence[str] = ("",)
    secret: Iterable[str] = ()
    of_server: Sequence[str] = ()
    units: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> SettingTable:
        """Read the table of the engine in ``folder``."""
        document: dict[str, Any] = load_yaml(folder / "settings.yml").value
        return cls(**document)

    @property
    def fixed(self) -> frozenset[str]:
        """Return the settings that only the harness decides."""
        return frozenset({*self.values, *self.values_where_known, *self.reserved})

    def refuse_fixed(self, title: str, names: Mapping[str, str], hint: str = "remove it") -> None:
        """Refuse a setting that only the harness decides; ``names``: given → plain name."""
        if reserved := sorted(given for given, plain in names.items() if plain in self.fixed):
            raise UsageError(f"{title}: setting {', '.join(reserved)}", _RESERVED, hint)

    def stored_of(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Return those of a tuning profile that decide what a load leaves on disk."""
        given = {name: settings.get(name, default) for name, default in self.stored.items()}
        return {name: value for name, value in given.items() if value is not None}

    def is_secret(self, name: str, value: str = "") -> bool:
        """Return whether a setting is refused where it would be stored, by its name or a URL."""
        named = any(part in name.lower() for part in self.secret)
        return named or _USER_OF_URL.search(value) is not None

    def is_of_server(self, name: str) -> bool:
        """Return whether a setting is about one server and where it is."""
        return any(fnmatchcase(name, pattern) for pattern in self.of_server)

    def is_harmless(self, name: str, value: str) -> bool:
        """Return whether the value is recorded."""
        if self.is_secret(name, value):
            return False
        if name in self.recorded or name in self.recorded_texts:
            return True
        return _NUMBER.fullmatch(value) is not None and name.startswith(
            tuple(self.recorded_numbers)
        )

    def record(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Return what a run records of an engine's settings: no text that may have a secret."""
        return {
            name: value if self.is_harmless(name, value) else NOT_RECORDED
            for name, value in settings.items()
            if not self.is_secret(name)
        }


def applied(settings: Mapping[str, str], supported: Collection[str]) -> dict[str, str]:
    """Return the settings for a release: ``loose_X`` becomes X, or is dropped if there is no X.

    The prefix is MySQL's own: one tuning profile serves releases with different settings.
    """
    values: dict[str, str] = {}
    for name, value in settings.items():
        plain = name.removeprefix(LOOSE)
        if plain == name or plain in supported:
            values[plain] = value
    return values


def run_with_file(
    text: str, command: Callable[[str], list[str]]
) -> subprocess.CompletedProcess[str]:
    """Run a server that only reads an option file with ``text``; nothing is started.

    ``command``: the command line, from the file's path.
    """
    # An anonymous file: nothing is left however the harness ends.
    descriptor = os.memfd_create("settings")
    with os.fdopen(descriptor, "w") as file:
        os.fchmod(descriptor, 0o600)  # MySQL ignores a file that others may write
        if (user := unprivileged()) is not None:
            os.fchown(descriptor, user.uid, user.gid)
        file.write(text)
        file.flush()
        return run_unprivileged(
            command(f"/proc/self/fd/{descriptor}"),
            timeout_s=TIMEOUT_S,
            env=minimal_environment(NOWHERE),
            descriptors=[descriptor],
        )
