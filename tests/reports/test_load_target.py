"""The most load within a latency target: the search over runs, its answer, and the report."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import asdict
from narrowed import present
from report_runs import Case, histogram, metric, write

from harness.cli.run import run as run_command
from harness.cli.run_plan import RunOptions, plan_of
from harness.errors import UsageError
from harness.execution.resolved_run import ResolvedRun
from harness.experiment.profile import Plan
from harness.experiment.study import Batch, drive
from harness.experiment.target import TargetSearch, parse_target
from harness.load_search import MOST_WINDOWS
from harness.store.result import LatencyTarget
from harness.store.runs import StoredRun
from harness.workloads.sql.params import SqlParams
from harness.workloads.tpcc.params import TpccParams
from reports.load_target import target_answers
from reports.report import Report
from reports.sections import Drawing, Paragraph

TARGET = LatencyTarget("99", 10_000_000, "rate")
OPTIONS = RunOptions(engine=["postgres"], placement=["ssd-both", "pmem-both"], name="target")
#: Transactions per second that each placement serves.
SERVED = {"ssd-both": 1_260.0, "pmem-both": 1_910.0}


def plan_at(load: float | None) -> Plan:
    plan = plan_of(TpccParams, OPTIONS, {"rate": [load]} if load else None)
    return replace(plan, target=TARGET, several_commands=False)


def window(root: Path, spec: Any, plan: Plan, per_s: float, status: str = "complete") -> StoredRun:
    """A run of a queue with exponential service times; without a rate, of a closed loop."""
    rate = spec.params["rate"]
    metrics = [metric("transactions_per_minute", 60 * (rate or 0.9 * per_s), "higher")]
    if rate:
        mean_ns = 1e9 / max(per_s - rate, 1e-3 * per_s)
        shares = (np.arange(20_000) + 0.5) / 20_000
        text = histogram(-mean_ns * np.log(1 - shares))
        metrics += [
            metric("transaction_duration_ns", text, "lower", transaction="new_order"),
            metric("transaction_count", 20_000, transaction="new_order"),
            metric("window_duration_ns", 20_000 / rate * 1e9),
            metric("outstanding_count", 10, at="begin"),
            metric("outstanding_count", 10 if rate < per_s else 5_000, at="end"),
        ]
    changes = {"experiment": plan.experiment.to_json()}
    case = Case(status=status, queries=(), metrics=metrics, run_changes=changes)
    return write(root, replace(case, spec_changes=asdict(spec)))


def searched(root: Path, served: Mapping[str, float]) -> list[StoredRun]:
    """Conduct the search with such runs in place of an engine's."""
    plan, runs = plan_at(None), list[StoredRun]()
    rule = TargetSearch(target=TARGET, at=plan_at, resolve=ResolvedRun)

    def make(batch: Batch) -> Sequence[StoredRun]:
        made = []
        for step in batch.steps:
            per_s = served[present(step.spec.placement).name]
            status = "complete" if per_s else "failed"
            made.append(window(root, step.spec, batch.plan, per_s, status))
        runs.extend(made)
        return made

    steps = [ResolvedRun(spec) for spec in plan.runs]
    drive(rule.batches(plan, steps, lambda _: None, lambda _: None), make)
    return runs


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[StoredRun]:
    return searched(tmp_path_factory.mktemp("target"), SERVED)


def test_each_placement_carries_its_planted_load(runs: list[StoredRun]) -> None:
    (answer,) = target_answers(runs)
    assert answer.operation == "new_order"
    for arm in answer.arms:
        load = present(arm.load)
        planted = SERVED[arm.name] - math.log(100) / 0.010
        assert load.value == pytest.approx(planted, rel=0.05)
        assert present(load.low) <= load.value <= present(load.high)
        assert arm.windows <= MOST_WINDOWS
    times = present(answer.arms[1].against)
    assert present(times.low) <= 1449 / 799 <= present(times.high)


def test_the_answer_has_a_sentence_and_its_fields(runs: list[StoredRun]) -> None:
    document = target_answers(runs)[0].to_json()
    assert document["sentence"].startswith("ssd-both carries ")
    assert "a second within 10 ms at p99 (new order), pmem-both 1,4" in document["sentence"]
    assert document["target"] == {
        "statistic": "99", "limit_ns": 10_000_000, "parameter": "rate", "operation": "new_order",
    }  # fmt: skip
    first, second = document["arms"]
    assert (first["outcome"], first["times"]) == ("measured", None)
    assert first["low"] <= first["load"] <= first["high"]
    assert second["times"]["low"] <= second["times"]["value"] <= second["times"]["high"]
    assert first["windows"] == sum(point["windows"] for point in first["points"]) + 1


def test_a_search_of_another_target_is_another_experiment() -> None:
    plan = plan_at(None)
    assert plan.hash != replace(plan, target=LatencyTarget("99", 1, "rate")).hash
    assert plan.hash != replace(plan, target=None).hash
    assert replace(plan_at(5), part_of=plan.hash).experiment == plan.experiment


def test_the_report_begins_with_the_sentence_and_the_picture(runs: list[StoredRun]) -> None:
    blocks = [*Report(runs).blocks()]
    drawn = [(n, block.name) for n, block in enumerate(blocks) if isinstance(block, Drawing)]
    at, name = drawn[0]
    assert name == "target-1"
    sentence = blocks[at - 1]
    assert isinstance(sentence, Paragraph)
    assert target_answers(runs)[0].sentence in str(sentence.text)


def test_a_failed_arm_was_not_measured_and_the_other_has_its_load(tmp_path: Path) -> None:
    runs = searched(tmp_path, {**SERVED, "pmem-both": 0.0})
    first, second = target_answers(runs)[0].arms
    assert (first.outcome, second.outcome) == ("measured", "not measured")


@pytest.mark.parametrize(
    "text", ["10ms", "p99", "p99=10", "p42=10ms", "p99=0ms", "p99=-1ms", "max=1s", "p99="]
)
def test_a_target_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_target(text, "rate")


@pytest.mark.parametrize(
    ("parameters", "options"),
    [
        (TpccParams, {"pairs": {"rate": "70"}}),
        (TpccParams, {"load_curve": True}),
        (TpccParams, {"repeats": 2}),
        (TpccParams, {"pairs": {"test": "durability"}}),
        (TpccParams, {"driver": "hammerdb", "target": "p999=5ms"}),
        (TpccParams, {"driver": "hammerdb", "pairs": {"users": "1,2"}}),
        (TpccParams, {"arm": ["a:--rate 7", "b:"]}),
        (SqlParams, {"pairs": {"folder": "tests/generated.py"}}),
    ],
)
def test_what_cannot_be_searched_is_refused_before_any_run(
    parameters: Any, options: Mapping[str, Any]
) -> None:
    with pytest.raises(UsageError):
        run_command(parameters, replace(OPTIONS, **{"target": "p99=10ms", **options}))
