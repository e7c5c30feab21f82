"""Verify claims of tiers with the kernel.

Every error names the claim with file and line, the kernel's finding with the device, and the
command that makes the claim true.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import UsageError
from harness.tiers.linux.kernel import LIVE, Kernel
from harness.tiers.linux.model import DIRECTORY_KINDS, Tier, TierClaim, TierFacts, TierKind
from harness.tiers.linux.mounts import mounts
from harness.tiers.linux.numa import nodes
from harness.tiers.linux.persistence import AT_SWITCH, UNKNOWN
from harness.tiers.linux.probe import (
    MEMMAP_NOTE,
    facts_of_devdax,
    facts_of_directory,
    facts_of_numa,
)

if TYPE_CHECKING:
    from harness.supervise.user_files import Credentials


def claim_text(claim: TierClaim) -> str:
    """``tier 'pmem' in host.yml:12 says kind fsdax at /mnt/pmem0``."""
    where = "" if claim.source == "discovered" else f" in {claim.source}"
    return f"tier {claim.name!r}{where} has kind {claim.kind} at {claim.place}"


def describe(facts: TierFacts) -> str:
    """The kernel's finding in a line: ``xfs on sector namespace namespace0.1 (…) mounted …``."""
    if facts.kind == "tmpfs":
        return f"{facts.filesystem} mounted at {facts.mount_point}"
    if facts.kind == "devdax":
        return f"DAX device {facts.device}, {'; '.join(facts.notes)}"
    if facts.kind == "numa":
        return f"node {facts.numa_node}, {'; '.join(facts.notes)}"
    device = f", {facts.device_model}," if facts.device_model else ""
    text = f"{facts.filesystem} on {facts.device}{device}"
    if facts.namespace:
        text = (
            f"{facts.filesystem} on {facts.namespace_mode} namespace {facts.namespace}"
            f" ({facts.device})"
        )
    dax_options = [option for option in facts.mount_options if option.startswith("dax")]
    requested = any(option in ("dax", "dax=always") for option in dax_options)
    text += f" mounted at {facts.mount_point}"
    text += f" with {dax_options[0]}" if dax_options else ""
    if facts.namespace or dax_options:
        text += {
            True: ", statx reports DAX",
            False: f", {'but ' if requested else ''}statx reports no DAX",
            None: ", statx cannot report DAX",
        }[facts.dax]
    return text


def remedy(claim: TierClaim, facts: TierFacts, kernel: Kernel) -> str:
    """Return the command that makes the claim true."""
    honest = f"or set kind: {facts.kind}"
    if claim.kind in ("fsdax", "fs-nodax", "sector"):
        if facts.namespace is None:
            return _remedy_without_pmem(claim, facts, kernel)
        return f"{_remedy_on_pmem(claim, facts)}, {honest}"
    if claim.kind == "tmpfs":
        return f"mount -t tmpfs tmpfs {claim.path}, {honest}"
    return honest.removeprefix("or ")


def _remedy_without_pmem(claim: TierClaim, facts: TierFacts, kernel: Kernel) -> str:
    if claim.path == facts.mount_point:
        return f"mount a pmem device at {claim.path}, or set kind: {facts.kind}"
    device = _unmounted_pmem(kernel)
    option = "-o dax " if claim.kind == "fsdax" else ""
    mount = f"mount {option}{device} {claim.path}" if device else "mount the pmem device there"
    return f"nothing is mounted at {claim.path}: its files are on {facts.device}; {mount} first"


def _remedy_on_pmem(claim: TierClaim, facts: TierFacts) -> str:
    recreate = f"ndctl create-namespace -f -e {facts.namespace} -m"
    if claim.kind == "sector":
        return f"{recreate} sector, which destroys its data"
    if claim.kind == "fs-nodax" and facts.kind == "fsdax":
        return "mount it with -o dax=never (and chattr -x the directory)"
    if facts.namespace_mode == "fsdax":
        return _remedy_on_fsdax(facts)
    why = {
        "sector": "a sector (BTT) namespace has no DAX (xfs accepts -o dax=always there but"
        " ignores it); ",
        "raw": "a raw namespace has no DAX; ",
    }.get(facts.namespace_mode or "", "")
    return f"{why}{recreate} fsdax, which destroys its data"


def _remedy_on_fsdax(facts: TierFacts) -> str:
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    if facts.block_size_bytes not in (None, page_bytes):
        return (
            f"DAX needs blocks of the page size, these have {facts.block_size_bytes} bytes:"
            f" mkfs with {page_bytes}-byte blocks, which destroys its data"
        )
    return (
        f"mount it with -o dax (umount {facts.mount_point};"
        f" mount -o dax {facts.device} {facts.mount_point})"
    )


