"""Profiles expand to specs: purely, in interleaved blocks; parts of plans, and their duration."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from example_run import result
from msgspec.structs import replace

from harness import structs
from harness.cli.run_plan import of_arms
from harness.errors import UsageError
from harness.execution.resolved_run import ResolvedRun
from harness.execution.run_list import checked_runs
from harness.execution.run_time import Estimator, RunTime
from harness.experiment import preflight
from harness.experiment.placement import parse_placement
from harness.experiment.profile import (
    expand,
    find_profile,
    known_profiles,
    load_profile,
    published_of,
)
from harness.experiment.selection import only, with_repeats
from harness.store.run_store import Store
from harness.store.runs import StoredRun
from harness.store.spec import RunSpec
from harness.warnings import RunWarning
from harness.yamlfile import evaluate, parse_yaml
from reports.published import read_published

PROFILE = """\
schema: 1
name: two-by-two
description: two engines, two placements
workload: tpch
size: 2
axes:
  engine: [duckdb, postgres]
  placement: [ssd-both, pmem-both]
fixed:
  memory_limit: "= 0.5 * GiB * size"
  params: {scale: "= size", cache: warm}
  settings: {jit: false}
repeats: 3
"""


CONFIGURATIONS = """\
schema: 1
name: modes
description: the paper's three configurations
workload: tpch
axes:
  engine: [duckdb, postgres]
  configuration:
    - {placement: ssd-both, host_mode: Default|AppDirect}
    - {placement: pmem-both, host_mode: AppDirect, cpus: "3,0-1"}
    - {placement: ssd-both, host_mode: Memory}
"""
TOGETHER = """\
schema: 1
name: plans
description: each engine with its own queries
workload: tpch
axes:
  configuration:
    - {engine: postgres, params: {queries: [1, 3]}}
    - {engine: duckdb, params: {queries: [2]}}
  placement: [ssd-both, pmem-both]
"""


USERS = """\
schema: 1
name: users
description: an axis of parameters and a fixed driver
workload: tpcc
axes:
  engine: [postgres]
  params: {users: [8, 32]}
  placement: [pmem-both, ssd-both]
