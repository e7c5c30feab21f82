"""A QEMU machine with two NVDIMMs, reached by ssh on a loopback port.

The processor is emulated: functions are real, times mean nothing. Two sockets with
memory (nodes 0 and 1), two NVDIMMs (nodes 2 and 3) with blank label areas. A machine may lose
its power and be booted again: disk and NVDIMMs keep what had reached them.
"""

import contextlib
import ctypes
import io
import os
import shlex
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from vm_cache import REPOSITORY
from vm_image import Image

#: Generous, for a busy host: an emulated machine needs 12 s of an idle one.
_BOOT_TIMEOUT_S = 1200
#: Nothing takes as long that ends at all.
_COMMAND_TIMEOUT_S = 3600
#: The guest's clock goes on while its processors or its disk stand still, on a busy host: its
#: kernel neither stops at a timer that is late nor gives up a disk that only takes long.
_PATIENT = "no_timer_check nvme_core.io_timeout=3600 nvme_core.admin_timeout=3600"
#: QEMU's is the same on all processors: read without leaving the machine, as the HPET is not.
_CLOCK = "tsc=reliable clocksource=tsc"
#: Not needed there, and slow to start on an emulated processor.
_LEFT_OUT = (
    *("systemd-logind.service", "modprobe@drm.service", "modprobe@efi_pstore.service"),
    *("dev-mqueue.mount", "sys-kernel-debug.mount", "sys-kernel-tracing.mount"),
    *("sys-kernel-config.mount", "modprobe@configfs.service"),
    *("sys-fs-fuse-connections.mount", "modprobe@fuse.service", "modprobe@loop.service"),
    *("systemd-binfmt.service", "proc-sys-fs-binfmt_misc.automount"),
    *("serial-getty@ttyS0.service", "systemd-sysusers.service", "systemd-random-seed.service"),
    *("systemd-update-utmp.service", "systemd-update-utmp-runlevel.service"),
)
#: Nor are these drivers, nor the kernel's tests of ciphers, audit, AppArmor and clearing of pages.
_DRIVERS_LEFT_OUT = (
    *("aesni_intel", "ghash_clmulni_intel", "crct10dif_pclmul", "crc32_pclmul", "sha512_ssse3"),
    *("powernow_k8", "acpi_cpufreq", "rapl", "psmouse", "serio_raw", "evdev", "pcspkr"),
    *("i2c_i801", "lpc_ich", "iTCO_wdt", "button", "sg"),
)
_LEAN = f"modprobe.blacklist={','.join(_DRIVERS_LEFT_OUT)}"
_LEAN += " cryptomgr.notests audit=0 apparmor=0 init_on_alloc=0"
NVDIMM_SIZE = "2G"
#: Short: the path of ssh's control socket lies below.
_SCRATCH = "harness-vm-"
#: State of a socket in /proc/net/tcp.
_LISTENING = "0A"
_NODE_DISTANCES = {(0, 1): 21, (0, 2): 17, (0, 3): 28, (1, 2): 28, (1, 3): 17, (2, 3): 28}


