"""Return whether a running engine is what its run says: where its memory is, and what limits it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.engine import DataDirectories, Engine, MemoryPolicy, StoredRelation
from harness.experiment.placement import Relation
from harness.host.cgroup import MemoryCap
from harness.host.cpu_quota import cpu_quotas
from harness.host.process_maps import (
    async_io,
    charged_to_groups,
    hugetlb_bytes,
    mapped_libraries,
    sync_overrides,
)
from harness.iotrace.page import LIBRARY
from harness.sequences import grouped
from harness.store.result import Check, CheckStatus
from harness.supervise.process import ProcessId, process_identity
from harness.supervise.user_files import Credentials, acting_as
from harness.tiers.linux.kernel import LIVE, Kernel
from harness.tiers.linux.numa import GroupMemory, Node, NodeResidency, nodes
from harness.tiers.memory_policy import room_left
from harness.units import format_bytes
from harness.warnings import RunWarning

#: A process that ran before its policy was set may have a few pages elsewhere: of a small server
#: with its sessions, 300 kB were seen.
_BOUND_SHARE, _FEW_BYTES = 0.99, 512 << 10
#: Of an interleaved memory: how near a node's share is to that by the weights, as the smaller part
#: of the greater. Below the first the memory is interleaved but unevenly, and up to the second it
#: is not interleaved, or by other weights.
_EVEN, _UNEVEN = 0.9, 0.6
#: Of preferred memory: the least share on its nodes where these have filled up.
_MOSTLY = 0.5
#: The free part of a node up to which it is full: Linux keeps more of a small node than of a large.
_SPARE = 0.1


def memory_check(
    policy: MemoryPolicy,
    residency: NodeResidency,
    limit_bytes: int | None = None,
    kernel: Kernel = LIVE,
) -> Check:
    """Check that the engine's memory is where the placement says, with the shares per node.

    Where it is not, the detail has what the nodes have left, and what the memory limit needs.
    """
    total = residency.total_bytes
    if not total:
        return Check("memory-policy", "unknown", "Linux shows no numa_maps of the engine")
    shares, least = residency.shares(), min(_BOUND_SHARE, 1 - _FEW_BYTES / total)
    listed = ", ".join(f"node {node} {share:.2%}" for node, share in sorted(shares.items()))
    named = ", ".join(map(str, policy.nodes))
    by = f" by {':'.join(map(str, policy.weights))}" if policy.weights else ""
    detail = f"{policy.mode} to node {named}{by}: of {total} bytes, {listed}"
    status = _memory_status(policy, shares, least, nodes(kernel))
    if status == "failed" and limit_bytes is not None:
        detail += f"; {room_left(policy, limit_bytes, kernel)}"
    return Check("memory-policy", status, detail)


def preload_check(
    libraries: Sequence[Path], processes: Sequence[ProcessId], kernel: Kernel = LIVE
) -> Check:
    """Check that the engine has the libraries loaded that were to be preloaded.

    The dynamic linker ignores one that it cannot load.
    """
    name, detail = "preloaded-libraries", ", ".join(map(str, libraries))
    mapped = [paths for process in processes if (paths := mapped_libraries(process.pid, kernel))]
    if not mapped:
        return Check(
            "preloaded-libraries", "unknown", f"Linux shows no maps of the engine: {detail}"
        )
    missing = [path for path in libraries if not any(str(path.resolve()) in of for of in mapped)]
    if missing:
        return Check(name, "failed", f"not loaded: {', '.join(map(str, missing))}")
    return Check(name, "passed", detail)


def demotion_check(
    policy: MemoryPolicy,
    residency: NodeResidency,
    demoted: float | None,
    changed: Mapping[str, str],
) -> Check | None:
    """Check that Linux demoted pages of tiered memory in the window; None of other policies.

    None, too, where the upper tiers hold all of the engine's pages: none had to move.
    ``demoted``: pages, None if they were not counted. ``changed``: settings of Linux that the
    policy needs and that are not in force at the end, by path.
    """
    if policy.mode != "tiered":
        return None
    if changed:
        named = ", ".join(f"{path} is not {value}" for path, value in changed.items())
        return Check("memory-demotion", "failed", f"changed during the run: {named}")
    if residency.shares().get(policy.nodes[-1], 0.0) <= 1 - _BOUND_SHARE:
        return None
    if demoted is None:
        return Check("memory-demotion", "unknown", "demotions are not counted (monitor vm)")
    detail = f"Linux demoted {demoted:.0f} pages in the window"
    return Check("memory-demotion", "passed" if demoted else "unknown", detail)


def unused_memory(
    policy: MemoryPolicy,
    residency: NodeResidency,
    host: Sequence[Node],
    group: GroupMemory | None = None,
) -> list[RunWarning]:
    """Warn where no page is on the slower memory that a policy fills last.

    ``group``: memory of the run's control group, whose page cache counts as well.
    """
    slower = _filled_last(policy, host)
    shares = residency.shares()
    cached = group.page_cache if group else {}
    parts = (shares, {node: size / (sum(cached.values()) or 1) for node, size in cached.items()})
    if not slower or not shares:
        return []
    if any(sum(part.get(node, 0.0) for node in slower) > 1 - _BOUND_SHARE for part in parts):
        return []
    counted = "its pages and of its page cache" if group else "its pages (page cache not counted)"
    return [
        RunWarning(
            "slower-memory-not-used",
            "the engine has no memory on the slower nodes: the run shows nothing of them",
            f"{policy.mode}: node {', '.join(map(str, slower))} has less than 1 % of {counted}",
            "use more data and a --memory-limit above the DRAM, or less DRAM "
            '(docs/tiers.md, "Does more, slower memory pay?")',
        )
    ]


def _filled_last(policy: MemoryPolicy, host: Sequence[Node]) -> list[int]:
    """Return the last node of tiered memory; of preferred DRAM, each node without processors."""
    if policy.mode == "tiered":
        return [policy.nodes[-1]]
    cpus = {node.node: node.cpus for node in host if node.memory_bytes}
    if policy.mode == "preferred" and all(cpus.get(node) for node in policy.nodes):
        return [node for node, near in cpus.items() if not near]
    return []


def _memory_status(
    policy: MemoryPolicy, shares: dict[int, float], least: float, host: Sequence[Node]
) -> CheckStatus:
    there = [shares.get(node, 0.0) for node in policy.nodes]
    bound = sum(there) >= least
    if policy.mode == "preferred" and not bound:
        # Linux takes another node where this one is full: the policy was kept, the placement not.
        # Not so of DRAM, of which it is meant to take slower memory then.
        slower = sum(shares.get(node, 0.0) for node in _filled_last(policy, host))
        if sum(there) + slower >= least and _are_full(policy.nodes, host):
            return "passed"
        return "unknown" if sum(there) >= _MOSTLY else "failed"
    if policy.mode == "weighted" and not policy.weights:
        return "unknown"
    if policy.mode in ("interleave", "weighted") and bound:
        weights = policy.weights or (1,) * len(there)
        shares_due = [weight / sum(weights) for weight in weights]
        pairs = zip(there, shares_due, strict=True)
        near = min(min(share, due) / max(share, due) for share, due in pairs)
        return "passed" if near >= _EVEN else "unknown" if near > _UNEVEN else "failed"
    return "passed" if bound else "failed"


def _are_full(named: Sequence[int], host: Sequence[Node]) -> bool:
    chosen = [node for node in host if node.node in named]
    return sum(node.free_bytes for node in chosen) <= _SPARE * sum(
        node.memory_bytes for node in chosen
    )


def relations_check(
    places: DataDirectories, stored: Sequence[StoredRelation], user: Credentials | None
) -> Check:
    """Check that the files of each placed relation are on the device of its directory."""
    name, folder = "relations-placed", places["relations"]
    by_relation = grouped((each.relation, each) for each in stored if each.files)
    by_table = grouped((Relation("table", each.table), each) for each in stored if each.files)
    elsewhere, moved_bytes = [], 0
    with acting_as(user):
        place, device = folder.resolve(), folder.stat().st_dev
        for relation in places.relations:
            # Of a partitioned table, its partitions.
            tables = [each for each in by_table.get(relation, ()) if each.relation.kind == "table"]
            of_it = by_relation.get(relation) or tables
            if not of_it:
                return Check(name, "unknown", f"{relation}: the engine names no files")
            for file, facts in (item for each in of_it for item in each.files.items()):
                moved_bytes += facts.st_size
                if facts.st_dev != device or not file.resolve().is_relative_to(place):
                    elsewhere.append(f"{relation}: {file}")
    if elsewhere:
        return Check(name, "failed", f"not below {folder}: {'; '.join(elsewhere[:3])}")
    named = ", ".join(map(str, places.relations))
    return Check(name, "passed", f"{named}: {format_bytes(moved_bytes)} below {folder}")


def outside_cap(cap: MemoryCap, engine: Engine) -> str:
    """Return why the cap does not hold the engine's memory, empty where it does."""
    processes = list(engine.processes())
    inside = set(cap.pids())
    if not inside:
        return "the engine works in the harness's own process" if not processes else "it is empty"
    # One that lives now was in its control group when that was read.
    alive = [process for process in processes if process_identity(process.pid) == process]
    if outside := [process.pid for process in alive if process.pid not in inside]:
        return f"process {outside[0]} of the engine is not in its control group"
    return ""


