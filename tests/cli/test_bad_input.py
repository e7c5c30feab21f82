"""Bad input: a clear message, exit code 2, and nothing left behind."""

import os
import subprocess

import pytest

from harness.tiers.linux.ext4 import EAGER

RUN = ["run", "tpch", "--engine", "duckdb", "--placement", "ssd-both", "--scale", "0.01"]


def changed(**options: str) -> list[str]:
    argv = list(RUN)
    for name, value in options.items():
        if name == "workload":
            argv[1] = value
        elif f"--{name}" in argv:
            argv[argv.index(f"--{name}") + 1] = value
        else:
            argv += [f"--{name.replace('_', '-')}", value]
    return argv


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"engine": "duckbd"}, "'duckdb'"),
        ({"workload": "tpch2"}, "'tpch'"),
        ({"placement": "pmen-both"}, "pmen"),
        ({"placement": "ssd"}, "ssd-both"),
        ({"placement": "data=ssd,index=ssd"}, "index"),
        ({"scale": "0"}, "scale"),
        ({"memory_limit": "4G"}, "not a size"),
        ({"tuning": "compute"}, "'computed'"),
        ({"set": "thread=4"}, "thread"),
        ({"param": "scal=1"}, "scal"),
        ({"option": "prefx=/x"}, "prefx"),
        ({"host": "/nonexistent/host.yml"}, "/nonexistent/host.yml"),
        ({"memory_limit": "1MiB"}, "128 MiB"),
        ({"memory_limit": "900TiB"}, "900 TiB"),
        ({"param": "scale=0.02"}, "--param scale=0.02"),
        ({"users": "4"}, "tpcc"),
        ({"param": "home=all"}, "tpcc"),
    ],
    ids=lambda value: next(iter(value.items())).__str__() if isinstance(value, dict) else "",
)
def test_what_can_be_known_beforehand_is_exit_2_and_leaves_nothing(harness, options, problem):
    assert problem in harness.refused(*changed(**options))
    assert harness.settled() == []


def host_file(harness, path, kind="block") -> str:
    file = harness.root / "host.yml"
    file.write_text(f"schema: 1\ntiers:\n  ssd: {{kind: {kind}, path: {path}}}\n")
    return str(file)


def test_a_claim_that_the_kernel_denies_names_both(harness):
    error = harness.refused(*changed(host=host_file(harness, harness.root, "fsdax")))
    assert "host.yml:3" in error and "fsdax" in error


@pytest.fixture
def ext4_disk(harness):
    """A real ext4 file system of 48 MiB; unmounted at the end."""
    image, target = harness.root / "disk.img", harness.root / "disk"
    with image.open("wb") as stream:
        stream.truncate(48 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-E", EAGER, image], check=True)
    target.mkdir()
    subprocess.run(["mount", "-o", "loop", image, target], check=True)
    yield target
    subprocess.run(["umount", "-l", target], check=False)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system needs root")


@needs_root
def test_a_tier_without_space_is_told_before_anything_is_loaded(harness, ext4_disk):
    error = harness.refused(*changed(host=host_file(harness, ext4_disk), scale="1"))
    assert "free" in error and "--scale" in error
    assert not (harness.data / "source").exists()


@needs_root
def test_work_directories_without_space_are_told_beforehand(harness, ext4_disk):
    error = harness.refused(*changed(), HARNESS_DATA=str(ext4_disk))
    assert "'work directories'" in error and str(ext4_disk) in error


@needs_root
def test_a_read_only_tier_is_told(harness, ext4_disk):
    subprocess.run(["mount", "-o", "remount,ro", ext4_disk], check=True)
    assert "read-only" in harness.refused(*changed(host=host_file(harness, ext4_disk)))


@pytest.mark.parametrize("where", ["tier", "data"])
def test_a_path_that_the_engine_cannot_name_is_refused_before_the_load(harness, where):
    odd = harness.root / "a:b"
    odd.mkdir()
    environment = {"HARNESS_DATA": str(odd)} if where == "data" else {}
    tier = odd if where == "tier" else harness.root
    file = host_file(harness, tier)
    argv = ("run", "ycsb", "--engine", "mysql", "--placement", "ssd-both", "--host", file)
    assert str(odd) in harness.refused(*argv, **environment)
    assert not list(odd.rglob("*golden*/*"))
