"""Claims against the kernel: what is refused, in which words."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded_kernel import RecordedKernel, load, write

from harness.engine import Credentials
from harness.errors import UsageError
from harness.tiers.discovery import discover
from harness.tiers.linux.kernel import Kernel
from harness.tiers.linux.model import Tier, TierClaim, TierFacts
from harness.tiers.linux.probe import facts_of_directory
from harness.tiers.verify import describe, mark_emulated, remedy, verify


@pytest.fixture(scope="module")
def nvdimms(tmp_path_factory: pytest.TempPathFactory) -> RecordedKernel:
    return load("two-nvdimms-eadr", tmp_path_factory.mktemp("recorded"))


def test_a_true_claim_becomes_a_tier(tmp_path: Path) -> None:
    kind = facts_of_directory(tmp_path).kind
    tier = verify(TierClaim("ssd", kind, path=str(tmp_path)))
    assert tier.facts.kind == kind
    assert not tier.emulated
    assert tier.record.facts.mount_options


def test_pmem_that_is_no_pmem_is_refused_before_the_root_disk_is_written(tmp_path: Path) -> None:
    claim = TierClaim("pmem", "fsdax", path=str(tmp_path), source="host.yml:4")
    with pytest.raises(UsageError) as refused:
        verify(claim)
    assert refused.value.problem == f"tier 'pmem' in host.yml:4 has kind fsdax at {tmp_path}"
    assert "the kernel reports: " in refused.value.context
    assert f"nothing is mounted at {tmp_path}" in refused.value.hint


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/nonexistent/pmem", "no such directory"),
        ("/etc/passwd", "it is not a directory"),
        ("relative/path", "the path is not absolute"),
        ("/proc", "on proc"),
    ],
)
def test_paths_that_cannot_be_tiers(path: str, found: str) -> None:
    with pytest.raises(UsageError) as refused:
        verify(TierClaim("pmem", "fsdax", path=path))
    assert found in refused.value.context


def test_a_tier_that_stands_in_for_pmem_is_marked_whoever_named_it() -> None:
    tier = verify(TierClaim("pmem", "tmpfs", path="/dev/shm", source="host.yml:3"))
    assert tier.emulated
    assert tier.warnings[-1] == "EMULATED: pmem is a tmpfs"


@pytest.mark.parametrize(
    ("name", "emulates"),
    [
        ("pmem1", "pmem"), ("optane", "optane"), ("cxl", "cxl"), ("ssd", "ssd"),
        ("small", "small"), ("ramses", "ramses"),
        ("ram", None), ("ram2", None), ("tmpfs", None), ("dram_0", None), ("shm", None),
    ],
)  # fmt: skip
def test_a_tmpfs_is_emulated_unless_its_name_promises_no_more(name, emulates):
    assert verify(TierClaim(name, "tmpfs", path="/dev/shm")).claim.emulates == emulates


def test_an_optane_ssd_is_a_disk_and_a_disk_is_no_pmem() -> None:
    disk = TierFacts("block")
    assert not mark_emulated(Tier(TierClaim("optane", "block", path="/x"), disk)).emulated
    pmem = mark_emulated(Tier(TierClaim("pmem", "block", path="/x"), disk))
    assert pmem.claim.emulates == "pmem"


def test_a_default_tier_that_lies_in_memory_stands_in_for_a_disk() -> None:
    assert discover(Path("/dev/shm/not-yet"))["ssd"].claim.emulates == "ssd"


def test_a_user_who_may_not_enter_is_found_beforehand(tmp_path: Path) -> None:
    kind = facts_of_directory(tmp_path).kind
    closed = tmp_path / "closed"
    (closed / "tier").mkdir(parents=True)
    closed.chmod(0o700)
    with pytest.raises(UsageError) as refused:
        verify(
            TierClaim("ssd", kind, path=str(closed / "tier")), Credentials(65534, 65534, "nobody")
        )
    assert "the engines' user 'nobody' may not enter" in refused.value.context
    assert refused.value.hint.startswith("chmod o+x ")


def test_numa_claims(nvdimms: RecordedKernel) -> None:
    assert verify(TierClaim("far", "numa", nodes=(3,)), kernel=nvdimms).facts.numa_node == 3
    both = TierClaim("mix", "numa", nodes=(0, 3), policy="interleave")
    sizes = [verify(TierClaim("n", "numa", nodes=(n,)), kernel=nvdimms).facts for n in (0, 3)]
    assert verify(both, kernel=nvdimms).facts.size_bytes == sum(f.size_bytes or 0 for f in sizes)
    for claim, found in (
        (TierClaim("far", "numa", nodes=(9,)), "node 9"),
        (TierClaim("far", "numa"), "without a node"),
        (TierClaim("far", "numa", nodes=(3,), policy="interleave"), "interleave"),
    ):
        with pytest.raises(UsageError, match=found):
            verify(claim, kernel=nvdimms)


def test_a_node_without_memory_is_refused(tmp_path: Path) -> None:
    """An invented tree: a node that is online but empty, as before daxctl online-memory."""
    write(tmp_path, "/sys/devices/system/node/node1/meminfo", "Node 1 MemTotal: 0 kB")
    with pytest.raises(UsageError, match="node 1 has no memory"):
        verify(TierClaim("far", "numa", nodes=(1,)), kernel=Kernel(tmp_path))


def test_devdax_claims(nvdimms: RecordedKernel) -> None:
    tier = verify(TierClaim("raw", "devdax", device="/dev/dax1.4"), kernel=nvdimms)
    assert tier.facts.persistence_domain == "cpu_cache"
    with pytest.raises(UsageError) as refused:
        verify(TierClaim("raw", "devdax", device="/dev/dax1.5"), kernel=nvdimms)
    assert "driver kmem" in refused.value.context
    with pytest.raises(UsageError) as refused:
        verify(TierClaim("raw", "devdax", device="/dev/dax7.0"), kernel=nvdimms)
    assert "/dev/dax1.4" in refused.value.hint


def test_the_sector_trap_in_words(nvdimms: RecordedKernel) -> None:
    facts = facts_of_directory("/mnt/xfs-on-sector", nvdimms)
    claim = TierClaim("pmem", "fsdax", path="/mnt/xfs-on-sector")
    assert describe(facts).startswith("xfs on sector namespace namespace0.2 (/dev/pmem0.2s)")
    assert "no DAX" in describe(facts)
    assert "ignores it" in remedy(claim, facts, nvdimms)
