"""The commands of the README, run for real on small data."""

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from run_values import values
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from harness import structs
from harness.cli.app import app
from harness.errors import UsageError
from harness.store.result import RunResult

RUN = ["run", "tpch", "--engine", "duckdb", "--engine", "postgres", "--placement", "ssd-both",
       "--placement", "pmem-both", "--emulate", "pmem", "--scale", "0.01",
       "--queries", "6,15", "--name", "commands"]  # fmt: skip


@pytest.fixture(scope="module")
def runs(loaded):
    """Two engines on two placements."""
    return loaded(*RUN, "--json").document["runs"]


def test_a_run_prints_every_result_as_json_within_the_contract(runs, loaded):
    assert len(runs) == 4
    for run in runs:
        structs.convert(run, RunResult, run["run_id"])
        assert run["status"] == "complete"
        answers = [c for c in run["checks"] if c["name"] == "answer"]
        assert [c["labels"]["query"] for c in answers] == ["6", "15"]
        assert {c["status"] for c in answers} == {"passed"}
        emulated = run["spec"]["placement"]["name"] == "pmem-both"
        assert [e["tier"] for e in run["emulated"]] == (["pmem"] if emulated else [])
        # Every query started cold.
        timed = [entry for entry in run["residency"] if entry["label"].startswith("q")]
        assert len(timed) >= 2
        for entry in timed:
            assert entry["total_bytes"] > 0
            if emulated:
                assert "tmpfs" in entry["note"]
            else:
                assert entry["resident_bytes"] <= 0.01 * entry["total_bytes"]
    assert "EMULATED" in loaded("runs", "list").out


#: Prints the modules of commands that a list of all commands has imported.
LISTS = """
import json, sys
from harness.cli.app import app
try:
    app(["--help"])
finally:
    names = [name for name in sys.modules if name.startswith("harness.cli.")]
    print(json.dumps(names), file=sys.stderr)
"""


def test_the_list_of_commands_imports_none_of_them():
    """Else each look at it takes a second."""
    done = subprocess.run([sys.executable, "-c", LISTS], capture_output=True, text=True, check=True)
    assert sorted(json.loads(done.stderr)) == ["harness.cli.app", "harness.cli.streams"]


def test_the_help_groups_every_command_once(harness):
    lines = harness("--help").out.splitlines()
    panels = [line.removesuffix(":") for line in lines if line.endswith(":")]
    assert panels == ["Options", "First day", "Runs", "Models", "Devices", "Hosts", "Data"]
    rows = lines[lines.index("First day:") :]
    listed = [line.split()[0] for line in rows if line.startswith("  ") and line[2] != " "]
    assert len(listed) == len(set(listed))
    assert {name for name in listed if harness(name, "--help").code} == set()
    assert listed[:5] == ["doctor", "advise", "run", "compare", "report"]


def commands(command: Any) -> Iterator[Any]:
    """A command, and all below it."""
    yield command
    if isinstance(command, TyperGroup):
        with command.make_context("harness", [], resilient_parsing=True) as context:
            for name in command.list_commands(context):
                yield from commands(command.get_command(context, name))


def test_a_value_is_named_in_upper_case_or_by_its_choices():
    every = [param for command in commands(get_command(app)) for param in command.params]
    named = {param.metavar for param in every if param.metavar is not None}
    assert len(named) > 20
    words = {name for name in named if name != name.upper()}
    assert all("|" in name for name in words), words
    unnamed = [param.name for param in every if param.metavar is None and not param.is_flag]
    assert set(unnamed) <= {"install_completion", "show_completion"}


def test_a_workload_is_described_where_it_is_chosen(harness):
    for command in ("run", "advise", "curve", "calibrate"):
        lines = harness(command, "--help").out.splitlines()
        rows = lines[lines.index("Commands:") + 1 :]
        texts = [line.split(maxsplit=1)[1] for line in rows if line.startswith("  ")]
        assert len(texts) == len(set(texts)) >= 4


def test_a_list_of_numbers_is_a_sweep(harness):
    swept = harness("run", "tpcc", "--engine", "postgres", "--placement", "ssd-both",
                    "--users", "1,2,4", "-p", "warehouses=1,2", "--dry-run", "--json")  # fmt: skip
    of_engine = harness("run", "tpch", "--engine", "postgres", "--placement", "ssd-both",
                        "--scale", "0.01,0.1", "--threads", "1,2", "--memory-limit", "1GiB,2GiB",
                        "--dry-run", "--json")  # fmt: skip
    assert len({run["spec_hash"] for run in of_engine.json["plan"]}) == 8
    params = [run["params"] for run in swept.document["plan"]]
    points = sorted((point["users"], point["warehouses"]) for point in params)
    assert points == [(u, w) for u in (1, 2, 4) for w in (1, 2)]
    twice = harness("run", "tpcc", "--engine", "postgres", "--placement", "ssd-both", "--users",
                    "2,2", "--memory-limit", "1GiB,1024MiB", "--dry-run", "--json")  # fmt: skip
    assert len(twice.json["plan"]) == 1


