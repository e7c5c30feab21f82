"""What memory policies need of Linux, on hand-written trees of sysfs, and what is refused."""

import re
from pathlib import Path

import pytest
from recorded_kernel import write

from harness.engine import MemoryPolicy
from harness.errors import UsageError
from harness.execution.engine_state import memory_check
from harness.execution.memory_policy import check_memory_policy
from harness.tiers.linux.kernel import Kernel
from harness.tiers.linux.numa import NodeResidency
from harness.tiers.memory_policy import (
    caches_in_the_way,
    check_room,
    means_of,
    nearer_slower,
    usable_bytes,
    weights_in_force,
)

WEIGHTS = "/sys/kernel/mm/mempolicy/weighted_interleave"
BALANCING = "/proc/sys/kernel/numa_balancing"
DEMOTION = "/sys/kernel/mm/numa/demotion_enabled"
TIERS = "/sys/devices/virtual/memory_tiering"
WEIGHTED = MemoryPolicy("weighted", (0, 2), (3, 1))
COMPUTED = MemoryPolicy("weighted", (0, 2))
TIERED = MemoryPolicy("tiered", (0, 2))
#: In the order of the kernel's files.
ZONE = """Node {node}, zone   Movable
  pages free     {free}
        boost    0
        min      10
        low      20
        high     30
        spanned  65536
        present  65536
        managed  65536
"""


def kernel(root: Path, files: dict[str, str]) -> Kernel:
    for name, text in files.items():
        write(root, name, f"{text}\n")
    return Kernel(root)


def weights(root: Path, auto: str | None, *numbers: int) -> Kernel:
    files = {f"{WEIGHTS}/node{n}": str(w) for n, w in zip((0, 2), numbers, strict=True)}
    return kernel(root, files | ({f"{WEIGHTS}/auto": auto} if auto else {}))


def with_bandwidths(root: Path) -> Kernel:
    folder = "/sys/devices/system/node/node{}/access0/initiators/read_bandwidth"
    return kernel(root, {folder.format(0): "200000", folder.format(2): "60000"})


def tiering(root: Path, *nodelists: str, balancing: str = "0", demotion: str = "false") -> Kernel:
    tiers = {
        f"{TIERS}/memory_tier{4 + number * 18}/nodelist": nodelist
        for number, nodelist in enumerate(nodelists)
    }
    return kernel(root, tiers | {BALANCING: balancing, DEMOTION: demotion})


@pytest.mark.parametrize("mode", ["bind", "preferred", "interleave"])
def test_a_policy_of_the_process_needs_nothing_else(tmp_path: Path, mode: str) -> None:
    means = means_of(MemoryPolicy(mode, (0, 2)), Kernel(tmp_path))  # type: ignore[arg-type]
    assert (means.settings, means.preloaded) == ({}, False)


def test_weights_are_set_and_what_computes_them_is_turned_off_first(tmp_path: Path) -> None:
    with_bandwidths(tmp_path)
    linux = weights(tmp_path, "true", 5, 2)
    means = means_of(WEIGHTED, linux)
    assert [*means.settings.items()] == [
        (f"{WEIGHTS}/auto", "false"),
        (f"{WEIGHTS}/node0", "3"),
        (f"{WEIGHTS}/node2", "1"),
    ]
    assert not means.preloaded
    assert weights_in_force(WEIGHTED, linux) == (5, 2)


def test_weights_that_linux_has_already_are_left_alone(tmp_path: Path) -> None:
    with_bandwidths(tmp_path)
    assert means_of(WEIGHTED, weights(tmp_path, "true", 3, 1)).settings == {}
    assert means_of(COMPUTED, weights(tmp_path, "true", 5, 2)).settings == {}


def test_weights_that_linux_is_to_compute(tmp_path: Path) -> None:
    with_bandwidths(tmp_path)
    linux = weights(tmp_path, "false", 3, 1)
    assert means_of(COMPUTED, linux).settings == {f"{WEIGHTS}/auto": "true"}
    (tmp_path / WEIGHTS[1:] / "auto").rename(tmp_path / WEIGHTS[1:] / "__auto_type")
    assert means_of(COMPUTED, linux).settings == {f"{WEIGHTS}/__auto_type": "true"}


def test_the_library_spreads_where_linux_does_not(tmp_path: Path) -> None:
    assert means_of(WEIGHTED, Kernel(tmp_path)).preloaded
    with pytest.raises(UsageError, match="computes none"):
        means_of(COMPUTED, Kernel(tmp_path))
    with pytest.raises(UsageError, match="computes none"):
        means_of(COMPUTED, weights(with_bandwidths(tmp_path).root, None, 1, 1))


