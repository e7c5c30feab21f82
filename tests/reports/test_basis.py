"""The basis of a comparison, and what a script decides by."""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import numpy as np
import pytest
from narrowed import present
from report_runs import (
    PLACES,
    Case,
    interleaved,
    metric,
    printed,
    tpch_metrics,
    with_metrics,
    write,
)
from typer.testing import CliRunner

from harness.cli.app import app
from harness.errors import RunFailed, UsageError
from harness.store.calibrations import CalibrationStore
from harness.store.run_store import Store
from harness.store.runs import StoredRun
from reports import answers
from reports.answers import not_controlled
from reports.compare import Comparison, Group, compare
from reports.compare_output import to_json
from reports.history import histories
from reports.noise import calibration_of


def arms(root: Path, slower: float, blocks: int = 6, **changes: Any) -> Any:
    """A and B, which takes longer by a factor, as one experiment leaves them."""
    factors = dict(zip(PLACES, (1.0, slower), strict=True))
    return interleaved(
        root,
        lambda place, k: [metric("queries_geomean_ns", 1e9 * factors[place] + k, "lower")],
        blocks,
        **changes,
    )


def facts_of(group: Group) -> dict[str, Any]:
    return {fact.code: fact.values for fact in group.rests_on}


def test_a_comparison_says_what_it_rests_on(tmp_path: Path) -> None:
    comparison = compare(*arms(tmp_path, 1.5, emulated=True))
    facts = facts_of(*comparison.groups)
    assert (facts["pairs"], facts["emulated"]) == ((6,), ("pmem by tmpfs",))
    text = printed(comparison)
    assert "EMULATED" in text
    assert [fact["code"] for fact in to_json(comparison)["groups"][0]["rests_on"]] == [*facts]


def test_the_noise_is_that_of_the_latest_calibration(tmp_path: Path) -> None:
    ssd, pmem = arms(tmp_path, 1.5)
    assert "not-calibrated" in facts_of(*compare(ssd, pmem).groups)
    calibration = calibration_of(list(zip(ssd[:2], ssd[2:4], strict=True)))
    (noise,) = calibration.metrics
    ratios = (math.log(1.1), -math.log(1.1))
    calibrated = msgspec.structs.replace(
        calibration, warnings=(), metrics=(msgspec.structs.replace(noise, log_ratios=ratios),)
    )
    CalibrationStore(tmp_path).write(calibrated)
    assert facts_of(*compare(ssd, pmem).groups)["noise"] == pytest.approx((0.1,))
    differing = msgspec.structs.replace(noise, log_ratios=(math.log(1.1),) * 8)
    changes: dict[str, Any] = {"unix_ns": calibrated.unix_ns + 1, "metrics": (differing,)}
    later_id = f"{calibrated.calibration_id}-2"
    later = msgspec.structs.replace(calibrated, calibration_id=later_id, **changes)
    CalibrationStore(tmp_path).write(later)
    assert facts_of(*compare(ssd, pmem).groups)["noise"][1:] == ("arms-differ",)


ARGV = ["compare", "placement=ssd-both", "placement=pmem-both", "--results"]


@pytest.mark.parametrize(
    ("slower", "blocks", "shown", "undecided"),
    [(1.2, 6, 1, 1), (1.03, 6, 0, 0), (1.0, 6, 0, 0), (1.2, 3, 0, 1), (0.5, 6, 0, 0)],
)
def test_regressions_fail_and_what_is_open_on_request(tmp_path, slower, blocks, shown, undecided):
    arms(tmp_path, slower, blocks)
    argv = [*ARGV, str(tmp_path)]
    assert CliRunner().invoke(app, argv).exit_code == 0
    assert CliRunner().invoke(app, [*argv, "--fail-above", "5%"]).exit_code == shown
    done, failing = junit_of(tmp_path, "--fail-above", "5%", "--inconclusive", "fail")
    assert (done.exit_code, [*failing.values()]) == (undecided, [bool(undecided)])