fixed: {driver: pgbench}
"""


def plan_of(text, **kwargs):
    return expand(parse_yaml(text, "p.yml"), **kwargs)


@pytest.mark.parametrize(
    ("profile", "old", "new", "line", "problem"),
    [
        (PROFILE, "ssd-both, pmem-both", "ssd-both, ssd-bothh", 8, "not in the placement grammar"),
        (PROFILE, '{scale: "= size", cache: warm}', "\n    cache: warm\n    scal: 1", 13,
         "not a param"),
        (PROFILE, '{scale: "= size", cache: warm}', "\n    scale: 0\n    cache: warm", 12,
         "out of range"),
        (PROFILE, '"= 0.5 * GiB * size"', "4G", 10, "not a size"),
        (PROFILE, '"= 0.5 * GiB * size"', '"= 1e308 * GiB * size"', 10, "not finite"),
        (PROFILE, "workload: tpch", "workload: tpch2", 4, "did you mean 'tpch'"),
        (PROFILE, "settings: {jit: false}", "engine_options: {duckdbb: {}}", 12,
         "did you mean 'duckdb'"),
        (PROFILE, "fixed:\n", "  params:\n    queries:\n      - 1\n      - 23\nfixed:\n", 12,
         "not the number of a query"),
        (PROFILE, "fixed:\n", "fixed:\n  engine: duckdb\n", 7,
         "'engine' is both an axis and fixed"),
        (CONFIGURATIONS, "axes:", "fixed: {placement: ssd-both}\naxes:", 9,
         "'placement' is also fixed"),
        (CONFIGURATIONS, '"3,0-1"', '"3-1"', 9, "backwards"),
        (TOGETHER, "axes:", "fixed: {params: {queries: [1]}}\naxes:", 8,
         "'queries' is also fixed"),
        (TOGETHER, "[2]", "[23]", 8, "not the number of a query"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named_with_its_line(profile, old, new, line, problem):
    assert old in profile
    with pytest.raises(UsageError) as refused:
        plan_of(profile.replace(old, new))
    assert refused.value.problem.partition(": ")[0] == f"p.yml:{line}"
    assert problem in refused.value.context


def order(plan, block):
    return [(s.engine, s.placement.name) for s in plan.runs if s.block == block]


def test_every_block_is_the_cross_product_and_every_second_one_is_reversed():
    plan = plan_of(PROFILE)
    assert len(plan.runs) == 12
    pairs = list(product(("duckdb", "postgres"), ("ssd-both", "pmem-both")))
    assert [order(plan, block) for block in range(3)] == [pairs, pairs[::-1], pairs]
    assert [spec.block for spec in plan.runs] == sorted(spec.block for spec in plan.runs)


def test_size_scales_data_and_memory_together():
    spec = plan_of(PROFILE).runs[0]
    assert (spec.params["cache"], spec.params["scale"]) == ("warm", 2)
    assert spec.memory_limit_bytes == 2**30
    assert spec.settings == {"jit": "off"}


def test_expansion_is_pure_and_specs_have_different_hashes():
    first, second = plan_of(PROFILE), plan_of(PROFILE)
    assert [s.hash() for s in first.runs] == [s.hash() for s in second.runs]
    assert first.hash == second.hash
    assert len({s.hash() for s in first.runs}) == 12
    assert len({s.series() for s in first.runs}) == 4
    assert plan_of(PROFILE.replace("warm", "cold-per-run")).hash != first.hash


def test_a_spec_survives_json():
    for spec in plan_of(PROFILE).runs:
        assert structs.convert(spec.to_json(), RunSpec, "spec") == spec


def test_an_emulated_tier_is_in_the_specs_of_placements_that_use_it():
    """A run on the disk is the same run whether or not another of the plan is emulated."""
    plain, emulated = plan_of(PROFILE), plan_of(PROFILE, emulate=("pmem",))
    for spec, other in zip(emulated.runs, plain.runs, strict=True):
        used = spec.placement.name == "pmem-both"
        assert spec.emulate == (("pmem",) if used else ())
        assert (spec.hash() == other.hash()) != used


@pytest.mark.parametrize(
    ("error", "asked"),
    [
        (UsageError("DuckDB setting 'jit'", "no such setting (did you mean 'size'?)"),
         "p.yml:12: DuckDB setting 'jit'"),
        (UsageError("settings", 'unrecognized parameter "jit"'), "p.yml:12: settings"),
        (UsageError("placement 'pmem-both' puts data on tier 'pmem'", "no such tier: 'pmem'"),
         "p.yml:8: placement 'pmem-both' puts data on tier 'pmem'"),
        (UsageError("the disk", "too small (did you mean 'jit'?)"), "the disk"),
    ],
)  # fmt: skip
def test_what_engines_and_host_refuse_is_named_with_its_line(error, asked):
    with pytest.raises(UsageError) as refused, plan_of(PROFILE).blaming():
        raise error
    assert refused.value.problem == asked
    assert refused.value.__cause__ is (None if refused.value is error else error)


@pytest.mark.parametrize(
    ("text", "changes", "word", "line"),
    [
        (TOGETHER, {"params": {"queries": [2]}}, "duckdb", "p.yml:8: "),
        (TOGETHER, {"params": {"queries": [2]}}, "pmem-both", "p.yml:9: "),
        (USERS, {"params": {"users": 8}}, "ssd-both", "p.yml:8: "),
        (USERS, {"params": {"users": 8}}, "users", "p.yml:7: "),
        (USERS, {"drivers": ["loadgen"]}, "ssd-both", "p.yml:8: "),
    ],
)
def test_a_narrowed_profile_has_the_lines_of_the_file(text, changes, word, line, tmp_path):
    file = tmp_path / "p.yml"
    file.write_text(text)
    plan = load_profile(file, **changes)
    with pytest.raises(UsageError) as refused, plan.blaming():
        raise UsageError(f"of {word!r}", "")
    assert refused.value.problem == f"{tmp_path}/{line}of {word!r}"


@pytest.mark.parametrize("name", sorted(known_profiles()))
def test_every_profile_that_comes_along_expands(name):
    plan = load_profile(find_profile(name))
    assert plan.runs
    assert len({spec.hash() for spec in plan.runs}) == len(plan.runs)


def test_a_configuration_sets_what_belongs_together():
    runs = plan_of(CONFIGURATIONS).runs
    assert [(r.engine, r.placement.name, r.required_host_mode, r.cpus) for r in runs[:3]] == [
        ("duckdb", "ssd-both", "Default|AppDirect", None),
        ("duckdb", "pmem-both", "AppDirect", "0-1,3"),
        ("duckdb", "ssd-both", "Memory", None),
    ]
    assert len(runs) == 6
    for spec in runs:
        assert structs.convert(spec.to_json(), RunSpec, "spec") == spec


@pytest.mark.parametrize(
    ("position", "emulate", "modes"),
    [(0, (), "Default AppDirect"), (1, (), "AppDirect"), (2, (), "Memory"),
     # What stands in for PMem stands in for the mode that gives it; nothing does for Memory.
     (1, ("pmem",), "Default AppDirect"), (2, ("pmem",), "Memory")],
)  # fmt: skip
def test_a_run_is_made_in_the_modes_it_names(position, emulate, modes):
    spec = plan_of(CONFIGURATIONS, emulate=emulate).runs[position]
    every = ("Default", "AppDirect", "Memory", "Mixed", "unknown")
    assert [mode for mode in every if spec.runs_in(mode)] == modes.split()


def test_another_size_scales_all_that_depends_on_it(tmp_path):
    file = tmp_path / "p.yml"
    file.write_text(PROFILE)
    spec = load_profile(file, size=0.5).runs[0]
    assert (spec.params["scale"], spec.memory_limit_bytes) == (0.5, 2**28)
    file.write_text(PROFILE.replace("size: 2\n", "").replace("size", "2"))
    with pytest.raises(UsageError, match="no size"):
        load_profile(file, size=0.5)


def test_a_parameter_of_the_command_line_applies_to_all_runs_and_selects_on_an_axis(tmp_path):
    file = tmp_path / "p.yml"
    file.write_text(PROFILE)
    runs = load_profile(file, params={"scale": 0.1}).runs
    assert {run.params["scale"] for run in runs} == {0.1}
    file.write_text(TOGETHER)
    assert {run.engine for run in load_profile(file, params={"queries": [2]}).runs} == {"duckdb"}
    with pytest.raises(UsageError, match="no configuration"):
        load_profile(file, params={"queries": [1]})
    users = "papers/nvm-for-databases/fig5"
    runs = load_profile(find_profile(users), params={"users": 8}).runs
    assert {run.params["users"] for run in runs} == {8}


def test_an_experiment_of_the_paper_has_the_paper_s_numbers():
    path, figures = published_of("nvm-for-databases-query-plans")
    assert path is not None and path.name == "published.csv"
    assert figures == ("sec4.5.1", "sec4.5.2", "sec4.5.3")
    assert published_of("demo") == (None, ())
    read = read_published(path, figures)
    arms = {"mysql": {"ssd-both", "pmem-both"}, "duckdb": {"ssd-both", "pmem-both"},
            "postgres": {"pmem-both", "ssd-both over pmem-both",
                         "pmem-both over ssd-both"}}  # fmt: skip
    assert {
        figure.engine: {o.arm for o in read if o.engine == figure.engine} for figure in read
    } == arms
    [whole] = [figure for figure in read if figure.metric == "query_duration_ns"]
    assert (whole.engine, whole.arm, whole.points[0].y_base) == ("postgres", "pmem-both", 106e9)
    # A scan without its filter is not compared with one with it.
    assert {figure.metric for figure in read if figure.engine == "mysql"} == {
        "table_read_ns[relation=lineitem]",
        "index_lookup_ns[index=secondary,relation=orders]",
        "index_lookup_ns[index=clustered,relation=lineitem]",
        "index_lookup_rows[index=secondary,relation=lineitem]",
        "query_io_bytes[part=data,operation=read] / query_io_calls_count[part=data,operation=read]",
    }


def test_more_repeats_keep_the_runs_that_are_there():
    path = find_profile("papers/nvm-for-databases/fig8")
    once, more = (load_profile(path, repeats=n) for n in (1, 3))
    assert len(more.runs) == 3 * len(once.runs)
    assert [spec.hash() for spec in more.runs[: len(once.runs)]] == [s.hash() for s in once.runs]


def test_options_of_an_engine_are_an_axis_and_go_together(tmp_path):
    axes = """\
