"""The tiers of this host: from its host file, else discovered; plus emulated ones.

Nothing is created here: a tier's directory is made when a run first uses it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness import paths
from harness.errors import UsageError
from harness.supervise import workdirs
from harness.tiers.linux.kernel import LIVE, Kernel
from harness.tiers.linux.model import TIER_NAME, Tier, TierClaim, TierFacts
from harness.tiers.linux.mounts import Mount, mounts
from harness.tiers.linux.numa import Node, nodes
from harness.tiers.linux.probe import facts_of_devdax, facts_of_directory, facts_of_numa
from harness.tiers.stand_ins import MODEL_PREFIX, stand_in_names, stand_in_option
from harness.tiers.verify import directory_warnings, mark_emulated, verify

if TYPE_CHECKING:
    from harness.supervise.user_files import Credentials

#: Tier names of discovered pmem file systems, by verified kind.
_PMEM_NAMES = {"fsdax": "pmem", "fs-nodax": "pmem_nodax", "sector": "pmem_sector"}


def find_tiers(
    host_file: Path | None = None, emulated: Sequence[str] = (), user: Credentials | None = None
) -> dict[str, Tier]:
    """Return every tier by name, verified; UsageError for the first wrong claim.

    ``host_file``: of ``--host``. ``emulated``: names (or ``name=/path``) of tiers to emulate.
    ``user``: the unprivileged user that engines run as.
    """
    tiers, problems = find_tiers_and_problems(host_file, emulated, user)
    if problems:
        raise problems[0]
    return tiers


def find_tiers_and_problems(
    host_file: Path | None = None, emulated: Sequence[str] = (), user: Credentials | None = None
) -> tuple[dict[str, Tier], list[UsageError]]:
    """Return the verified tiers, and an error for each wrong claim that emulation does not mend."""
    from harness.tiers.hostfile import find_host_file, load_host_file  # needs PyYAML

    tiers: dict[str, Tier] = {}
    problems: list[UsageError] = []
    stand_ins = stand_in_names(emulated)
    path = find_host_file(host_file)
    if path is None:
        tiers = discover(paths.default_tier())
    else:
        for claim in load_host_file(path).claims:
            try:
                tiers[claim.name] = verify(claim, user)
            except UsageError as error:
                if claim.name not in stand_ins:
                    problems.append(error)
    for request in emulated:
        try:
            tier = emulate(request, tiers)
            tiers[tier.name] = tier
        except UsageError as error:
            problems.append(error)
    return tiers, problems


# Discovery -----------------------------------------------------------------------


def discover(default_directory: Path, kernel: Kernel = LIVE) -> dict[str, Tier]:
    """Return tiers by name: ``ssd``, mounted pmem, DAX devices, memory nodes.

    ``default_directory``: path of ``ssd``; it need not exist yet.
    """
    result: dict[str, Tier] = {}
    for tier in (
        _default(default_directory, kernel),
        *_pmem_mounts(kernel),
        *_dax_devices(kernel),
        *_memory_nodes(kernel),
    ):
        name = _free_name(tier.name, result)
        result[name] = Tier(replace(tier.claim, name=name), tier.facts, tier.warnings)
    return result


def _free_name(name: str, taken: Mapping[str, Tier]) -> str:
    """``pmem``, then ``pmem1``, ``pmem2`` …"""
    candidates = (name if number == 0 else f"{name}{number}" for number in range(len(taken) + 1))
    return next(candidate for candidate in candidates if candidate not in taken)


def nearest_existing(path: Path) -> Path:
    """``path``, or the first directory above it that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def work_tier() -> Tier:
    """Return the directory of sockets, logs and temporary files as a tier, to check its space."""
    return store_tier(workdirs.disk_base(), name="work directories")


def store_tier(directory: Path, kernel: Kernel = LIVE, name: str = "data") -> Tier:
    """Return a directory of the harness's own as a tier, to check its space."""
    facts = facts_of_directory(nearest_existing(directory), kernel)
    return Tier(TierClaim(name, facts.kind, path=str(directory)), facts)


def _default(directory: Path, kernel: Kernel) -> Tier:
    existing = nearest_existing(directory)
    facts = facts_of_directory(existing, kernel)
    if existing != directory:
        note = f"{directory} does not exist yet: facts of {existing}"
        facts = replace(facts, notes=(*facts.notes, note))
    claim = TierClaim("ssd", facts.kind, path=str(directory))
    warnings = directory_warnings(facts)
    if facts.kind != "block":
        warnings.append(f"the default tier is on a {facts.kind}, not on a disk")
    return mark_emulated(Tier(claim, facts, tuple(warnings)))


def _pmem_mounts(kernel: Kernel) -> Iterator[Tier]:
    """Yield one tier for each pmem file system that is mounted writable, with its root."""
    seen: set[str] = set()
    for mount in sorted(mounts(kernel), key=lambda mount: mount.source):
        if mount.root != "/" or mount.device_number in seen:
            continue
        facts = _pmem_facts(mount, kernel)
        if facts is None:
            continue
        seen.add(mount.device_number)
        claim = TierClaim(_PMEM_NAMES[facts.kind], facts.kind, path=mount.point)
        yield _verified_or(claim, facts, kernel)