def junit_of(root: Path, *options: str) -> tuple[Any, dict[str, bool]]:
    """The command's end, and whether each test of its file fails, by name."""
    file = root / "junit.xml"
    done = CliRunner().invoke(app, [*ARGV, str(root), *options, "--junit", str(file)])
    suite = ElementTree.parse(file).getroot()
    failing = {case.get("name") or "": case.find("failure") is not None for case in suite}
    counts = [len(suite), len(suite), sum(failing.values())]
    assert [len(failing), *map(int, (suite.attrib["tests"], suite.attrib["failures"]))] == counts
    return done, failing


def test_each_value_of_a_sweep_is_a_test_of_its_own(tmp_path: Path) -> None:
    """B is slower with the small scale alone."""
    for scale, slower in ((1, 1.3), (10, 1.0)):
        arms(tmp_path, slower, 8, spec_changes={"params": {"scale": scale}})
    done, failing = junit_of(tmp_path, "--fail-above", "5%")
    assert done.exit_code == 1
    assert [name for name, fails in failing.items() if fails != ("scale 10" not in name)] == []
    assert len(failing) == 2


def test_what_follows_from_a_swept_parameter_names_no_comparison(tmp_path: Path) -> None:
    for block, arm, users in [(b, arm, n) for b in range(2) for arm in "ab" for n in (1, 2)]:
        params = {"users": users, "connections": users}
        changes = {"params": params, "workload": "tpcc"}
        write(tmp_path, Case(block=block, label=arm, metrics=[metric("x_ns", 1.0 + block)],
                             spec_changes=changes))  # fmt: skip
    runs = Store(tmp_path).runs()
    a, b = ([run for run in runs if run.spec.label == arm] for arm in "ab")
    for group in compare(a, b, over=["arm"]).groups:
        assert "params.users" in group.context
        assert "params.connections" not in group.context


@pytest.mark.parametrize("complete", [0, 6])
def test_failed_runs_of_b_fail_the_command(tmp_path: Path, complete: int) -> None:
    arms(tmp_path, 1.0, complete)
    write(tmp_path, Case(block=complete))
    failed = write(tmp_path, Case(placement="pmem-both", block=complete, status="failed"))
    done, failing = junit_of(tmp_path, "--fail-above", "5%")
    status = done.exception.exit_code if isinstance(done.exception, RunFailed) else done.exit_code
    assert status == 1
    assert [name for name, fails in failing.items() if fails] == [failed.run_id]


def test_what_b_was_not_measured_at_fails_on_request(tmp_path: Path) -> None:
    arms(tmp_path, 1.0)
    write(tmp_path, Case(spec_changes={"params": {"scale": 10}}))
    done, failing = junit_of(tmp_path, "--fail-above", "5%")
    assert (done.exit_code, sorted(failing.values())) == (0, [False, False])
    done, failing = junit_of(tmp_path, "--fail-above", "5%", "--inconclusive", "fail")
    assert (done.exit_code, sorted(failing.values())) == (1, [False, True])


@pytest.mark.parametrize("options", [("--inconclusive", "fail"), ("--junit", "junit.xml")])
def test_nothing_fails_without_a_limit(tmp_path: Path, options: tuple[str, ...]) -> None:
    arms(tmp_path, 1.2)
    done = CliRunner().invoke(app, [*ARGV, str(tmp_path), *options])
    assert isinstance(done.exception, UsageError)


def test_executions_of_an_experiment_are_compared_over_time(tmp_path: Path) -> None:
    ssd, pmem = arms(tmp_path, 1.2)
    runs = [*ssd, *pmem]
    assert histories(runs) == []
    later = {"started_unix_ns": runs[-1].document["started_unix_ns"] + 86_400 * 10**9}
    (again,) = interleaved(
        tmp_path,
        lambda _, k: [metric("queries_geomean_ns", 2e9 + k, "lower")],
        places=PLACES[:1],
        run_changes=later,
        manifest_changes={"engine.version": "19.0"},
    )
    (history,) = histories([*runs, *again])
    first, second = history.executions
    assert first.row is None
    assert second.row is not None and second.row.verdict == "slower"
    assert "engine.version: 18.4 → 19.0" in second.changed