axes:
  engine_options: {mysql: {page_size: [4, 16]}}
  configuration:
    - {placement: ssd-both, engine_options: {mysql: {start_timeout_s: 5}}}
    - {placement: pmem-both}
fixed: {engine: mysql, engine_options: {mysql: {stop_timeout_s: 9}}}
"""
    head = "schema: 1\nname: pages\ndescription: page sizes\nworkload: tpch\n"
    options = [dict(run.engine_options) for run in plan_of(head + axes).runs]
    stop = {"stop_timeout_s": 9}
    assert options == [
        stop | {"page_size": 4, "start_timeout_s": 5},
        stop | {"page_size": 4},
        stop | {"page_size": 16, "start_timeout_s": 5},
        stop | {"page_size": 16},
    ]
    for old, new in (("stop_timeout_s", "page_size"), ("{mysql: {start", "{mysq: {start")):
        with pytest.raises(UsageError):
            plan_of(head + axes.replace(old, new))


# Arithmetic in profiles -----------------------------------------------------------


def test_variables_units_and_functions():
    assert evaluate("= 0.25 * memory", {"memory": 8 * 2**30}, "x.yml:3") == 2 * 2**30
    assert evaluate("=max(4 * MiB, memory // 64)", {"memory": 0}, "x.yml:3") == 4 * 2**20


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("= memroy / 4", "did you mean 'memory'?"),
        ("= __import__('os')", "is not arithmetic"),
        ("= (1).real", "is not arithmetic"),
        ("= 1 / 0", "division by zero"),
        ("= 1 +", "invalid syntax"),
        ("= 2 ** 99", "is not arithmetic"),
        ("= 1e400", "not finite"),
        ("= 1e308 * 10", "not finite"),
        ("= 1e308 * 10 - 1e308 * 10", "not finite"),
        ("= floor(1e400)", "cannot convert float infinity"),
    ],
)
def test_anything_else_is_refused_naming_the_line(text, problem):
    with pytest.raises(UsageError) as refused:
        evaluate(text, {"memory": 1}, "x.yml:3")
    assert refused.value.problem == "x.yml:3"
    assert problem in refused.value.context


BOUND = PROFILE.replace("fixed:\n", "fixed:\n  memory: socket:0\n")


def test_the_memory_of_a_profile_leaves_its_placements_their_names() -> None:
    runs = plan_of(BOUND).runs
    assert {(spec.placement.name, spec.memory) for spec in runs} == {
        ("ssd-both", "socket:0"),
        ("pmem-both", "socket:0"),
    }
    assert {spec.hash() for spec in runs}.isdisjoint(spec.hash() for spec in plan_of(PROFILE).runs)


def test_memory_of_a_profile_is_nodes_and_the_only_memory(tmp_path: Path) -> None:
    file = tmp_path / "bound.yml"
    for old, new, problem in (
        ("pmem-both", '"data=ssd,memory=cxl"', "has memory of its own"),
        ("socket:0", "cxl", "socket:0, node:0 or socket:data"),
    ):
        file.write_text(BOUND.replace(old, new))
        with pytest.raises(UsageError) as refused:
            load_profile(file)
        assert problem in f"{refused.value.context} {refused.value.hint}"
        assert f"{file}:10" in refused.value.problem


# The placement grammar, as examples of use ----------------------------------------


@pytest.mark.parametrize(
    ("text", "parts", "memory", "tiers"),
    [
        ("pmem-both", "pmem pmem pmem pmem", None, ["pmem"]),
        ("ssd-data-pmem-wal", "ssd pmem ssd ssd", None, ["ssd", "pmem"]),
        # The unnamed follow data.
        ("data=ssd, temp=pmem_log, memory=cxl", "ssd ssd pmem_log ssd", "cxl",
         ["ssd", "pmem_log", "cxl"]),
        # A list of memory's tiers ends where a part begins.
        ("data=ssd,memory=weighted:dram=3, cxl=1,wal=pmem", "ssd pmem ssd ssd",
         "weighted:dram=3,cxl=1", ["ssd", "pmem", "dram", "cxl"]),
        ("memory=tiered:dram,cxl,data=ssd", "ssd ssd ssd ssd", "tiered:dram,cxl",
         ["ssd", "dram", "cxl"]),
        ("data=ssd,memory=socket:0", "ssd ssd ssd ssd", "socket:0", ["ssd"]),
    ],
)  # fmt: skip
def test_a_placement_puts_each_part_on_a_tier(text, parts, memory, tiers):
    placement = parse_placement(text)
    places = (placement.data, placement.wal, placement.temp, placement.index)
    assert (places, placement.memory) == (tuple(parts.split()), memory)
    assert (placement.tiers(), placement.to_json()["name"]) == (tiers, text)
    assert parse_placement("ssd-data-pmem-wal").named == {"data", "wal"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("pmem", "not in the placement grammar"),
        ("PMEM-both", "not in the placement grammar"),
        ("data=ssd,wla=pmem", "'wla' is not a part (did you mean 'wal'?)"),
        ("wal=pmem", "the part 'data' is not named"),
        ("data=ssd,data=pmem", "named twice"),
        ("data=9ssd", "is not a tier name"),
        ("", "not in the placement grammar"),
    ],
)
def test_what_is_not_a_placement_is_refused_with_what_to_write(text, problem):
    with pytest.raises(UsageError) as refused:
        parse_placement(text)
    assert problem in refused.value.context
    assert refused.value.exit_code == 2
    assert "data" in refused.value.hint


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("data=ssd,memory=dram,cxl", "'cxl' is not a part"),
        ("data=ssd,memory=weighted:dram=3,wal=1", "'wal' is a part"),
        ("data=ssd,memory=interleave:dram,wal", "'wal' is a part"),
        ("data=ssd,memory=weighted:dram=3,wla=pmem", "from 1 to 255 (got 'pmem')"),
        ("data=ssd,memory=weighted:dram=0,cxl=1", "from 1 to 255 (got '0')"),
        ("data=ssd,memory=weighted:dram=64,cxl=256", "from 1 to 255 (got '256')"),
        ("data=ssd,memory=weighted:dram=3,cxl", "only some of the tiers have a weight"),
        ("data=ssd,memory=interleave:dram=3,cxl=1", "interleave takes no weights"),
        ("data=ssd,memory=interleave:dram,dram", "named twice"),
        ("data=ssd,memory=weigthed:dram=3", "did you mean 'weighted'?"),
        ("data=ssd,memory=socket:x", "'socket' is not a memory policy"),
    ],
)
def test_memory_that_is_ambiguous_or_in_no_grammar_is_refused(text, problem):
    with pytest.raises(UsageError) as refused:
        parse_placement(text)
    assert refused.value.problem == f"placement {text!r}"
    assert problem in refused.value.context
    assert refused.value.hint


def test_weights_that_are_too_large_are_reduced() -> None:
    with pytest.raises(UsageError) as refused:
        parse_placement("data=ssd,memory=weighted:dram=64,cxl=256")
    assert refused.value.hint == "write dram=1,cxl=4"


# Parts of a plan ------------------------------------------------------------------


DEMO = load_profile(find_profile("demo"), repeats=2)
NONE: dict[str, list[str]] = {"engine": [], "placement": [], "driver": []}


def test_a_plan_is_restricted_to_values_of_its_axes() -> None:
    restricted = only(DEMO, NONE | {"engine": ["duckdb"], "placement": ["pmem-both", "ssd-both"]})
    assert restricted.runs == tuple(spec for spec in DEMO.runs if spec.engine == "duckdb")
    assert only(DEMO, NONE).runs == DEMO.runs


def test_more_blocks_of_a_plan_have_all_of_its_arms() -> None:
    """Each arm is a plan of its own, so that no single document describes all of them."""
    arms = [load_profile(find_profile(name), repeats=1) for name in ("demo", "cxl/tpch")]
    more = with_repeats(of_arms(arms), 2)
    assert {spec.series() for spec in more.runs} == {s.series() for arm in arms for s in arm.runs}
    assert [spec.block for spec in more.runs] == sorted(spec.block for spec in more.runs)
    again = with_repeats(DEMO, 3)
    assert again.runs == load_profile(find_profile("demo"), repeats=3).runs


def test_more_blocks_of_a_restricted_plan_are_restricted() -> None:
    restricted = only(DEMO, NONE | {"engine": ["duckdb"]})
    more = with_repeats(restricted, 3)
    assert more.runs[:4] == restricted.runs
    assert {spec.engine for spec in more.runs} == {"duckdb"}
    assert more.runs[-1].block == 2


@dataclass(frozen=True)
class Ready(ResolvedRun):
    """A run that has passed its check."""

    warnings: tuple[RunWarning, ...] = ()
    runnable: ClassVar[bool] = True


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[RunSpec], object]], None]:
    """Refuse runs with what a function says of them, if it says something."""

    def refuse(why: Callable[[RunSpec], object]) -> None:
        def prepare(spec: RunSpec, env: object) -> ResolvedRun:
            if reason := why(spec):
                raise UsageError(str(reason), "not here", "install it")
            return Ready(spec)

        monkeypatch.setattr(preflight, "prepare", prepare)

    monkeypatch.setattr(preflight, "_check_space", lambda runs, env: None)
    return refuse


HOST: Any = SimpleNamespace(host=SimpleNamespace(mode="AppDirect"))


def test_runs_that_are_not_possible_are_left_out_with_their_reason(refusing) -> None:
    refusing(lambda spec: spec.engine == "postgres" and "postgres")
    checked = checked_runs(DEMO, HOST, each=True)
    assert checked.plan.runs == tuple(spec for spec in DEMO.runs if spec.engine == "duckdb")
    assert [step.spec for step in checked.of(checked.plan)] == list(checked.plan.runs)
    (refusal,) = checked.refused
    assert (refusal.names, refusal.hint) == (("postgres",), "install it")
    assert refusal.runs == len(DEMO.runs) - len(checked.plan.runs)


def test_an_arm_that_is_not_possible_leaves_the_others_of_its_engine(refusing) -> None:
    refusing(lambda spec: spec.where == "pmem-both" and spec.engine)
    checked = checked_runs(DEMO, HOST, each=True)
    assert {(spec.engine, spec.where) for spec in checked.plan.runs} == {
        ("duckdb", "ssd-both"),
        ("postgres", "ssd-both"),
    }
    assert sorted(name for refusal in checked.refused for name in refusal.names) == [
        "duckdb pmem-both",
        "postgres pmem-both",
    ]


def test_a_plan_is_refused_if_none_of_its_runs_is_possible(refusing) -> None:
    refusing(lambda spec: spec.engine)
    with pytest.raises(UsageError) as refused:
        checked_runs(DEMO, HOST, each=True)
    assert all(f"{engine}: not here" in refused.value.context for engine in ("duckdb", "postgres"))


def test_an_arm_of_the_command_line_that_is_not_possible_is_an_error(refusing) -> None:
    refusing(lambda spec: spec.engine == "postgres" and "postgres")
    with pytest.raises(UsageError, match="postgres"):
        checked_runs(DEMO, HOST)


# How long runs take, by earlier ones ----------------------------------------------


S = 10**9
SPEC = RunSpec("tpcc", "postgres", parse_placement("ssd-both"),
               {"warehouses": 1, "ramp_up": "5s", "duration": "20s"})  # fmt: skip


@dataclass(frozen=True)
class Copied(ResolvedRun):
    copied_bytes: int = 0


def stored(root: Path, spec: RunSpec, took_ns: int, status: str = "complete") -> StoredRun:
    writer = Store(root).begin(spec)
    completed = replace(
        result(writer, status), spec=spec, spec_hash=spec.hash(), duration_ns=took_ns
    )
    return writer.finish(completed)


def test_a_run_takes_as_long_as_its_earlier_repeats(tmp_path: Path) -> None:
    earlier = [stored(tmp_path, replace(SPEC, block=k), took * S)
               for k, took in enumerate((40, 44, 90))]  # fmt: skip
    earlier.append(stored(tmp_path, replace(SPEC, block=3), 1, "failed"))
    assert Estimator(earlier).run_time(ResolvedRun(SPEC)) == RunTime(44 * S, "earlier runs")


def test_another_window_has_the_same_overhead(tmp_path: Path) -> None:
    longer = replace(SPEC, params={**SPEC.params, "duration": "3m"})
    earlier = [stored(tmp_path, SPEC, 40 * S)]
    assert Estimator(earlier).run_time(ResolvedRun(longer)) == RunTime(
        (185 + 15) * S, "earlier runs"
    )


def test_runs_on_less_data_say_nothing_of_the_overhead(tmp_path: Path) -> None:
    larger = replace(SPEC, params={**SPEC.params, "warehouses": 10})
    earlier = Estimator([stored(tmp_path, SPEC, 40 * S)])
    assert earlier.run_time(Copied(larger, copied_bytes=1_500_000_000)) == RunTime(
        40 * S, "assumptions"
    )


def test_without_earlier_runs_copying_is_assumed() -> None:
    assert Estimator([]).run_time(Copied(SPEC, copied_bytes=750_000_000)) == RunTime(
        35 * S, "assumptions"
    )
    queries = replace(SPEC, workload="tpch", params={"scale": 1})
    assert Estimator([]).run_time(Copied(queries, copied_bytes=500_000_000)) is None
