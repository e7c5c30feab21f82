"""Papers and their profiles through the command: modes, processors, query 6, limits."""

import dataclasses
import json
import math
from contextlib import nullcontext

import msgspec
import pytest
from narrowed import of_kind, present
from run_values import values

from harness.errors import UsageError
from harness.execution.environment import open_environment
from harness.execution.run_list import plan_steps
from harness.experiment.profile import known_profiles, load_profile
from harness.experiment.profile_document import Profile
from harness.experiment.selection import only
from harness.experiment.tuning import settings_for
from harness.progress import progress_on_stderr
from harness.store.run_store import Store
from harness.tiers.linux.model import Tier
from harness.yamlfile import load_yaml

MODES = """\
schema: 1
name: modes
description: what this host can do, and what it would have to be switched for
workload: tpch
size: 1
axes:
  configuration:
    - {placement: ssd-both, host_mode: Memory}
    - {placement: ssd-both, host_mode: Default|AppDirect}
fixed:
  engine: duckdb
  memory: socket:0
  params: {scale: "= 0.01 * size", queries: [6], plans: false}
"""


@pytest.fixture(scope="module")
def stopped(loaded):
    """A profile with a Memory mode arm, run on a host without Memory mode."""
    file = loaded.root / "modes.yml"
    file.write_text(MODES)
    return file, loaded("experiment", "run", file, "--json")


def test_what_this_mode_allows_is_run_before_the_switch_is_asked_for(stopped, loaded):
    file, done = stopped
    assert done.code == 2
    assert "host mode Memory" in done.err and "--resume" in done.err
    _, ready = loaded("experiment", "run", file, "--dry-run", "--json").json["plan"]
    assert ready["complete"]
    assert ready["memory"].startswith("socket:0: ")
    run = loaded("runs", "show", ready["complete"], "--json").json["run"]
    (bound,) = [check for check in run["checks"] if check["name"] == "memory-policy"]
    assert (run["spec"]["memory"], bound["status"]) == ("socket:0", "passed")


def test_profiles_of_papers_that_hold_engines_to_a_socket_bind_their_memory_there() -> None:
    """VLDB 2023 §3.1, with the numactl of the authors' scripts; FAST 2020 §2.3: local accesses."""
    for name, path in known_profiles().items():
        if name.startswith("papers/"):
            for spec in load_profile(path).runs:
                socket = spec.cpus if spec.cpus and ":" in spec.cpus else None
                assert spec.memory == (socket or ("socket:0" if spec.cpus else None)), name


def test_after_the_switch_the_runs_of_the_other_mode_still_count(stopped, loaded, monkeypatch):
    """The same host, reported to be in Memory mode: the first arm runs, the second is done."""
    file, _ = stopped
    for name, value in loaded.environment.items():
        if name.startswith("HARNESS_"):
            monkeypatch.setenv(name, value)
    plan = load_profile(file)
    with progress_on_stderr(True) as progress, open_environment(None, (), progress) as env:
        switched = dataclasses.replace(env, host=msgspec.structs.replace(env.host, mode="Memory"))
        memory, default = plan_steps(plan, switched, Store(loaded.results))
    assert memory.runnable and memory.done is None
    assert not default.runnable and default.done is not None


PAPER = "papers/nvm-for-databases/"


def profiles_of(workload: str) -> list[str]:
    profiles = {n: p for n, p in known_profiles().items() if n.startswith(PAPER)}
    return [n for n, path in profiles.items() if load_yaml(path).to(Profile).workload == workload]


@pytest.mark.parametrize("name", [PAPER + "async-io", PAPER + "fig2"])
def test_the_paper_s_profiles_plan_on_a_host_without_memory_mode(loaded, name):
    done = loaded("experiment", "run", name, "--emulate", "pmem", "--size", "0.25", "--repeats",
                  "1", "--dry-run", "--json")  # fmt: skip
    plan = done.document["plan"]
    modes = {row["host_mode"]: row["why"] for row in plan}
    if "Memory" in modes:
        assert "Memory mode" in modes.pop("Memory")
    assert set(modes.values()) == {""}
    assert {row["params"]["scale"] for row in plan} == {0.25}
    assert {row["params"]["cache"] for row in plan} == {"cold-per-query"}


