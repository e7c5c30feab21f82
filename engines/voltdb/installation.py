"""Choose the VoltDB to run: the pinned one of the private prefix, or a folder that is named.

A folder has the server and what it needs as jars in ``lib``, and in ``classes`` what
``harness engines install`` compiles there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

from engines._installation import first_fitting, java_of, output_of
from harness.engine import EngineOptions, EngineVersion
from harness.errors import UsageError
from harness.install import installed, java_command

_BANNER = re.compile(r"VoltDB (\d+(?:\.\d+)*) .*, Java (\d+)\S*")
#: What the classes of our own need.
_OLDEST_JAVA = 17
#: The server reaches into both.
_OPENED = ("java.base/java.lang", "java.base/sun.nio.ch")


@dataclass(frozen=True)
class Installation(EngineVersion):
    """``folder``: has ``lib`` and ``classes``. ``java``: the program that runs them."""

    product = "VoltDB"
    folder: Path
    java: str

    def command(self, *options: str) -> list[str]:
        """Command that runs the server's main class, with Java's own ``options``."""
        java, *rest = java_command(self.folder, self.java)
        opened = [f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED]
        return [java, *opened, *options, *rest, "org.voltdb.VoltDB"]


def choose(options: EngineOptions, engines_prefix: Path) -> Installation:
    """The installation that these options mean; UsageError where there is none.

    Order: ``prefix``; the private prefix. With ``version`` the first there that fits it.
    """
    java = java_of(options)
    installation = first_fitting(
        "VoltDB",
        (),
        _private(engines_prefix, java),
        options,
        install="run `harness engines install voltdb`",
        of_prefix=partial(_of_prefix, java),
    )
    match = _BANNER.fullmatch(installation.build)
    if match is None or int(match[2]) < _OLDEST_JAVA:
        raise UsageError(
            f"{installation.title} with {java}",
            f"it says {installation.build!r}",
            f"use Java {_OLDEST_JAVA} or later: the engine option 'java' names its folder",
        )
    return installation


def _of_prefix(java: str, prefix: Path) -> Installation:
    if (installation := _inspect(prefix, str(prefix), java)) is not None:
        return installation
    raise UsageError(
        f"VoltDB under {prefix}",
        "lib/*.jar and classes/tierbench/Version.class do not run there with this Java",
        "name a folder that `harness engines install voltdb` made",
    )


def _private(engines_prefix: Path, java: str) -> Iterator[Installation]:
    for package in installed("voltdb", engines_prefix):
        if (installation := _inspect(package.folder, package.source, java)) is not None:
            yield installation


@lru_cache(maxsize=16)
def _inspect(folder: Path, source: str, java: str) -> Installation | None:
    banner = output_of(*java_command(folder, java), "tierbench.Version")
    match = _BANNER.fullmatch(banner)
    return match and Installation("voltdb", match[1], banner, source, folder, java)
