"""No loop can have lost what it is there for: each compiled loop is read and counted.

A loop's accesses are volatile assembly, so the compiler must leave all of them; the peer's
were plain reads whose values nobody used, and GCC 12 removed them ("2,097,852 GiB/s").
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

LINE = 64
VECTOR = {"sse2": 16, "avx2": 32, "avx512": 64}
REGISTER = {"sse2": "%xmm", "avx2": "%ymm", "avx512": "%zmm"}
ORDINARY = {"sse2": "movdqa", "avx2": "vmovdqa", "avx512": "vmovdqa64"}
STREAMED = {"sse2": "movntdq", "avx2": "vmovntdq", "avx512": "vmovntdq"}
LOADS = ("load", "ntload")
FLUSHES = ("clwb", "clflushopt", "clflush")
#: Ways of walking (addresses computed, or from the ring).
WAYS = 2
#: Accesses of one line without a fence go eight at a time, and what is left one by one.
IN_A_ROW = 8

LOOPS = [
    f"{access}{fence}"
    for access in (
        *LOADS, "store", "ntstore",
        *(f"store_{flush}{each}" for flush in FLUSHES for each in ("", "_line")),
    )
    for fence in ("", "_sfence", "_mfence")
]  # fmt: skip


@dataclass(frozen=True)
class Instruction:
    address: int
    name: str
    operands: str


def functions_of(compiled: Path) -> dict[str, list[Instruction]]:
    """Every function of an object file with its instructions."""
    told = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", str(compiled)],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    functions: dict[str, list[Instruction]] = {}
    name = ""
    for line in told.splitlines():
        if head := re.match(r"[0-9a-f]+ <(.+)>:$", line):
            name = head[1]
            functions[name] = []
        elif one := re.match(r"\s+([0-9a-f]+):\s+(\S+)\s*(.*)$", line):
            functions[name].append(Instruction(int(one[1], 16), one[2], one[3].strip()))
    return functions


def looped(function: list[Instruction]) -> list[Instruction]:
    """The instructions of a function that some backward jump repeats."""
    spans = [
        (int(target[1], 16), jump.address)
        for jump in function
        if jump.name.startswith("j")
        and (target := re.match(r"([0-9a-f]+)", jump.operands))
        and int(target[1], 16) <= jump.address
    ]
    return [one for one in function if any(a <= one.address <= b for a, b in spans)]


def counted(function: list[Instruction], isa: str) -> dict[str, int]:
    """How many loads, stores, flushes and fences a function's loops execute in a round."""
    counts = dict.fromkeys(("load", "ntload", "store", "ntstore", *FLUSHES, "sfence", "mfence"), 0)
    for one in looped(function):
        if "(%rip)" in one.operands:  # a constant: what is stored
            continue
        first, _, last = re.sub(r"\(.*?\)", "()", one.operands).rpartition(",")
        if one.name == ORDINARY[isa] and REGISTER[isa] in last and "(" in first:
            counts["load"] += 1
        elif one.name == STREAMED[isa] + "a":
            counts["ntload"] += 1
        elif one.name == ORDINARY[isa] and REGISTER[isa] in first and "(" in last:
            counts["store"] += 1
        elif one.name == STREAMED[isa]:
            counts["ntstore"] += 1
        elif one.name in counts:
            counts[one.name] += 1
    return counts


def lines_of_loops(access: str, rest: Sequence[str]) -> tuple[int, ...]:
    """Lines a round without a branch between them: of accesses of one line (in a row where they
    have no fence), of as many as are straight, of any multiple of two or eight, of any size, and
    of those that are fenced within or after several."""
    fenced = rest and rest[-1] in ("sfence", "mfence")
    straight, step = (range(2, 17), 2) if access in LOADS else ((2, 4), 8)
    return (*((1,) if fenced else (IN_A_ROW, 1)), *straight, step, 1, 1)


@pytest.fixture(scope="module")
def compiled(release_build: Path) -> dict[str, dict[str, list[Instruction]]]:
    found = {}
    for isa in VECTOR:
        (objects,) = release_build.glob(f"CMakeFiles/microbench_loops_{isa}.dir/**/throughput.c.o")
        found[isa] = functions_of(objects)
    return found


@pytest.mark.parametrize("isa", VECTOR)
@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_does_what_its_name_says_once_for_each_line(compiled, isa: str, name: str):
    counts = counted(compiled[isa][name], isa)
    access, *rest = name.split("_")
    expected = dict.fromkeys(counts, 0)
    loops = lines_of_loops(access, rest)
    lines = WAYS * sum(loops)
    expected[access] = lines * LINE // VECTOR[isa]
    expected |= {word: lines if word in FLUSHES else WAYS * len(loops) for word in rest
                 if word != "line"}  # fmt: skip
    assert counts == expected


def test_a_loop_that_was_removed_would_be_seen(tmp_path: Path):
    """The check itself: what the peer's loop was compiled to has no load in it."""
    source = tmp_path / "peer.c"
    source.write_text(
        "#include <immintrin.h>\n"
        "void load(const char *p, long n)\n"
        "{ for (long i = 0; i < n; i += 64) { __m256i x = *(const __m256i *)(p + i); (void)x; } }\n"
    )
    compiled = tmp_path / "peer.o"
    subprocess.run(["gcc", "-O3", "-mavx2", "-c", source, "-o", compiled], check=True)
    assert counted(functions_of(compiled)["load"], "avx2")["load"] == 0
