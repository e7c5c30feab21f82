"""The test machine's disk image: built once from the host's Debian mirror, then reused.

A folder ``images/<key>/`` of the cache holds the kernel, the root file system and the key to
log in with; ``<key>`` is a hash of this file, of the recipe and of what the harness depends on, so
that a changed recipe builds anew. The guest has no network: what the harness needs is in the image.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from vm_cache import CACHE, forget_unused, lock
from vm_wheels import dependencies, download_wheelhouse

from harness.tiers.linux.ext4 import EAGER

#: The cloud kernel has nfit, nd_pmem, nd_btt, dax_pmem, kmem and xfs as modules, and
#: nvme and ext4 built in: it boots from an NVMe disk without an initrd.
GUEST_PACKAGES = (
    "linux-image-cloud-amd64",
    "systemd-sysv",
    "udev",
    "dbus",
    "kmod",
    "iproute2",
    "openssh-server",
    "python3",
    "python3-venv",
    "ndctl",
    "daxctl",
    "numactl",
    "e2fsprogs",
    "xfsprogs",
    "dmsetup",
    # What the native programs are linked with.
    "libpq5",
    "libjansson4",
    "zlib1g",
)
#: Where the harness and what it depends on are installed in the guest.
GUEST_VENV = "/opt/tierbench"
HOST_PACKAGES = {
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "ssh": "openssh-client",
}
#: Needed by QEMU at run time but recommended only.
HOST_FIRMWARE = ("ipxe-qemu", "seabios")
DISK_SIZE = "8G"

GUEST_FILES = {
    "etc/hostname": "nvdimm\n",
    "etc/hosts": "127.0.0.1 localhost nvdimm\n",
    "etc/fstab": "/dev/nvme0n1 / ext4 rw,noatime 0 1\n",
    "etc/systemd/network/10-guest.network": (
        "[Match]\nName=eth0\n[Network]\nAddress=10.0.2.15/24\nGateway=10.0.2.2\n"
        "IPv6AcceptRA=no\nLinkLocalAddressing=no\n"
    ),
    # Neither is of use in an emulated machine, and loading them takes seconds.
    "etc/modprobe.d/lean.conf": "install kvm_amd /bin/true\ninstall kvm_intel /bin/true\n",
    # However long it takes there on a busy host, whose stalls its clock does not know of.
    "etc/ssh/sshd_config.d/patient.conf": "LoginGraceTime 0\n",
    "etc/systemd/system.conf.d/patient.conf": (
        "[Manager]\nDefaultTimeoutStartSec=1h\nDefaultDeviceTimeoutSec=1h\n"
    ),
}
#: Units that only cost boot time on an emulated processor.
MASKED_UNITS = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "systemd-networkd-wait-online.service",
    "getty@tty1.service",
    "ndctl-monitor.service",
    "daxdev-reconfigure@.service",
    "ipmctl-monitor.service",
    # Its binaries are used, not its service.
    "postgresql.service",
)


@dataclass(frozen=True)
class Recipe:
    """A Debian suite, the release of its python3, and the packages of it beyond the usual.

    Natives compiled on the host run in it if the host's own libraries are of this suite or older.
    """

    suite: str
    python: str
    packages: tuple[str, ...]


#: Each with the server to measure.
DEBIAN_12 = Recipe("bookworm", "3.11", ("ipmctl", "postgresql-15"))
DEBIAN_13 = Recipe("trixie", "3.13", ("cxl", "postgresql-17"))


@dataclass(frozen=True)
class Image:
    """Boot files of a machine; ``disk`` is a raw file that is never written."""

    kernel: Path
    disk: Path
    key: Path
    python: str


def image(recipe: Recipe = DEBIAN_12) -> Image:
    """The image, built now if there is none of this recipe; needs root to build."""
    folder = CACHE / "images" / _recipe_key(recipe)
    with lock("images"):
        if not (folder / "complete").exists():
            install_host_packages()
            _build(folder, recipe)
        elif shutil.which("qemu-system-x86_64") is None:
            install_host_packages()
        forget_unused(folder)
    kernel, disk, key = (folder / name for name in ("vmlinuz", "root.ext4", "id_ed25519"))
    return Image(kernel, disk, key, recipe.python)


def _recipe_key(recipe: Recipe) -> str:
    parts = [Path(__file__).read_text(encoding="utf-8"), repr(recipe), *dependencies()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def install_host_packages() -> None:
    """Install what builds and runs a machine, where it is missing."""
    missing = [package for tool, package in HOST_PACKAGES.items() if shutil.which(tool) is None]
    if not missing:
        return
    wanted = [*missing, *HOST_FIRMWARE]
    if os.geteuid() != 0:
        raise RuntimeError(f"the test machine needs: apt-get install {' '.join(wanted)}")
    with tempfile.TemporaryDirectory(prefix="harness-apt-") as folder:
        # Folders of our own: other apt runs on the host may hold the common lists, for whose
        # lock apt does not wait, or clean the common archives.
        Path(folder).chmod(0o755)
        options = ["-o", "DPkg::Lock::Timeout=3600"]
        for name in ("archives", "lists"):
            (Path(folder) / name / "partial").mkdir(parents=True)
        options += ["-o", f"Dir::Cache::archives={folder}/archives"]
        options += ["-o", f"Dir::State::lists={folder}/lists"]
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        run("apt-get", "-q", *options, "update", env=environment)
        run(
            *("apt-get", "-q", "-y", *options, "install", "--no-install-recommends", *wanted),
            env=environment,
        )


def _build(folder: Path, recipe: Recipe) -> None:
    if os.geteuid() != 0:
        raise RuntimeError("building the test machine's image needs root (owners of its files)")
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="building-") as scratch:
        root = Path(scratch) / "root"
        result = Path(scratch) / "image"
        result.mkdir()
        wheelhouse = Path(scratch) / "wheelhouse"
        download_wheelhouse(wheelhouse, recipe.python)
        # It mounts the host's /proc, /sys and /dev below the scratch folder. In a mount
        # namespace of its own they are nowhere else, and gone with it: whoever removes
        # the folder of a killed build must not walk into them.
        alone = ("unshare", "--mount", "--propagation", "private", "--kill-child=KILL")
        # Without a mirror, mmdebstrap takes the host's own apt sources for its suite.
        run(
            *("setpriv", "--pdeathsig", "KILL", "--", *alone, "--"),
            "mmdebstrap",
            "--quiet",
            "--mode=root",
            "--variant=minbase",
            f"--include={','.join((*GUEST_PACKAGES, *recipe.packages))}",
            *(f"--dpkgopt=path-exclude=/usr/share/{d}/*" for d in ("man", "doc", "locale", "info")),
            *_install_wheels(wheelhouse),
            recipe.suite,
            str(root),
        )
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(result / "id_ed25519"))
        _customise(root, (result / "id_ed25519.pub").read_text(encoding="ascii"))
        shutil.copyfile(next((root / "boot").glob("vmlinuz-*")), result / "vmlinuz")
        for initrd in (root / "boot").glob("initrd.img-*"):
            initrd.unlink()
        run(
            *("mke2fs", "-q", "-t", "ext4", "-E", EAGER, "-d", str(root)),
            *(str(result / "root.ext4"), DISK_SIZE),
        )
        (result / "complete").touch()
        shutil.rmtree(folder, ignore_errors=True)
        result.rename(folder)


def _install_wheels(wheelhouse: Path) -> list[str]:
    """mmdebstrap's options that install them where the emulated processor need not: here."""
    pip = f"{GUEST_VENV}/bin/pip install -q --no-index --find-links /var/tmp/wheelhouse"
    wanted = " ".join(shlex.quote(requirement) for requirement in dependencies())
    steps = [
        f'mkdir -p "$1/var/tmp" && cp -r {shlex.quote(str(wheelhouse))} "$1/var/tmp/wheelhouse"',
        f'chroot "$1" python3 -m venv {GUEST_VENV}',
        f'chroot "$1" {pip} {wanted}',
        'rm -r "$1/var/tmp/wheelhouse"',
    ]
    return [f"--customize-hook={step}" for step in steps]


