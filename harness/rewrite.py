"""Replace a program's flush instructions, without its source (BENTŌ, section 4).

The program is disassembled into text that assembles again (``ddisasm``, run as a program), the
rules are applied to that text, and gcc links the result. What was disassembled is compared with
``objdump``'s reading of the program beforehand, and the instructions of the result are counted
afterwards: a program whose counts are not what the rules give is not written.

A rule keeps what the program relies on: clflush is ordered with other flushes and stores, clwb and
clflushopt are not, so that a fence goes with them unless one follows at once. A fence that comes
later is not seen, as in the paper: a fence too many costs time, not data.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.errors import RunFailed, UsageError

FLUSHES = ("clflush", "clflushopt", "clwb")
FENCES = ("sfence", "mfence")
_COUNTED = (*FLUSHES, *FENCES)
_ORDERED = "clflush"
#: A line of assembly that is an instruction: not a label, directive or comment.
_INSTRUCTION = re.compile(r"^\s+(?P<name>[a-z][a-z0-9]*)(?P<rest>(?:\s.*)?)$")
_FUNCTION = re.compile(r"^[0-9a-f]+ <(?P<name>[^>]+)>:$")
_OBJDUMP = re.compile(r"^\s+(?P<address>[0-9a-f]+):\t(?:[a-z0-9]+ )*?(?P<name>[a-z0-9]+)(?:\s|$)")
_DDISASM = "pip install ddisasm"


@dataclass(frozen=True)
class Rule:
    """``old`` becomes ``new``, followed by ``fence`` ("": none) where no fence follows at once."""

    old: str
    new: str
    fence: str = ""


#: The paper's, and the same for flushes that were never ordered.
RULES = (Rule("clflush", "clwb", "sfence"), Rule("clflushopt", "clwb"))


@dataclass(frozen=True)
class Site:
    """One flush that was replaced. ``address``: in the old program, hexadecimal."""

    function: str
    address: str
    old: str
    new: str
    fence: Literal["added", "follows", "none"]


@dataclass(frozen=True)
class Rewritten:
    """What was done, with the counts of flushes and fences in both programs."""

    sites: tuple[Site, ...]
    before: Mapping[str, int]
    after: Mapping[str, int]


def read_rule(old: str, new: str) -> Rule:
    """``clflush`` and ``clwb+sfence``."""
    name, _, fence = new.partition("+")
    if old not in FLUSHES:
        raise UsageError(f"--from {old}", "no flush instruction", f"one of {', '.join(FLUSHES)}")
    if name not in FLUSHES or name == old or fence not in ("", *FENCES):
        raise UsageError(
            f"--to {new}",
            f"not a replacement of {old}",
            "a flush, and where it needs one a fence: clwb, clwb+sfence",
        )
    if old == _ORDERED and not fence:
        raise UsageError(
            f"--to {new}",
            "clflush is ordered with later stores and flushes, and nothing would be in its place",
            f"write {name}+sfence: no fence is added where one follows at once",
        )
    return Rule(old, name, fence)


def apply(lines: Iterable[str], rules: Sequence[Rule]) -> tuple[list[str], list[Rule], list[bool]]:
    """The new lines; of each replaced flush, in order, its rule and whether a fence was added."""
    by_old = {rule.old: rule for rule in rules}
    every, used, added = list(lines), [], []
    result = []
    for number, line in enumerate(every):
        found = _INSTRUCTION.match(line)
        rule = by_old.get(found["name"]) if found else None
        if found is None or rule is None:
            result.append(line)
            continue
        fence = bool(rule.fence) and _next_instruction(every, number) not in FENCES
        result.append(f"\t{rule.new}{found['rest']}")
        result += [f"\t{rule.fence}"] if fence else []
        used.append(rule)
        added.append(fence)
    return result, used, added


def _next_instruction(lines: Sequence[str], number: int) -> str:
    """The one that is executed after this line's, which is no jump; labels are passed."""
    for line in lines[number + 1 :]:
        if found := _INSTRUCTION.match(line):
            return found["name"]
    return ""


def rewrite(program: Path, output: Path, rules: Sequence[Rule] = RULES) -> Rewritten:
    """Write ``output``; UsageError where the program cannot be rewritten (nothing is written)."""
    found = _flushes(program)
    before = Counter(name for _, _, name in found)
    old = {rule.old for rule in rules}
    replaced = [one for one in found if one[2] in old]
    if not replaced:
        raise UsageError(
            f"rewrite {program}",
            f"no {' or '.join(sorted(old))} in it",
            "`objdump -d` shows its instructions",
        )
    linking = _linking(program)
    with tempfile.TemporaryDirectory(dir=output.absolute().parent, prefix=".rewrite-") as folder:
        text, linked = Path(folder) / "program.s", Path(folder) / "program"
        _run([_ddisasm(), str(program), "--asm", str(text)], program)
        lines, used, added = apply(text.read_text().splitlines(), rules)
        if [rule.old for rule in used] != [name for _, _, name in replaced]:
            raise UsageError(
                f"rewrite {program}",
                f"ddisasm finds {len(used)} flushes to replace, objdump {len(replaced)}, or in "
                "another order: one of them takes data for code",
                "rewrite the source",
            )
        text.write_text("\n".join(lines) + "\n")
        if "-shared" not in linking and (names := _exported(program)):
            listed = Path(folder) / "exported"
            listed.write_text(f"{{ {' '.join(f'{name};' for name in names)} }};\n")
            linking.append(f"-Wl,--dynamic-list={listed}")
        _run(["gcc", "-nostartfiles", *linking, str(text), "-o", str(linked)], program)
        after = Counter(name for _, _, name in _flushes(linked))
        expected = _expected(before, used, added)
        if after != expected:
            raise RunFailed(
                f"rewrite {program}",
                f"the result has {_text(after)}; expected {_text(expected)}",
                "it was not written",
            )
        linked.chmod(program.stat().st_mode & 0o777)
        linked.replace(output)
    return Rewritten(tuple(_sites(replaced, used, added)), before, after)