@pytest.mark.parametrize("command", ["curve", "advise"])
@pytest.mark.parametrize(
    "several",
    [
        ("--users", "1,2"),
        ("--threads", "1,2"),
        ("--memory-limit", "1GiB,2GiB"),
        ("--driver", "both"),
        ("--engine", "mysql"),
    ],
)
def test_one_question_is_of_one_engine_and_load(harness, command, several):
    """With several, it would answer for the first, or for all together."""
    argv = (command, "tpcc", "--engine", "postgres", "--dry-run")
    assert harness(*argv, *several).code == 2


def test_arms_take_turns_with_options_of_their_own(harness):
    run = ("run", "tpcc", "--engine", "postgres", "--placement", "ssd-both", "--repeats", "2")
    done = harness(*run, "--arm", "a:", "--arm", "b:--set jit=off --users=2", "--dry-run", "--json")
    users = [(run["block"], run["params"]["users"]) for run in done.document["plan"]]
    assert users == [(0, 8), (0, 2), (1, 2), (1, 8)]
    curve = harness(*run, "--arm", "a:", "--arm", "b:--set jit=off", "--load-curve", "--dry-run",
                    "--json")  # fmt: skip
    assert len(curve.json["plan"]) == 2  # a closed loop of each
    for wrong in ("a", "a:--set", "a:--user 2", "a:--threads x", "a:'", "A:"):
        assert harness(*run, "--arm", wrong).code == 2


def test_runs_that_differ_in_more_are_not_compared_unless_told_to(runs, loaded):
    sides = [runs[0]["run_id"], runs[3]["run_id"]]
    assert [runs[i]["spec"]["engine"] for i in (0, 3)] == ["duckdb", "postgres"]
    refused = loaded("compare", *sides)
    assert refused.code == 2
    assert "--anyway" in refused.err
    told = loaded("compare", *sides, "--anyway", "--json").document
    assert told["differences"] or len(told["over"]) > 1


def test_a_run_is_repeated_from_its_manifest_and_judged(runs, loaded):
    done = loaded("repro", runs[0]["run_id"], "--tolerance", "1000", "--json")
    agreement = {"agrees": True, "answers_equal": True, "differences": []}
    assert agreement.items() <= done.document["repro"].items()


def test_data_are_listed_and_verified_and_a_changed_byte_is_found(runs, loaded):
    listed = loaded("data", "list", "--json").json["data"]
    assert {entry["kind"] for entry in listed} == {"source", "golden"}
    assert loaded("data", "verify").code == 0
    golden = next(e for e in listed if e["kind"] == "golden" and "duckdb" in e["name"])
    dataset = loaded.data / "golden" / golden["name"]
    file = max((dataset / "content").rglob("*"), key=lambda p: p.stat().st_size)
    original = file.read_bytes()
    file.write_bytes(original[:-1] + bytes([original[-1] ^ 1]))
    verified = loaded("data", "verify", golden["name"])
    file.write_bytes(original)
    assert verified.code == 1
    assert "changed" in verified.out


def test_removing_asks_and_refuses_where_nobody_can_answer(runs, loaded):
    refused = loaded("data", "rm", "--all")
    assert refused.code == 2
    assert "--yes" in refused.err
    assert loaded("data", "list", "--json").json["data"]
    said = loaded("runs", "rm", runs[0]["run_id"], "--dry-run")
    assert said.code == 0
    assert loaded("runs", "show", runs[0]["run_id"]).code == 0


PROFILE = """\
schema: 1
name: small
description: a small experiment
workload: tpch
axes:
  placement: [ssd-both, pmem-both]
fixed:
  engine: duckdb
  emulate: [pmem]
  params: {scale: 0.01, queries: [6], plans: false}
"""


def test_an_experiment_is_planned_run_and_not_run_again(loaded):
    file = loaded.root / "small.yml"
    file.write_text(PROFILE)
    before = len(loaded("runs", "list", "--json").json["runs"])
    planned = loaded("experiment", "run", file, "--dry-run", "--json").json["plan"]
    assert [step["complete"] for step in planned] == [None, None]
    assert len(loaded("runs", "list", "--json").json["runs"]) == before
    first = loaded("experiment", "run", file, "--json").json["runs"]
    second = loaded("experiment", "run", file, "--json").json["runs"]
    assert [run["run_id"] for run in first] == [run["run_id"] for run in second]