@pytest.mark.parametrize(
    ("of_a", "of_b", "regressed"),
    [(0, 8, True), (8, 0, False), (8, 8, False), (0, 1, False), (0, 4, True), (1, 8, True)],
)
def test_a_time_limit_that_b_alone_reaches_is_a_regression(tmp_path, of_a, of_b, regressed):
    limited = dict(zip(PLACES, (of_a, of_b), strict=True))

    def metrics(place: str, block: int) -> list[dict[str, Any]]:
        cut = (9,) if block < limited[place] else ()
        return tpch_metrics(Case(placement=place, limited=cut, block=block, plans=False))

    assert compare(*interleaved(tmp_path, metrics, 8)).regressed(0.05) == [regressed]


def execution(
    root: Path, day: int, seconds: float = 2, limited: int = 0, **changes: Any
) -> list[StoredRun]:
    """Eight repeats on one placement; ``limited``: those in which a query reached its limit."""
    times = [metric("queries_geomean_ns", seconds * 1e9, "lower")]
    limit = [metric("query_timeout_ns", 60e9, query="9")]
    began = {"started_unix_ns": (20_000 + day) * 86_400 * 10**9}
    (runs,) = interleaved(
        root,
        lambda _, k: limit if k < limited else times,
        8,
        PLACES[:1],
        run_changes=began | changes,
    )
    return list(runs)


def test_changes_over_time_have_the_interval_of_a_comparison(tmp_path: Path) -> None:
    """Also where results decided whether there were more repeats."""
    before = execution(tmp_path, 0)
    after = execution(tmp_path, 1, 1, **{"experiment.looks": 4})
    ((_, change),) = (history.executions for history in histories([*before, *after]))
    (group,) = compare(before, after, force=True).groups
    estimate = present(present(change.row).estimate)
    assert estimate == present(group.deciding).estimate
    assert estimate.interim_analyses == 4


def test_an_execution_at_a_time_limit_is_no_gain(tmp_path: Path) -> None:
    """The times of its other runs are those that happened to be short."""
    first = execution(tmp_path, 0)
    some, all_ = execution(tmp_path, 1, 1, 1), execution(tmp_path, 1, 1, 8)
    for runs in (some, all_):
        ((_, last),) = (history.executions for history in histories([*first, *runs]))
        assert last.row is not None and last.row.estimate is None
        assert (last.summary is None) == (runs is all_)
    limited = execution(tmp_path, 0, limited=8)
    runs = [*limited, *all_, *execution(tmp_path, 2)]
    ((_, second, third),) = (history.executions for history in histories(runs))
    assert second.row is None
    assert third.row is not None and third.row.estimate is None


def test_change_points_are_where_executions_differ_from_all_before(tmp_path: Path) -> None:
    """Of single runs: no two neighbours can show a difference."""
    (first,) = execution(tmp_path, 0)[:1]
    speeds = [1.0] * 10 + [1.3] * 10 + [0.9] * 10
    runs = []
    for day, seconds in enumerate(speeds):
        drifting = metric("queries_geomean_ns", (seconds + 0.01 * (day % 4)) * 1e9, "lower")
        run = with_metrics(first, [drifting])
        began = first.result.started_unix_ns + day * 86_400 * 10**9
        vars(run)["result"] = msgspec.structs.replace(run.result, started_unix_ns=began)
        vars(run)["head"] = msgspec.structs.replace(run.head, started_unix_ns=began)
        runs.append(run)
    (history,) = histories(runs)
    assert {e.row.verdict for e in history.executions if e.row} == {"not resolvable"}
    assert [(change.at, change.ratio.above) for change in history.change_points] == [
        (10, False),
        (20, True),
    ]
    (steady,) = histories(runs[:10])
    assert steady.change_points == ()


# Parts that moved and were not used --------------------------------------------

TEMP_APART = "data=ssd,temp=pmem"
LOG_APART = "ssd-data-pmem-wal"


def traced(**sizes: float) -> list[dict[str, Any]]:
    """Bytes that the I/O trace saw of each part."""
    return [
        *(metric("io_bytes", size, part=part, operation="read", role="foreground")
          for part, size in sizes.items()),
        *(metric("io_trace_coverage_share", 1.0, part=part) for part in sizes),
    ]  # fmt: skip


