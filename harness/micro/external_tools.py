"""Other programs on a tier: found, given space, run to the end; whether direct I/O works."""

from __future__ import annotations

import errno
import mmap
import os
import re
import shlex
import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path

from harness.errors import RunFailed, UsageError
from harness.host.inode_flags import NO_COPY_ON_WRITE, inode_flags
from harness.micro.protocol import MicroContext
from harness.supervise import programs
from harness.supervise.failures import ending, log_tail
from harness.supervise.starting import converse
from harness.supervise.user_files import Credentials, acting_as, open_regular
from harness.tiers.discovery import nearest_existing
from harness.tiers.linux.kernel import LIVE, Kernel
from harness.tiers.linux.model import DIRECTORY_KINDS, Tier
from harness.units import format_bytes
from harness.warnings import RunWarning

_VERSION = re.compile(r"\d+(?:\.\d+)+")
#: Left free of what the tier has: a full file system is another device.
_SPARE_SHARE = 0.05


def require(name: str, arguments: Sequence[str], at_least: tuple[int, ...] = ()) -> str:
    """Return a program's version; UsageError where it is missing or older than ``at_least``.

    The packages are Debian's: each is called as its program.
    """
    problem = f"measure with {name}"
    path = shutil.which(name)
    if path is None:
        raise UsageError(
            problem, f"{name} is not installed", f"install it (Debian: sudo apt install {name})"
        )
    done = programs.run([path, *arguments], timeout_s=30, foreign=True)
    match = _VERSION.search(done.stdout + done.stderr)
    version = match.group() if match else ""
    if tuple(map(int, version.split(".") if version else ())) < at_least:
        wanted = ".".join(map(str, at_least))
        raise UsageError(
            problem, f"{path} is version {version or 'unknown'}", f"install {wanted} or later"
        )
    return version


def require_room(tier: Tier, size_bytes: int, name: str, key: str) -> None:
    """UsageError where the tier is no directory, or has no room for a file of ``size_bytes``.

    ``name``: of the program; ``key``: of its parameter that says the file's size.
    """
    problem = f"measure with {name} on tier {tier.name!r}"
    path = tier.claim.path
    if path is None or tier.facts.kind not in DIRECTORY_KINDS:
        raise UsageError(
            problem,
            f"a {tier.facts.kind} has no files, and {name} measures in one",
            "choose a tier that is a directory",
        )
    capacity = os.statvfs(nearest_existing(Path(path)))
    free = capacity.f_bavail * capacity.f_frsize
    if size_bytes > free * (1 - _SPARE_SHARE):
        raise UsageError(
            f"{problem} in a file of {format_bytes(size_bytes)}",
            f"{format_bytes(free)} are free in {path}, and {1 - _SPARE_SHARE:.0%} of that may go",
            f"make room, or give a smaller one with -p {key}=…",
        )


def run(work: MicroContext, argv: Sequence[str], stdin: str = "") -> str:
    """Run a program in the run's directory as the unprivileged user; return what it printed.

    RunFailed with its last words where it fails.
    """
    user = work.env.credentials
    log = work.scratch / f"{argv[0]}-{uuid.uuid4().hex}.log"
    process = work.env.supervisor.spawn(
        argv, cwd=work.directory, log=log, credentials=user, pipes=True
    )
    code, output = converse(process, stdin)
    printed = output.decode(errors="replace")
    if code != 0:
        said = [line for line in printed.splitlines() if line.startswith(("fio:", "ioping:"))]
        last = "; ".join(said[-3:]) or log_tail(log, user)
        raise RunFailed(shlex.join(argv), f"it {ending(code)}: {last}")
    with acting_as(user):
        log.unlink(missing_ok=True)
    return printed


_NO_CHECKSUMS = {"nodatacow", "nodatasum"}
#: Later releases of Linux write files with checksums through the page cache.
_LAST_PAST_CHECKSUMS = (6, 13)

WRITES_CACHED = RunWarning(
    code="direct-writes-cached",
    problem="Linux makes direct writes through the page cache",
    context="btrfs does since Linux 6.14 for files with data checksums; these writes are labelled "
    "direct=no",
    hint="`chattr +C` on the tier's empty directory, or mount with -o nodatasum",
)


def takes_direct(directory: Path, user: Credentials | None) -> bool:
    """Return whether ``user`` can open files in a directory past the page cache (O_DIRECT)."""
    probe = directory / "direct"
    with acting_as(user):
        try:
            os.close(open_regular(probe, os.O_RDWR | os.O_CREAT | os.O_DIRECT))
        except OSError:
            return False
        finally:
            probe.unlink(missing_ok=True)
    return True


def refuses_past_cache(tier: Tier, size_bytes: int) -> bool:
    """Return whether direct I/O on the tier refuses requests of ``size_bytes``.

    It refuses parts of blocks where the file system wants whole ones (tmpfs, DAX and btrfs do not).

    Tried with a file without a name; False where none can be made: the run will find out.
    """
    part = size_bytes % mmap.PAGESIZE  # no device has larger blocks
    if tier.claim.path is None or not part:
        return False
    flags = os.O_RDWR | os.O_TMPFILE | os.O_DIRECT
    try:
        file = os.open(nearest_existing(Path(tier.claim.path)), flags, 0o600)
    except OSError:
        return False
    try:
        os.pwrite(file, memoryview(mmap.mmap(-1, mmap.PAGESIZE))[:part], 0)
    except OSError as error:
        return error.errno == errno.EINVAL
    finally:
        os.close(file)
    return False


def goes_past_cache(tier: Tier, size_bytes: int) -> bool:
    """Return whether the tier takes direct I/O of ``size_bytes``; True if that cannot be tried."""
    flags = os.O_RDWR | os.O_TMPFILE | os.O_DIRECT
    try:
        os.close(os.open(nearest_existing(Path(tier.claim.path or "/")), flags, 0o600))
    except OSError as error:
        return error.errno != errno.EINVAL
    return not refuses_past_cache(tier, size_bytes)


def caches_direct_writes(tier: Tier, kernel: Kernel = LIVE) -> bool:
    """Return whether Linux makes direct writes of files on the tier through the page cache.

    It refuses none of them: only the state of btrfs shows that it does.
    """
    facts = tier.facts
    release = re.findall(r"\d+", kernel.read("/proc/sys/kernel/osrelease") or "")[:2]
    if facts.filesystem != "btrfs" or tuple(map(int, release)) <= _LAST_PAST_CHECKSUMS:
        return False
    if _NO_CHECKSUMS & set(facts.mount_options):
        return False
    return not _without_copy_on_write(nearest_existing(Path(tier.claim.path or "/")))


def _without_copy_on_write(directory: Path) -> bool:
    """Return whether new files there get no checksums; False where that cannot be read."""
    try:
        return bool(inode_flags(directory) & NO_COPY_ON_WRITE)
    except OSError:
        return False
