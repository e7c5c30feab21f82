"""Host files, discovery and emulation: where tiers come from."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import harness
from harness.errors import UsageError
from harness.tiers.discovery import emulate, find_tiers
from harness.tiers.hostfile import load_host_file
from harness.tiers.linux.probe import facts_of_directory


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
def test_a_slip_in_the_host_file_is_named_with_its_line(tmp_path, tiers, line, found):
    path = host_file(tmp_path, tiers)
    with pytest.raises(UsageError) as refused:
        load_host_file(path)
    assert refused.value.problem == f"{path}:{line}"
    assert found in refused.value.context


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


def test_probing_needs_the_standard_library_alone() -> None:
    """The test machine's own Python runs it (tests/vm/guest_probe.py)."""
    root = str(Path(harness.__file__).parents[1])
    program = (
        f"import sys; sys.path.insert(0, {root!r});"
        "import harness.host.facts, harness.tiers.discovery, harness.tiers.verify"
    )
    subprocess.run([sys.executable, "-I", "-S", "-c", program], check=True)
