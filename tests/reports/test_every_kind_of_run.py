"""All commands that read finished runs, on a store with all kinds of them, as text and JSON."""

import json
import shlex
from pathlib import Path
from typing import Any

import explained_runs
import pytest
import test_over_time
from micro_runs import card_run, numa_tier
from report_runs import Case, demo, driven, metric, write, write_unfinished
from test_report_workloads import PARAMS, tpcc_runs, ycsb
from typer.main import get_command
from typer.testing import CliRunner

from harness.cli import show
from harness.cli.app import app
from harness.models.make import model_of
from harness.store.run_store import Store
from harness.terminal import command_lines

COMMANDS = (
    ("conclusions",),
    ("conclusions", "--paper", "perma-bench"),
    ("explain",),
    ("explain", "--anyway"),
    ("report", "--anyway", "-o", "OUT"),
    ("report", "--experiment", "demo", "--over", "placement", "-o", "OUT"),
    ("compare", "placement=ssd-both,engine=duckdb", "placement=pmem-both,engine=duckdb"),
    ("compare", "placement=ssd-both", "placement=pmem-both", "--all", "--anyway"),
    ("card", "-o", "OUT"),
    ("site", "OUT/site"),
    ("paper", "PAPER", "--budget", "1ns", "--emulate", "pmem", "-o", "OUT"),
    ("runs", "list"),
)
PAPER = """
schema: 1
title: "A paper"
figures:
  - {figure: "Figure 1", profile: figure1.yml}
  - {figure: "Figure 2", missing: "needs another machine"}
"""
PROFILE = """
schema: 1
name: demo
description: one query
workload: tpch
axes: {placement: [ssd-both, pmem-both, missing-both]}
fixed: {engine: duckdb, params: {scale: 1, queries: [1, 6], cache: cold-per-query}}
"""


@pytest.fixture(scope="module")
def store(undrawn: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("results")
    write_every_kind(root)
    return root


def write_every_kind(root: Path) -> None:
    demo(root, blocks=3, queries=(1, 6))
    demo(root, ("mysql",), ("ssd-both",), 1, queries=(1,), streams=2, experiment="alone")
    killed = driven("tpcc", **PARAMS | {"test": "durability"})
    for case in (
        Case(status="failed", block=3, queries=(1, 6)),
        Case(status="unknown", block=4, queries=(1, 6)),
        Case(placement="pmem-both", block=4, queries=(1, 6), plans=False, limited=(6,)),
        Case(placement=None, engine="postgres", queries=(1,)),  # of an external server
        Case(queries=(1,), spec_changes={"observe": ("vtune",)}, experiment="observed"),
        Case(spec_changes=killed, metrics=[metric("recovery_duration_ns", 2e9, "lower")]),
    ):
        write(root, case)
    tpcc_runs(root, 2, 1.4, experiment="tpcc")
    for inside in (False, True):
        for placement in ("ssd-both", "pmem-both"):
            ycsb(root, placement=placement, inside=inside, threads=8)
    explained_runs.tpcc(root)
    explained_runs.tpcc(root, "ssd-data-pmem-wal", rate=80_000)
    explained_runs.tpcc(root, plant=("wal.sync=+100us",), block=1)
    model = model_of(explained_runs.device_suite(root, "pmem", 10), "of-pmem")
    explained_runs.tpcc(root, "ssd-data-fast-wal", rate=70_000, model=model)
    for placement in ("ssd-both", "pmem-both"):
        test_over_time.tpcc(root, placement, test_over_time.FAST, 100)
    card_run(root)
    card_run(root, tier="dram", manifest_changes={"tiers": [numa_tier()]}, status="unknown")
    card_run(root, host="lab2", repeats=1, far=False, most_threads=4)
    write_unfinished(root)


@pytest.mark.parametrize(
    ("command", "json_"),
    # What writes files writes the same ones in both cases.
    [(command, form) for command in COMMANDS for form in (False, True)["OUT" in str(command) :]],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_a_command_reads_every_kind_of_run(command, json_, store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "paper.yml").write_text(PAPER)
    (tmp_path / "figure1.yml").write_text(PROFILE)
    places = {"OUT": str(tmp_path), "PAPER": str(tmp_path / "paper.yml")}
    given = [places.get(word, word) for word in command]
    argv = [*given, "--results", str(store), *(["--json"] if json_ else [])]
    done = CliRunner().invoke(app, argv)
    assert done.exception is None, done.exception
    assert done.exit_code == 0
    if json_:
        json.loads(done.stdout)


def parsed(command: str) -> None:
    """Parse a command as the command line does; typer's error where it is none."""
    program, *words = shlex.split(command)
    assert program == "harness"
    group: Any = get_command(app)
    context = None
    while hasattr(group, "resolve_command"):
        context = group.make_context(program, words, parent=context)
        rest = [*context._protected_args, *context.args]
        program, group, words = group.resolve_command(context, rest)
    group.make_context(program, words, parent=context)


@pytest.mark.parametrize(
    "command", [command for command in COMMANDS if command[0] in ("compare", "explain")]
)
def test_what_comes_next_is_a_command(command, store, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)  # the command may write its page here
    printed: list[str] = []

    def lines(command: str, columns: int) -> list[str]:
        printed.append(command)
        return command_lines(command, columns)

    monkeypatch.setattr("harness.terminal.command_lines", lines)
    assert CliRunner().invoke(app, [*command, "--results", str(store)]).exception is None
    if command[0] == "compare":
        assert any(suggestion.startswith("harness explain") for suggestion in printed)
    show.runs([run for run in Store(store).runs() if run.head.experiment.name == "demo"], False)
    assert any(suggestion.startswith("harness report") for suggestion in printed)
    for suggestion in printed:
        parsed(suggestion)
        if suggestion.startswith("harness explain"):
            done = CliRunner().invoke(app, shlex.split(suggestion)[1:])
            assert done.exception is None and done.exit_code == 0


def test_each_run_is_shown(store: Path) -> None:
    listed = CliRunner().invoke(app, ["runs", "list", "--json", "--results", str(store)])
    for run in json.loads(listed.stdout)["runs"]:
        for form in ((), ("--json",)):
            argv = ["runs", "show", run["run_id"], "--results", str(store), *form]
            shown = CliRunner().invoke(app, argv)
            assert shown.exception is None and shown.exit_code == 0