def _sites(
    replaced: Sequence[tuple[str, str, str]], used: Sequence[Rule], added: Sequence[bool]
) -> Iterable[Site]:
    for (function, address, _), rule, fence in zip(replaced, used, added, strict=True):
        needs: Literal["added", "follows", "none"] = "none"
        if rule.fence:
            needs = "added" if fence else "follows"
        yield Site(function, address, rule.old, rule.new, needs)


def _expected(
    before: Mapping[str, int], used: Sequence[Rule], added: Sequence[bool]
) -> Counter[str]:
    counts = Counter(before)
    for rule, fence in zip(used, added, strict=True):
        counts[rule.old] -= 1
        counts[rule.new] += 1
        if fence:
            counts[rule.fence] += 1
    return +counts


def _text(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{counts[name]} {name}" for name in _COUNTED if counts.get(name))


def _flushes(program: Path) -> list[tuple[str, str, str]]:
    """Function, address and name of each flush and fence, by ``objdump``."""
    listing = _run(["objdump", "-d", "--no-show-raw-insn", str(program)], program)
    found, function = [], ""
    for line in listing.splitlines():
        if head := _FUNCTION.match(line):
            function = head["name"]
        elif (one := _OBJDUMP.match(line)) and one["name"] in _COUNTED:
            found.append((function, one["address"], one["name"]))
    return found


def _linking(program: Path) -> list[str]:
    """gcc's options for the same kind of file; UsageError for kinds that are not rewritten."""
    header = _run(["readelf", "-W", "-h", str(program)], program)
    dynamic = _run(["readelf", "-W", "-d", str(program)], program)
    segments = _run(["readelf", "-W", "-l", str(program)], program)
    if "X86-64" not in header:
        raise _refused(program, "not a program of x86-64", "flushes are instructions of x86-64")
    if "(NEEDED)" not in dynamic and "INTERP" not in segments:
        raise _refused(program, "it is linked statically", "link it dynamically")
    if "(VERDEF)" in dynamic:
        raise _refused(program, "its symbols have versions", "rewrite the source")
    shared = "INTERP" not in segments
    stack = re.search(r"GNU_STACK.*\bRWE\b", segments)
    options = ["-shared"] if shared else [] if "DYN" in header else ["-no-pie"]
    options += ["-z", "execstack" if stack else "noexecstack"]
    if re.search(r"\(SYMBOLIC\)|\(FLAGS\).*SYMBOLIC", dynamic):
        options.append("-Wl,-Bsymbolic")
    if "(RPATH)" in dynamic:
        options.append("-Wl,--disable-new-dtags")
    for tag, option in (("SONAME", "soname"), ("RUNPATH", "rpath"), ("RPATH", "rpath")):
        for value in re.findall(rf"\({tag}\).*\[(.+)\]", dynamic):
            options.append(f"-Wl,-{option},{value}")
    return options + _libraries(program, dynamic)


def _exported(program: Path) -> list[str]:
    """Names that others find in it: no more and no fewer in the new one."""
    table = _run(["readelf", "-W", "--dyn-syms", str(program)], program)
    rows = (line.split() for line in table.splitlines())
    names = (row[7] for row in rows if len(row) > 7 and row[0].endswith(":") and row[6] != "UND")
    return sorted({name.split("@")[0] for name in names if name != "Name"})


def _libraries(program: Path, dynamic: str) -> list[str]:
    """Those that it names, where the loader finds them."""
    names = re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic)
    paths = dict(re.findall(r"(\S+) => (/\S+)", _run(["ldd", str(program)], program)))
    lacking = [name for name in names if name not in paths and not name.startswith("ld-linux")]
    if lacking:
        raise _refused(program, f"its library {lacking[0]} is not there", "install it")
    return ["-Wl,--no-as-needed", *(paths[name] for name in names if name in paths)]


def _refused(program: Path, context: str, hint: str) -> UsageError:
    return UsageError(f"rewrite {program}", context, hint)


def _ddisasm() -> str:
    """The program of the package ddisasm (its Python module only starts it)."""
    try:
        import ddisasm
    except ImportError as error:
        raise UsageError("rewrite a program", "ddisasm is not installed", _DDISASM) from error
    return str(Path(ddisasm.__file__).parent / "ddisasm")


def _run(command: Sequence[str], program: Path) -> str:
    """Its standard output; UsageError where it fails: it does not understand the program."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise _refused(
            program, f"{command[0]} is not installed", "install gcc and binutils"
        ) from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or [f"status {done.returncode}"]
        raise _refused(
            program,
            f"{Path(command[0]).name}: {said[-1][:300]}",
            "this program cannot be rewritten",
        )
    return done.stdout
