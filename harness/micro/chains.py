"""Chains of operations in PerMA-Bench's words: ``rp_512,wp_64_cache_128,wp_64_cache_-128``.

A read goes to a random address of its own, which depends on what the read before it
brought; a write goes to the address of the operation before it plus its offset, so
offsets accumulate. Letters: r or w; d for DRAM or p (or nothing) for the tier; the size in
bytes; of a write how it is persisted, and its offset.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from harness.errors import UsageError, nearest
from harness.workloads.kinds import Number

#: PerMA-Bench's persist instructions: operation, flush and fence (PVLDB 15(11), §3.3).
PERSIST: Mapping[str, Mapping[str, str]] = {
    "nocache": {"operation": "ntstore", "flush": "none", "fence": "sfence"},
    "cache": {"operation": "store", "flush": "clwb", "fence": "sfence"},
    "cacheinv": {"operation": "store", "flush": "clflushopt", "fence": "sfence"},
    "none": {"operation": "store", "flush": "none", "fence": "none"},
}
LINE_BYTES = 64
#: Of dependent chains, one in this many is timed alone. The two stamps of every one
#: would be a good part of their rate, whose inverse is the latency of a chain, too.
SAMPLE_EVERY = 16
_OPERATION = re.compile(r"^([rw])([dp]?)_(\d+)(?:_([a-z]+))?(?:_([+-]?\d+))?$")
_HELP = (
    "write r_SIZE or w_SIZE_INSTRUCTION[_OFFSET], with d (DRAM) or p (tier) after the letter: "
    "rd_2048,rp_1024,wp_64_cache_512"
)


@dataclass(frozen=True)
class ChainOperation:
    """One read or write. ``offset_bytes``: of a write, from the operation before it."""

    kind: Literal["read", "write"]
    place: Literal["tier", "dram"]
    size_bytes: int
    persist: str = ""
    offset_bytes: int = 0

    def text(self) -> str:
        """Return it as PerMA-Bench prints it: always with the tier's letter, no offset of 0."""
        letters = self.kind[0] + ("d" if self.place == "dram" else "p")
        parts = [letters, str(self.size_bytes), *([self.persist] if self.persist else [])]
        return "_".join([*parts, *([str(self.offset_bytes)] if self.offset_bytes else [])])


class Chain:
    """The kind of a value that is a chain (workloads.parameters.Kind)."""

    values = "PerMA-Bench's operations"

    def parse(self, name: str, value: Any) -> tuple[ChainOperation, ...]:
        """Return the operations; UsageError names the wrong one."""
        return parse_chain(str(value), name)


@dataclass(frozen=True)
class ChainShare:
    """A chain of a mix. ``share``: of the operations, 0 to 1."""

    chain: tuple[ChainOperation, ...]
    share: float


class Mix:
    """The kind of a value that is a mix: ``{"r_512": 3, "r_512,w_64_cache": 1}``."""

    values = "{chain: share, …}"

    def parse(self, name: str, value: Any) -> tuple[ChainShare, ...]:
        """Return the chains with their parts of 1; shares are relative, as 3 and 1."""
        if not isinstance(value, dict) or not value:
            raise UsageError(name, "not a mix", 'write {"r_512": 0.75, "r_512,w_64_cache": 0.25}')
        shares = [Number(0, open_ended=True).parse(name, share) for share in value.values()]
        chains = [parse_chain(str(text), name) for text in value]
        total = sum(shares)
        return tuple(ChainShare(c, s / total) for c, s in zip(chains, shares, strict=True))


def mix_text(mix: tuple[ChainShare, ...]) -> str:
    """``75% rp_512 + 25% rp_512,wp_64_cache``."""
    return " + ".join(f"{share.share * 100:.4g}% {chain_text(share.chain)}" for share in mix)


def parse_chain(text: str, source: str) -> tuple[ChainOperation, ...]:
    """The operations of a chain; UsageError naming ``source`` and the operation that is wrong."""
    chain = tuple(_operation(step.strip(), source) for step in str(text).split(","))
    if chain[0].kind != "read":
        raise UsageError(
            source,
            f"the chain {text!r} begins with a write",
            "begin it with a read: a write goes to the address of the operation before it",
        )
    before = chain[0]
    for operation in chain[1:]:
        if operation.kind == "write" and operation.place != before.place:
            raise UsageError(
                source,
                f"{operation.text()} writes to {_memory(operation)}, the operation before it "
                f"was in {_memory(before)}",
                "a write goes to the memory of the operation before it",
            )
        before = operation
    return chain


def chain_text(chain: tuple[ChainOperation, ...]) -> str:
    """Return a chain in PerMA-Bench's words."""
    return ",".join(operation.text() for operation in chain)


def _memory(operation: ChainOperation) -> str:
    return "DRAM" if operation.place == "dram" else "the tier"


def _operation(text: str, source: str) -> ChainOperation:
    match = _OPERATION.match(text)
    if match is None:
        raise UsageError(source, f"{text!r} is no operation of a chain", _HELP)
    letter, place, digits, persist, offset = match.groups()
    size_bytes, offset_bytes = int(digits), int(offset or 0)
    if size_bytes < LINE_BYTES or size_bytes & (size_bytes - 1):
        raise UsageError(
            source, f"{text!r}: {size_bytes} bytes", "a power of two from 64 on (a cache line)"
        )
    if letter == "r" and (persist or offset):
        raise UsageError(source, f"{text!r}: a read ends with its size", "write r_SIZE")
    if letter == "w" and persist not in PERSIST:
        instructions = list(PERSIST)
        raise UsageError(
            source,
            f"{text!r}: no persist instruction"
            + (f" {persist!r}{nearest(persist, instructions)}" if persist else ""),
            f"one of {', '.join(instructions)}",
        )
    if offset_bytes % LINE_BYTES:
        raise UsageError(source, f"{text!r}: offset {offset_bytes}", "a multiple of 64")
    return ChainOperation(
        "read" if letter == "r" else "write",
        "dram" if place == "d" else "tier",
        size_bytes,
        persist or "",
        offset_bytes,
    )
