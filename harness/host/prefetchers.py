"""The state of the hardware prefetchers, from the processors' model specific registers.

Intel: register 0x1A4 ("Disclosure of Hardware Prefetcher Control on Some Intel Processors").
AMD from Zen 3: register C000_0108, Prefetch Control (Processor Programming Reference). A set
bit switches its prefetcher off. Only root may read them, and only with the module ``msr``;
inside a virtual machine the register is not the processor's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from harness.host.cpu import cpu
from harness.tiers.linux.kernel import Kernel

#: The state where it cannot be read: equal to no known one.
UNREADABLE = "unreadable"
#: By vendor: the register, and its prefetchers by bit.
_REGISTERS: Mapping[str, tuple[int, Mapping[int, str]]] = {
    "GenuineIntel": (0x1A4, {0: "L2", 1: "L2 adjacent line", 2: "L1", 3: "L1 IP"}),
    "AuthenticAMD": (
        0xC000_0108,
        {0: "L1 stream", 1: "L1 stride", 2: "L1 region", 3: "L2 stream", 5: "L2 up/down"},
    ),
}


def prefetchers(kernel: Kernel) -> str:
    """``enabled``, ``disabled``, ``disabled: L2, L1``; ``unreadable`` where it cannot be read.

    ``differ`` where one processor is set differently from another.
    """
    processor = cpu(kernel)
    known = _REGISTERS.get(processor.vendor)
    if known is None or processor.hypervisor:
        return UNREADABLE
    register, names = known
    numbers = [name for name in kernel.names("/dev/cpu") if name.isdigit()]
    result = {_state(_read(kernel, number, register), names) for number in numbers}
    if not result or UNREADABLE in result:
        return UNREADABLE
    return result.pop() if len(result) == 1 else "differ"


def _read(kernel: Kernel, processor: str, register: int) -> int | None:
    try:
        descriptor = os.open(kernel.path(f"/dev/cpu/{processor}/msr"), os.O_RDONLY)
        try:
            value = os.pread(descriptor, 8, register)
        finally:
            os.close(descriptor)
    except OSError:
        return None
    return int.from_bytes(value, "little") if len(value) == 8 else None


def _state(value: int | None, names: Mapping[int, str]) -> str:
    if value is None:
        return UNREADABLE
    off = [name for bit, name in names.items() if value >> bit & 1]
    if not off:
        return "enabled"
    return "disabled" if len(off) == len(names) else f"disabled: {', '.join(off)}"
