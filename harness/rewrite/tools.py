"""What binutils report of a program: its flushes and fences, and how it was linked."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError
from harness.rewrite.rules import FENCES, FLUSHES

#: The line of a compiler's or linker's messages that names the cause; collect2 only repeats it.
_CAUSE = re.compile(r"^(?!collect2:).*(\berror:|\bundefined |\bcannot find|\bmultiple def)", re.I)
_FUNCTION = re.compile(r"^[0-9a-f]+ <(?P<name>[^>]+)>:$")
_OBJDUMP = re.compile(r"^\s+(?P<address>[0-9a-f]+):\t(?:[a-z0-9]+ )*?(?P<name>[a-z0-9]+)(?:\s|$)")
_DYN = re.compile(r"Type:\s+DYN")


def run(command: Sequence[str], program: Path, folder: Path | None = None) -> str:
    """Its standard output; UsageError where it fails: it does not understand the program."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    except FileNotFoundError as error:
        raise refused(
            program, f"{command[0]} is not installed", "install gcc and binutils"
        ) from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or [f"status {done.returncode}"]
        cause = next((line for line in said if _CAUSE.search(line)), said[-1])
        raise refused(
            program,
            f"{Path(command[0]).name}: {cause.strip()[:300]}",
            "this program cannot be rewritten",
        )
    return done.stdout


def refused(program: Path, context: str, hint: str) -> UsageError:
    """The error of a program that is not rewritten."""
    return UsageError(f"rewrite {program}", context, hint)


@dataclass(frozen=True)
class Instruction:
    """A flush or fence. ``address``: hexadecimal; ``before_fence``: one is next to it."""

    function: str
    address: str
    name: str
    before_fence: bool


def flushes_and_fences(program: Path) -> list[Instruction]:
    """In the order of the file."""
    listing = run(["objdump", "-d", "--no-show-raw-insn", str(program)], program)
    function, every = "", []
    for line in listing.splitlines():
        if head := _FUNCTION.match(line):
            function = head["name"]
        elif one := _OBJDUMP.match(line):
            every.append((function, one["address"], one["name"]))
    following = [name for _, _, name in every[1:]] + [""]
    return [
        Instruction(function, address, name, after in FENCES)
        for (function, address, name), after in zip(every, following, strict=True)
        if name in FLUSHES or name in FENCES
    ]


def is_library(program: Path) -> bool:
    """Whether it is a shared library: neither a program nor one that is linked statically."""
    header, dynamic, segments = _read(program)
    return bool(_DYN.search(header)) and "INTERP" not in segments and "PIE" not in dynamic


def _read(program: Path) -> list[str]:
    return [run(["readelf", "-W", part, str(program)], program) for part in ("-h", "-d", "-l")]


def link_options(program: Path, folder: Path) -> list[str]:
    """Those for gcc to link it again; their files are put in ``folder``.

    UsageError for kinds that are not linked again.
    """
    header, dynamic, segments = _read(program)
    shared = is_library(program)
    if not shared and "INTERP" not in segments:
        raise refused(program, "it is linked statically", "link it dynamically")
    if "(VERDEF)" in dynamic:
        raise refused(program, "its symbols have versions", "rewrite the source")
    stack = re.search(r"GNU_STACK.*\bRWE\b", segments)
    now = re.search(r"\(BIND_NOW\)|\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*\bNOW\b", dynamic)
    found = ["-shared"] if shared else [] if _DYN.search(header) else ["-no-pie"]
    found += ["-z", "execstack" if stack else "noexecstack", "-z", "now" if now else "lazy"]
    if re.search(r"\(SYMBOLIC\)|\(FLAGS\).*SYMBOLIC", dynamic):
        found.append("-Wl,-Bsymbolic")
    if "(RPATH)" in dynamic:
        found.append("-Wl,--disable-new-dtags")
    for tag, option in (("SONAME", "soname"), ("RUNPATH", "rpath"), ("RPATH", "rpath")):
        for value in re.findall(rf"\({tag}\).*\[(.+)\]", dynamic):
            found.append(f"-Wl,-{option},{value}")
    if not shared and (names := _exported(program)):
        listed = folder / "exported"
        listed.write_text(f"{{ {' '.join(f'{name};' for name in names)} }};\n")
        found.append(f"-Wl,--dynamic-list={listed}")
    return found + _libraries(program, dynamic, folder)


def _exported(program: Path) -> list[str]:
    """Names that others find in it: no more and no fewer in the new one."""
    table = run(["readelf", "-W", "--dyn-syms", str(program)], program)
    rows = (line.split() for line in table.splitlines())
    names = (row[7] for row in rows if len(row) > 7 and row[0].endswith(":") and row[6] != "UND")
    return sorted({name.split("@")[0] for name in names if name != "Name"})


def _libraries(program: Path, dynamic: str, folder: Path) -> list[str]:
    """Those that it names, where the loader finds them.

    Linked by their names: of a library without SONAME the program would keep the path.
    """
    names = re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic)
    paths = dict(re.findall(r"([^\s/]+) => (/\S+)", run(["ldd", str(program)], program)))
    lacking = [name for name in names if name not in paths and not name.startswith("ld-linux")]
    if lacking:
        raise refused(program, f"its library {lacking[0]} is not there", "install it")
    libraries = folder / "libraries"
    libraries.mkdir()
    for name, path in paths.items():
        (libraries / name).symlink_to(path)
    found = ["-Wl,--no-as-needed", f"-L{libraries}", f"-Wl,-rpath-link,{libraries}"]
    return found + [f"-l:{name}" for name in names if name in paths]
