"""A host whose ndctl, mkfs and mount keep their books in memory and in a small tree of files.

It answers as the recordings do (exit codes and words of a busy, a missing, a full device); what
it cannot show is real hardware: the test machine's tests do (tests/vm).
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from narrowed import present
from tierbench.commands import Commands, Done
from tierbench.run import Consent, Outcome, run
from tierbench.state import Files

if TYPE_CHECKING:  # the same files, where playbook_modules lets Ansible find them
    from harness.tiers.linux.kernel import DaxAnswer, Kernel, Space
else:
    from ansible.module_utils.linux.kernel import DaxAnswer, Kernel, Space

NO_CONSENT = Consent()
GIB = 1 << 30
ALIGN = 16 << 20


class Cut(BaseException):
    """The run is killed, between two commands or behind one that was carried out."""


@dataclass
class Space_:
    """A namespace of the simulated host, and what is on it."""

    name: str
    region: str
    mode: str
    raw: int
    uuid: str | None
    label: str | None = None
    signature: tuple[str, str, str] | None = None  # type, label, UUID
    data: str = ""
    block_size: int = 4096
    #: mkfs was killed after it had written its signature: it cannot be mounted.
    torn: bool = False

    @property
    def block(self) -> str:
        number = self.name.removeprefix("namespace").replace(".0", "")
        return f"pmem{number}{'s' if self.mode == 'sector' else ''}"


@dataclass
class Region_:
    name: str
    labelled: bool = True
    enabled: bool = True
    #: As Linux 6.1 has it: zeroed labels show only after a restart.
    sticky: bool = False
    erased: bool = False
    size: int = GIB


@dataclass
class Dax_:
    """A DAX device: of a namespace, or (``below`` tells what of) on no NVDIMM.

    ``below``: where sysfs has it, as Linux names what it hangs below (tiers/numa.py has the
    sources). ``stuck``: something in its memory cannot be moved away.
    """

    name: str
    below: str
    size: int = GIB
    node: int = 2
    mode: str = "devdax"
    blocks: int = 8
    online: int = 0
    movable: bool = True
    stuck: bool = False
    namespace: str | None = None


@dataclass
class SimulatedHost(Commands):
    """``cut_at``: killed before the command of that number; ``cut_after``: right behind it."""

    root: Path
    regions: dict[str, Region_] = field(default_factory=dict)
    spaces: dict[str, Space_] = field(default_factory=dict)
    #: By point: block, type, options.
    mounts: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    devices: dict[str, Dax_] = field(default_factory=dict)
    owners: dict[str, tuple[int, int, int]] = field(default_factory=dict)  # of files below /dev
    ran: list[list[str]] = field(default_factory=list)
    #: What answers a command (``blkid``, ``ndctl list``) instead of the method of its name.
    replies: dict[str, Callable[[list[str]], Done]] = field(default_factory=dict)
    cut_at: int | None = None
    cut_after: int | None = None
    numbers: int = 0
    changing: int = 0
    before_command: object = None
    written: str = ""
    tears_mkfs: bool = False
    boots: int = 0
    #: The signature of before on a namespace that is made where one was.
    shows_through: tuple[str, str, str] | None = ("xfs", "ghost", "dead-1")

    def __post_init__(self) -> None:
        for folder in ("etc", "mnt"):
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        self.files.fstab.touch()

    # A run on it ------------------------------------------------------------------------

    def provision(self, consent: Consent = NO_CONSENT, **desired) -> Outcome:
        """To AppDirect, unless another mode is desired."""
        given = {"mode": "appdirect", "mount_root": str(self.mount_root), **desired}
        return run(given, consent, self, self.files, self.kernel())

    def teardown(self, consent: Consent = NO_CONSENT) -> Outcome:
        return self.provision(consent, mode="teardown")

    def kill(self, act: Callable[[], Outcome], **cut: int) -> None:
        """Kill a run: ``cut_at`` or ``cut_after`` one of its commands."""
        self.changing = 0
        vars(self).update(cut)
        with pytest.raises(Cut):
            act()
        self.cut_at = self.cut_after = None

    def after_the_plan(self, change: Callable[[], object]) -> None:
        """Another user's change once the plan is confirmed, before the state is read again."""
        listings: list[list[str]] = []

        def before_command(words: list[str]) -> None:
            if words[:2] == ["ndctl", "list"]:
                listings.append(words)
                if len(listings) == 2:
                    change()
                    self.write_tree()

        self.before_command = before_command

    # The files that are read directly -------------------------------------------------

    @property
    def files(self) -> Files:
        return Files(
            record=self.root / "var/provisioning.json",
            host_file=self.root / "etc/harness/host.yml",
            fstab=self.root / "etc/fstab",
            daxctl_conf=self.root / "etc/daxctl.conf.d/tierbench.conf",
            udev_rules=self.root / "etc/udev/rules.d/60-tierbench-dax.rules",
            grub=self.root / "etc/grub.cfg",
            disk_tier=self.root / "var/tiers/ssd",
        )

    @property
    def mount_root(self) -> Path:
        return self.root / "mnt"

    def kernel(self) -> Kernel:
        return SimulatedKernel(self)

    def write_tree(self) -> None:
        """sysfs and mountinfo of what is there now, unless they are written."""
        now = repr((self.root, self.regions, self.spaces, self.mounts, self.devices))
        if now == self.written:
            return
        self.written = now
        lines = ["1 0 259:0 / / rw - ext4 /dev/nvme0n1 rw"]
        for region in self.regions.values():
            folder = self.root / f"sys/bus/nd/devices/{region.name}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "driver").unlink(missing_ok=True)
            if region.enabled:
                (folder / "driver").touch()
        for number, space in enumerate(self.spaces.values(), 1):
            folder = self.root / f"sys/bus/nd/devices/{space.name}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "size").write_text(f"{space.raw}\n")
            labelled = self.regions[space.region].labelled
            (folder / "devtype").write_text("nd_namespace_pmem" if labelled else "nd_namespace_io")
            claim = {"fsdax": "pfn", "sector": "btt", "devdax": "dax"}.get(space.mode)
            above = self.root / f"sys/devices/ndbus0/{space.region}"
            driver = above / (f"{claim}{number}.0" if claim else space.name)
            block = driver / "block" / space.block
            block.mkdir(parents=True, exist_ok=True)
            (driver / "namespace").write_text(space.name)
            link = self.root / f"sys/dev/block/{259 + 1}:{number}"
            link.parent.mkdir(parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(block)
            for point, (mounted, kind, options) in self.mounts.items():
                if mounted == space.block:
                    on = f"{point} rw - {kind} /dev/{space.block} {options}"
                    lines.append(f"{len(lines) + 1} 1 260:{number} / {on}")
        for device in self.devices.values():
            self._write_device(device)
        (self.root / "proc/self").mkdir(parents=True, exist_ok=True)
        (self.root / "proc/self/mountinfo").write_text("\n".join(lines) + "\n")

    def _write_device(self, device: Dax_) -> None:
        folder = self.root / "sys/devices" / device.below / device.name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "target_node").write_text(f"{device.node}\n")
        (folder / "size").write_text(f"{device.size}\n")
        (folder / "driver").unlink(missing_ok=True)
        driver = "kmem" if device.mode == "system-ram" else "device_dax"
        bus = self.root / "sys/bus/dax"
        (bus / "drivers" / driver).mkdir(parents=True, exist_ok=True)
        (folder / "driver").symlink_to(bus / "drivers" / driver)
        (bus / "devices").mkdir(exist_ok=True)
        (bus / "devices" / device.name).unlink(missing_ok=True)
        (bus / "devices" / device.name).symlink_to(folder)
        node = self.root / f"sys/devices/system/node/node{device.node}"
        node.mkdir(parents=True, exist_ok=True)
        kib = device.size * device.online // device.blocks // 1024
        (node / "meminfo").write_text(f"Node {device.node} MemTotal: {kib} kB\n")
        (node / "cpulist").write_text("\n")

    # The programs ------------------------------------------------------------------------

    def has(self, program: str) -> bool:
        return program != "ipmctl"

    def unreadable(self, device: str) -> str | None:
        return None

    def owner_of(self, path: str) -> tuple[int, int, int] | None:
        there = path.removeprefix("/dev/") in self.devices
        return self.owners.get(path, (0, 0, 0o600)) if there else None

    def run(self, argv: Sequence[str]) -> Done:
        words = list(argv)
        lists = (["ndctl", "list"], ["daxctl", "list"], ["ipmctl", "show"])
        reading = words[:2] in lists or words[0] == "blkid"
        if not reading:
            self.changing += 1
            if self.cut_at == self.changing:
                raise Cut
            self.ran.append(words)
        if callable(self.before_command):
            self.before_command(words)
        done = self._answer(words)
        self.write_tree()
        if not reading and self.cut_after == self.changing:
            raise Cut
        return done

    def _answer(self, words: list[str]) -> Done:
        command = " ".join(words[:2]) if words[0] in ("ndctl", "daxctl") else words[0]
        method = "_" + re.sub(r"\W", "_", command)
        answer: Callable[[list[str]], Done] = self.replies.get(command) or getattr(self, method)
        return answer(words)

    def _ndctl_list(self, words: list[str]) -> Done:
        told = [self._region(region) for region in self.regions.values()]
        return Done(0, json.dumps({"regions": told}) if told else "", "")

    def _region(self, region: Region_) -> dict[str, object]:
        inside = [each for each in self.spaces.values() if each.region == region.name]
        free = region.size - sum(each.raw for each in inside)
        return {
            **{"dev": region.name, "type": "pmem", "size": region.size, "align": ALIGN},
            "available_size": free if region.labelled else 0,
            "max_available_extent": free if region.labelled else 0,
            **({"iset_id": 77} if region.labelled else {}),
            "mappings": [{"dimm": f"nmem{region.name[-1]}"}],
            "namespaces": [self._namespace(each) for each in inside if region.enabled],
        }

    def _namespace(self, space: Space_) -> dict[str, object]:
        return {
            "dev": space.name,
            "mode": space.mode,
            "size": space.raw,
            **({"uuid": space.uuid} if space.uuid else {}),
            **({"name": space.label} if space.label else {}),
            **({"map": "dev"} if space.mode == "fsdax" else {}),
            **({"sector_size": 4096} if space.mode == "sector" else {"sector_size": 512}),
            **self._node_of(space),
        }

    def _node_of(self, space: Space_) -> dict[str, object]:
        of = [each for each in self.devices.values() if each.namespace == space.name]
        if space.mode != "devdax" or not of:
            return {"blockdev": space.block}
        return {"map": "dev", "daxregion": {"id": 0, "devices": [self._device(of[0])]}}

    def _device(self, device: Dax_) -> dict[str, object]:
        """Return a device as daxctl-list(1) and daxctl-reconfigure-device(1) show it."""
        told = {
            "chardev": device.name,
            "size": device.size,
            "target_node": device.node,
            "align": 2 << 20,
            "mode": device.mode,
        }
        if device.mode != "system-ram":
            return told
        return told | {
            "online_memblocks": device.online,
            "total_memblocks": device.blocks,
            "movable": device.movable,
        }

    def _daxctl_list(self, words: list[str]) -> Done:
        """Nothing for none, an object for one, an array for several."""
        told = [self._device(each) for each in self.devices.values()]
        return Done(0, json.dumps(told[0] if len(told) == 1 else told) if told else "", "")

    def _daxctl_reconfigure_device(self, words: list[str]) -> Done:
        device = self.devices[words[-1]]
        device.mode = words[2].removeprefix("--mode=")
        if device.mode == "devdax" and device.online:
            return Done(240, "", "error reconfiguring devices: Device or resource busy")
        device.online = device.blocks if device.mode == "system-ram" else 0
        return Done(0, json.dumps([self._device(device)]), "reconfigured 1 device")

    def _daxctl_online_memory(self, words: list[str]) -> Done:
        self.devices[words[-1]].online = self.devices[words[-1]].blocks
        return Done(0, "", "onlined memory for 1 device")

    def _daxctl_offline_memory(self, words: list[str]) -> Done:
        device = self.devices[words[-1]]
        if device.stuck:
            return Done(240, "", "failed to offline memory: Device or resource busy")
        device.online = 0
        return Done(0, "", "offlined memory for 1 device")

    def _chown(self, words: list[str]) -> Done:
        user, _, group = words[1].partition(":")
        self.owners[words[2]] = (int(user), int(group), present(self.owner_of(words[2]))[2])
        return Done(0, "", "")

    def _chmod(self, words: list[str]) -> Done:
        user, group, _ = self.owner_of(words[2]) or (0, 0, 0)
        self.owners[words[2]] = (user, group, int(words[1], 8))
        return Done(0, "", "")

    def _blkid(self, words: list[str]) -> Done:
        space = self._at(words[-1])
        if space.signature is None:
            return Done(2, "", "")
        kind, label, uuid = space.signature
        label = f"LABEL={label}\n" if label else ""
        size = f"BLOCK_SIZE={space.block_size}\n"
        return Done(0, f"DEVNAME={words[-1]}\n{label}UUID={uuid}\n{size}TYPE={kind}\n", "")

    def _at(self, device: str) -> Space_:
        return next(each for each in self.spaces.values() if f"/dev/{each.block}" == device)

    def _ndctl_create_namespace(self, words: list[str]) -> Done:
        region = self.regions[words[words.index("-r") + 1]]
        inside = [each for each in self.spaces.values() if each.region == region.name]
        free = region.size - sum(each.raw for each in inside)
        raw = int(words[words.index("-s") + 1]) if "-s" in words else free
        if not region.labelled or region.erased or not raw or raw > free:
            return Done(237, "", "failed to create namespace: No space left on device")
        self.numbers += 1
        taken = {each.name for each in inside}
        name = next(n for i in range(9) if (n := f"namespace{region.name[-1]}.{i}") not in taken)
        label = words[words.index("-n") + 1] if "-n" in words else None
        mode = words[words.index("-m") + 1]
        uuid = f"uuid-{self.numbers}"
        made = Space_(name, region.name, mode, raw, uuid, label, self.shows_through)
        self.spaces[name] = made
        if mode == "devdax":
            number = region.name[-1]
            below = f"ndbus0/{region.name}/dax{number}.1"
            self.devices[f"dax{number}.0"] = Dax_(f"dax{number}.0", below, raw, namespace=name)
        return Done(0, json.dumps(self._namespace(made)), "")

    def _ndctl_destroy_namespace(self, words: list[str]) -> Done:
        space = self.spaces[words[-1]]
        if any(block == space.block for block, _, _ in self.mounts.values()):
            return Done(240, "", "error destroying namespaces: Device or resource busy")
        del self.spaces[words[-1]]
        for device in [each for each in self.devices.values() if each.namespace == words[-1]]:
            del self.devices[device.name]
            self.owners.pop(f"/dev/{device.name}", None)
        return Done(0, "", "destroyed 1 namespace")

    def _ndctl_disable_region(self, words: list[str]) -> Done:
        self.regions[words[-1]].enabled = False
        return Done(0, "", "disabled 1 region")

    def _ndctl_enable_region(self, words: list[str]) -> Done:
        region = self.regions[words[-1]]
        region.enabled = True
        if not region.labelled and not [s for s in self.spaces.values() if s.region == region.name]:
            name = f"namespace{region.name[-1]}.0"
            self.spaces[name] = Space_(name, region.name, "raw", region.size, None)
        return Done(0, "", "enabled 1 region")

    def _ndctl_init_labels(self, words: list[str]) -> Done:
        return self._labels(words[-1], labelled=True)

    def _ndctl_zero_labels(self, words: list[str]) -> Done:
        return self._labels(words[-1], labelled=False)

    def _labels(self, dimm: str, *, labelled: bool) -> Done:
        region = self.regions[f"region{dimm[-1]}"]
        if region.enabled:
            return Done(240, "", "Device or resource busy")
        region.erased = region.sticky and not labelled
        region.labelled = labelled or region.erased
        for name in [n for n, s in self.spaces.items() if s.region == region.name]:
            del self.spaces[name]
        return Done(0, "", "1 nmem")

    def restart(self) -> None:
        """The kernel reads the labels anew; whoever has none has one raw namespace."""
        for region in self.regions.values():
            if region.erased:
                region.labelled = region.erased = False
                self._ndctl_enable_region([region.name])
        self.boots += 1
        boot = self.root / "proc/sys/kernel/random/boot_id"
        boot.parent.mkdir(parents=True, exist_ok=True)
        boot.write_text(f"boot {self.boots}\n")

    def _wipefs(self, words: list[str]) -> Done:
        self._at(words[-1]).signature = None
        return Done(0, "", "")

    def _mkfs_ext4(self, words: list[str]) -> Done:
        """Without a terminal, mke2fs(8) asks nobody: with -F or not, what was there is gone."""
        space = self._at(words[-1])
        given = {name: words[words.index(name) + 1] for name in ("-L", "-U", "-b")}
        space.signature, space.data = ("ext4", given["-L"], given["-U"]), ""
        space.block_size, space.torn = int(given["-b"]), self.tears_mkfs
        if self.tears_mkfs:
            raise Cut
        return Done(0, "", "")

    def _mount(self, words: list[str]) -> Done:
        if self._at(words[-2]).torn:
            return Done(32, "", "wrong fs type, bad option, bad superblock")
        options = words[words.index("-o") + 1]
        self.mounts[words[-1]] = (words[-2].removeprefix("/dev/"), words[2], options)
        return Done(0, "", "")

    def _umount(self, words: list[str]) -> Done:
        del self.mounts[words[-1]]
        return Done(0, "", "")

    def _systemctl(self, words: list[str]) -> Done:
        return Done(0, "", "")

    _modprobe = _udevadm = _systemctl