def _unmounted_pmem(kernel: Kernel) -> str | None:
    """A pmem block device that no mount uses."""
    used = {mount.device_number for mount in mounts(kernel)}
    for name in kernel.names("/sys/class/block"):
        number = kernel.read(f"/sys/class/block/{name}/dev")
        if name.startswith("pmem") and number and number not in used:
            return f"/dev/{name}"
    return None


#: Names that mean persistent memory: on a disk such a tier is emulated. ``optane`` may be an SSD.
_NAME_MEANS_PMEM = re.compile(r"^(pmem|nvdimm|dcpmm)")
#: Names that fit a tmpfs; under any other, it is emulated.
_NAME_MEANS_TMPFS = re.compile(r"^(tmpfs|tmp|ram|ramdisk|dram|shm|memory|mem)(_|\d|$)")


class WrongKindError(UsageError):
    """A directory is of another kind than claimed, such as a tmpfs claimed to be fsdax."""


def verify(claim: TierClaim, user: Credentials | None = None, kernel: Kernel = LIVE) -> Tier:
    """Return the tier with its facts; UsageError where claim and kernel disagree.

    ``user``: the unprivileged user that engines run as, None where that is us.
    """
    if claim.kind == "modelled":
        from harness.models.tier import modelled_tier  # needs PyYAML

        return modelled_tier(claim, user, kernel)
    if claim.kind in DIRECTORY_KINDS:
        tier = _verify_directory(claim, user, kernel)
    elif claim.kind == "devdax":
        tier = _verify_devdax(claim, kernel)
    else:
        tier = _verify_numa(claim, kernel)
    return mark_emulated(tier)


def _wrong(claim: TierClaim, context: str, hint: str) -> UsageError:
    return UsageError(claim_text(claim), context, hint)


# Directories -------------------------------------------------------------------


def _verify_directory(claim: TierClaim, user: Credentials | None, kernel: Kernel) -> Tier:
    path = _existing_directory(claim)
    try:
        facts = facts_of_directory(path, kernel)
    except OSError as error:
        raise _wrong(claim, f"{path}: {error.strerror}", "check the path") from error
    if facts.read_only:
        raise _wrong(
            claim,
            f"the mount {facts.mount_point} is read-only",
            f"mount -o remount,rw {facts.mount_point} (see dmesg for its errors)",
        )
    if facts.kind != claim.kind:
        raise WrongKindError(
            claim_text(claim),
            f"the kernel reports: {describe(facts)}",
            remedy(claim, facts, kernel),
        )
    _check_writable(claim, path, user)
    return Tier(claim, facts, tuple(directory_warnings(facts)))


def _existing_directory(claim: TierClaim) -> Path:
    if claim.path is None:
        raise _wrong(claim, f"kind {claim.kind} without a path", "add path: /directory")
    path = Path(claim.path)
    if not path.is_absolute():
        raise _wrong(claim, "the path is not absolute", "use an absolute path")
    try:
        if path.is_dir():
            return path
        result = "it is not a directory" if path.exists() else "no such directory"
    except OSError as error:
        result = str(error)
    raise _wrong(claim, result, f"mkdir -p {path}, or correct the path")


def _check_writable(claim: TierClaim, path: Path, user: Credentials | None) -> None:
    if not os.access(path, os.W_OK | os.X_OK):
        me = os.geteuid()
        raise _wrong(
            claim,
            f"user {me} may not write to it",
            f"chown {me} {path}, or run as root",
        )
    if user is None:
        return
    for directory in (path.resolve(), *path.resolve().parents):
        if not may_enter(directory, user):
            raise _wrong(
                claim,
                f"the engines' user {user.name!r} may not enter {directory}",
                f"chmod o+x {directory}, or choose a path outside it",
            )


def may_enter(directory: Path, user: Credentials) -> bool:
    """Return whether ``user`` may go through a directory (or execute a file), by its mode bits."""
    return _permits(directory, user, stat.S_IXOTH)


def may_read(file: Path, user: Credentials) -> bool:
    """Return whether ``user`` may read a file, by its mode bits."""
    return _permits(file, user, stat.S_IROTH)


def _permits(path: Path, user: Credentials, right: int) -> bool:
    status = path.stat()
    if user.uid == 0:
        return True
    if status.st_uid == user.uid:
        return bool(status.st_mode & right << 6)
    if status.st_gid == user.gid:
        return bool(status.st_mode & right << 3)
    return bool(status.st_mode & right)


