"""At which frequencies the uncore may run: it moves what crosses the last-level cache."""

from __future__ import annotations

from harness.host.prefetchers import UNREADABLE
from harness.tiers.linux.kernel import Kernel

_FREQUENCIES = "/sys/devices/system/cpu/intel_uncore_frequency"
_ENDS = ("min", "max")


def frequency_limits(kernel: Kernel) -> str:
    """``1200-2400 MHz``: what the uncore of Intel's processors may run at; several where dies
    differ. ``unreadable`` without the module intel_uncore_frequency.
    """
    ranges = set()
    for domain in kernel.names(_FREQUENCIES):
        limits = [kernel.read_int(f"{_FREQUENCIES}/{domain}/{end}_freq_khz") for end in _ENDS]
        least, most = limits
        if least is None or most is None:
            return UNREADABLE
        ranges.add((least // 1000, most // 1000))
    texts = ", ".join(f"{least}-{most}" for least, most in sorted(ranges))
    return f"{texts} MHz" if texts else UNREADABLE
