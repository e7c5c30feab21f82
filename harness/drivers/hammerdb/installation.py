"""Find HammerDB's installation, and check that it can run here.

It is in no package registry. A user unpacks a release archive, in one of three forms:

- Up to 4.x, and 5 and 6 as "Dev": Tcl sources, with a Tcl of their own in ``bin`` and ``lib``.
- 5 and 6 as "Prod": ``hammerdbcli`` is one executable with Tcl, sources and packages in it.
- The sources alone, which run on the system's Tcl once its packages are there: Tcl 8.6 up to 4.x,
  Tcl 9 from 5 on (docs/hammerdb.md).
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.drivers.hammerdb.script import LIBRARIES, MSSQLS, ODBC_DRIVERS
from harness.engine import Credentials
from harness.errors import UsageError
from harness.supervise import programs, workdirs
from harness.supervise.credentials import unprivileged
from harness.supervise.user_files import write_text

_VARIABLE = "HAMMERDB_HOME"
_PROGRAM = "hammerdbcli"
#: Major releases that are driven.
_DRIVEN = range(4, 7)
#: The first one that needs Tcl 9, and comes as one executable.
_TCL_9 = 5
_VERSION = re.compile(r'^\s*set hdb_version "v(\d+)\.(\d+)[^"]*"', re.MULTILINE)
#: The first line of every start.
_BANNER = re.compile(r"HammerDB CLI v(\d+)\.(\d+)")
_WHERE = (
    f"unpack a release 4, 5 or 6 from https://www.hammerdb.com and export {_VARIABLE}=<its "
    "folder>; docs/hammerdb.md says how the sources run on the system's Tcl"
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
_LIBRARIES = {"mysqltcl": "mysqltcl", "tdbc::odbc": "tcl8.6-tdbc-odbc"}
#: The first release that can encrypt its connections to SQL Server.
_ENCRYPTS = (4, 6)

#: Begins the lines of :meth:`HammerDb.check`'s script, which HammerDB prints among its own.
_LACKS = "lacks "


@dataclass(frozen=True)
class HammerDb:
    """One installation of HammerDB; ``version``: as it reports it (4, 12).

    ``tclsh``: None of a single executable.
    """

    home: Path
    version: tuple[int, int]
    tclsh: Path | None

    @property
    def name(self) -> str:
        return f"HammerDB {self.version[0]}.{self.version[1]}"

    @property
    def argv(self) -> list[str]:
        """The command that runs a script; the script's path follows it."""
        tclsh = [] if self.tclsh is None else [str(self.tclsh)]
        return [*tclsh, str(self.home / _PROGRAM), "tcl", "auto"]

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
        if dialect == MSSQLS and self.version < _ENCRYPTS:
            raise UsageError(
                f"{self.name} on {dialect}", "it cannot encrypt its connection", _WHERE
            )
        library = LIBRARIES[dialect]
        probe = "".join(
            f'if {{[catch {{package require {name}}} why]}} {{puts "{_LACKS}{name}: $why"}}\n'
            for name in (*_PACKAGES, library)
        )
        probe += (
            f"if {{![file readable {{{self.home / _PROGRAM}}}]}} "
            f'{{puts "{_LACKS}{_PROGRAM}: this user cannot read it"}}\n'
        )
        if library == "Pgtcl":
            probe += (
                "if {[info commands pg_connect] ne {} && [info commands pg_notice_handler] eq {}} "
                f'{{puts "{_LACKS}Pgtcl: it has no pg_notice_handler"}}\n'
            )
        if dialect == MSSQLS:
            condition = " && ".join(
                f"![dict exists [::tdbc::odbc::drivers] {{{name}}}]" for name in ODBC_DRIVERS
            )
            probe += (
                "if {[info commands ::tdbc::odbc::drivers] ne {} && "
                f'{condition}}} {{puts "{_LACKS}{ODBC_DRIVERS[0]}: unixODBC does not know it"}}\n'
            )
        if lacking := self._lacking(probe, credentials):
            names = {line.partition(": ")[0] for line in lacking}
            debian = {**_PACKAGES, **_LIBRARIES} if self.version[0] < _TCL_9 else {}
            debs = {deb for name, deb in debian.items() if name in names and deb}
            install = f"on Debian: apt-get install {' '.join(sorted(debs))}; " if debs else ""
            if ODBC_DRIVERS[0] in names:
                install = "install Microsoft's msodbcsql18 and unixODBC; "
            raise UsageError(
                f"{self.name} on {dialect} with {self.tclsh or self.home / _PROGRAM}",
                "; ".join(lacking),
                f"{install}a release archive brings all packages of Tcl, and docs/hammerdb.md says "
                "where others come from",
            )

    def _lacking(self, script: str, credentials: Credentials | None) -> list[str]:
        """Run a few lines of Tcl; return what they say is lacking, and the first error."""
        if self.tclsh is not None:
            head = f"::tcl::tm::path add {{{self.home}/modules}}\n"
            done = _run([self.tclsh], credentials, self.environment(Path("/")), head + script)
        else:
            user = credentials if os.geteuid() == 0 else None
            with workdirs.temporary(credentials=user) as scratch:
                write_text(scratch / "probe.tcl", f"{script}exit\n", user)
                command = [*self.argv, str(scratch / "probe.tcl")]
                done = _run(command, credentials, self.environment(scratch), cwd=self.home)
            if _BANNER.match(done.stdout) is None or done.returncode != 0:
                words = (done.stderr or done.stdout).strip()
                return [f"{_PROGRAM}: exit status {done.returncode}: {words[-500:]}"]
        lacking = [
            line.removeprefix(_LACKS)
            for line in done.stdout.splitlines()
            if line.startswith(_LACKS)
        ]
        return [*lacking, *done.stderr.splitlines()[:1]]