def directory_warnings(facts: TierFacts) -> list[str]:
    """Return warnings on this tier's results."""
    warnings = []
    options = set(facts.mount_options)
    if options & {"nobarrier", "barrier=0"}:
        warnings.append("mounted without barriers: an fsync is not durable, and looks fast")
    if facts.rotational:
        warnings.append(f"{facts.device} is a rotating disk")
    if facts.filesystem == "overlay":
        warnings.append("an overlay file system: its device is unknown")
    if facts.kind == "block" and not facts.disks and facts.filesystem != "overlay":
        warnings.append(f"{facts.filesystem} has no block device: its results mean little")
    if facts.kind == "fsdax" and facts.namespace_alignment_bytes not in (None, 1 << 21, 1 << 30):
        warnings.append("namespace aligned to less than 2 MiB: no huge page faults")
    return [*warnings, *_domain_warnings(facts)]


def _domain_warnings(facts: TierFacts) -> list[str]:
    ends = (facts.persistence_domain or "").split(", ")
    why = f" ({facts.persistence_source}): flushed data may not be durable"
    if AT_SWITCH in ends:
        return [f"persistence ends at a CXL switch{why}"]
    return [f"where persistence ends is not known{why}"] if UNKNOWN in ends else []


# Devices and nodes ---------------------------------------------------------------


def _verify_devdax(claim: TierClaim, kernel: Kernel) -> Tier:
    if claim.device is None:
        raise _wrong(claim, "kind devdax without a device", "add device: /dev/dax0.0")
    devices = kernel.names("/sys/bus/dax/devices")
    try:
        facts = facts_of_devdax(claim.device, kernel)
    except OSError as error:
        names = ", ".join(f"/dev/{name}" for name in devices)
        hint = f"devices: {names}" if names else "create one: ndctl create-namespace -m devdax"
        raise _wrong(claim, str(error), hint) from error
    if not facts.dax:
        raise _wrong(
            claim,
            f"the kernel reports: {describe(facts)}: no character device to map",
            f"daxctl reconfigure-device --mode=devdax {Path(claim.device).name}",
        )
    warnings = _domain_warnings(facts)
    if not os.access(claim.device, os.R_OK | os.W_OK) and kernel is LIVE:
        warnings.append(f"{claim.device} may not be opened by this user")
    return Tier(claim, facts, tuple(warnings))


def _verify_numa(claim: TierClaim, kernel: Kernel) -> Tier:
    if not claim.nodes:
        raise _wrong(claim, "kind numa without a node", "add node: 1")
    if claim.policy in ("interleave", "weighted", "tiered") and len(claim.nodes) < 2:
        raise _wrong(
            claim,
            f"{claim.policy} over a single node",
            "name several nodes, or use policy bind",
        )
    result = {node.node: node for node in nodes(kernel)}
    for number in claim.nodes:
        if number not in result:
            raise _wrong(
                claim,
                f"the kernel has no node {number}",
                f"nodes here: {', '.join(str(number) for number in result) or 'none'}",
            )
        if not result[number].memory_bytes:
            raise _wrong(
                claim,
                f"node {number} has no memory",
                "online it (daxctl online-memory), or name another node",
            )
    return Tier(claim, _sum_nodes([facts_of_numa(number, kernel) for number in claim.nodes]))


def _sum_nodes(facts: Sequence[TierFacts]) -> TierFacts:
    if len(facts) == 1:
        return facts[0]
    notes = tuple(f"node {each.numa_node}: {note}" for each in facts for note in each.notes)
    return replace(
        facts[0],
        numa_node=None,
        memory_kind=", ".join(dict.fromkeys(each.memory_kind or "unknown" for each in facts)),
        size_bytes=sum(each.size_bytes or 0 for each in facts),
        free_bytes=sum(each.free_bytes or 0 for each in facts),
        device_model=None,
        notes=notes,
    )


def mark_emulated(tier: Tier) -> Tier:
    """Mark a tier as emulated by its claim, its facts or its name."""
    claim, warnings = tier.claim, list(tier.warnings)
    emulates = claim.emulates
    if MEMMAP_NOTE in tier.facts.notes:
        emulates = emulates or "pmem"
        warnings.append(MEMMAP_NOTE)
    elif not emulates:
        emulates = _emulated_by_name(claim.name, tier.facts.kind)
    if emulates:
        warnings.append(f"EMULATED: {emulates} is a {tier.facts.kind}")
    return Tier(replace(claim, emulates=emulates), tier.facts, tuple(warnings))


def _emulated_by_name(name: str, kind: TierKind) -> str | None:
    """Return what a tier's name means and its kind is not."""
    if kind == "tmpfs" and not _NAME_MEANS_TMPFS.match(name):
        return "pmem" if _NAME_MEANS_PMEM.match(name) else name
    if kind == "block" and _NAME_MEANS_PMEM.match(name):
        return "pmem"
    return None