def test_a_calibration_is_stored_and_used_by_experiments(loaded):
    before = len(loaded("runs", "list", "--json").json["runs"])
    identical = ["tpch", "--engine", "duckdb", "--placement", "ssd-both", "--scale", "0.01",
                 "--queries", "6", "--no-plans"]  # fmt: skip
    done = loaded("calibrate", *identical, "--repeats", "2", "--resolve", "50%", "--json")
    (calibration,) = done.document["calibrations"]
    assert [len(pair) for pair in calibration["run_ids"]] == [2, 2]
    deciding = calibration["metrics"][calibration["headline"]]
    assert len(deciding["log_ratios"]) == 2
    assert deciding["resolutions"][0] == {
        "repeats": 3, "difference": None, "duration_ns": 6 * calibration["run_duration_ns"],
    }  # fmt: skip
    assert calibration["resolve"]["difference"] == 0.5
    # Its runs are in no report, and complete no experiment.
    assert len(loaded("runs", "list", "--json").json["runs"]) == before
    planned = loaded("run", *identical, "--placement", "pmem-both", "--emulate", "pmem",
                     "--repeats", "8", "--dry-run", "--json").json  # fmt: skip
    (expected,) = planned["expected"]
    assert expected["calibration_id"] == calibration["calibration_id"]
    assert (expected["repeats"], expected["other_conditions"]) == (8, [])
    assert loaded("calibrate", *identical, "--resolve", "5").code == 2


def test_a_dry_run_says_what_it_takes_and_what_it_can_show(loaded):
    before = len(loaded("runs", "list", "--json").json["runs"])
    for workload, size in (("tpcc", "--warehouses"), ("ycsb", "--records")):
        done = loaded("run", workload, size, "1", "--engine", "postgres", "--placement", "ssd-both",
                      "--placement", "pmem-both", "--emulate", "pmem", "--ramp-up", "5s",
                      "--duration", "20s", "--repeats", "2", "--dry-run", "--json")  # fmt: skip
        assert len(done.document["plan"]) == 4
        assert done.json["estimated_duration_ns"] >= 4 * 25 * 10**9
        repeats = {"over": "placement", "repeats": 2, "comparisons": 1, "needed": 6, "level": 0.05}
        assert done.json["repeats"] == repeats
    assert len(loaded("runs", "list", "--json").json["runs"]) == before


def test_commands_that_share_a_name_are_one_experiment(loaded):
    named = ["run", "tpch", "--engine", "duckdb", "--scale", "0.01", "--queries", "14",
             "--no-plans", "--name", "log-or-data"]  # fmt: skip
    made = [
        run["run_id"]
        for place in ("ssd-both", "pmem-both")
        for run in loaded(*named, "--placement", place, "--emulate", "pmem", "--json").json["runs"]
    ]
    done = loaded("report", "-e", "log-or-data", "--out", loaded.root / "named", "--json")
    assert done.json["report"]["runs"] == len(made) == 2
    assert "EMULATED" in loaded("compare", *made).out
    (group,) = loaded("compare", *made, "--json").json["groups"]
    assert group["pairing"] == "unpaired" and group["verdict"] == "not resolvable"
    assert loaded(*named[:-1], "Log or data").code == 2


def test_the_doctor_tells_tiers_engines_and_what_is_uncontrolled(loaded):
    document = loaded("doctor", "--json", "--emulate", "pmem").json
    assert {tier["name"] for tier in document["tiers"]} >= {"ssd", "pmem"}
    assert {engine["name"] for engine in document["engines"]} >= {"duckdb", "postgres"}
    assert document["mode"]["mode"] in {"Default", "AppDirect", "Memory", "Mixed", "unknown"}
    assert all(set(entry) == {"code", "what", "found", "do"} for entry in document["uncontrolled"])
    backends = ["innodb", "postgres", "rocksdb", "sqlserver", "voltdb"]
    assert document["native_client"] == {"backends": backends, "missing": []}
    microbench = document["microbenchmarks"]["microbench"]
    assert (
        microbench["missing"] is None and microbench["interface"] == microbench["wanted_interface"]
    )
    flags = Path("/proc/cpuinfo").read_text().split()
    assert microbench["instructions"]["avx512"] == ("avx512f" in flags)
    assert {document["microbenchmarks"][name]["missing"] for name in ("fio", "ioping")} == {None}
    assert document["official_ycsb"]["version"] == "0.17.0"
    assert document["left_behind"] == []
    assert sum(node["bytes"] for node in document["nodes"]) > 0
    fields = {"node", "kind", "processors", "zone", "hmat", "measured", "memory_tier", "distances"}
    assert all(fields <= node.keys() for node in document["nodes"])
    assert document["memory"]["online_blocks"] <= document["memory"]["blocks"]
    assert all(tier["facts"].keys() >= {"persistence_source"} for tier in document["tiers"])
    shown = loaded("doctor").out
    assert "host" in shown and "microbench, interface" in shown and "official YCSB" in shown