@dataclass
class EngineState:
    """Host state that an engine had and no setting decides: runs that differ are no repeats."""

    engine: Engine
    #: What was found at its starts, each once.
    _huge_bytes: dict[int, None] = field(default_factory=dict)
    _async_io: dict[str, None] = field(default_factory=dict)
    #: Libraries in place of the system's syncs.
    _syncs: set[str] = field(default_factory=set)

    def observe(self) -> None:
        """Look at the started engine."""
        pids = [process.pid for process in self.engine.processes()]
        if pids:
            self._huge_bytes[hugetlb_bytes(pids)] = None
            self._async_io[async_io(pids)] = None
            self._syncs |= sync_overrides(pids, LIBRARY)

    def facts(self) -> dict[str, str]:
        """The entry of the manifest (``run_state``)."""
        sizes = [format_bytes(size) if size else "none" for size in self._huge_bytes]
        return {
            **host_facts_of_run(),
            "huge_pages": " or ".join(sizes) or "unknown",
            "async_io": " or ".join(self._async_io) or "unknown",
        }

    def warnings(self, cap: MemoryCap | None) -> list[RunWarning]:
        """Warn of other users that reach the server, of a library in place of its syncs, and of
        huge pages of some starts only or outside of the memory limit ``cap``.
        """
        most = max(self._huge_bytes, default=0)
        warnings = []
        if reached := self.engine.exposed():
            warnings.append(
                RunWarning(
                    "server-exposed",
                    "other users of this host reach the server",
                    reached,
                    f"see docs/{self.engine.name}.md, or measure where no other user can log in",
                )
            )
        if self._syncs:
            warnings.append(
                RunWarning(
                    "commits-not-durable",
                    "commits may not wait for the log: a preloaded library replaces the server's "
                    "syncs",
                    ", ".join(sorted(self._syncs)),
                    "take it out of /etc/ld.so.preload (and LD_PRELOAD), then run again",
                )
            )
        if len(self._huge_bytes) > 1:
            warnings.append(
                RunWarning(
                    "huge-pages-vary",
                    "the engine did not have the same huge pages at each of its starts",
                    self.facts()["huge_pages"],
                    "reserve enough of them (sysctl vm.nr_hugepages), or turn them off with --set",
                )
            )
        if most and cap is not None and cap.path is not None and not charged_to_groups():
            warnings.append(
                RunWarning(
                    "huge-pages-outside-limit",
                    "the engine has huge pages in addition to its memory limit",
                    f"{format_bytes(most)}; the limit is {format_bytes(cap.limit_bytes)}",
                    "lower --memory-limit by as much, turn huge pages off with --set, or mount "
                    "cgroup2 with memory_hugetlb_accounting",
                )
            )
        return warnings


def host_facts_of_run(proc: Path = Path("/proc/self")) -> dict[str, str]:
    """The part of the manifest's ``run_state`` that does not depend on the engine."""
    least = min((quota.processors for quota in cpu_quotas(proc)), default=None)
    return {"cpu_quota": "none" if least is None else f"{least:g} processors"}