def test_weights_that_linux_could_not_take_back_are_not_set(tmp_path: Path) -> None:
    """Without bandwidths of the firmware, Linux refuses to turn its own weights on again."""
    assert means_of(WEIGHTED, weights(tmp_path, "true", 1, 1)).preloaded
    assert means_of(WEIGHTED, weights(tmp_path, "false", 1, 1)).settings
    with pytest.raises(UsageError, match="computes none"):
        means_of(COMPUTED, weights(tmp_path, "true", 1, 1))


@pytest.fixture
def unwritable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.tiers.memory_policy.os.access", lambda path, mode: False)


@pytest.mark.usefixtures("unwritable")
def test_without_root_the_library_spreads_by_stated_weights_alone(tmp_path: Path) -> None:
    with_bandwidths(tmp_path)
    linux = weights(tmp_path, "false", 1, 1)
    assert means_of(WEIGHTED, linux).preloaded
    with pytest.raises(UsageError, match=" is false,") as refused:
        means_of(COMPUTED, linux)
    assert refused.value.hint.endswith("use root")


def test_tiered_memory_turns_promotion_and_demotion_on(tmp_path: Path) -> None:
    means = means_of(TIERED, tiering(tmp_path, "0-1", "2"))
    assert means.settings == {BALANCING: "2", DEMOTION: "true"}
    assert means.preloaded and means.warnings == ()
    assert means_of(TIERED, tiering(tmp_path, balancing="2", demotion="true")).settings == {}


@pytest.mark.usefixtures("unwritable")
def test_tiered_memory_needs_root_for_what_is_off(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"{BALANCING} is") as refused:
        means_of(TIERED, tiering(tmp_path, "0-1", "2"))
    assert f"echo 2 > {BALANCING}" in refused.value.hint
    assert means_of(TIERED, tiering(tmp_path, balancing="2", demotion="true")).preloaded


@pytest.mark.parametrize(
    ("nodelists", "nodes", "context"),
    [
        (["0-2"], (0, 2), "all nodes are in one memory tier"),
        (["0-1", "2"], (2, 0), "not named from fast to slow"),
        (["0-1"], (0, 2), "node 2 in tier ?"),
        ([], (0, 2), "does not show the memory tier"),
    ],
)
def test_tiered_memory_without_a_slower_tier_is_refused(
    tmp_path: Path, nodelists: list[str], nodes: tuple[int, ...], context: str
) -> None:
    with pytest.raises(UsageError) as refused:
        means_of(MemoryPolicy("tiered", nodes), tiering(tmp_path, *nodelists))
    assert context in refused.value.context
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    ("files", "context"),
    [
        ({DEMOTION: "false"}, "CONFIG_NUMA_BALANCING"),
        ({BALANCING: "0"}, "Linux 5.18"),
    ],
)
def test_tiered_memory_on_a_kernel_without_its_parts_is_refused(
    tmp_path: Path, files: dict[str, str], context: str
) -> None:
    with pytest.raises(UsageError) as refused:
        means_of(TIERED, kernel(tmp_path, files))
    assert context in refused.value.context


@pytest.mark.parametrize(("free", "codes"), [(600, ["memory-node-full"]), (700, [])])
def test_a_slow_node_without_room_is_named(tmp_path: Path, free: int, codes: list[str]) -> None:
    linux = tiering(tmp_path, "0-1", "2")
    write(
        tmp_path, "/proc/zoneinfo", ZONE.format(node=0, free=9999) + ZONE.format(node=2, free=free)
    )
    assert [warning.code for warning in means_of(TIERED, linux).warnings] == codes


@pytest.mark.parametrize(("cpus", "warned"), [((), True), ((0,), False), ((2, 3), True)])
def test_slower_memory_next_to_processors_is_named(
    tmp_path: Path, cpus: tuple[int, ...], warned: bool
) -> None:
    """Node 2 is memory alone, next to the processors of node 1; tiered with node 0."""
    linux = tiering(tmp_path, "0-1", "2")
    for node, near, far in ((0, "0-1", "10 21 28"), (1, "2-3", "21 10 17"), (2, "", "28 17 10")):
        folder = f"/sys/devices/system/node/node{node}"
        write(tmp_path, f"{folder}/cpulist", near)
        write(tmp_path, f"{folder}/distance", far)
    warnings = nearer_slower(TIERED, cpus, linux)
    assert [warning.code for warning in warnings] == ["slower-memory-nearer"] * warned
    assert all("--cpus node:0" in warning.hint for warning in warnings)
    assert nearer_slower(WEIGHTED, cpus, linux) == []


