"""Which events count what memory controllers move, as sysfs describes their PMUs.

A PMU is a folder of /sys/bus/event_source/devices: ``type``, ``cpumask`` (one processor
of each socket or die, on which the shared counter is opened), ``format/`` (which bits of
which config word a term fills) and ``events/`` (named events as terms, with ``.scale``
and ``.unit``), see Documentation/ABI/testing/sysfs-bus-event_source-devices-*.

- Intel servers: ``uncore_imc_N`` with cas_count_read and cas_count_write, named by the
  kernel. Traffic of Optane modules on the same controllers has no such name; its event
  codes are those of Intel's event lists (UNC_M_PMM_RPQ_INSERTS 0xE3,
  UNC_M_PMM_WPQ_INSERTS 0xE7), 64 bytes each, on the processors that take the modules.
- Intel clients: ``uncore_imc`` or ``uncore_imc_free_running`` with data reads and writes.
- AMD from Zen 4 on: ``amd_umc_N``, whose events the kernel does not name; AMD's event
  list has umc_cas_cmd.rd and .wr: event 0x0a, rdwrmask 1 and 2, 64 bytes each.

What is none of these is left out.

Hardware and kernel counters through perf_event_open(2), system-wide on one processor.

The system call itself, so that no ``perf`` of the right kernel need be installed. It
wants CAP_PERFMON, root, or ``kernel.perf_event_paranoid`` at 0 or below.
"""

from __future__ import annotations

import ctypes
import math
import os
import platform
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from harness.host import processors
from harness.host.processors import package_of, parse_cpus, resolve_cpus
from harness.tiers.linux.kernel import LIVE, Kernel

_SYSCALL = {"x86_64": 298, "aarch64": 241}
#: struct perf_event_attr up to sample_max_stack (PERF_ATTR_SIZE_VER5, linux/perf_event.h):
#: type, size, config, period, sample_type, read_format, flags, wakeup, bp_type, config1,
#: config2, branch_sample_type, regs_user, stack_user, clockid, regs_intr, aux_watermark,
#: sample_max_stack and padding.
_ATTR = struct.Struct("=IIQQQQQIIQQQQIiQIHH")
_TIME_ENABLED_AND_RUNNING = 1 | 2  # PERF_FORMAT_TOTAL_TIME_ENABLED, _RUNNING
_CLOSE_ON_EXEC = 8  # PERF_FLAG_FD_CLOEXEC
_ANY_PROCESS = -1


@dataclass(frozen=True)
class PerfEvent:
    """One event of one PMU: ``type`` from its sysfs folder, ``config`` as its format says."""

    type: int
    config: int
    config1: int = 0
    config2: int = 0


class Reading(NamedTuple):
    """A counter's value, and the kernel's two times: since its opening, and of counting."""

    value: int
    enabled_ns: int
    running_ns: int

    def since(self, earlier: Reading) -> float | None:
        """What was counted from ``earlier`` on; None where it did not run in between.

        A counter that had to share its hardware ran only part of that time: scaled up by
        the two times of just this span. Whole counts scaled and then subtracted would put
        what was guessed for one span into another.
        """
        value = self.value - earlier.value
        enabled = self.enabled_ns - earlier.enabled_ns
        running = self.running_ns - earlier.running_ns
        if running <= 0:
            return None
        return float(value) if running >= enabled else value * (enabled / running)


class Total:
    """A counter's readings added up, each span scaled for itself.

    The difference of any two totals is what passed between them: a span in which the
    counter did not run is joined to the next one.
    """

    def __init__(self) -> None:
        self._last = Reading(0, 0, 0)
        self._sum = 0.0

    def at(self, reading: Reading) -> float | None:
        """The total at ``reading``; None where the counter has not run since the one before."""
        if (passed := reading.since(self._last)) is None:
            return None
        self._last = reading
        self._sum += passed
        return self._sum


