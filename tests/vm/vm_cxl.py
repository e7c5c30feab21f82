"""Machines with CXL memory devices below one host bridge, emulated in software.

``VolatileVm``: two volatile devices and a persistent one, Debian 13 (Linux 6.12, cxl 81) on QEMU 10
of Debian 12's backports, unpacked into the cache: QEMU 7.2 has no volatile device, and Linux 6.1
makes no volatile region. ``PersistentVm``: one persistent device, with Debian 12 all over (Linux
6.1, cxl 76.1). A shut-down machine must be started again: a warm restart leaves the devices dead.
"""

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from vm_cache import CACHE, lock
from vm_guest import copy_sources
from vm_image import DEBIAN_13, Image, image, run
from vm_machine import Vm, common_argv, running_machine

QEMU_PACKAGES = ("qemu-system-x86", "qemu-system-common", "qemu-system-data", "seabios")
_BRIDGE = (
    "-device pxb-cxl,bus_nr=12,bus=pcie.0,id=cxl.1 -M cxl-fmw.0.targets.0=cxl.1,cxl-fmw.0.size=4G"
)
_PORT = "cxl-rp,port={n},bus=cxl.1,id=rp{n},chassis=0,slot={slot}"
_SIZE = "512M"


class PersistentVm(Vm):
    """Two root ports: with one, QEMU 7.2's region cannot be committed."""

    program: tuple[str, ...] = ("qemu-system-x86_64",)
    cpu = "max"

    def argv(self) -> list[str]:
        argv = [*self.program, "-accel", "tcg,thread=multi,tb-size=512", "-cpu", self.cpu]
        argv += ["-machine", "q35,cxl=on", "-smp", "2", "-m", "1536M,slots=4,maxmem=8G"]
        argv += _BRIDGE.split()
        for n in range(3):
            argv += ["-device", _PORT.format(n=n, slot=n + 2)]
        return [*argv, *self.devices(), *common_argv(self)]

    def devices(self) -> list[str]:
        return self.persistent("memdev", 0)

    def persistent(self, option: str, port: int) -> list[str]:
        """A device whose memory and labels outlive the machine's power."""
        files = [("mem", _SIZE), ("lsa", "1M")]
        argv = []
        for name, size in files:
            backend = f"memory-backend-file,id={name},share=on,size={size}"
            argv += ["-object", f"{backend},mem-path={self.scratch / name}"]
        device = f"cxl-type3,bus=rp{port},{option}=mem,lsa=lsa,id=pmem,sn=0x201"
        return [*argv, "-device", device]


class VolatileVm(PersistentVm):
    """Linux refuses to commit a region where it cannot invalidate the caches: as a guest."""

    program = (
        str(CACHE / "qemu10/usr/bin/qemu-system-x86_64"),
        *(
            "-L",
            str(CACHE / "qemu10/usr/share/qemu"),
            "-L",
            str(CACHE / "qemu10/usr/share/seabios"),
        ),
    )
    cpu = "max,hypervisor=off"

    def devices(self) -> list[str]:
        argv = []
        for n in (0, 1):
            argv += ["-object", f"memory-backend-ram,id=ram{n},size={_SIZE}"]
            device = f"cxl-type3,bus=rp{n},volatile-memdev=ram{n},id=volatile{n},sn={0x101 + n}"
            argv += ["-device", device]
        return [*argv, *self.persistent("persistent-memdev", 2)]


@contextlib.contextmanager
def cxl_machine(kind: type[PersistentVm]) -> Iterator[Vm]:
    """Boot a machine with CXL memory and our sources."""
    chosen = _debian_13() if kind is VolatileVm else image()
    with running_machine(chosen, kind=kind) as vm:
        vm.run("echo offline >/sys/devices/system/memory/auto_online_blocks")
        copy_sources(vm)
        yield vm


def memdevs(vm: Vm) -> list[str]:
    """Names of the memory devices by their serials: the kernel numbers them as they come."""
    listed = json.loads(vm.run("cxl list -M"))
    return [each["memdev"] for each in sorted(listed, key=lambda each: int(each["serial"]))]


def _debian_13() -> Image:
    with lock("images"):
        if not Path(VolatileVm.program[0]).exists():
            _unpack_qemu(CACHE / "qemu10")
    return image(DEBIAN_13)


def _unpack_qemu(folder: Path) -> None:
    """From the backports of the host's own mirror, and nothing of it is installed."""
    query = ("apt-get", "indextargets", "--format", "$(REPO_URI)", "Release: bookworm")
    mirror = run(*query).split()[0]
    with tempfile.TemporaryDirectory(prefix="harness-apt-") as scratch:
        at = Path(scratch)
        key = "signed-by=/usr/share/keyrings/debian-archive-keyring.gpg"
        lines = [f"deb [{key}] {mirror} bookworm{part} main\n" for part in ("", "-backports")]
        (at / "sources.list").write_text("".join(lines), encoding="ascii")
        (at / "lists" / "partial").mkdir(parents=True)
        options = ["-o", f"Dir::Etc::sourcelist={at}/sources.list", "-o", "APT::Sandbox::User=root"]
        options += ["-o", "Dir::Etc::sourceparts=/dev/null", "-o", f"Dir::State::lists={at}/lists"]
        run("apt-get", "-q", *options, "update")
        packages = [f"{name}/bookworm-backports" for name in QEMU_PACKAGES]
        run("env", "-C", scratch, "apt-get", "-q", *options, "download", *packages)
        for package in at.glob("*.deb"):
            run("dpkg-deb", "-x", str(package), str(at / "unpacked"))
        shutil.rmtree(folder, ignore_errors=True)
        shutil.move(at / "unpacked", folder)
