"""What stands between the two stamps of an operation, and in the links of chains: counted."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from narrowed import present
from test_microbench_loops import (
    FLUSHES,
    LINE,
    ORDINARY,
    REGISTER,
    STREAMED,
    VECTOR,
    Instruction,
    functions_of,
    looped,
)  # fmt: skip

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


def sides(one: Instruction) -> tuple[str, str]:
    """The operands, the first ones and the last one (the commas of an address divide nothing)."""
    *first, last = re.split(r",(?![^(]*\))", one.operands)
    return ",".join(first), last


def kind_of(one: Instruction, isa: str) -> str | None:
    """What an instruction does to memory, or None. The stack is no memory that is measured."""
    first, last = sides(one)
    if one.name in (*FLUSHES, "sfence", "mfence"):
        return one.name
    if one.name.startswith(STREAMED[isa]):
        return "ntload" if one.name == STREAMED[isa] + "a" else "ntstore"
    if "(" not in one.operands or re.search("%r[sb]p", one.operands):
        return None
    direction = "load" if "(" in first else "store"
    if one.name == ORDINARY[isa] and REGISTER[isa] in (last if direction == "load" else first):
        return direction
    return f"{direction}_words" if one.name in ("mov", "movq") else None


def between_the_stamps(function: list[Instruction]) -> list[Instruction]:
    stamps = [one.address for one in function if one.name == "rdtscp"]
    assert len(stamps) == 2
    return [one for one in function if stamps[0] < one.address < stamps[1]]


@pytest.fixture(scope="module")
def timed(release_build: Path) -> dict[str, dict[str, list[Instruction]]]:
    return compiled(release_build, "timed")


@pytest.fixture(scope="module")
def chained(release_build: Path) -> dict[str, dict[str, list[Instruction]]]:
    return compiled(release_build, "chained")


def compiled(release_build: Path, name: str) -> dict[str, dict[str, list[Instruction]]]:
    found = {}
    for isa in VECTOR:
        (objects,) = release_build.glob(f"CMakeFiles/microbench_loops_{isa}.dir/**/{name}.c.o")
        found[isa] = functions_of(objects)
    return found


@pytest.mark.parametrize("isa", VECTOR)
@pytest.mark.parametrize("name", TIMED)
def test_between_two_stamps_stands_the_operation_and_nothing_else(timed, isa: str, name: str):
    stem, fence = present(re.fullmatch(r"(.*?)(_[sm]fence)?", name)).groups()
    function = timed[isa][f"timed_{stem}{fence or ''}_{isa}"]
    counts = Counter(kind_of(one, isa) for one in between_the_stamps(function))
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
def test_stamps_wait_on_both_sides(timed, isa: str):
    """mfence; rdtscp; …; lfence at the beginning, and mfence; rdtscp; …; lfence at the end."""
    function = timed[isa][f"timed_load_{isa}"]
    names = [one.name for one in function]
    first = names.index("rdtscp")
    second = names.index("rdtscp", first + 1)
    assert names[first - 1] == "mfence" and names[second - 1] == "mfence"
    assert "lfence" in names[first:second] and "lfence" in names[second:]
    kinds = [kind_of(one, isa) for one in function]
    assert first < names.index("lfence", first) < kinds.index("load", first) < second - 1


@pytest.mark.parametrize("isa", VECTOR)
def test_a_chains_read_takes_every_byte_and_its_value_needs_them_all(chained, isa: str):
    """PerMA-Bench's reads of 1 KiB and more touch 512 bytes: here each line, each vector."""
    function = chained[isa][f"chained_read_{isa}"]
    ors = [one for one in looped(function) if "por" in one.name and "(" in one.operands]
    assert len(ors) == LINE // VECTOR[isa]
    into = {sides(one)[1] for one in ors}
    assert len(into) == len(ors), "each vector has a strand of its own"
    joined = [one for one in function if "por" in one.name and one not in ors]
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
    in_loops = Counter(kind_of(one, isa) for one in looped(function))
    assert in_loops[store] == LINE // VECTOR[isa]
    assert [word for word in FLUSHES if in_loops[word]] == ([flush] if flush else [])
    fences = [one.name for one in function if one.name in ("sfence", "mfence")]
    assert fences == ([fence] if fence else [])
