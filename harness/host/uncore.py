"""Events by which memory controllers and CXL ports count what they move, in the words of perf.

perf encodes them, as sysfs describes their PMUs (a folder of /sys/bus/event_source/devices).

- Intel servers: ``uncore_imc_N`` with cas_count_read and cas_count_write, named by the
  kernel. Traffic of Optane modules on the same controllers has names in perf's tables alone, of the
  processors that take the modules.
- Intel clients: ``uncore_imc`` or ``uncore_imc_free_running`` with data reads and writes.
- AMD from Zen 4 on: ``amd_umc_N``, whose events the kernel does not name, and perf only from Linux
  6.8 on (umc_cas_cmd.rd and .wr): event 0x0a, rdwrmask 1 and 2, 64 bytes each.

What is none of these is left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from harness.host.processors import cpu
from harness.tiers.linux.kernel import LIVE, Kernel

_DEVICES = "/sys/bus/event_source/devices"
LINE_BYTES = 64
#: Of the units to which perf scales a count; without one, an event counts lines of memory.
UNIT_BYTES: Mapping[str, float] = {
    "": LINE_BYTES, "MiB": 1 << 20, "MB": 10**6, "KiB": 1 << 10, "B": 1, "Bytes": 1
}  # fmt: skip


@dataclass(frozen=True)
class TrafficEvent:
    """An event of perf. ``counts``: the neutral name, such as ``dram_read_bytes``."""

    counts: str
    name: str


@dataclass(frozen=True)
class _PmuRule:
    """Counters of PMUs with a name: by names of the kernel's, or by terms of the vendor's."""

    pmu: re.Pattern[str]
    named: Mapping[str, tuple[str, ...]]
    terms: Mapping[str, str]


_SERVER = re.compile(r"uncore_imc_\d+")
_RULES = (
    _PmuRule(
        _SERVER,
        {
            "dram_read_bytes": ("cas_count_read", "cas_count_read_sch0", "cas_count_read_sch1"),
            "dram_write_bytes": ("cas_count_write", "cas_count_write_sch0", "cas_count_write_sch1"),
        },
        {},
    ),
    _PmuRule(
        re.compile(r"uncore_imc|uncore_imc_free_running(_\d+)?"),
        {
            "dram_read_bytes": ("data_reads", "data_read"),
            "dram_write_bytes": ("data_writes", "data_write"),
        },
        {},
    ),
    _PmuRule(
        re.compile(r"amd_umc_\d+"),
        {},
        {
            "dram_read_bytes": "event=0x0a,rdwrmask=0x1",
            "dram_write_bytes": "event=0x0a,rdwrmask=0x2",
        },
    ),
)
#: Of all controllers of a socket; unknown to perf on processors that take no modules.
_OPTANE = (
    TrafficEvent("pmem_read_bytes", "unc_m_pmm_rpq_inserts"),
    TrafficEvent("pmem_write_bytes", "unc_m_pmm_wpq_inserts"),
)
#: Responses with data, and requests with data (drivers/perf/cxl_pmu.c).
_CXL = re.compile(r"cxl_pmu_mem\d+\.\d+")
_CXL_EVENTS = {
    "cxl_read_bytes": ("s2m_drs_memdata",),
    "cxl_write_bytes": ("m2s_rwd_memwr", "m2s_rwd_memwrptl"),
}
#: Of processors' CXL ports, by Intel's event lists: UNC_CXLCM_RxC_PACK_BUF_INSERTS.MEM_DATA and
#: UNC_CXLDP_TxC_AGF_INSERTS.M2S_DATA, 64 bytes each; perf names them only from Linux 6.3 on.
_CXL_PORTS = (
    _PmuRule(re.compile(r"uncore_cxlcm_\d+"), {}, {"cxl_read_bytes": "event=0x41,umask=0x10"}),
    _PmuRule(re.compile(r"uncore_cxldp_\d+"), {}, {"cxl_write_bytes": "event=0x02,umask=0x20"}),
)


def traffic_choices(kernel: Kernel = LIVE) -> list[list[TrafficEvent]]:
    """Return the events of every memory controller, with those of modules first if any may be."""
    events = _by_rules(_RULES, kernel)
    modules = any(map(_SERVER.fullmatch, kernel.names(_DEVICES)))
    return [*([[*events, *_OPTANE]] if modules else []), events]


def cxl_events(kernel: Kernel = LIVE) -> list[TrafficEvent]:
    """Data read from and written to each CXL memory device that has a PMU and all the events.

    Where no device has one, those of the processor's CXL ports.
    """
    of_devices = [
        event
        for pmu in kernel.names(_DEVICES)
        if _CXL.fullmatch(pmu)
        for event in _cxl_events(pmu, kernel)
    ]
    return of_devices or _by_rules(_CXL_PORTS, kernel)


@dataclass(frozen=True)
class CxlCounter:
    """A kind of counter of this host, and what it sees of the traffic of CXL devices.

    ``sees``: ``bytes``; ``requests``; ``mixed``: with other traffic; ``nothing``. ``monitor``: the
    one that reads it; None where perf alone does.
    """

    counter: str
    sees: Literal["bytes", "requests", "mixed", "nothing"]
    monitor: str | None


#: Intel processors with CXL ports: Sapphire Rapids and Emerald Rapids.
_CXL_MODELS = frozenset({143, 207})
_CXL_COUNTERS = (
    (_CXL, CxlCounter("PMUs of the devices (cxl_pmu_memN.M)", "bytes", "cxl")),
    (
        re.compile(r"uncore_cxl(cm|dp)_\d+"),
        CxlCounter("CXL ports of the processor (uncore_cxlcm, uncore_cxldp)", "bytes", "cxl"),
    ),
    (
        re.compile(r"uncore_imc.*|amd_umc_\d+"),
        CxlCounter("memory controllers (uncore_imc, amd_umc)", "nothing", "memory-traffic"),
    ),
)
#: Of the processors with CXL ports: the event ia_miss_cxl_acc of unc_cha_tor_inserts and its parts;
#: messages of PCIe and of CXL on their way from the mesh.
_MESH_COUNTERS = (
    (
        re.compile(r"uncore_cha_\d+"),
        CxlCounter("cache and home agents (uncore_cha)", "requests", None),
    ),
    (
        re.compile(r"uncore_m2pcie_\d+"),
        CxlCounter("mesh to PCIe and CXL (uncore_m2pcie)", "mixed", None),
    ),
)


def cxl_counters(kernel: Kernel = LIVE) -> list[CxlCounter]:
    """List the counters of memory traffic that Linux offers here."""
    there, processor = kernel.names(_DEVICES), cpu(kernel)
    intel = processor.vendor == "GenuineIntel" and processor.family == 6
    with_ports = intel and processor.model_number in _CXL_MODELS
    return [
        counter
        for pattern, counter in (*_CXL_COUNTERS, *(_MESH_COUNTERS if with_ports else ()))
        if any(map(pattern.fullmatch, there))
    ]


def _by_rules(rules: Iterable[_PmuRule], kernel: Kernel) -> list[TrafficEvent]:
    return [
        event
        for pmu in kernel.names(_DEVICES)
        for rule in rules
        if rule.pmu.fullmatch(pmu)
        for event in _events(pmu, rule, kernel)
    ]


def _cxl_events(pmu: str, kernel: Kernel) -> Iterator[TrafficEvent]:
    there = kernel.names(f"{_DEVICES}/{pmu}/events")
    for counts, names in _CXL_EVENTS.items():
        if set(names) <= set(there):
            yield from (TrafficEvent(counts, f"{pmu}/{name}/") for name in names)


def _events(pmu: str, rule: _PmuRule, kernel: Kernel) -> Iterator[TrafficEvent]:
    for counts, names in rule.named.items():
        for name in names:
            if _counts_lines(f"{_DEVICES}/{pmu}/events/{name}", kernel):
                yield TrafficEvent(counts, f"{pmu}/{name}/")
    for counts, terms in rule.terms.items():
        yield TrafficEvent(counts, f"{pmu}/{terms}/")


def _counts_lines(event: str, kernel: Kernel) -> bool:
    """Return whether its ``.scale`` and ``.unit``, by which perf scales its counts, are right.

    Linux before 6.1 gave the free-running counters 4 bytes a count, which is 64 in truth;
    a controller moves whole lines, so any other size is not believed.
    """
    unit = UNIT_BYTES.get(kernel.read(f"{event}.unit") or "no unit")
    try:
        scale = float(kernel.read(f"{event}.scale") or "")
    except ValueError:
        return False
    return unit is not None and math.isclose(scale * unit, LINE_BYTES, rel_tol=0.001)