class SimulatedKernel(Kernel):
    """Reads the tree; DAX is what the namespace's mode and the mount's options make of it."""

    def __init__(self, host: SimulatedHost) -> None:
        super().__init__(host.root)
        self.host = host

    def dax(self, path: Path) -> DaxAnswer:
        block, _, options = self.host.mounts.get(str(path), ("", "", ""))
        space = next((s for s in self.host.spaces.values() if s.block == block), None)
        has = space is not None and space.mode == "fsdax" and "dax" in options.split(",")
        return DaxAnswer(has, "simulated")

    def space(self, path: Path) -> Space:
        block, _, _ = self.host.mounts.get(str(path), ("", "", ""))
        sizes = [s.block_size for s in self.host.spaces.values() if s.block == block]
        return Space(GIB, GIB, sizes[0] if sizes else 4096)

    def mount_id(self, path: Path) -> int | None:
        return None


# A host with Optane modules, whose goals a restart carries out ----------------------
#
# ipmctl's answers have the form of the recordings (recordings/ipmctl-optane.json); capacities are
# small. A module's last bytes are its own and in no region, as in the recordings.

_NONE = "There are no goal configs defined in the system."


@dataclass
class Goal_:
    """State or goal of the modules; ``kind`` None: not configured."""

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


def new_host(root: Path, ghost: tuple[str, str, str] | None = None) -> SimulatedHost:
    """region0 without labels, so with a raw namespace; region1 with another user's mounted ext4."""
    host = SimulatedHost(root)
    host.shows_through = ghost or host.shows_through
    host.regions = {"region0": Region_("region0", labelled=False), "region1": Region_("region1")}
    host.spaces = {"namespace0.0": Space_("namespace0.0", "region0", "raw", GIB, None)}
    theirs = ("region1", "fsdax", GIB, "theirs", "db", ("ext4", "db", "x"), "data")
    host.spaces["namespace1.0"] = Space_("namespace1.0", *theirs)
    host.mounts = {f"{root}/srv": ("pmem1", "ext4", "rw,dax")}
    (root / "srv").mkdir()
    host.files.fstab.write_text("# mine\nUUID=x /srv ext4 dax 0 2\n")
    host.write_tree()
    return host


def carried_out(outcome: Outcome) -> Outcome:
    """An outcome without refusals and failures."""
    assert (outcome.refusals, outcome.failures) == ([], [])
    return outcome


def everything(host: SimulatedHost) -> tuple[object, ...]:
    files = {
        str(path.relative_to(host.root)): path.read_text()
        for path in sorted(host.root.rglob("*"))
        if path.is_file() and not {"sys", "proc"} & set(path.parts) and path.suffix != ".lock"
    }
    spaces = sorted((s.name, s.mode, s.uuid, s.label, s.signature) for s in host.spaces.values())
    return (repr(host.regions), spaces, sorted(host.mounts), files)
