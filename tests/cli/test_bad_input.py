"""Bad input: a clear message, exit code 2, and nothing left behind."""

from __future__ import annotations

import os
import subprocess

import pytest

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
    ("options", "found"),
    [
        ({"engine": "duckbd"}, "did you mean 'duckdb'?"),
        ({"workload": "tpch2"}, "did you mean 'tpch'?"),
        ({"placement": "pmen-both"}, "pmen"),
        ({"placement": "ssd"}, "not in the placement grammar"),
        ({"placement": "data=ssd,index=ssd"}, "index"),
        ({"scale": "0"}, "scale"),
        ({"scale": "lots"}, "scale"),
        ({"scale": "nan"}, "scale"),
        ({"queries": "1,23"}, "23"),
        ({"cache": "hot"}, "hot"),
        ({"memory_limit": "4G"}, "not a size"),
        ({"tuning": "compute"}, "did you mean 'computed'?"),
        ({"set": "thread=4"}, "thread"),
        ({"param": "scal=1"}, "scal"),
        ({"option": "prefx=/x"}, "prefx"),
        ({"host": "/nonexistent/host.yml"}, "no such file"),
        ({"memory_limit": "1MiB"}, "less than any engine needs"),
        ({"memory_limit": "900TiB"}, "900 TiB"),
        ({"param": "scale=0.02"}, "scale is given twice"),
        ({"users": "4"}, "--users is an option of tpcc"),
        ({"param": "home=all"}, "home is a parameter of tpcc"),
    ],
    ids=lambda value: next(iter(value.items())).__str__() if isinstance(value, dict) else "",
)
def test_what_can_be_known_beforehand_is_exit_2_and_leaves_nothing(harness, options, found):
    done = harness(*changed(**options))
    assert done.code == 2, done.err
    assert found in done.err
    assert "Traceback" not in done.err
    assert harness.settled() == []
    assert not list(harness.results.glob("runs/*"))


def test_a_run_without_an_engine_names_those_there_are(harness):
    done = harness("run", "tpch", "--placement", "ssd-both")
    assert done.code == 2
    assert "duckdb" in done.err
    assert "postgres" in done.err


def test_errors_are_json_too(harness):
    done = harness(*changed(scale="0"), "--json")
    assert done.code == 2
    assert set(done.json["error"]) == {"type", "problem", "context", "hint"}
    assert done.json["runs"] == []


def test_a_typo_in_a_profile_names_file_line_and_nearest_key(harness):
    profile = harness.root / "mine.yml"
    profile.write_text(
        "schema: 1\nname: mine\ndescription: d\nworkload: tpch\n"
        "axes:\n  engine: [duckdb]\n  placment: [ssd-both]\n"
    )
    done = harness("experiment", "run", profile)
    assert done.code == 2
    assert "mine.yml:7" in done.err
    assert "did you mean 'placement'?" in done.err


def host_file(harness, path) -> str:
    file = harness.root / "host.yml"
    file.write_text(f"schema: 1\ntiers:\n  ssd: {{kind: block, path: {path}}}\n")
    return str(file)


def test_a_claim_that_the_kernel_denies_names_both(harness):
    file = harness.root / "host.yml"
    file.write_text(f"schema: 1\ntiers:\n  ssd: {{kind: fsdax, path: {harness.root}}}\n")
    done = harness(*changed(host=str(file)))
    assert done.code == 2
    assert "host.yml:3" in done.err
    assert "fsdax" in done.err


@pytest.fixture
def ext4_disk(harness):
    """A real ext4 file system of 48 MiB; unmounted at the end."""
    image, target = harness.root / "disk.img", harness.root / "disk"
    with image.open("wb") as stream:
        stream.truncate(48 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    target.mkdir()
    subprocess.run(["mount", "-o", "loop", image, target], check=True)
    yield target
    subprocess.run(["umount", "-l", target], check=False)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system needs root")


@needs_root
def test_a_tier_without_space_is_told_before_anything_is_loaded(harness, ext4_disk):
    done = harness(*changed(host=host_file(harness, ext4_disk), scale="1"))
    assert done.code == 2
    assert "free" in done.err
    assert "a smaller --scale" in done.err
    assert not (harness.data / "source").exists()


@needs_root
def test_a_read_only_tier_is_told(harness, ext4_disk):
    subprocess.run(["mount", "-o", "remount,ro", ext4_disk], check=True)
    done = harness(*changed(host=host_file(harness, ext4_disk)))
    assert done.code == 2
    assert "read-only" in done.err


def test_a_server_that_nobody_answers_at_is_told(harness):
    dsn = "host=127.0.0.1 port=1 dbname=x connect_timeout=2"
    done = harness(
        "run", "tpch", "--engine", "postgres", "--dsn", dsn, "--cache", "warm", "--scale", "0.01"
    )
    assert done.code == 2
    assert "port=1" in done.err or "port 1" in done.err
    assert "refused" in done.err


def test_results_that_cannot_be_written_are_told(harness):
    blocked = harness.root / "file"
    blocked.write_text("")
    for place, more in ((blocked / "below", ()), (blocked, ("--dry-run",)), (blocked, ())):
        done = harness(*RUN, "--results", str(place), *more)
        assert done.code == 2
        assert "--results" in done.err
        assert "waiting" not in done.err