def tiers_of(profile: str) -> set[str]:
    """Return the tiers that a profile's placements name."""
    plan = load_profile(known_profiles()[profile])
    return {tier for spec in plan.runs for tier in present(spec.placement).tiers()}


@pytest.mark.parametrize("name", [PAPER + "fig5", PAPER + "fig5-voltdb"])
def test_the_paper_s_tpcc_profiles_plan_with_every_tier_emulated(loaded, name):
    """Settings are judged by the servers, 128 users by what they are allowed to connect."""
    emulated = [f"--emulate={tier}" for tier in sorted(tiers_of(name) - {"ssd"})]
    done = loaded("experiment", "run", name, *emulated, "--size", "0.1", "--repeats", "1",
                  "--dry-run", "--json")  # fmt: skip
    plan = done.document["plan"]
    assert {row["why"] for row in plan} == {""}
    assert {row["params"]["users"] for row in plan} == {8, 16, 32, 64, 128}
    assert {(row["params"]["warehouses"], row["params"]["ramp_up"]) for row in plan} == {(1, "3m")}
    assert {row["least_duration_ns"] for row in plan} == {6 * 60 * 10**9}  # and 3 m of window


@pytest.mark.parametrize(("name", "dimms"), [("fig4", 1), ("fig5", 6), ("table7", 6)])
def test_the_paper_s_profiles_refuse_pmem_with_other_dimms(loaded, monkeypatch, name, dimms):
    """§3.1: TPC-H on interleaved DIMMs, TPC-C on one. The region is invented."""
    for variable, value in loaded.environment.items():
        if variable.startswith("HARNESS_"):
            monkeypatch.setenv(variable, value)
    plan = load_profile(known_profiles()[PAPER + name], size=0.3, repeats=1)
    plan = only(plan, {"engine": ["postgres"]})
    with progress_on_stderr(True) as progress, open_environment(None, (), progress) as env:
        ssd = env.tiers["ssd"]
        for ways, refused in ((dimms, True), (7 - dimms, False)):
            facts = dataclasses.replace(ssd.facts, interleave_ways=ways)
            pmem = Tier(dataclasses.replace(ssd.claim, name="pmem"), facts)
            other = dataclasses.replace(facts, interleave_ways=6)
            interleaved = Tier(dataclasses.replace(ssd.claim, name="pmem_interleaved"), other)
            tiers = {"ssd": ssd, "pmem": pmem, "pmem_interleaved": interleaved}
            here = dataclasses.replace(env, tiers=tiers)
            with pytest.raises(UsageError, match="DIMM") if refused else nullcontext():
                plan_steps(plan, here, Store(loaded.results))


#: Figure or table, and how many runs: users × what it varies.
VARIED = {
    "fig5": 5 * 2 * 2, "fig5-voltdb": 5 * 2, "table5": 5 * 2 * 4, "fig6": 5 * 2 * 2,
    "fig7": 5 * 5, "fig8": 5 * 3 * 2, "fig9": 5 * 3 * 3, "fig10": 5 * 2 * 2, "table6": 5 * 2,
    "page-size": 5 * 2,
    "table7": 5 * 3,
}  # fmt: skip