def _verified_or(claim: TierClaim, facts: TierFacts, kernel: Kernel) -> Tier:
    """Return the verified tier; if it is refused, the tier with the reason as a warning."""
    try:
        return verify(claim, None, kernel)
    except UsageError as error:
        return Tier(claim, facts, (*directory_warnings(facts), error.context))


def _pmem_facts(mount: Mount, kernel: Kernel) -> TierFacts | None:
    if not mount.source.startswith("/dev/"):
        return None
    try:
        facts = facts_of_directory(Path(mount.point), kernel)
    except OSError:
        return None
    hidden = facts.filesystem_id != mount.device_number  # another mount covers this one
    return None if facts.kind not in _PMEM_NAMES or facts.read_only or hidden else facts


def _dax_devices(kernel: Kernel) -> Iterator[Tier]:
    for name in kernel.names("/sys/bus/dax/devices"):
        facts = facts_of_devdax(name, kernel)
        if facts.dax and facts.size_bytes:
            claim = TierClaim("devdax", "devdax", device=f"/dev/{name}")
            yield _verified_or(claim, facts, kernel)


def _memory_nodes(kernel: Kernel) -> Iterator[Tier]:
    """``dram`` for nodes with CPUs; ``cxl``, ``hbm`` or ``farmem`` for nodes of memory only."""
    for node in nodes(kernel):
        if not node.memory_bytes:
            continue
        name, how = _node_name(node)
        facts = facts_of_numa(node.node, kernel)
        facts = replace(facts, notes=(*facts.notes, *how))
        claim = TierClaim(name, "numa", nodes=(node.node,), policy="bind")
        yield Tier(claim, facts)


def _node_name(node: Node) -> tuple[str, tuple[str, ...]]:
    if node.cpus:
        return "dram", ()
    if node.kind == "cxl":
        why = node.backing or "in a window of CXL addresses"
        return "cxl", (f"named cxl because it has no CPUs and its memory is {why}",)
    if node.kind == "hbm":
        return "hbm", ("named hbm because firmware promises more bandwidth than that of DRAM",)
    why = node.backing or "of unknown kind (CXL, HBM, or another host's)"
    return "farmem", (f"named farmem because it has no CPUs; its memory is {why}",)


# Emulation -----------------------------------------------------------------------


def emulate(request: str, real: Mapping[str, Tier]) -> Tier:
    """Return a tmpfs that emulates the tier in ``request``: ``pmem`` or ``pmem=/path``.

    Or a modelled one: ``pmem=model:zero``, as ``--model pmem=zero`` requests it.

    Without a path it is a private directory on /dev/shm. UsageError if a real tier has that name,
    or if the path is not on a tmpfs.
    """
    name, _, path = request.partition("=")
    model = path.removeprefix(MODEL_PREFIX) if path.startswith(MODEL_PREFIX) else None
    option = " ".join(stand_in_option(request))
    if not TIER_NAME.match(name):
        raise UsageError(option, f"{name!r} is not a tier name", "for example: --emulate pmem")
    if name in real and not real[name].emulated and real[name].model is None:
        tier = real[name]
        raise UsageError(
            option,
            f"a real tier has the name {name!r} ({tier.facts.kind} at {tier.claim.place})",
            f"omit --emulate, or use another name (--emulate {name}_emulated)",
        )
    if model is not None:
        from harness.models.tier import tier_of_request  # needs PyYAML

        return tier_of_request(name, model)
    directory = Path(path) if path else Path(f"/dev/shm/tierbench-{os.geteuid()}")
    _refuse_foreign(option, directory)
    facts = _emulation_facts(option, directory)
    claim = TierClaim(name, "tmpfs", path=str(directory), emulates=name, source=option)
    warning = f"EMULATED: {name} is a tmpfs with DRAM's speed"
    return Tier(claim, facts, (warning,))


def _emulation_facts(option: str, directory: Path) -> TierFacts:
    try:
        facts = facts_of_directory(nearest_existing(directory))
    except OSError as error:
        raise UsageError(option, f"{directory}: {error.strerror}", "name a tmpfs") from error
    if facts.kind != "tmpfs":
        raise UsageError(
            option,
            f"{directory} is on a {facts.kind} ({facts.filesystem}), not on a tmpfs",
            "name a directory on a tmpfs, or mount one: mount -t tmpfs tmpfs DIR",
        )
    return facts


def _refuse_foreign(option: str, directory: Path) -> None:
    """Refuse a link or another user's directory: all users can write to /dev/shm."""
    try:
        status = directory.lstat()
    except OSError:
        return
    foreign = status.st_uid not in (os.geteuid(), 0)
    if directory.is_symlink() or not directory.is_dir() or foreign:
        raise UsageError(
            option,
            f"{directory} is not a directory of this user",
            "remove it, or name another: --emulate pmem=/path/on/a/tmpfs",
        )