def _customise(root: Path, public_key: str) -> None:
    """Write what makes a Debian tree the guest: network, login, no units that only cost time."""
    for name, text in GUEST_FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")
    ssh = root / "root" / ".ssh"
    ssh.mkdir(mode=0o700, parents=True, exist_ok=True)
    (ssh / "authorized_keys").write_text(public_key, encoding="ascii")
    (root / "etc" / "machine-id").write_text("", encoding="ascii")
    # The cluster that the package made: nobody starts it.
    for made in ("etc/postgresql", "var/lib/postgresql"):
        for cluster in (root / made).glob("[0-9]*"):
            shutil.rmtree(cluster)
    units = root / "etc" / "systemd" / "system"
    wants = units / "multi-user.target.wants"
    wants.mkdir(parents=True, exist_ok=True)
    networkd = wants / "systemd-networkd.service"
    networkd.unlink(missing_ok=True)
    networkd.symlink_to("/lib/systemd/system/systemd-networkd.service")
    for unit in MASKED_UNITS:
        (units / unit).unlink(missing_ok=True)
        (units / unit).symlink_to("/dev/null")


def run(*argv: str, env: dict[str, str] | None = None) -> str:
    """Run a command of the host; RuntimeError with its words where it fails."""
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: exit {done.returncode}\n{done.stderr[-3000:]}")
    return done.stdout