@dataclass
class Vm:
    """A machine, running once it is booted; ``scratch`` holds its disks and logs.

    ``persistence``: ``mem-ctrl`` (ADR) or ``cpu`` (eADR). ``kernel_words``: behind the usual
    ones on the kernel's command line, from the next boot on. ``memory_mib``: memory of each node,
    of which the first two have processors.
    """

    image: Image
    scratch: Path
    persistence: str = "mem-ctrl"
    kernel_words: str = ""
    memory_mib: Sequence[int] = (1536, 1536)
    ssh_port: int = 0
    _process: subprocess.Popen[bytes] | None = None
    _boots: int = 0

    @property
    def disk(self) -> Path:
        """Return the file of what was written over the image."""
        return self.scratch / "overlay.qcow2"

    def nvdimm(self, number: int) -> Path:
        """Return the file of an NVDIMM, its label area included."""
        return self.scratch / f"nvdimm{number}.img"

    @property
    def pid(self) -> int:
        """QEMU's."""
        assert self._process is not None
        return self._process.pid

    def argv(self) -> list[str]:
        """QEMU's command line."""
        return qemu_argv(self)

    def boot(self) -> None:
        """Start it and wait until it can be logged in to. To be called from the main thread:
        QEMU ends with the thread that has started it.
        """
        self._boots += 1
        with (self.scratch / "qemu.log").open("ab") as log:
            self._process = subprocess.Popen(
                self.argv(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 (no threads yet)
            )
        self.ssh_port = _forwarded_port(self, self._process)
        _wait_for_ssh(self, self._process)

    def lose_power(self) -> None:
        """At once: what was in the processors' caches and in memory is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def reboot(self) -> None:
        """An orderly shutdown, which ends QEMU, and a boot with the same disks."""
        assert self._process is not None
        self.execute("sync; systemctl reboot")
        self._process.wait(timeout=_BOOT_TIMEOUT_S)
        self.boot()

    def ssh_options(self) -> list[str]:
        """Options of ssh and scp (as ``-o``), for Ansible too.

        Each boot has a shared connection of its own, which ends with QEMU: that of the boot
        before removes its socket at its end, whenever that is.
        """
        options = {
            "IdentityFile": str(self.image.key),
            "IdentitiesOnly": "yes",
            "StrictHostKeyChecking": "no",
            "UserKnownHostsFile": "/dev/null",
            "LogLevel": "ERROR",
            "ConnectTimeout": str(_BOOT_TIMEOUT_S),
            "ControlMaster": "auto",
            "ControlPersist": "yes",
            "ControlPath": str(self.scratch / f"ssh{self._boots}"),
        }
        return [word for name, value in options.items() for word in ("-o", f"{name}={value}")]

    def execute(self, command: str, *, given: str = "") -> subprocess.CompletedProcess[str]:
        """A shell command as root, however it ends; ``given`` is its standard input."""
        return subprocess.run(
            [*self._ssh(), command], input=given, capture_output=True, text=True, check=False,
            timeout=_COMMAND_TIMEOUT_S,
        )  # fmt: skip

    def run(self, command: str, *, check: bool = True, given: str = "") -> str:
        """Standard output of a shell command as root; an AssertionError shows what failed."""
        done = self.execute(command, given=given)
        if check and done.returncode:
            raise AssertionError(
                f"in the machine: {command}\nexit {done.returncode}\n{done.stdout}{done.stderr}"
            )
        return done.stdout

    def _ssh(self) -> list[str]:
        port = str(self.ssh_port)
        return ["ssh", "-F", "none", *self.ssh_options(), "-p", port, "root@127.0.0.1"]

    def copy(
        self, files: Sequence[Path], target: str, base: Path = REPOSITORY, compiled: bool = False
    ) -> None:
        """Copy files and folders into the machine below ``target``, paths relative to ``base``;
        what Python has ``compiled`` only on request.
        """
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w", dereference=True) as tar:
            for path in files:
                tar.add(path, path.relative_to(base), filter=None if compiled else _without_caches)
        unpack = f"mkdir -p {shlex.quote(target)} && tar -C {shlex.quote(target)} -xf -"
        subprocess.run(
            [*self._ssh(), unpack], input=packed.getvalue(), check=True, timeout=_COMMAND_TIMEOUT_S
        )

    @contextlib.contextmanager
    def tunnel(self, guest_socket: str, here: Path) -> Iterator[None]:
        """The machine's unix socket as the socket ``here``, for as long as the context lasts."""
        alone = ["-o", "ControlMaster=no", "-o", "ControlPath=none", "-N"]
        ssh, *others = self._ssh()
        bound = ["-o", "ExitOnForwardFailure=yes", "-L", f"{here}:{guest_socket}"]
        here.unlink(missing_ok=True)
        with subprocess.Popen([ssh, *alone, *bound, *others], stdin=subprocess.DEVNULL) as process:
            try:
                deadline = time.monotonic() + _BOOT_TIMEOUT_S
                while not _listens(here):
                    assert process.poll() is None, "ssh has ended"
                    assert time.monotonic() < deadline, f"no tunnel to {guest_socket}"
                    time.sleep(0.1)
                yield
            finally:
                process.terminate()
                process.wait()
                here.unlink(missing_ok=True)  # ssh leaves it

    def serial_tail(self, lines: int = 30) -> str:
        """The last lines of the machine's console."""
        return _tail(self.scratch / "serial.log", lines)


@contextlib.contextmanager
def running_machine(
    image: Image,
    *,
    persistence: str = "mem-ctrl",
    memory_mib: Sequence[int] = Vm.memory_mib,
    kind: type[Vm] = Vm,
) -> Iterator[Vm]:
    """Boot a machine with fresh disks, and make it gone at the end, however that comes."""
    _sweep()
    scratch = Path(tempfile.mkdtemp(prefix=f"{_SCRATCH}{os.getpid()}-"))
    vm = kind(image, scratch, persistence, memory_mib=memory_mib)
    try:
        subprocess.run(
            ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", image.disk, vm.disk],
            check=True,
        )
        vm.boot()
        yield vm
    finally:
        vm.lose_power()
        shutil.rmtree(scratch, ignore_errors=True)


def qemu_argv(vm: Vm) -> list[str]:
    """The command line: an emulated q35 with NVDIMMs on memory nodes of their own."""
    argv = ["qemu-system-x86_64", "-accel", "tcg,thread=multi,tb-size=512"]
    argv += ["-machine", f"q35,nvdimm=on,nvdimm-persistence={vm.persistence}"]
    argv += [
        "-cpu",
        "max",
        "-smp",
        "2,sockets=2",
        "-m",
        f"{sum(vm.memory_mib)}M,slots=4,maxmem=12G",
    ]
    for node in range(4):
        facts = f"node,nodeid={node}"
        if node < len(vm.memory_mib):
            argv += ["-object", f"memory-backend-ram,id=ram{node},size={vm.memory_mib[node]}M"]
            facts += f",memdev=ram{node}"
        argv += ["-numa", f"{facts},cpus={node}" if node < 2 else facts]
    for (a, b), distance in _NODE_DISTANCES.items():
        argv += ["-numa", f"dist,src={a},dst={b},val={distance}"]
    for number in (0, 1):
        backend = f"memory-backend-file,id=mem{number},share=on,align=128M"
        argv += ["-object", f"{backend},mem-path={vm.nvdimm(number)},size={NVDIMM_SIZE}"]
        device = f"nvdimm,id=nvdimm{number},memdev=mem{number},label-size=2M,node={number + 2}"
        argv += ["-device", device]
    return [*argv, *common_argv(vm)]


def common_argv(vm: Vm) -> list[str]:
    """Disk, network, kernel and console. On the root bus: others take only bridges, if at all."""
    argv = ["-drive", f"file={vm.disk},if=none,id=hd0,cache=writeback"]
    argv += ["-device", "nvme,drive=hd0,serial=root0,bus=pcie.0"]
    argv += ["-netdev", "user,id=n0,restrict=on,hostfwd=tcp:127.0.0.1:0-:22"]
    argv += ["-device", "virtio-net-pci,netdev=n0,romfile=,bus=pcie.0"]
    argv += ["-object", "rng-random,id=rng0,filename=/dev/urandom"]
    argv += ["-device", "virtio-rng-pci,rng=rng0,bus=pcie.0"]
    kernel_words = "root=/dev/nvme0n1 rw console=ttyS0 quiet mitigations=off nokaslr net.ifnames=0"
    left_out = " ".join(f"systemd.mask={unit}" for unit in _LEFT_OUT)
    words = f"{kernel_words} {_PATIENT} {_CLOCK} {_LEAN} {left_out} {vm.kernel_words}".strip()
    argv += ["-kernel", str(vm.image.kernel), "-append", words]
    argv += ["-display", "none", "-vga", "none", "-nodefaults", "-no-reboot"]
    return [*argv, "-serial", f"file:{vm.scratch / 'serial.log'}"]


def die_with_parent() -> None:
    """PR_SET_PDEATHSIG: the machine cannot outlive the tests, even if they are killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _sweep() -> None:
    """Remove the disks of machines whose tests were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*-*"):
        owner = folder.name.removeprefix(_SCRATCH).partition("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(folder, ignore_errors=True)


def _without_caches(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if member.name.endswith("__pycache__") else member


def _forwarded_port(vm: Vm, process: subprocess.Popen[bytes]) -> int:
    """The port that the kernel gave QEMU: one chosen beforehand may be taken by then."""
    while not (ports := _listening_ports(process.pid)):
        _raise_if_ended(vm, process)
        time.sleep(0.05)
    (port,) = ports
    return port


def _listening_ports(pid: int) -> list[int]:
    """The TCP ports (IPv4) at which a process listens (proc(5): ``fd``, ``net/tcp``)."""
    inodes = set()
    with contextlib.suppress(OSError):  # it has ended
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # it was closed meanwhile
                inodes.add(str(descriptor.readlink()))
    rows = [line.split() for line in Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]]
    return [
        int(row[1].partition(":")[2], 16)
        for row in rows
        if row[3] == _LISTENING and f"socket:[{row[9]}]" in inodes
    ]


def _raise_if_ended(vm: Vm, process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        raise RuntimeError(f"QEMU ended: {_tail(vm.scratch / 'qemu.log', 20)}")


def _wait_for_ssh(vm: Vm, process: subprocess.Popen[bytes]) -> None:
    begin = time.monotonic()
    while (waited_s := time.monotonic() - begin) < _BOOT_TIMEOUT_S:
        _raise_if_ended(vm, process)
        # What connects too early gets no answer; the slower the machine, the later it has one.
        if _greets(vm.ssh_port, 5 + waited_s / 2) and vm.run("echo up", check=False) == "up\n":
            return
        time.sleep(0.5)
    raise RuntimeError(f"the machine does not answer:\n{vm.serial_tail()}")


def _greets(port: int, timeout_s: float) -> bool:
    """Return whether sshd (not only QEMU's port forwarding) answers."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def _listens(path: Path) -> bool:
    """Return whether a server accepts connections at a unix socket."""
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
    return True


def _tail(path: Path, lines: int) -> str:
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""