class PerfCounter:
    """Counts an event on one processor from its opening on; OSError where it may not."""

    def __init__(self, event: PerfEvent, cpu: int) -> None:
        number = _SYSCALL.get(platform.machine())
        if number is None:
            raise OSError(f"perf_event_open's number on {platform.machine()} is not known here")
        head = (event.type, _ATTR.size, event.config, 0, 0, _TIME_ENABLED_AND_RUNNING)
        attributes = _ATTR.pack(*head, *[0] * 3, event.config1, event.config2, *[0] * 8)
        call = ctypes.CDLL(None, use_errno=True).syscall
        call.restype = ctypes.c_long
        result = call(
            ctypes.c_long(number),
            attributes,
            ctypes.c_int(_ANY_PROCESS),
            ctypes.c_int(cpu),
            ctypes.c_int(-1),
            ctypes.c_ulong(_CLOSE_ON_EXEC),
        )
        if result < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        self._descriptor = int(result)

    def read(self) -> Reading:
        """The count so far, unscaled; OSError where it cannot be read."""
        return Reading(*struct.unpack("=QQQ", os.read(self._descriptor, 24)))

    def close(self) -> None:
        os.close(self._descriptor)


_DEVICES = "/sys/bus/event_source/devices"
_LINE_BYTES = 64
_UNIT_BYTES = {"MiB": 1 << 20, "MB": 10**6, "KiB": 1 << 10, "B": 1, "Bytes": 1}
#: Skylake has Cascade Lake's model number, and a stepping below 5.
_FIRST_CASCADE_LAKE_STEPPING = 5


@dataclass(frozen=True)
class TrafficEvent:
    """One counter to open. ``counts``: the neutral name, such as ``dram_read_bytes``."""

    counts: str
    name: str
    event: PerfEvent
    cpu: int
    socket: int
    bytes_per_count: float


@dataclass(frozen=True)
class _Rule:
    """What PMUs of a name count: by names of the kernel's, or by terms of the vendor's."""

    pmu: re.Pattern[str]
    named: Mapping[str, tuple[str, ...]]
    terms: Mapping[str, str]


_SERVER = re.compile(r"uncore_imc_\d+")
_RULES = (
    _Rule(
        _SERVER,
        {
            "dram_read_bytes": ("cas_count_read", "cas_count_read_sch0", "cas_count_read_sch1"),
            "dram_write_bytes": ("cas_count_write", "cas_count_write_sch0", "cas_count_write_sch1"),
        },
        {},
    ),
    _Rule(
        re.compile(r"uncore_imc|uncore_imc_free_running(_\d+)?"),
        {
            "dram_read_bytes": ("data_reads", "data_read"),
            "dram_write_bytes": ("data_writes", "data_write"),
        },
        {},
    ),
    _Rule(
        re.compile(r"amd_umc_\d+"),
        {},
        {
            "dram_read_bytes": "event=0x0a,rdwrmask=0x1",
            "dram_write_bytes": "event=0x0a,rdwrmask=0x2",
        },
    ),
)
_OPTANE = _Rule(_SERVER, {}, {"pmem_read_bytes": "event=0xe3", "pmem_write_bytes": "event=0xe7"})
#: Responses with data, and requests with data (drivers/perf/cxl_pmu.c).
_CXL = re.compile(r"cxl_pmu_mem\d+\.\d+")
_CXL_EVENTS = {
    "cxl_read_bytes": ("s2m_drs_memdata",),
    "cxl_write_bytes": ("m2s_rwd_memwr", "m2s_rwd_memwrptl"),
}
#: Of processors' CXL ports, by Intel's event lists: UNC_CXLCM_RxC_PACK_BUF_INSERTS.MEM_DATA and
#: UNC_CXLDP_TxC_AGF_INSERTS.M2S_DATA, 64 bytes each.
_CXL_PORTS = (
    _Rule(re.compile(r"uncore_cxlcm_\d+"), {}, {"cxl_read_bytes": "event=0x41,umask=0x10"}),
    _Rule(re.compile(r"uncore_cxldp_\d+"), {}, {"cxl_write_bytes": "event=0x02,umask=0x20"}),
)


def traffic_events(kernel: Kernel = LIVE) -> list[TrafficEvent]:
    """Every counter of every memory controller; empty where the kernel offers none."""
    rules = (*_RULES, _OPTANE) if _takes_optane(kernel) else _RULES
    return _by_rules(rules, kernel)


def cxl_events(kernel: Kernel = LIVE) -> list[TrafficEvent]:
    """Data read from and written to each CXL memory device that has a PMU and all the events.

    Where no device has one, those of the processor's CXL ports.
    """
    of_devices = [
        event
        for pmu in kernel.names(_DEVICES)
        if _CXL.fullmatch(pmu)
        for event in _cxl_events(f"{_DEVICES}/{pmu}", pmu, kernel)
    ]
    return of_devices or _by_rules(_CXL_PORTS, kernel)


