"""The environment of an engine's processes: a library that is preloaded, and its options."""

from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from harness.experiment.profile import expand
from harness.experiment.server_environment import parse_environment
from harness.yamlfile import parse_yaml

#: It replaces malloc, as an allocator does, and comes with the C library.
LIBRARY = "/usr/lib/x86_64-linux-gnu/libc_malloc_debug.so.0"
PROFILE = """\
schema: 1
name: allocators
description: two allocators
workload: ycsb
axes:
  engine: [postgres]
  configuration:
    - {label: plain}
    - {label: debug, env: {MALLOC_ARENA_MAX: 2}}
  placement: [ssd-both]
"""


@pytest.mark.parametrize("engine", ["postgres", "rocksdb"])
def test_arms_differ_in_a_library_that_is_preloaded(loaded: Any, engine: str) -> None:
    size = ("--records", "500", "--operations", "300", "--ramp-up", "0s", "--threads", "2")
    arms = ("--arm", "plain:", "--arm", f"debug:--env LD_PRELOAD={LIBRARY}")
    command = ("run", "ycsb", "--engine", engine, "--placement", "ssd-both", *size)
    done = loaded(*command, "--env", "MALLOC_ARENA_MAX=2", *arms, "--json")
    assert done.code == 0
    plain, debug = sorted(done.json["runs"], key=lambda run: len(run["spec"]["env"]))
    assert plain["spec"]["env"] == {"MALLOC_ARENA_MAX": "2"}
    assert debug["spec"]["env"] == {"MALLOC_ARENA_MAX": "2", "LD_PRELOAD": LIBRARY}
    checks = {check["name"]: check["status"] for check in debug["checks"]}
    assert checks["preloaded-libraries"] == "passed"
    assert any(m["name"].startswith("window_io_") for m in debug["metrics"]), "is traced, too"
    compared = loaded("compare", "arm=plain", "arm=debug")
    assert compared.code == 0 and f"LD_PRELOAD={LIBRARY}" in compared.out
    assert loaded(*command, "--env", "MALLOC_ARENA_MAX=4").code == 0
    compared = loaded("compare", "MALLOC_ARENA_MAX=2,arm=plain", "MALLOC_ARENA_MAX=4")
    assert compared.code == 0 and "MALLOC_ARENA_MAX=4" in compared.out


def test_a_profile_sets_it_by_arm_and_names_the_line() -> None:
    runs = expand(parse_yaml(PROFILE, "p.yml")).runs
    assert [run.env for run in runs] == [{}, {"MALLOC_ARENA_MAX": "2"}]
    assert "env" not in runs[0].to_json()
    with pytest.raises(UsageError) as refused:
        expand(parse_yaml(PROFILE.replace("MALLOC_ARENA_MAX", "PATH"), "p.yml"))
    assert refused.value.problem.startswith("p.yml:9")


@pytest.mark.parametrize(
    "name", ["PATH", "HOME", "LC_ALL", "LD_LIBRARY_PATH", "LD_AUDIT", "PGDATA", "MYSQL_PWD",
             "AWS_SECRET_ACCESS_KEY", "HARNESS_DATA", "TIERBENCH_MEMORY", "A-B"],
)  # fmt: skip
def test_what_would_break_or_leak_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        parse_environment(name, "x")


def test_values_are_recorded_as_they_take_effect() -> None:
    assert parse_environment("MALLOC_CONF", "thp:always,lg_chunk:21") == "thp:always,lg_chunk:21"
    assert parse_environment("LD_PRELOAD", "/a.so  /b.so:/c.so") == "/a.so:/b.so:/c.so"
    with pytest.raises(UsageError) as refused:
        parse_environment("PROXY", "http://user:word@host")
    assert "word" not in str(refused.value)


@pytest.mark.parametrize("path", ["/nonexistent.so", "libjemalloc.so.2", "{text}"])
def test_a_library_that_would_not_be_loaded_is_an_error_of_usage(
    harness: Any, tmp_path: Path, path: str
) -> None:
    (tmp_path / "text.so").write_text("no library")
    library = path.format(text=tmp_path / "text.so")
    command = ("run", "ycsb", "--engine", "postgres", "--placement", "ssd-both", "--dry-run")
    done = harness(*command, "--env", f"LD_PRELOAD={library}")
    assert done.code == 2 and library in done.err
