"""Host files, discovery and emulation: where tiers come from."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from recorded_kernel import RecordedKernel, load

import harness
from harness import paths
from harness.errors import UsageError
from harness.paths import data_folder
from harness.tiers.discovery import discover, emulate, find_tiers, find_tiers_and_problems
from harness.tiers.hostfile import find_host_file, load_host_file, search_order
from harness.tiers.linux.model import TIER_KINDS
from harness.tiers.linux.probe import facts_of_directory

EXAMPLE = data_folder("profiles") / "hosts" / "example.yml"


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
    ("tiers", "line", "found"),
    [
        ("  ssd: {kind: block, pth: /x}\n", 3, "unknown key 'pth' (did you mean 'path'?)"),
        ("  ssd: {kind: blok, path: /x}\n", 3, '"blok" is not one of'),
        ("  ssd: {path: /x}\n", 3, '"kind" is a required property'),
        ("  ssd:\n    kind: block\n    kind: tmpfs\n", 5, "the key 'kind' is given twice"),
        ("  SSD: {kind: block, path: /x}\n", 3, "'SSD' is not a valid name here"),
        ("  ssd: {kind: block}\n", 3, "tier 'ssd' has no place"),
        ("  a: {kind: block, path: /x}\n  b: {kind: numa, path: /x}\n", 4, "'path' is not valid"),
        ("  a: {kind: block, path: /x, policy: bind}\n", 3, "'policy' is not valid with"),
        ("  a: {kind: numa, node: 1, nodes: [0, 1]}\n", 3, "has node and nodes"),
        ("  a: {kind: block, path: /x\n", 4, "expected"),
    ],
)
def test_a_slip_in_the_host_file_is_named_with_its_line(
    tmp_path: Path, tiers: str, line: int, found: str
) -> None:
    path = host_file(tmp_path, tiers)
    with pytest.raises(UsageError) as refused:
        load_host_file(path)
    assert refused.value.problem == f"{path}:{line}"
    assert found in refused.value.context


def test_the_named_file_comes_before_the_environment_and_the_usual_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = tmp_path / "config" / "harness" / "host.yml"
    usual.parent.mkdir(parents=True)
    for path in (usual, tmp_path / "env.yml", tmp_path / "named.yml"):
        path.write_text("schema: 1\ntiers: {}\n", encoding="utf-8")
    assert find_host_file() == usual
    monkeypatch.setenv("HARNESS_HOST", str(tmp_path / "env.yml"))
    assert find_host_file() == tmp_path / "env.yml"
    assert find_host_file(tmp_path / "named.yml") == tmp_path / "named.yml"
    with pytest.raises(UsageError, match="no such file"):
        find_host_file(tmp_path / "absent.yml")


def test_a_user_without_a_home_gets_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    """``expanduser`` looks into passwd for this user, whom it does not know."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    assert search_order() == [Path("/etc/harness/host.yml")]
    assert paths.state_dir() == paths.data_root() / "state"
    monkeypatch.delenv("HARNESS_DATA")
    for place in (paths.data_root, paths.state_dir):
        with pytest.raises(UsageError, match="no home directory") as refused:
            place()
        assert "HARNESS_DATA" in refused.value.hint


def test_the_example_host_file_shows_every_kind() -> None:
    example = load_host_file(EXAMPLE)
    assert {claim.kind for claim in example.claims} == set(TIER_KINDS)
    by_name = {claim.name: claim for claim in example.claims}
    assert by_name["cxl"].nodes == (2,)
    assert by_name["spread"].nodes == (0, 2)
    assert by_name["fake"].emulates == "pmem"
    assert example.data_dir == Path("/var/lib/tierbench")


def test_the_doctor_gets_the_good_tiers_and_every_problem(tmp_path: Path) -> None:
    path = host_file(
        tmp_path,
        "  ram: {kind: tmpfs, path: /dev/shm}\n"
        "  pmem: {kind: fsdax, path: /nonexistent}\n"
        "  far: {kind: numa, node: 4095}\n",
    )
    tiers, problems = find_tiers_and_problems(path)
    assert list(tiers) == ["ram"]
    assert [problem.problem.split("'")[1] for problem in problems] == ["pmem", "far"]
    with pytest.raises(UsageError, match="pmem"):
        find_tiers(path)


def test_a_tmpfs_stands_in_for_pmem_and_says_so() -> None:
    tier = find_tiers(None, ["pmem"])["pmem"]
    assert tier.emulated
    assert tier.facts.kind == "tmpfs"
    assert tier.to_json()["emulates"] == "pmem"
    assert "EMULATED" in tier.warnings[0]


def test_a_tier_whose_claim_is_wrong_can_be_emulated(tmp_path: Path) -> None:
    path = host_file(tmp_path, "  pmem: {kind: fsdax, path: /nonexistent}\n")
    assert find_tiers(path, ["pmem"])["pmem"].emulated
    with pytest.raises(UsageError, match="pmem"):
        find_tiers(path, ["cxl"])


def test_emulation_takes_a_tmpfs_of_the_users_and_nothing_else(tmp_path: Path) -> None:
    assert emulate("pmem=/dev/shm", {}).claim.path == "/dev/shm"
    if facts_of_directory(tmp_path).kind != "tmpfs":
        with pytest.raises(UsageError, match="not on a tmpfs"):
            emulate(f"pmem={tmp_path}", {})
    with pytest.raises(UsageError, match="not a tier name"):
        emulate("P Mem", {})


def test_emulation_does_not_follow_another_user_s_link(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/dev/shm")
    with pytest.raises(UsageError, match="not a directory of this user"):
        emulate(f"pmem={link}", {})


def test_a_real_tier_is_not_emulated() -> None:
    real = {"ram": find_tiers()["ssd"]}
    with pytest.raises(UsageError, match="a real tier has the name 'ram'"):
        emulate("ram", real)


@pytest.fixture
def nvdimms(tmp_path: Path) -> RecordedKernel:
    return load("two-nvdimms-eadr", tmp_path / "recorded")


def test_a_read_only_mount_is_no_tier(nvdimms: RecordedKernel) -> None:
    tiers = discover(Path("/"), nvdimms)
    paths = {tier.claim.path for tier in tiers.values()}
    assert "/mnt/ext4-dax" in paths
    assert "/mnt/read-only" not in paths


def test_probing_needs_the_standard_library_alone() -> None:
    """The test machine's own Python runs it (tests/vm/guest_probe.py)."""
    root = str(Path(harness.__file__).parents[1])
    program = (
        f"import sys; sys.path.insert(0, {root!r});"
        "import harness.host.facts, harness.tiers.discovery, harness.tiers.verify"
    )
    subprocess.run([sys.executable, "-I", "-S", "-c", program], check=True)