def _by_rules(rules: Iterable[_Rule], kernel: Kernel) -> list[TrafficEvent]:
    return [
        event
        for pmu in kernel.names(_DEVICES)
        for rule in rules
        if rule.pmu.fullmatch(pmu)
        for event in _events(pmu, rule, kernel)
    ]


def _cxl_events(folder: str, pmu: str, kernel: Kernel) -> Iterator[TrafficEvent]:
    for counts, names in _CXL_EVENTS.items():
        terms = {name: kernel.read(f"{folder}/events/{name}") for name in names}
        for name, text in terms.items():
            if text is not None and None not in terms.values():
                yield from _opened(f"{pmu}/{name}/", counts, text, _LINE_BYTES, folder, kernel)


def _events(pmu: str, rule: _Rule, kernel: Kernel) -> Iterator[TrafficEvent]:
    folder = f"{_DEVICES}/{pmu}"
    for counts, names in rule.named.items():
        for name in names:
            terms = kernel.read(f"{folder}/events/{name}")
            size = _bytes_per_count(f"{folder}/events/{name}", kernel)
            if terms is not None and size is not None:
                yield from _opened(f"{pmu}/{name}/", counts, terms, size, folder, kernel)
    for counts, terms in rule.terms.items():
        yield from _opened(f"{pmu}/{terms}/", counts, terms, _LINE_BYTES, folder, kernel)


def _opened(
    name: str, counts: str, terms: str, size: float, folder: str, kernel: Kernel
) -> Iterator[TrafficEvent]:
    """The event once for each processor in the PMU's cpumask."""
    number = kernel.read_int(f"{folder}/type")
    event = _encode(number, terms, folder, kernel) if number is not None else None
    if event is None:
        return
    listed = kernel.read(f"{folder}/cpumask") or "0"
    for cpu in resolve_cpus(parse_cpus(listed), kernel, range(1 << 16)):
        yield TrafficEvent(counts, name, event, cpu, package_of(cpu, kernel), size)


def _bytes_per_count(event: str, kernel: Kernel) -> float | None:
    """From ``.scale`` and ``.unit``; None where they do not say a size, or a wrong one.

    Linux before 6.1 gave the free-running counters 4 bytes a count, which is 64 in truth;
    a controller moves whole lines, so any other size is not believed.
    """
    unit = _UNIT_BYTES.get(kernel.read(f"{event}.unit") or "")
    try:
        scale = float(kernel.read(f"{event}.scale") or "")
    except ValueError:
        return None
    if unit is None or not math.isclose(scale * unit, _LINE_BYTES, rel_tol=0.001):
        return None
    return float(_LINE_BYTES)


def _encode(number: int, terms: str, folder: str, kernel: Kernel) -> PerfEvent | None:
    """``event=0x04,umask=0x03`` by the PMU's ``format/``; None for a term it does not have."""
    words = {"config": 0, "config1": 0, "config2": 0}
    for term in terms.split(","):
        key, _, text = term.strip().partition("=")
        value = int(text, 0) if text else 1
        if key in words:
            words[key] |= value
            continue
        word, _, bits = (kernel.read(f"{folder}/format/{key}") or "").partition(":")
        if word not in words:
            return None
        words[word] |= _spread(value, bits)
    return PerfEvent(number, words["config"], words["config1"], words["config2"])


def _spread(value: int, bits: str) -> int:
    """The value's bits, lowest first, on the positions ``0-7,21``."""
    spread = 0
    for part in bits.split(","):
        first, _, last = part.partition("-")
        for position in range(int(first), int(last or first) + 1):
            spread |= (value & 1) << position
            value >>= 1
    return spread


def _takes_optane(kernel: Kernel) -> bool:
    processor = processors.cpu(kernel)
    match = re.search(r"^stepping\s*:\s*(\d+)", kernel.read("/proc/cpuinfo") or "", re.M)
    stepping = int(match.group(1)) if match else 0
    skylake = processor.model_number == 85 and stepping < _FIRST_CASCADE_LAKE_STEPPING
    return processor.takes_optane and not skylake
