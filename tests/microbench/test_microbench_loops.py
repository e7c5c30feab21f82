"""No loop can have lost what it is there for: each compiled loop is read and counted.

A loop's accesses are volatile assembly, so the compiler must leave all of them; the peer's
were plain reads whose values nobody used, and GCC 12 removed them ("2,097,852 GiB/s").
"""

import re
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from narrowed import present

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
    """Return the functions of an object file with their instructions."""
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
        elif match := re.match(r"\s+([0-9a-f]+):\s+(\S+)\s*(.*)$", line):
            functions[name].append(Instruction(int(match[1], 16), match[2], match[3].strip()))
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
    return [
        instruction
        for instruction in function
        if any(a <= instruction.address <= b for a, b in spans)
    ]


def counted(function: list[Instruction], isa: str) -> dict[str, int]:
    """Count the loads, stores, flushes and fences that a function's loops execute in a round."""
    counts = dict.fromkeys(("load", "ntload", "store", "ntstore", *FLUSHES, "sfence", "mfence"), 0)
    for instruction in looped(function):
        if "(%rip)" in instruction.operands:  # a constant: what is stored
            continue
        first, _, last = re.sub(r"\(.*?\)", "()", instruction.operands).rpartition(",")
        if instruction.name == ORDINARY[isa] and REGISTER[isa] in last and "(" in first:
            counts["load"] += 1
        elif instruction.name == STREAMED[isa] + "a":
            counts["ntload"] += 1
        elif instruction.name == ORDINARY[isa] and REGISTER[isa] in first and "(" in last:
            counts["store"] += 1
        elif instruction.name == STREAMED[isa]:
            counts["ntstore"] += 1
        elif instruction.name in counts:
            counts[instruction.name] += 1
    return counts


def lines_of_loops(access: str, rest: Sequence[str]) -> tuple[int, ...]:
    """Lines a round without a branch between them: of accesses of one line (in a row where they
    have no fence), of as many as are straight, of any multiple of two or eight, of any size, and
    of those that are fenced within or after several."""
    fenced = rest and rest[-1] in ("sfence", "mfence")
    straight, step = (range(2, 17), 2) if access in LOADS else ((2, 4), 8)
    return (*((1,) if fenced else (IN_A_ROW, 1)), *straight, step, 1, 1)


@pytest.mark.parametrize("isa", VECTOR)
@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_does_what_its_name_says_once_for_each_line(compiled, isa, name):
    counts = counted(compiled[isa][name], isa)
    access, *rest = name.split("_")
    expected = dict.fromkeys(counts, 0)
    loops = lines_of_loops(access, rest)
    lines = WAYS * sum(loops)
    expected[access] = lines * LINE // VECTOR[isa]
    expected |= {word: lines if word in FLUSHES else WAYS * len(loops) for word in rest
                 if word != "line"}  # fmt: skip
    assert counts == expected


def test_a_loop_that_was_removed_would_be_seen(tmp_path):
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


# What stands between the two stamps of an operation, and in chains -------------

WORDS = LINE // 8
TIMED = [
    f"{access}{fence}"
    for access in (
        "empty", "load", "ntload", "store", "ntstore", "load_words", "store_words",
        *(
            f"store_{flush}{each}{words}"
            for flush in FLUSHES for each in ("", "_line") for words in ("", "_words")
        ),
    )
    for fence in ("", "_sfence", "_mfence")
]  # fmt: skip


def sides(instruction: Instruction) -> tuple[str, str]:
    """The operands, the first ones and the last one (the commas of an address divide nothing)."""
    *first, last = re.split(r",(?![^(]*\))", instruction.operands)
    return ",".join(first), last


def kind_of(instruction: Instruction, isa: str) -> str | None:
    """Return an instruction's effect on memory, or None; the stack is not measured."""
    first, last = sides(instruction)
    if instruction.name in (*FLUSHES, "sfence", "mfence"):
        return instruction.name
    if instruction.name.startswith(STREAMED[isa]):
        return "ntload" if instruction.name == STREAMED[isa] + "a" else "ntstore"
    if "(" not in instruction.operands or re.search("%r[sb]p", instruction.operands):
        return None
    direction = "load" if "(" in first else "store"
    if instruction.name == ORDINARY[isa] and REGISTER[isa] in (
        last if direction == "load" else first
    ):
        return direction
    return f"{direction}_words" if instruction.name in ("mov", "movq") else None


def between_the_stamps(function: list[Instruction]) -> list[Instruction]:
    stamps = [instruction.address for instruction in function if instruction.name == "rdtscp"]
    assert len(stamps) == 2
    return [instruction for instruction in function if stamps[0] < instruction.address < stamps[1]]


@pytest.fixture(scope="module")
def compiled(release_build):
    return compiled_of(release_build, "throughput")


@pytest.fixture(scope="module")
def timed(release_build):
    return compiled_of(release_build, "timed")


