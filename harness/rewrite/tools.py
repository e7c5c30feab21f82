"""Binutils' reports on a program: its flushes and fences, and how it was linked.

The program may be hostile. Tools run with limits, without our environment and, where the harness
is root, as the unprivileged user; names from the program reach the linker only if they are plain,
one argument each.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError
from harness.rewrite.rules import FENCES, FLUSHES
from harness.supervise.credentials import run_unprivileged, unprivileged
from harness.supervise.user_files import acting_as, make_directory, write_text

#: Limits of each tool: seconds, bytes of memory, bytes of a file that it writes.
_TIMEOUT_S = 1800
_MEMORY_BYTES = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 3 // 4
MAX_BYTES = 4 << 30
#: Names and paths that the linker cannot take for anything else: no comma, blank, quote or
#: control character, and neither option nor ``@file``.
_PLAIN = re.compile(r"[\w./$][\w./$+:~={}@-]*", re.ASCII)

#: The line of a compiler's or linker's messages that names the cause; collect2 only repeats it.
_CAUSE = re.compile(r"^(?!collect2:).*(\berror:|\bundefined |\bcannot find|\bmultiple def)", re.I)
_FUNCTION = re.compile(r"^[0-9a-f]+ <(?P<name>[^>]+)>:$")
_OBJDUMP = re.compile(r"^\s+(?P<address>[0-9a-f]+):\t(?:[a-z0-9]+ )*?(?P<name>[a-z0-9]+)(?:\s|$)")
_DYN = re.compile(r"Type:\s+DYN")


def run(command: Sequence[str], program: Path, folder: Path | None = None) -> str:
    """Run a tool; return its output, UsageError where it does not understand the program.

    ``folder``: its working directory and, for temporary files, ``$TMPDIR``.
    """
    tool = Path(command[0]).name
    if shutil.which(command[0]) is None:
        raise refused(program, f"{command[0]} is not installed", "install gcc and binutils")
    limits = (f"--cpu={_TIMEOUT_S}", f"--as={_MEMORY_BYTES}", f"--fsize={MAX_BYTES}", "--core=0")
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"}
    if folder is not None:
        environment["TMPDIR"] = str(folder)
    try:
        done = run_unprivileged(
            ["prlimit", *limits, "--", *command],
            timeout_s=_TIMEOUT_S,
            env=environment,
            cwd=folder or Path("/"),
        )
    except FileNotFoundError as error:
        raise refused(program, "prlimit is not installed", "install util-linux") from error
    except subprocess.TimeoutExpired as error:
        context = f"{tool} did not end within {_TIMEOUT_S} s"
        raise refused(program, context, "this program cannot be rewritten") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or [f"status {done.returncode}"]
        cause = next((line for line in said if _CAUSE.search(line)), said[-1])
        raise refused(
            program,
            f"{tool}: {cause.strip()[:300]}",
            "this program cannot be rewritten",
        )
    return done.stdout


def refused(program: Path, context: str, hint: str) -> UsageError:
    """Return the error of a program that is not rewritten."""
    return UsageError(f"rewrite {program}", context, hint)


def as_whom() -> str:
    """The end of a message: whose rights the tools have, if they are not ours."""
    user = unprivileged()
    return f" for user {user.name}, as whom the tools run" if user else ""


@dataclass(frozen=True)
class Instruction:
    """A flush or fence. ``address``: hexadecimal; ``before_fence``: one is next to it."""

    function: str
    address: str
    name: str
    before_fence: bool


def flushes_and_fences(program: Path) -> list[Instruction]:
    """Return the program's flushes and fences in the order of the file."""
    listing = run(["objdump", "-d", "--no-show-raw-insn", str(program.absolute())], program)
    function, every = "", []
    for line in listing.splitlines():
        if head := _FUNCTION.match(line):
            function = head["name"]
        elif match := _OBJDUMP.match(line):
            every.append((function, match["address"], match["name"]))
    following = [name for _, _, name in every[1:]] + [""]
    return [
        Instruction(function, address, name, after in FENCES)
        for (function, address, name), after in zip(every, following, strict=True)
        if name in FLUSHES or name in FENCES
    ]


