"""How a program was linked, as gcc's options for the same kind of file."""

from __future__ import annotations

import re
from pathlib import Path

from harness.rewrite.tools import refused, run

_DYN = re.compile(r"Type:\s+DYN")


def is_library(program: Path) -> bool:
    """Whether it is a shared library: neither a program nor one that is linked statically."""
    header, dynamic, segments = _read(program)
    return bool(_DYN.search(header)) and "INTERP" not in segments and "PIE" not in dynamic


def _read(program: Path) -> list[str]:
    return [run(["readelf", "-W", part, str(program)], program) for part in ("-h", "-d", "-l")]


def options(program: Path, folder: Path) -> list[str]:
    """Those for gcc, whose files are put in ``folder``; UsageError for kinds not linked again."""
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
