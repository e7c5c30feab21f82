"""Texts of claims and findings, and the command that makes a claim true."""

from __future__ import annotations

import os

from harness.tiers.linux.kernel import Kernel
from harness.tiers.linux.model import TierClaim, TierFacts
from harness.tiers.linux.mounts import mounts


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