def test_the_paper_s_tpcc_profiles_have_its_regime():
    """§3.1: 1000 warehouses, 48 GB of buffers, 64 GB of memory, 3 minutes twice."""
    assert {name.removeprefix(PAPER) for name in profiles_of("tpcc")} == set(VARIED)
    for name in profiles_of("tpcc"):
        plan = load_profile(known_profiles()[name], size=100, repeats=1)
        assert len(plan.runs) == VARIED[name.removeprefix(PAPER)], name
        for spec in plan.runs:
            assert spec.params["warehouses"] == 1000
            assert (spec.params["ramp_up"], spec.params["duration"]) == ("3m", "3m")
            assert not spec.params["think_time"] and spec.params["home"] == "all"
            # VoltDB's data are all in memory, and more than the socket's.
            in_memory = spec.engine == "voltdb"
            assert spec.memory_limit_bytes == (None if in_memory else 64 * 10**9)
            variables = {"memory": 64e9, "cores": 24.0, "scale": 1000.0,
                         "connections": of_kind(int, spec.params["connections"])}  # fmt: skip
            settings = settings_for(spec.tuning, spec.engine, variables, spec.settings)
            if in_memory:
                snapshots = ("snapshot_frequency", "snapshot_retain", "flush_interval_minimum")
                assert [settings[name] for name in snapshots] == ["1s", "1", "1000"]
                continue
            buffers = {"postgres": ("shared_buffers", "46875000kB"),
                       "mysql": ("innodb_buffer_pool_size", "45776M")}[spec.engine]  # fmt: skip
            assert settings[buffers[0]] == buffers[1]
            assert int(settings["max_connections"]) >= of_kind(int, spec.params["users"]) + 20
            if spec.engine == "postgres":
                assert settings["checkpoint_timeout"] == "30s"


def test_the_memory_cap_leaves_room_for_128_sessions_at_every_size():
    """The memory of a session does not shrink with the data; the ratio is the paper's from 7 on."""
    path = known_profiles()[PAPER + "fig5"]
    for size in (0.1, 1, 7, 100):
        (limit,) = {s.memory_limit_bytes for s in load_profile(path, size=size).runs}
        assert present(limit) - 480_000_000 * size >= 2**30
        assert (limit == 640_000_000 * size) is (size >= 7)


def test_the_paper_s_ycsb_profiles_have_its_regime():
    """§6: workloads A, B and C, 110 GB of data, up to 48 threads; §3.1: 64 GB of memory."""
    hashes = {}
    for name, workloads in (("fig11", "abc"), ("fig12", "ab")):
        plan = load_profile(known_profiles()[PAPER + name], size=100)
        assert {spec.params["workload"] for spec in plan.runs} == set(workloads)
        assert {spec.params["threads"] for spec in plan.runs} >= {1, 16, 32, 48}
        assert {spec.required_host_mode for spec in plan.runs} == {
            "Default|AppDirect", "AppDirect", "Memory"
        }  # fmt: skip
        for spec in plan.runs:
            shape = (of_kind(int, spec.params[n]) for n in ("records", "fieldcount", "fieldlength"))
            assert math.prod(shape) == 100 * 10**9  # and keys
            # §3.2, from caches that were cleared (§3.1).
            bounds = [spec.params[n] for n in ("operations", "duration", "ramp_up")]
            assert bounds == [10_000_000, None, "0s"]
            memory = (256 if spec.required_host_mode == "Memory" else 64) * 10**9
            assert spec.memory_limit_bytes == memory
        hashes[name] = {spec.hash() for spec in plan.runs}
    assert hashes["fig12"] < hashes["fig11"], "what Figure 11 has run is not run again"


ONE_QUERY = ("run", "tpch", "--placement", "ssd-both", "--scale", "0.01", "--json")


@pytest.mark.parametrize("engine", ["postgres", "duckdb"])
def test_query_6_sums_the_share_that_the_dates_select(loaded, engine):
    run = loaded(*ONE_QUERY, "--engine", engine, "--queries", "6", "--no-plans",
                 "-p", "q6_dates=1994-01-01,1996-01-01").run  # fmt: skip
    assert run["spec"]["params"]["q6_dates"] == ["1994-01-01", "1996-01-01"]
    (answer,) = [check for check in run["checks"] if check["name"] == "answer"]
    # PostgreSQL's is held against DuckDB; DuckDB's against what PostgreSQL has answered.
    assert answer["status"] == "passed", answer
    shares = values(run, "query_selected_fraction", "query")
    assert shares == {"6": pytest.approx(0.304, abs=0.005)}  # the paper's 30 %
    queries = loaded.results / "runs" / run["run_id"] / "artifacts" / "queries.json"
    sql = json.loads(queries.read_text())["6"]["sql"]
    assert "l_discount between" not in sql and "l_quantity" not in sql