def counted(tier: str, size: float) -> list[dict[str, Any]]:
    """Bytes that a tier's device moved."""
    names = ("query_tier_read_bytes", "query_tier_write_bytes")
    return [metric(name, size, query="1", tier=tier) for name in names]


SPILLED = metric("query_spilled_bytes", 0, query="1")
UNSEEN = metric("io_trace_coverage_share", 0.5, part="data")
CASES = {
    "nothing spilled": ("ssd-both", TEMP_APART, [SPILLED], ["temp"], True),
    "traced": ("ssd-both", TEMP_APART, traced(data=1e6), ["temp"], True),
    "spilled": ("ssd-both", TEMP_APART, traced(data=1e6, temp=4096), [], False),
    "spilled, not traced": ("ssd-both", TEMP_APART, [SPILLED | {"value": 4096}], [], False),
    "trace incomplete": ("ssd-both", LOG_APART, [UNSEEN], [], False),
    "no evidence": ("ssd-both", LOG_APART, [], [], False),
    "log not written": ("ssd-both", LOG_APART, traced(data=1e6), ["wal"], True),
    "another part used": ("ssd-both", "data=pmem,temp=dram", traced(data=1e6), ["temp"], False),
    "all on one tier": ("ssd-both", "pmem-both", traced(data=1e6), [], False),
    "idle device": (TEMP_APART, "data=ssd,temp=dram", counted("pmem", 0), ["temp"], True),
    "busy device": (TEMP_APART, "data=ssd,temp=dram", counted("pmem", 1), [], False),
}


@pytest.mark.parametrize("case", CASES)
def test_a_part_that_moved_and_was_not_used_has_no_verdict(case: str, tmp_path: Path) -> None:
    first, second, more, unused, every = CASES[case]
    if case.endswith("device"):
        more = [*more, *counted("dram", 0)]
    a, b = interleaved(
        tmp_path,
        lambda _, k: [metric("query_duration_ns", 1e9 + k, "lower", query="1"), *more],
        places=(first, second),
        queries=(1,),
        spec_changes={"monitors": ("io",)},
    )
    (group,) = compare(a, b, ["placement"], force=True).groups
    warned = [warning for warning in group.warnings if warning.code == "part-not-used"]
    assert [
        name for warning in warned for name in ("temp", "wal") if name in warning.context
    ] == unused
    assert (group.verdict == "part not used") == every
    assert any(row.estimate for row in group.rows) == (not every)


def test_losses_at_the_limit_fail_one_build_in_twenty_at_most(tmp_path: Path) -> None:
    """Each build has twenty comparisons whose B is worse by just the limit, as one family."""
    draw = np.random.default_rng(5)
    pairs = arms(tmp_path, 1.0, 12)
    (group,) = compare(*pairs).groups

    def varied(runs: Sequence[StoredRun], factor: float) -> tuple[StoredRun, ...]:
        times = factor * np.exp(draw.normal(0, 0.02, len(runs)))
        named = [metric("queries_geomean_ns", 1e9 * time, "lower") for time in times]
        return tuple(with_metrics(run, [geomean]) for run, geomean in zip(runs, named, strict=True))

    def build() -> Comparison:
        groups = [
            replace(
                group,
                a=replace(group.a, runs=varied(pairs[0], 1.0)),
                b=replace(group.b, runs=varied(pairs[1], 1.05)),
            )
            for _ in range(20)
        ]
        return Comparison(("placement",), tuple(groups))

    builds = [build() for _ in range(40)]
    assert sum(any(comparison.regressed(0.05)) for comparison in builds) <= 5
    assert all(any(comparison.regressed(0.01)) for comparison in builds)