def _run(
    command: Sequence[str | Path],
    credentials: Credentials | None,
    environment: Mapping[str, str],
    stdin: str = "",
    cwd: Path = Path("/"),
) -> subprocess.CompletedProcess[str]:
    """Run HammerDB, or its Tcl, as the user that clients run as."""
    user = credentials if os.geteuid() == 0 else None
    try:
        return programs.run(
            command,
            stdin=stdin,
            env=environment,
            timeout_s=_CHECK_TIMEOUT_S,
            cwd=cwd,
            user=user,
            foreign=True,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"driver hammerdb: {command[0]}", str(error), _WHERE) from error


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
    single = _is_executable(home / _PROGRAM)
    version = _printed_version(home) if single else _version(home)
    if version[0] not in _DRIVEN:
        raise UsageError(
            problem,
            f"{home} is HammerDB {version[0]}.{version[1]}",
            f"releases {_DRIVEN[0]} to {_DRIVEN[-1]} are driven: {_WHERE}",
        )
    return HammerDb(home, version, None if single else _tclsh(home, version))


def _is_executable(program: Path) -> bool:
    """Return whether it is a program of its own (ELF), not a Tcl script."""
    try:
        with program.open("rb") as stream:
            return stream.read(4) == b"\x7fELF"
    except OSError as error:
        raise UsageError("driver hammerdb", str(error), _WHERE) from error


def _printed_version(home: Path) -> tuple[int, int]:
    """Return the version that a single executable prints; such are releases 5 and later."""
    program = home / _PROGRAM
    facts = program.stat()
    return _printed(program, (facts.st_ino, facts.st_size, facts.st_mtime_ns))


@functools.lru_cache
def _printed(program: Path, stamp: tuple[int, ...]) -> tuple[int, int]:
    # It knows no such word, and ends.
    done = _run([program, "version"], unprivileged(), {}, cwd=program.parent)
    if (match := _BANNER.match(done.stdout)) is None:
        words = (done.stderr or done.stdout).strip()
        raise UsageError(
            "driver hammerdb",
            f"{program} is a single executable, as of release 5 or later, and does not print "
            f"its version (exit status {done.returncode}): {words[-500:] or 'it printed nothing'}",
            f"let every user read and execute it, or use another release: {_WHERE}",
        )
    return int(match[1]), int(match[2])


def _version(home: Path) -> tuple[int, int]:
    try:
        match = _VERSION.search((home / _PROGRAM).read_text(errors="replace"))
    except OSError as error:
        raise UsageError("driver hammerdb", str(error), _WHERE) from error
    if match is None:
        raise UsageError("driver hammerdb", f"{home / _PROGRAM} does not say its version", _WHERE)
    return int(match[1]), int(match[2])


def _tclsh(home: Path, version: tuple[int, int]) -> Path:
    """Return HammerDB's own Tcl, or the system's."""
    name = "tclsh9.0" if version[0] >= _TCL_9 else "tclsh8.6"
    bundled = home / "bin" / name
    if bundled.exists():
        return bundled
    if (system := shutil.which(name)) is None:
        raise UsageError(
            f"HammerDB at {home}",
            f"neither {bundled} nor a {name} on the PATH",
            f"install {name}, or use a release archive, which brings its own",
        )
    return Path(system)