def is_library(program: Path) -> bool:
    """Return whether it is a shared library: no program, not even a statically linked one."""
    header, dynamic, segments = _read(program)
    return bool(_DYN.search(header)) and "INTERP" not in segments and "PIE" not in dynamic


def _read(program: Path) -> list[str]:
    return [read_elf(program, part) for part in ("-h", "-d", "-l")]


def read_elf(program: Path, part: str) -> str:
    """The text that readelf prints for ``part``, an option such as ``-h``."""
    return run(["readelf", "-W", part, str(program.absolute())], program)


def _to_linker(*words: str) -> list[str]:
    """Return arguments of gcc that pass ``words`` to the linker as they are."""
    return [argument for word in words for argument in ("-Xlinker", word)]


def _plain(program: Path, what: str, value: str) -> str:
    """Return ``value``; UsageError if the linker could take it for more than a name or path."""
    if not _PLAIN.fullmatch(value):
        raise refused(
            program,
            f"its {what} is {value!r}; only letters, digits and ._-+:/~=@${{}} are linked again",
            "correct it with patchelf, if you trust the program",
        )
    return value


def link_options(program: Path, folder: Path) -> list[str]:
    """Return gcc's options to link the program again; their files are put in ``folder``.

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
    options = ["-shared"] if shared else [] if _DYN.search(header) else ["-no-pie"]
    options += ["-z", "execstack" if stack else "noexecstack", "-z", "now" if now else "lazy"]
    if re.search(r"\(SYMBOLIC\)|\(FLAGS\).*SYMBOLIC", dynamic):
        options += _to_linker("-Bsymbolic")
    if "(RPATH)" in dynamic:
        options += _to_linker("--disable-new-dtags")
    for tag, option in (("SONAME", "soname"), ("RUNPATH", "rpath"), ("RPATH", "rpath")):
        for value in re.findall(rf"\({tag}\).*\[(.+)\]", dynamic):
            options += _to_linker(f"-{option}={_plain(program, tag, value)}")
    if not shared and (names := _exported(program)):
        listed = folder / "exported"
        text = " ".join(f'"{_plain(program, "symbol", name)}";' for name in names)
        write_text(listed, f"{{ {text} }};\n", unprivileged())
        options += _to_linker(f"--dynamic-list={listed}")
    return options + _libraries(program, dynamic, folder)


def _exported(program: Path) -> list[str]:
    """Return the names that others find in the program: the new one has the same."""
    table = read_elf(program, "--dyn-syms")
    rows = (line.split() for line in table.splitlines())
    names = (row[7] for row in rows if len(row) > 7 and row[0].endswith(":") and row[6] != "UND")
    return sorted({name.split("@")[0] for name in names if name != "Name"})


def _libraries(program: Path, dynamic: str, folder: Path) -> list[str]:
    """Return options for the libraries that it names, where the loader finds them.

    Linked by their names: of a library without SONAME the program would keep the path.
    """
    names = [_plain(program, "library", n) for n in re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic)]
    listing = run(["ldd", str(program.absolute())], program)
    paths = dict(re.findall(r"(\w[^\s/]*) => (/\S+)", listing))
    lacking = [name for name in names if name not in paths and not name.startswith("ld-linux")]
    if lacking:
        raise refused(program, f"its library {lacking[0]} is not there{as_whom()}", "install it")
    libraries, user = folder / "libraries", unprivileged()
    make_directory(libraries, user)
    with acting_as(user):
        for name, path in paths.items():
            (libraries / name).symlink_to(path)
    options = [f"-L{libraries}", *_to_linker("--no-as-needed", f"-rpath-link={libraries}")]
    return options + [f"-l:{name}" for name in names if name in paths]