@pytest.fixture(scope="module")
def chained(release_build):
    return compiled_of(release_build, "chained")


@pytest.fixture(scope="module")
def atomics(release_build):
    return compiled_of(release_build, "atomic")


def compiled_of(release_build: Path, name: str) -> dict[str, dict[str, list[Instruction]]]:
    """Of the object files that the program is linked with (``link.txt``: CMake's command)."""
    linked = (release_build / "CMakeFiles/microbench.dir/link.txt").read_text().split()
    by_isa = {}
    for isa in VECTOR:
        (objects,) = {o for o in linked if re.search(rf"loops_{isa}\.dir/.*\b{name}\.c\.o$", o)}
        by_isa[isa] = functions_of(release_build / objects)
    return by_isa


@pytest.mark.parametrize("isa", VECTOR)
@pytest.mark.parametrize("name", TIMED)
def test_between_two_stamps_stands_the_operation_and_nothing_else(timed, isa, name):
    stem, fence = present(re.fullmatch(r"(.*?)(_[sm]fence)?", name)).groups()
    function = timed[isa][f"timed_{stem}{fence or ''}_{isa}"]
    counts = Counter(kind_of(instruction, isa) for instruction in between_the_stamps(function))
    del counts[None]
    access, *rest = stem.split("_")
    expected = Counter({"mfence": 1})  # the second stamp's own
    if "words" in rest:
        expected[f"{access}_words"] = WORDS
    elif access != "empty":
        expected[access] = LINE // VECTOR[isa]
    expected.update(word for word in rest if word in FLUSHES)
    if fence:
        expected[fence[1:]] += 1
    assert counts == expected


@pytest.mark.parametrize("isa", VECTOR)
@pytest.mark.parametrize("name", ["load", "store_clwb_sfence"])
def test_stamps_wait_on_both_sides(timed, isa, name):
    """mfence; rdtscp; …; lfence at the beginning, and mfence; rdtscp; …; lfence at the end.

    The peer stops its clock before the line has left: "20 ns" for store, clwb, sfence.
    """
    function = timed[isa][f"timed_{name}_{isa}"]
    names = [instruction.name for instruction in function]
    first = names.index("rdtscp")
    second = names.index("rdtscp", first + 1)
    assert names[first - 1] == "mfence" and names[second - 1] == "mfence"
    assert "lfence" in names[first:second] and "lfence" in names[second:]
    kinds = [kind_of(instruction, isa) for instruction in function]
    operation = [kinds.index(kind, first) for kind in name.split("_")]
    order = [first, names.index("lfence", first), *operation, second - 1]
    assert order == sorted(order)


@pytest.mark.parametrize("isa", VECTOR)
def test_a_chains_read_takes_every_byte_and_its_value_needs_them_all(chained, isa):
    """PerMA-Bench's reads of 1 KiB and more touch 512 bytes: here each line, each vector."""
    function = chained[isa][f"chained_read_{isa}"]
    ors = [
        instruction
        for instruction in looped(function)
        if "por" in instruction.name and "(" in instruction.operands
    ]
    assert len(ors) == LINE // VECTOR[isa]
    into = {sides(instruction)[1] for instruction in ors}
    assert len(into) == len(ors), "each vector has a strand of its own"
    joined = [
        instruction
        for instruction in function
        if "por" in instruction.name and instruction not in ors
    ]
    assert len(joined) >= len(into) - 1, "and the strands are joined to the value"


@pytest.mark.parametrize("isa", VECTOR)
@pytest.mark.parametrize(
    ("name", "store", "flush", "fence"),
    [
        ("none", "store", None, None),
        ("cache", "store", "clwb", "sfence"),
        ("cacheinv", "store", "clflushopt", "sfence"),
        ("nocache", "ntstore", None, "sfence"),
    ],
)
def test_a_chains_write_is_persisted_as_its_name_says(chained, isa, name, store, flush, fence):
    function = chained[isa][f"chained_{name}_{isa}"]
    in_loops = Counter(kind_of(instruction, isa) for instruction in looped(function))
    assert in_loops[store] == LINE // VECTOR[isa]
    assert [word for word in FLUSHES if in_loops[word]] == ([flush] if flush else [])
    fences = [
        instruction.name for instruction in function if instruction.name in ("sfence", "mfence")
    ]
    assert fences == ([fence] if fence else [])


@pytest.mark.parametrize("isa", VECTOR)
@pytest.mark.parametrize(("name", "instruction"), [("add", "xadd"), ("swap", "cmpxchg")])
def test_an_atomic_operation_is_one_locked_instruction(atomics, isa, name, instruction):
    loops = looped(atomics[isa][f"atomic_{name}_{isa}"])
    locked = [each.operands.split()[0] for each in loops if each.name == "lock"]
    assert set(locked) == {instruction}
    assert len(locked) <= WAYS
    assert not [each for each in loops if each.name in ("mfence", "sfence", "lfence")]
