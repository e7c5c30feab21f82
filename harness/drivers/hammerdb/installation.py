"""Find HammerDB's installation, and check that it can run here.

It is in no package registry: a user unpacks a release archive, whose ``bin`` and ``lib``
bring a Tcl of their own, or has the sources, which run on the system's Tcl 8.6 once its
packages are there (docs/hammerdb.md).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from harness.drivers.hammerdb.dialect import LIBRARIES
from harness.engine import Credentials
from harness.errors import UsageError
from harness.supervise import programs

_VARIABLE = "HAMMERDB_HOME"
_PROGRAM = "hammerdbcli"
_TCLSH = "tclsh8.6"
_VERSION = re.compile(r'^\s*set hdb_version "v(\d+)\.(\d+)[^"]*"', re.MULTILINE)
_WHERE = (
    f"unpack a 4.x release from https://www.hammerdb.com and export {_VARIABLE}=<its folder>; "
    "docs/hammerdb.md says how the sources run on the system's Tcl"
)
_CHECK_TIMEOUT_S = 60.0
#: What hammerdbcli itself loads, and what it is called in Debian, where that is a package.
_PACKAGES = {
    "Thread": "tcl-thread",
    "sqlite3": "libsqlite3-tcl",
    "comm": "tcllib",
    "huddle": "tcllib",
    "ticklecharts": None,
}
_LIBRARIES = {"mysqltcl": "mysqltcl"}


@dataclass(frozen=True)
class HammerDb:
    """One installation of HammerDB; ``version``: as it reports it (4, 12)."""

    home: Path
    version: tuple[int, int]
    tclsh: Path

    @property
    def name(self) -> str:
        return f"HammerDB {self.version[0]}.{self.version[1]}"

    @property
    def argv(self) -> list[str]:
        """The command that runs a script; the script's path follows it."""
        return [str(self.tclsh), str(self.home / _PROGRAM), "tcl", "auto"]

    def environment(self, scratch: Path) -> dict[str, str]:
        """Return the environment of HammerDB's own launcher; it writes to ``scratch`` alone."""
        library = str(self.home / "lib")
        return {
            "LD_LIBRARY_PATH": library,
            "TCLLIBPATH": library,
            **dict.fromkeys(("TMP", "TMPDIR", "TEMP", "HOME"), str(scratch)),
        }

    def check(self, dialect: str, credentials: Credentials | None) -> None:
        """Raise UsageError where a Tcl package for this database is missing, or HammerDB is
        not for the user that clients run as to read.

        HammerDB itself would say so only from its first virtual user, and then wait.
        """
        library = LIBRARIES[dialect]
        probe = "".join(
            f'if {{[catch {{package require {name}}} why]}} {{puts "{name}: $why"}}\n'
            for name in (*_PACKAGES, library)
        )
        probe += (
            f"if {{![file readable {{{self.home / _PROGRAM}}}]}} "
            f'{{puts "{_PROGRAM}: this user cannot read it"}}\n'
        )
        if library == "Pgtcl":
            probe += (
                "if {[info commands pg_connect] ne {} && [info commands pg_notice_handler] eq {}} "
                '{puts "Pgtcl: it has no pg_notice_handler"}\n'
            )
        lacking = self._tcl(probe, credentials)
        if lacking:
            names = {line.split(":")[0] for line in lacking}
            debs = {d for n, d in {**_PACKAGES, **_LIBRARIES}.items() if n in names and d}
            install = f"on Debian: apt-get install {' '.join(sorted(debs))}; " if debs else ""
            raise UsageError(
                f"{self.name} on {dialect} with {self.tclsh}",
                "; ".join(lacking),
                f"{install}a release archive brings them all, and docs/hammerdb.md says where "
                "the others come from",
            )

    def _tcl(self, script: str, credentials: Credentials | None) -> list[str]:
        """Run a few lines of Tcl; return the lines that they print."""
        user = credentials if os.geteuid() == 0 else None
        try:
            done = programs.run(
                [self.tclsh],
                stdin=f"::tcl::tm::path add {{{self.home}/modules}}\n{script}exit\n",
                env=self.environment(Path("/")),
                timeout_s=_CHECK_TIMEOUT_S,
                user=user,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UsageError(f"{self.name} with {self.tclsh}", str(error), _WHERE) from error
        return [*done.stdout.splitlines(), *done.stderr.splitlines()[:1]]


def find() -> HammerDb:
    """Return the installation at $HAMMERDB_HOME; UsageError says where HammerDB comes from."""
    problem = "driver hammerdb"
    given = os.environ.get(_VARIABLE)
    if not given:
        raise UsageError(
            problem, f"{_VARIABLE} is not set: HammerDB is a program of its own, not ours", _WHERE
        )
    home = Path(given).absolute()
    if not (home / _PROGRAM).is_file():
        raise UsageError(problem, f"{_VARIABLE}={given} has no {_PROGRAM}", _WHERE)
    version = _version(home)
    if version[0] != 4:
        raise UsageError(
            problem,
            f"{home} is HammerDB {version[0]}.{version[1]}, which speaks Tcl 9 and other settings"
            if version[0] > 4
            else f"{home} is HammerDB {version[0]}.{version[1]}",
            f"4.x is driven, with Tcl 8.6 (4.12 is what was tried): {_WHERE}",
        )
    return HammerDb(home, version, _tclsh(home))


def _version(home: Path) -> tuple[int, int]:
    try:
        found = _VERSION.search((home / _PROGRAM).read_text(errors="replace"))
    except OSError as error:
        raise UsageError("driver hammerdb", str(error), _WHERE) from error
    if found is None:
        raise UsageError("driver hammerdb", f"{home / _PROGRAM} does not say its version", _WHERE)
    return int(found[1]), int(found[2])


def _tclsh(home: Path) -> Path:
    """Return HammerDB's own Tcl, or the system's."""
    own = home / "bin" / _TCLSH
    if own.exists():
        return own
    if (system := shutil.which(_TCLSH)) is None:
        raise UsageError(
            f"HammerDB at {home}",
            f"neither {own} nor a {_TCLSH} on the PATH",
            "apt-get install tcl8.6, or use a release archive, which brings its own",
        )
    return Path(system)