def test_a_memory_limit_holds_and_memory_bound_to_a_node_is_verified_where_it_really_is(loaded):
    run = loaded("run", "tpch", "--engine", "postgres", "--placement", "data=ssd,memory=dram",
                 "--scale", "0.01", "--queries", "6", "--memory-limit", "256MiB",
                 "--json").run  # fmt: skip
    # Of the engine and its page cache.
    assert 0 < values(run, "memory_cap_peak_bytes") <= run["memory_bytes"] == 256 << 20
    (policy,) = [check for check in run["checks"] if check["name"] == "memory-policy"]
    assert policy["status"] == "passed" and "bind to node 0" in policy["detail"]


# ``harness advise`` on a real engine ----------------------------------------------


#: Runs of a second or two.
SMALL = ["ycsb", "--engine", "rocksdb", "--records", "1000", "--operations", "2000"]
TIERS = ["--from", "ssd", "--to", "pmem", "--emulate", "pmem"]
BUDGET_S = 15


def test_answers_within_the_budget_have_the_numbers_of_compare(loaded):
    # Loaded beforehand: a busy host might take all of the budget to load.
    assert loaded("run", *SMALL, "--placement", "ssd-both").code == 0
    done = loaded("advise", *SMALL, *TIERS, "--budget", f"{BUDGET_S}s", "--json")
    answers = done.document["answers"]
    assert len(answers) == 3
    for answer in answers:
        arms = (f"placement={answer['a']}", f"placement={answer['b']}")
        experiment = f"experiment={done.json['experiment']}"
        (group,) = loaded("compare", *arms, experiment, "--json").json["groups"]
        (row,) = [row for row in group["rows"] if row.items() >= group["headline"].items()]
        value = answer["value"]
        assert value["value"] == row["ratio"]
        assert [value["low"], value["high"]] == row["interval"]
    assert done.json["expected"] == []  # no tier has a baseline
    if more := done.json["more"]:
        words = shlex.split(more["command"])
        assert words[-2:] == ["--budget", f"{more['duration_ns'] // 60_000_000_000}m"]


def test_queries_have_no_phases(loaded, tmp_path):
    assert loaded("workload", "init", tmp_path / "shop").code == 0
    of_queries = ("sql", "--folder", tmp_path / "shop", "--engine", "duckdb")
    assert loaded("advise", *of_queries, *TIERS, "--budget", "2m", "--dry-run").code == 0


def test_other_options_are_another_experiment(monkeypatch, tmp_path):
    plans = []
    monkeypatch.setattr(
        "harness.cli.advise.conduct_experiment", lambda plan, *_, **__: plans.append(plan)
    )
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path))
    of_queries = ["advise", "tpch", "--engine", "duckdb", *TIERS, "--scale", "0.01"]
    for more in ([], ["--budget", "30m"], ["--queries", "6"]):
        assert CliRunner().invoke(app, [*of_queries, *more]).exception is None
    first, longer, other = (plan.name for plan in plans)
    assert first == longer != other
    assert other.startswith("advise-tpch-duckdb-")


def test_without_a_second_tier_a_curve_answers(monkeypatch, tmp_path):
    """A curve of each part, with the repeats that the budget has time for."""
    curves = []
    monkeypatch.setattr("harness.cli.advise.curve", lambda _, *of: curves.append(of))
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path))
    argv = ["advise", *SMALL, "--from", "ssd", "--budget"]
    refused = CliRunner().invoke(app, [*argv, "1m"]).exception
    assert isinstance(refused, UsageError) and "--budget" in refused.hint
    for budget, repeats in (("6m", 3), ("11m", 6)):
        assert CliRunner().invoke(app, [*argv, budget]).exception is None
        options, more = curves.pop()
        assert (options.parts, options.repeats) == ("wal,data", repeats)
        assert (more is None) == (repeats == 6)
