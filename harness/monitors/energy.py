"""Energy that the processors and their DRAM took, by RAPL (Documentation/power/powercap).

``energy_j[zone=package]`` sums over sockets; ``energy_j[zone=dram]``, where it is counted, is not
in it. It is the host's: idle power and other programs are in it, and neither disks nor PMem
beyond what the processor reports. Linux's counters restart at ``max_energy_range_uj``, after
minutes under full load, so they are added up once a second.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from typing import ClassVar

from harness.counters import labelled
from harness.monitors import MonitorContext, SampledMonitor
from harness.tiers.linux.kernel import LIVE, Kernel
from harness.warnings import RunWarning

_ZONES = "/sys/class/powercap"
_COUNTER, _RANGE = "energy_uj", "max_energy_range_uj"
_ZONE = re.compile(r"intel-rapl:\d+(:\d+)?")
#: What a zone counts, by its name; others (core, uncore) are parts of a package.
_NAMES = {"package": re.compile(r"package-\d+(-die-\d+)?"), "dram": re.compile("dram")}
_UJ = 1e-6


class EnergyMonitor(SampledMonitor):
    """Adds up each zone's counter."""

    name: ClassVar[str] = "energy"
    cost: ClassVar[str] = "reads /sys/class/powercap once a second"

    def __init__(self, context: MonitorContext, kernel: Kernel = LIVE) -> None:
        super().__init__(context, kernel)
        self._lock = threading.Lock()
        self._last: dict[str, int] = {}
        self._spent_uj: dict[str, int] = {}
        self._zones = dict(self._folders())
        #: Where the zones' counters restart; read here, or a restart would count as nothing.
        self._ranges_uj = {zone: self._read(zone, _RANGE) for zone in self._zones}

    def _folders(self) -> list[tuple[str, str]]:
        """Return the folders that are counted, each with what it is of."""
        zones = []
        for folder in sorted(self._kernel.names(_ZONES)):
            name = (self._kernel.read(f"{_ZONES}/{folder}/name") or "").strip()
            of = next((of for of, names in _NAMES.items() if names.fullmatch(name)), None)
            if _ZONE.fullmatch(folder) and of is not None:
                zones.append((folder, of))
        return zones

    def preflight(self) -> RunWarning | None:
        """Return whether there are zones, and their counters can be read."""
        unreadable = [
            f"{zone}/{file}"
            for zone in self._zones
            for file in (_COUNTER, _RANGE)
            if self._read(zone, file) is None
        ]
        if self._zones and not unreadable:
            return None
        return RunWarning(
            "energy-not-counted",
            "energy is not counted",
            f"{_ZONES}/{unreadable[0]} cannot be read"
            if unreadable
            else "the kernel offers no RAPL counters",
            "run as root on bare metal, with the module intel_rapl_msr",
        )

    def totals(self) -> Mapping[str, float]:
        """Joules since the first reading; left out of a kind of which one zone cannot be read."""
        with self._lock:
            sums: dict[str, float] = {}
            missing = {of for zone, of in self._zones.items() if not self._add(zone)}
            for zone, of in self._zones.items():
                if of not in missing:
                    sums[of] = sums.get(of, 0.0) + self._spent_uj[zone] * _UJ
            return {labelled("energy_j", zone=of): value for of, value in sums.items()}

    def _add(self, zone: str) -> bool:
        """Add what the zone took since the last reading; False where it cannot be read."""
        range_uj = self._ranges_uj[zone]
        if range_uj is None or (now := self._read(zone, _COUNTER)) is None:
            return False
        spent = now - self._last.get(zone, now)
        if spent < 0:  # it restarted at its maximum
            spent += range_uj
        self._last[zone] = now
        self._spent_uj[zone] = self._spent_uj.get(zone, 0) + max(0, spent)
        return True

    def _read(self, zone: str, file: str) -> int | None:
        return self._kernel.read_int(f"{_ZONES}/{zone}/{file}")


MONITOR = EnergyMonitor
