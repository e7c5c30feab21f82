"""A simulated host with two Optane modules, whose goals a restart carries out.

ipmctl's answers have the form of the recordings (recordings/ipmctl-optane.json); capacities are
small. A module's last bytes are its own and in no region, as in the recordings.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from simulated import GIB, Region_, SimulatedHost
from tierbench.commands import Done

_NONE = "There are no goal configs defined in the system."


@dataclass
class Goal_:
    """What the modules are, or are to be; ``kind`` None: not configured."""

    kind: str | None = None
    memory_percent: int = 0
    reserved_percent: int = 0


@dataclass
class OptaneHost(SimulatedHost):
    """``goal``: carried out; ``asked``: waits for a restart. Two modules of 20 GiB."""

    goal: Goal_ = field(default_factory=Goal_)
    asked: Goal_ | None = None

    def has(self, program: str) -> bool:
        return True

    @property
    def memory_bytes(self) -> int:
        return 40 * GIB * self.goal.memory_percent // 100

    @property
    def app_direct_bytes(self) -> int:
        rest = 100 - self.goal.memory_percent - self.goal.reserved_percent
        return 40 * GIB * rest // 100 if self.goal.kind else 0

    def restart(self) -> None:
        super().restart()
        if self.asked is not None:
            self.goal, self.asked = self.asked, None
            self.reshape()
        self.write_tree()

    def reshape(self) -> None:
        """The goal's regions, with nothing in them."""
        assert not self.spaces
        count = {None: 0, "AppDirect": 1, "AppDirectNotInterleaved": 2}[self.goal.kind]
        sizes = [self.app_direct_bytes // count] * count if self.app_direct_bytes else []
        self.regions = {
            f"region{number}": Region_(f"region{number}", size=size)
            for number, size in enumerate(sizes)
        }

    def _ipmctl(self, words: list[str]) -> Done:
        if words[1] == "create":
            return self._create_goal(words)
        if "-memoryresources" in words:
            return Done(0, self._resources(), "")
        if "-region" in words:
            lines = [
                f" 0x0000   | 0x2bea | {self.goal.kind} | {region.size} B | 0 B | Healthy"
                for region in self.regions.values()
            ]
            return Done(0, "\n".join(lines) or "There are no Regions defined in the system.", "")
        waits = " 0x0000   | 0x0001 | 0.000 GiB  | 502.000 GiB    | 0.000 GiB"
        return Done(0, waits if self.asked else _NONE, "")

    def _resources(self) -> str:
        mapped = self.memory_bytes + self.app_direct_bytes
        dram = (0, 10 * GIB) if self.memory_bytes else (10 * GIB, 0)
        return (
            " MemoryType   | DDR | PMemModule | Total\n"
            f" Volatile     | {dram[0]} B | {self.memory_bytes} B | 0 B\n"
            f" AppDirect    | - | {self.app_direct_bytes} B | 0 B\n"
            f" Cache        | {dram[1]} B | - | 0 B\n"
            f" Inaccessible | 0 B | {40 * GIB + GIB // 16 - mapped} B | 0 B\n"
            f" Physical     | {10 * GIB} B | {40 * GIB + GIB // 16} B | 0 B\n"
        )

    def _create_goal(self, words: list[str]) -> Done:
        if self.spaces:
            return Done(1, "", "Create region configuration goal failed: Namespaces exist")
        given = dict(word.split("=") for word in words if "=" in word)
        memory = int(given.get("MemoryMode", 0))
        kind = given.get("PersistentMemoryType", "AppDirect") if memory < 100 else None
        self.asked = Goal_(kind, memory, int(given.get("Reserved", 0)))
        return Done(0, "A reboot is required to process new memory allocation goals.", "")