@pytest.mark.parametrize(
    ("a", "b", "paired", "code"),
    [
        ([1, 2, 3, 4, 5, 6, 7, 8], [8] * 8, True, "blocks-not-independent"),
        ([1, 8, 2, 7, 3, 6, 4, 5], [8] * 8, True, ""),
        ([100, 101, 99, 102, 98], [100, 150, 70, 140, 60], False, "spreads-differ"),
        ([80, 140, 70, 150, 90], [100, 150, 70, 140, 60], False, ""),
    ],
)
def test_repeats_that_statistics_do_not_assume_are_warned_of(tmp_path, a, b, paired, code):
    values = dict(zip(PLACES, (a, b), strict=True))
    runs = [
        write(
            tmp_path,
            Case(
                placement=place,
                block=block,
                experiment="one" if paired else place,
                metrics=[metric("queries_geomean_ns", 1e9 + 1e7 * values[place][block], "lower")],
            ),
        )
        for block in range(len(a))
        for place in PLACES
    ]
    (group,) = compare(runs[0::2], runs[1::2]).groups
    assert group.pairing == ("paired" if paired else "unpaired")
    codes = {"blocks-not-independent", "spreads-differ"}
    assert {warning.code for warning in group.warnings} & codes == ({code} if code else set())


def lines_of(group: Group) -> list[set[str]]:
    """The codes on each line of what was not controlled, and of facts their first words."""
    return [
        set(re.findall(r"[a-z]+(?:-[a-z]+)+|no canary", line)) for line in not_controlled([group])
    ]


def warned(root: Path, of_a: Sequence[str], of_b: Sequence[str], slower: float = 1.5) -> Group:
    """Paired arms whose runs have warnings of these codes."""
    factors = dict(zip(PLACES, (1.0, slower), strict=True))
    noise = (0, 5, 1, 4, 2, 3)
    sides = interleaved(
        root,
        lambda place, k: [metric("queries_geomean_ns", 1e9 * factors[place] + noise[k], "lower")],
    )
    for runs, codes in zip(sides, (of_a, of_b), strict=True):
        for run in runs:
            entries = [{"code": code, "what": "x", "found": "y", "do": "z"} for code in codes]
            document = json.loads((run.directory / "run.json").read_text()) | {
                "uncontrolled": entries
            }
            (run.directory / "run.json").write_text(json.dumps(document))
    a, b = ([StoredRun(run.directory) for run in runs] for runs in sides)
    (group,) = compare(a, b).groups
    return group


BOTH = ("turbo-enabled", "other-load", "client-saturated", "run-retried")


@pytest.mark.parametrize(
    ("of_a", "of_b", "slower", "turning"),
    [
        (BOTH, BOTH, 1.5, {"client-saturated"}),
        ((*BOTH, "smt-enabled"), BOTH, 1.5, {"client-saturated", "smt-enabled"}),
        (BOTH, BOTH, 1.0, {"client-saturated", "other-load"}),  # noise may hide a difference
        (("turbo-enabled",), ("turbo-enabled",), 1.5, None),
    ],
)
def test_what_can_turn_the_verdict_comes_first(tmp_path, of_a, of_b, slower, turning) -> None:
    first, *rest = lines_of(warned(tmp_path, of_a, of_b, slower))
    if turning is None:
        assert "turbo-enabled" in first and not rest
    else:
        assert first == turning
        assert {*of_a} - turning < rest[0]


def test_each_code_that_turns_no_verdict_is_documented() -> None:
    documented = Path(__file__).parents[2] / "docs/warnings.md"
    codes = set(re.findall(r"^\| `([a-z0-9-]+)`", documented.read_text(), re.MULTILINE))
    assert codes >= answers._ABOUT | answers._OF_HOST | answers._VARYING


@pytest.mark.parametrize(("drift", "warned_of"), [(0.15, True), (0.06, False), (-0.15, True)])
def test_a_drift_over_the_repeats_is_a_warning(tmp_path, drift, warned_of) -> None:
    def made(place: str, k: int) -> list[dict[str, Any]]:
        return [metric("queries_geomean_ns", 1e9 * (1 + drift * k / 7), "lower")]

    (group,) = compare(*interleaved(tmp_path, made, 8)).groups
    drifting = [warning.context for warning in group.warnings if warning.code == "results-drift"]
    assert len(drifting) == 2 * warned_of
    if warned_of:
        assert "15 %" in drifting[0] and ("higher" if drift > 0 else "lower") in drifting[0]