def two_nodes(root: Path) -> Kernel:
    """Node 0 with 4 GiB, of which 1 GiB is free and 1 GiB cache; node 2 with 8 GiB, all free."""
    text = "Node {0} MemTotal: {1} kB\nNode {0} MemFree: {2} kB\nNode {0} Inactive(file): {3} kB"
    sizes = {0: (4 << 20, 1 << 20, 1 << 20), 2: (8 << 20, 8 << 20, 0)}
    folder = "/sys/devices/system/node/node{}/meminfo"
    return kernel(root, {folder.format(n): text.format(n, *s) for n, s in sizes.items()})


@pytest.mark.parametrize(
    ("policy", "gib", "codes"),
    [
        (MemoryPolicy("bind", (0,)), 2, []),
        (MemoryPolicy("bind", (0,)), 3, ["memory-limit-exceeds-nodes"]),
        (MemoryPolicy("bind", (0,)), 5, None),
        (MemoryPolicy("preferred", (0,)), 5, []),
        (MemoryPolicy("interleave", (0, 2)), 4, []),
        (MemoryPolicy("interleave", (0, 2)), 6, ["memory-limit-exceeds-nodes"]),
        (WEIGHTED, 3, ["memory-limit-exceeds-nodes"]),
        (MemoryPolicy("weighted", (0, 2), (1, 3)), 8, []),
        (MemoryPolicy("weighted", (0, 2), (1, 3)), 13, None),
        (TIERED, 10, []),
        (TIERED, 11, ["memory-limit-exceeds-nodes"]),
    ],
)
def test_a_memory_limit_fits_into_the_nodes_of_the_policy(
    tmp_path: Path, policy: MemoryPolicy, gib: int, codes: list[str] | None
) -> None:
    linux = two_nodes(tmp_path)
    if codes is None:
        with pytest.raises(UsageError):
            check_room(policy, gib << 30, linux)
    else:
        assert [warning.code for warning in check_room(policy, gib << 30, linux)] == codes


@pytest.mark.parametrize(
    ("policy", "sizes"),
    [
        (MemoryPolicy("bind", (0,)), ["1 GiB", "1 GiB", "6 GiB"]),
        (WEIGHTED, ["1 GiB", "1 GiB", "4.5 GiB", "8 GiB", "0 B", "1.5 GiB"]),
        (TIERED, ["9 GiB", "1 GiB", "6 GiB"]),
    ],
)
def test_memory_elsewhere_names_what_its_nodes_have_left(
    tmp_path: Path, policy: MemoryPolicy, sizes: list[str]
) -> None:
    """Of each group of nodes: free, in caches, and its part of the limit."""
    elsewhere = NodeResidency({1: 1 << 30}, {})
    detail = memory_check(policy, elsewhere, 6 << 30, two_nodes(tmp_path)).detail
    assert re.search(".*".join(sizes), detail)


@pytest.mark.parametrize(
    ("policy", "gib", "in_the_way"),
    [
        (MemoryPolicy("bind", (0,)), 1, False),
        (MemoryPolicy("bind", (0,)), 2, True),
        (MemoryPolicy("bind", (2,)), 8, False),
        (MemoryPolicy("preferred", (0,)), 12, True),
        (MemoryPolicy("interleave", (0, 2)), 2, False),
        (MemoryPolicy("interleave", (0, 2)), 4, True),
        (WEIGHTED, 2, True),
        (TIERED, 1, False),
        (TIERED, 2, True),
    ],
)
def test_caches_are_in_the_way_where_a_node_needs_their_room(
    tmp_path: Path, policy: MemoryPolicy, gib: int, in_the_way: bool
) -> None:
    assert caches_in_the_way(policy, gib << 30, two_nodes(tmp_path)) == in_the_way


@pytest.mark.parametrize(
    ("policy", "host_gib", "gib"),
    [
        (None, 12, 12),
        (MemoryPolicy("bind", (0,)), 12, 4),
        (MemoryPolicy("bind", (2,)), 6, 6),  # less than the node has, in a control group
        (MemoryPolicy("preferred", (0,)), 12, 12),
        (TIERED, 14, 12),
    ],
)
def test_bound_memory_has_the_size_of_its_nodes(
    tmp_path: Path, policy: MemoryPolicy | None, host_gib: int, gib: int
) -> None:
    assert usable_bytes(policy, host_gib << 30, two_nodes(tmp_path)) == gib << 30


def test_a_container_that_refuses_policies_is_refused_beforehand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(mode: str, nodes: tuple[int, ...]) -> None:
        raise PermissionError(1, "set_mempolicy: Operation not permitted")

    monkeypatch.setattr("harness.execution.memory_policy.set_memory_policy", refused)
    assert check_memory_policy(None, "postgres", traced=True) == ()
    with pytest.raises(UsageError) as error:
        check_memory_policy(MemoryPolicy("bind", (0,)), "postgres", traced=True)
    assert "SYS_NICE" in error.value.hint
