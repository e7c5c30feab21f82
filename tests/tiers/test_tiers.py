"""Sources of tiers, verification of their claims, and placements on them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from recorded_kernel import RecordedKernel, load, write

import harness
from harness.engine import Credentials, MemoryPolicy
from harness.errors import HostLacksError, UsageError
from harness.experiment.placement import Relation, parse_placement
from harness.tiers.discovery import discover, emulate, find_tiers
from harness.tiers.hostfile import load_host_file
from harness.tiers.linux.kernel import Kernel
from harness.tiers.linux.model import Tier, TierClaim, TierFacts, TierKind
from harness.tiers.linux.numa import group_memory, residency
from harness.tiers.linux.probe import facts_of_directory
from harness.tiers.resolve import bound_nodes, check_dimms, check_space, free_now, resolve
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
    for named in ("'pmem'", "host.yml:4", "fsdax", str(tmp_path)):
        assert named in refused.value.problem
    assert "the kernel reports: " in refused.value.context
    assert str(tmp_path) in refused.value.hint


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/nonexistent/pmem", "no such directory"),
        ("/etc/passwd", "it is not a directory"),
        ("relative/path", "the path is not absolute"),
        ("/proc", "on proc"),
    ],
)
def test_paths_that_cannot_be_tiers(path: str, problem: str) -> None:
    with pytest.raises(UsageError) as refused:
        verify(TierClaim("pmem", "fsdax", path=path))
    assert problem in refused.value.context


def test_a_tier_that_stands_in_for_pmem_is_marked_whoever_named_it() -> None:
    tier = verify(TierClaim("pmem", "tmpfs", path="/dev/shm", source="host.yml:3"))
    assert tier.emulated
    assert tier.warnings[-1].startswith("EMULATED: pmem")


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
    assert "'nobody'" in refused.value.context
    assert refused.value.hint.startswith("chmod o+x ")


def test_numa_claims(nvdimms: RecordedKernel) -> None:
    assert verify(TierClaim("far", "numa", nodes=(3,)), kernel=nvdimms).facts.numa_node == 3
    both = TierClaim("mix", "numa", nodes=(0, 3), policy="interleave")
    sizes = [verify(TierClaim("n", "numa", nodes=(n,)), kernel=nvdimms).facts for n in (0, 3)]
    assert verify(both, kernel=nvdimms).facts.size_bytes == sum(f.size_bytes or 0 for f in sizes)
    for claim, problem in (
        (TierClaim("far", "numa", nodes=(9,)), "node 9"),
        (TierClaim("far", "numa"), "without a node"),
        (TierClaim("far", "numa", nodes=(3,), policy="interleave"), "interleave"),
        (TierClaim("far", "numa", nodes=(3,), policy="tiered"), "tiered over a single node"),
    ):
        with pytest.raises(UsageError, match=problem):
            verify(claim, kernel=nvdimms)


def test_a_node_without_memory_is_refused(tmp_path: Path) -> None:
    """An invented tree: a node that is online but empty, as before daxctl online-memory."""
    write(tmp_path, "/sys/devices/system/node/node1/meminfo", "Node 1 MemTotal: 0 kB")
    with pytest.raises(UsageError, match="node 1 "):
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


# Placements on tiers --------------------------------------------------------------


def tier(name: str, kind: TierKind = "block", **claim: Any) -> Tier:
    return Tier(TierClaim(name, kind, **claim), TierFacts(kind, filesystem_id="259:1"))


TIERS = {
    "ssd": tier("ssd", path="/var/lib"),
    "pmem": tier("pmem", "fsdax", path="/mnt/pmem0"),
    "pmem_raw": tier("pmem_raw", "devdax", device="/dev/dax0.0"),
    "cxl": tier("cxl", "numa", nodes=(2,)),
    "mixed": tier("mixed", "numa", nodes=(0, 2), policy="interleave"),
}


def test_a_placement_gets_the_tier_of_each_part_and_a_memory_policy() -> None:
    tiers, policy = resolve(parse_placement("data=ssd,wal=pmem,memory=cxl"), TIERS)
    assert {part: tier.name for part, tier in tiers.items()} == {
        "data": "ssd",
        "wal": "pmem",
        "temp": "ssd",
        "index": "ssd",
        "memory": "cxl",
    }
    assert policy == MemoryPolicy("bind", (2,))
    assert resolve(parse_placement("ssd-both"), TIERS)[1] is None
    assert resolve(parse_placement("data=ssd,memory=mixed"), TIERS)[1] == MemoryPolicy(
        "interleave", (0, 2)
    )


def test_relations_are_placed_by_name_on_one_tier() -> None:
    placement = parse_placement(
        "data=ssd,memory=interleave:cxl,mixed,table:stock=pmem,index:a.stock_pkey=pmem"
    )
    assert placement.placed_relations == (
        Relation("table", "stock"),
        Relation("index", "a.stock_pkey"),
    )
    assert placement.tiers() == ["ssd", "pmem", "cxl", "mixed"]
    tiers, _ = resolve(parse_placement("data=ssd,table:stock=pmem"), TIERS)
    assert (tiers["relations"].name, tiers["index"].name) == ("pmem", "ssd")
    assert parse_placement("ssd-both").relations is None
    for wrong in (
        "table:stock=pmem",
        "data=ssd,table:=pmem",
        "data=ssd,table:9=pmem",
        "data=ssd,table:a;b=pmem",
        "data=ssd,table:stock=",
        "data=ssd,table:stock=pmem,table:stock=pmem",
        "data=ssd,table:stock=pmem,table:item=ssd",
        "data=ssd,relations=pmem",
        "data=ssd,view:stock=pmem",
    ):
        with pytest.raises(UsageError):
            parse_placement(wrong)


NODES = {
    "ssd": tier("ssd", path="/ssd"),
    "dram": tier("dram", "numa", nodes=(0, 1), policy="bind"),
    "far": tier("far", "numa", nodes=(3,)),
}


def with_sockets(kernel: RecordedKernel) -> None:
    """Write its processors and their sockets by hand: the recording has none."""
    write(kernel.root, "/sys/devices/system/cpu/online", "0-1")
    for cpu in (0, 1):
        package = f"/sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id"
        write(kernel.root, package, str(cpu))


@pytest.mark.parametrize(
    ("memory", "policy"),
    [
        ("weighted:dram=3,far=1", MemoryPolicy("weighted", (0, 1, 3), (3, 3, 1))),
        ("weighted:dram,far", MemoryPolicy("weighted", (0, 1, 3))),
        ("preferred:far", MemoryPolicy("preferred", (3,))),
        ("tiered:dram,far", MemoryPolicy("tiered", (0, 1, 3))),
        ("socket:1", MemoryPolicy("bind", (1,))),
        ("node:3", MemoryPolicy("bind", (3,))),
        ("interleave:far", "interleave over a single node"),
        ("weighted:dram=1,far=1,ssd=1", "can only be bound to a NUMA node"),
        ("weighted:dram=1,fra=1", "no such tier: 'fra' (did you mean 'far'?)"),
        ("interleave:dram,far,mixed", "the nodes are 0, 1, 3, 0, 3"),
        ("socket:2", "there is no such socket"),
    ],
)
def test_memory_of_several_tiers_or_of_a_socket(
    nvdimms: RecordedKernel, memory: str, policy: MemoryPolicy | str
) -> None:
    """On a recorded host: node 3 is memory without processors."""
    with_sockets(nvdimms)
    mixed = tier("mixed", "numa", nodes=(0, 3))
    placement = parse_placement(f"data=ssd,memory={memory}")
    if isinstance(policy, MemoryPolicy):
        tiers, resolved = resolve(placement, NODES, nvdimms)
        assert (tiers["memory"].name, resolved) == (memory, policy)
    else:
        with pytest.raises(UsageError) as refused:
            resolve(placement, {**NODES, "mixed": mixed}, nvdimms)
        assert policy in refused.value.context


@pytest.mark.parametrize(
    ("text", "data_node", "bound"),
    [("socket:1", None, (1,)), ("socket:data", 1, (1,)), ("socket:data", None, (0,))],
)
def test_the_memory_of_a_profile_is_that_of_a_socket(
    nvdimms: RecordedKernel, text: str, data_node: int | None, bound: tuple[int, ...]
) -> None:
    with_sockets(nvdimms)
    assert bound_nodes(text, data_node, nvdimms) == bound


def test_the_only_memory_of_a_host_is_not_bound(tmp_path: Path) -> None:
    write(tmp_path, "/sys/devices/system/node/node0/meminfo", "Node 0 MemTotal: 1024 kB\n")
    write(tmp_path, "/sys/devices/system/node/node0/cpulist", "0-3\n")
    assert bound_nodes("socket:0", None, Kernel(tmp_path)) == ()
    with pytest.raises(HostLacksError, match="no such socket"):
        bound_nodes("socket:1", None, Kernel(tmp_path))


@pytest.mark.parametrize(
    ("placement", "problem", "do"),
    [
        ("pmen-both", "no such tier: 'pmen' (did you mean 'pmem'?)", "--emulate pmen"),
        ("data=ssd,wal=cxl", "is a memory node without files", "tiers that fit: pmem, ssd"),
        ("data=pmem_raw", "the character device /dev/dax0.0", "tiers that fit: pmem, ssd"),
        ("data=ssd,memory=pmem", "can only be bound to a NUMA node", "tiers that fit: cxl, mixed"),
    ],
)
def test_tiers_of_the_wrong_sort_are_refused(placement: str, problem: str, do: str) -> None:
    with pytest.raises(UsageError) as refused:
        resolve(parse_placement(placement), TIERS)
    assert problem in refused.value.context
    assert do in refused.value.hint


def on_dimms(ways: int | None, name: str = "pmem", **claim: Any) -> Tier:
    of_kernel = TierFacts("fsdax", interleave_ways=ways)
    return Tier(TierClaim(name, "fsdax", path="/mnt/pmem0", **claim), of_kernel)


@pytest.mark.parametrize(
    ("tier", "required", "hint"),
    [
        (on_dimms(6), "interleaved", None),
        (on_dimms(1), "one", None),
        (on_dimms(6), "one", "pmem2"),
        (on_dimms(1), "interleaved", "pmem_goal=AppDirect"),
        (on_dimms(None), "one", None),  # not known
        (on_dimms(6, emulates="pmem"), "one", None),
        (on_dimms(6, name="scratch"), "one", None),  # of which the profile requires nothing
    ],
)
def test_a_tier_with_other_dimms_than_the_profile_requires_is_refused(tier, required, hint):
    tiers = {"pmem2": on_dimms(1, name="pmem2")}
    with pytest.raises(UsageError) if hint else nullcontext() as refused:
        check_dimms({"pmem": required}, [tier], tiers)
    assert refused is None or hint in refused.value.hint


def test_parts_on_one_file_system_are_added_up() -> None:
    ssd, pmem = TIERS["ssd"], TIERS["pmem"]  # both on file system 259:1
    check_space([(ssd, "data", 600), (pmem, "wal", 400)], free=lambda _: 1000)
    with pytest.raises(UsageError) as refused:
        check_space([(ssd, "data", 600), (pmem, "wal", 500)], lambda _: 1000, "fewer --warehouses")
    assert refused.value.problem.endswith("'ssd' and 'pmem' (data 600 B, wal 500 B)")
    assert "1000 B are free" in refused.value.context
    assert "fewer --warehouses" in refused.value.hint


def test_free_space_is_that_of_now_and_of_the_nearest_existing_directory(tmp_path: Path) -> None:
    not_yet = tier("ssd", path=str(tmp_path / "not" / "yet"))
    status = os.statvfs(tmp_path)
    free = free_now(not_yet)
    assert free is not None
    assert abs(free - status.f_bavail * status.f_frsize) < status.f_blocks * status.f_frsize / 10
    with pytest.raises(UsageError, match="on tier 'ssd'"):
        check_space([(not_yet, "data", 1 << 60)])


def test_memory_of_this_process_is_counted_by_node() -> None:
    block = bytearray(32 << 20)
    pages = residency([os.getpid()])
    assert pages.total_bytes >= len(block)
    assert sum(pages.shares().values()) == pytest.approx(1)
    assert residency([]).shares() == {}


# Residency ------------------------------------------------------------------------------


def test_numa_maps_counts_heap_and_shared_pool_but_not_files(tmp_path: Path) -> None:
    """An invented numa_maps in the format of proc(5)."""
    write(
        tmp_path,
        "/proc/7/numa_maps",
        "5500 default heap anon=10 dirty=10 N0=4 N2=6 kernelpagesize_kB=4\n"
        "5600 default heap anon=8 dirty=8 mapmax=4 N0=8 kernelpagesize_kB=4\n"
        "7f00 bind:2 file=/dev/zero\\040(deleted) dirty=2 mapmax=4 N2=2 kernelpagesize_kB=2048\n"
        "7f40 default file=/usr/lib/libc.so.6 mapped=99 N0=99 kernelpagesize_kB=4\n",
    )
    pages = residency([7, 8], Kernel(tmp_path))
    assert pages.anonymous == {0: (4 + 8 // 4) * 4096, 2: 6 * 4096}
    assert pages.shared == {2: 2 * (2 << 20)}
    assert pages.shares()[2] == pytest.approx(1 - 6 * 4096 / pages.total_bytes)


def test_a_control_group_has_its_page_cache_by_node(tmp_path: Path) -> None:
    """A hand-written memory.numa_stat in the format of cgroup v2."""
    group = tmp_path / "group"
    assert group_memory(group) is None
    text = "anon N0=100 N2=0\nfile N0=70 N2=50\nkernel_stack N0=9 N2=0\nshmem N0=60 N2=0\n"
    write(tmp_path, "/group/memory.numa_stat", text)
    memory = group_memory(group)
    assert memory is not None
    assert memory.page_cache == {0: 10, 2: 50}
    assert memory.whole == {0: 170, 2: 50}


# Host files, discovery and emulation ----------------------------------------------


@pytest.fixture(autouse=True)
def _no_host_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.delenv("HARNESS_HOST", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path / "data"))
    yield


def host_file(tmp_path: Path, tiers: str) -> Path:
    path = tmp_path / "host.yml"
    path.write_text(f"schema: 1\ntiers:\n{tiers}", encoding="utf-8")
    return path


def test_without_a_host_file_disk_and_memory_are_found_and_nothing_is_made(tmp_path: Path) -> None:
    tiers = find_tiers()
    assert tiers["ssd"].claim.path == str(tmp_path / "data" / "tiers" / "ssd")
    assert tiers["dram"].facts.kind == "numa"
    assert not (tmp_path / "data").exists()


def test_a_host_file_names_tiers_with_prices_and_lines(tmp_path: Path) -> None:
    kind = facts_of_directory(tmp_path).kind
    path = host_file(
        tmp_path,
        f"  ssd: {{kind: {kind}, path: {tmp_path}, price_per_gb: 0.12}}\n"
        "  near: {kind: numa, node: 0, policy: preferred}\n",
    )
    tiers = find_tiers(path)
    assert tiers["ssd"].claim.price_per_gb == 0.12
    assert tiers["ssd"].claim.source == f"{path}:3"
    assert tiers["near"].claim.policy == "preferred"


@pytest.mark.parametrize(
    ("tiers", "line", "problem"),
    [
        ("  ssd: {kind: block, pth: /x}\n", 3, "unknown key 'pth' (did you mean 'path'?)"),
        ("  ssd: {kind: blok, path: /x}\n", 3, "(did you mean 'block'?)"),
        ("  ssd: {path: /x}\n", 3, "the key 'kind' is missing"),
        ("  ssd:\n    kind: block\n    kind: tmpfs\n", 5, "the key 'kind' is given twice"),
        ("  SSD: {kind: block, path: /x}\n", 3, "'SSD' is not a valid name here"),
        ("  ssd: {kind: block}\n", 3, "tiers.ssd: the tier has no place"),
        (
            "  a: {kind: block, path: /x}\n  b: {kind: numa, path: /x}\n",
            4,
            "tiers.b.path: it is not valid",
        ),
        ("  a: {kind: block, path: /x, policy: bind}\n", 3, "tiers.a.policy: it is not"),
        ("  a: {kind: numa, node: 1, nodes: [0, 1]}\n", 3, "has node and nodes"),
        ("  a: {kind: numa, nodes: [0, 1], weights: [3, 1]}\n", 3, "only policy: weighted"),
        (
            "  a: {kind: numa, nodes: [0, 1, 2], policy: weighted, weights: [3, 1]}\n",
            3,
            "a weight for each",
        ),
        ("  a: {kind: block, path: /x\n", 4, "expected"),
    ],
)
def test_a_slip_in_the_host_file_is_named_with_its_line(tmp_path, tiers, line, problem):
    path = host_file(tmp_path, tiers)
    with pytest.raises(UsageError) as refused:
        load_host_file(path)
    assert refused.value.problem == f"{path}:{line}"
    assert problem in refused.value.context


def test_a_tmpfs_stands_in_for_pmem_and_says_so() -> None:
    tier = find_tiers(None, ["pmem"])["pmem"]
    assert tier.emulated
    assert tier.facts.kind == "tmpfs"
    assert tier.record.emulates == "pmem"
    assert "EMULATED" in tier.warnings[0]


def test_a_tier_whose_claim_is_wrong_can_be_emulated(tmp_path: Path) -> None:
    path = host_file(tmp_path, "  pmem: {kind: fsdax, path: /nonexistent}\n")
    assert find_tiers(path, ["pmem"])["pmem"].emulated
    with pytest.raises(UsageError, match="pmem"):
        find_tiers(path, ["cxl"])


def test_emulation_takes_a_tmpfs_of_the_users_and_nothing_else(tmp_path: Path) -> None:
    assert emulate("pmem=/dev/shm", {}).claim.path == "/dev/shm"
    if facts_of_directory(tmp_path).kind != "tmpfs":
        with pytest.raises(UsageError, match="on a tmpfs"):
            emulate(f"pmem={tmp_path}", {})
    with pytest.raises(UsageError, match="a tier name"):
        emulate("P Mem", {})


def test_emulation_does_not_follow_another_user_s_link(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/dev/shm")
    with pytest.raises(UsageError, match=f"{link} is not"):
        emulate(f"pmem={link}", {})


def test_a_real_tier_is_not_emulated() -> None:
    real = {"ram": find_tiers()["ssd"]}
    with pytest.raises(UsageError, match="'ram'"):
        emulate("ram", real)


def test_probing_needs_the_standard_library_alone() -> None:
    """The test machine's own Python runs it (tests/vm/guest_probe.py)."""
    root = str(Path(harness.__file__).parents[1])
    program = (
        f"import sys; sys.path.insert(0, {root!r});"
        "import harness.host.facts, harness.tiers.discovery, harness.tiers.verify"
    )
    subprocess.run([sys.executable, "-I", "-S", "-c", program], check=True)