def test_files_on_a_tmpfs_neither_eat_nor_widen_the_memory_limit(loaded):
    """They are charged to the cap: the log alone would be half of this limit."""
    done = loaded("run", "tpch", "--engine", "postgres", "--placement", "ssd-both", "--placement",
                  "pmem-both", "--emulate", "pmem", "--scale", "0.01", "--queries", "9,18",
                  "--memory-limit", "128MiB", "--set", "work_mem=64kB", "--no-plans",
                  "--json")  # fmt: skip
    on_disk, emulated = done.document["runs"]
    assert on_disk["memory_bytes"] == emulated["memory_bytes"] == 128 << 20
    for run in (on_disk, emulated):
        tmpfs = values(run, "memory_cap_tmpfs_peak_bytes")
        assert (tmpfs > 0) == (run is emulated)
        assert values(run, "memory_cap_peak_bytes") <= (128 << 20) + tmpfs


# ``harness paper`` ----------------------------------------------------------------


SMALL_PAPER = """
schema: 1
title: "A small paper"
figures:
  - {figure: "Fig 1: query 6", profile: fig1.yml}
  - {figure: "Fig 2: loads", suite: loads.yml, tiers: [dram, none_such]}
  - {figure: "Fig 3", missing: "needs another machine"}
"""
PROFILE = """
schema: 1
name: small-fig1
description: one query
workload: tpch
axes:
  placement: [ssd-both, pmem-both, missing-both]
fixed:
  engine: duckdb
  params: {scale: 0.01, queries: [6], cache: cold-per-run, plans: false}
published: [fig1]
"""
PUBLISHED = """figure,series,x,y,unit,read_off_error,metric,note
fig1,duckdb/pmem-both,6,1,ms,0.5,query_duration_ns,
fig1,duckdb/memory-both,6,1,ms,0.5,query_duration_ns,
"""
#: Ended by a count: a busy machine makes no measurement of it empty.
SUITE = """
schema: 1
name: loads
description: loads
defaults: {range: 1MiB}
measurements:
  one: {args: {kernel: load, pattern: sequential, access: 64, count: 1000}}
"""


def test_a_paper_is_run_once_and_its_page_has_both_numbers(loaded):
    folder = loaded.root / "of-mine"
    folder.mkdir()
    files = {"mine.yml": SMALL_PAPER, "fig1.yml": PROFILE, "loads.yml": SUITE}
    for name, text in (files | {"published.csv": PUBLISHED}).items():
        (folder / name).write_text(text)
    options = "--emulate pmem -p warm_up=1ms --budget 10m --json"
    command = ("paper", "of-mine/mine.yml", *options.split())
    query, loads, missing = loaded(*command).document["paper"]["figures"]
    assert (query["planned"], query["complete"], len(query["runs"])) == (3, 2, 2)
    (left_out,) = query["left_out"]
    assert "missing-both" in left_out["what"] and left_out["why"].startswith("needs hardware")
    measured = [row["measured here"] for row in query["published"]]
    assert measured[0]["numbers"][0]["emulated"] and measured[1]["missing"] == "no-counterpart"
    assert (loads["planned"], loads["complete"]) == (2, 1)
    assert "none_such" in loads["left_out"][0]["why"]
    assert missing["missing"] == "needs another machine"
    assert (loaded.root / "paper" / "paper.html").exists()

    lines = [figure["command"] for figure in (query, loads)]
    assert ["-p warm_up=1ms" in line for line in lines] == [False, True]

    plan = loaded(*command, "--dry-run").document["plan"]
    assert [(row["to_do"], row["estimated_ns"]) for row in plan] == [([], None)] * 3
    complete = [run_id for row in plan for run_id in row["complete"]]
    assert sorted(complete) == sorted(query["runs"] + loads["runs"])


def test_some_of_a_papers_figures(harness):
    named = ("paper", "nvm-for-databases", "table3", "fig3", "--emulate", "pmem", "--dry-run")
    plan = harness(*named, "--json").document["plan"]
    assert {comparison["figure"].partition(":")[0] for comparison in plan} == {"Fig 3", "Table 3"}
    assert harness("paper", "nvm-for-databases", "fig99", "--dry-run").code == 2
