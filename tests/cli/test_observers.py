"""Second executions under an observer, by the command, with a stand-in for VTune."""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pytest

RUN = ("run", "tpch", "--engine", "duckdb", "--placement", "ssd-both", "--scale", "0.01",
       "--queries", "6", "--json")  # fmt: skip
STAND_INS = Path(__file__).parents[1] / "observers"


@pytest.fixture
def vtune(loaded: Any) -> Path:
    home = Path(tempfile.mkdtemp(dir=loaded.root))
    home.chmod(0o755)  # the servers' user runs it, too
    folder = home / "bin64"
    folder.mkdir(mode=0o755)
    shutil.copy(STAND_INS / "fake_vtune.py", folder / "vtune")
    shutil.copy(STAND_INS / "stand_in.py", folder)
    (folder / "vtune").chmod(0o755)
    return folder


def observed(loaded: Any, vtune: Path) -> Any:
    argv = (*RUN, "--again", "--observe", "vtune:memory-access")
    done = loaded(*argv, VTUNE_HOME=str(vtune.parent))
    run = done.run
    assert run["status"] == "complete"
    return run


def test_a_second_execution_adds_figures_and_keeps_the_tree(loaded, vtune, tmp_path):
    run = observed(loaded, vtune)
    timed = [m for m in run["metrics"] if m["name"] == "query_duration_ns"]
    assert len(timed) == 1  # the second execution is not measured
    found = {m["labels"]["path"]: m["value"] for m in run["metrics"] if "observed" in m["name"]}
    assert found["Memory Bound / DRAM Bound"] == 70.7
    kept = loaded.results / "runs" / run["run_id"] / "observers/vtune-memory-access"
    assert (kept / "tree/summary.csv").exists()
    exported = tmp_path / "runs.tar.gz"
    assert loaded("runs", "export", run["run_id"], "-o", exported).code == 0
    with tarfile.open(exported) as archive:
        assert not [name for name in archive.getnames() if "observers" in name]
    assert loaded.settled() == []


def test_an_observer_that_fails_leaves_the_timed_result(loaded: Any, vtune: Path) -> None:
    (vtune / "no-rights").touch()
    run = observed(loaded, vtune)
    (warning,) = [one for one in run["uncontrolled"] if one["code"] == "observer-failed"]
    assert "insufficient rights" in warning["found"]
    assert [m for m in run["metrics"] if m["name"] == "query_duration_ns"]


def test_each_configuration_of_a_suite_is_observed_alone(loaded, vtune, tmp_path):
    suite = tmp_path / "two.yml"
    suite.write_text(
        "schema: 1\nname: two\ndescription: d\ndefaults: {range: 16MiB, duration: 20ms}\n"
        "measurements: {reads: {matrix: {access: [64, 256]}, "
        "args: {kernel: load, pattern: random}}}\n"
    )
    argv = ("run", "micro", "--suite", suite, "--tier", "dram", "--repeats", "2", "--json")
    run = loaded(*argv, "--observe", "vtune:memory-access", VTUNE_HOME=str(vtune.parent)).run
    figures = {
        m["labels"]["configuration"]: m["value"]
        for m in run["metrics"]
        if m["name"] == "observed_value" and m["labels"]["path"] == "Memory Bound / DRAM Bound"
    }
    assert figures == {"reads/access=64": 70.7, "reads/access=256": 70.7}
    rates = [m for m in run["metrics"] if m["name"] == "bandwidth_bytes_per_second"]
    assert [len(m["samples"]) for m in rates] == [2, 2]  # of the timed execution alone
    trees = loaded.results / "runs" / run["run_id"] / "observers/vtune-memory-access"
    assert sorted(one.name for one in trees.iterdir()) == ["0", "1"]
    assert not [w for w in run["uncontrolled"] if w["code"] == "observer-failed"]


@pytest.mark.parametrize(
    ("suite", "params", "configurations"),
    [
        ("ioping", ["requests=10", "working_set=1MiB", "only=*read*"], 2),
        ("file-io", ["size=1MiB", "duration=50ms", "only=read"], 3),
    ],
)
def test_so_is_each_of_other_programs(
    loaded: Any, vtune: Path, suite: str, params: list[str], configurations: int
) -> None:
    options = [word for param in params for word in ("-p", param)]
    argv = ("run", "micro", "--suite", suite, "--tier", "ssd", *options, "--repeats", "2", "--json")
    run = loaded(*argv, "--observe", "vtune:memory-access", VTUNE_HOME=str(vtune.parent)).run
    timed = [m for m in run["metrics"] if m["name"] == "operation_mean_duration_ns"]
    assert [len(m["samples"]) for m in timed] == [2] * configurations
    observed = [
        m["labels"]
        for m in run["metrics"]
        if m["name"] == "observed_value" and m["labels"]["path"] == "Memory Bound / DRAM Bound"
    ]
    for name in ("measurement", "configuration"):
        assert sorted(m[name] for m in observed) == sorted(m["labels"][name] for m in timed)
    assert not [w for w in run["uncontrolled"] if w["code"] == "observer-failed"]
