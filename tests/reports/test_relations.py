"""Which tables and indexes to move: bytes against gain, of hand-made runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from narrowed import present
from report_runs import driven, interleaved, metric, with_artifacts

from harness.cli.advise_relations import budgets, relation_arms
from harness.engine import EngineFactory
from harness.errors import UsageError
from harness.experiment.placement import Relation
from harness.registry import engine
from harness.store.runs import StoredRun
from harness.tiers.linux.model import Tier, TierClaim, TierFacts
from reports.relations import RelationAnswer, RelationUse, relation_answers
from reports.report import Report
from reports.series import panels

GB = 10**9
#: Transactions a minute by placement. Moving everything saves 50 of 100 time units, stock 45.
RATES = {
    "ssd-both": 600.0,
    "data=ssd,index:stock_pkey=pmem": 610.0,
    "data=ssd,index:stock_pkey=pmem,table:stock=pmem": 600 / 0.55,
    "data=pmem,wal=ssd,temp=ssd": 1200.0,
}
RELATIONS = {"stock": (29, 900), "stock_pkey": (1, 60), "history": (60, 30), "a;b": (10, 10)}


def io_relations() -> list[dict[str, Any]]:
    return [
        {
            "kind": "index" if name.endswith("pkey") else "table",
            "name": name,
            "table": name.removesuffix("_pkey"),
            "bytes": gigabytes * GB,
            "io": [
                {"role": "foreground", "operation": "read", "calls": 9, "bytes": 9, "ns": seconds},
                {"role": "background", "operation": "write", "calls": 9, "bytes": 9, "ns": 10**9},
            ],
        }
        for name, (gigabytes, seconds) in RELATIONS.items()
    ]


def runs_of(root: Path, rates: dict[str, float], count: int = 12) -> list[StoredRun]:
    runs: list[StoredRun] = []
    sides: Sequence[Sequence[StoredRun]] = interleaved(
        root,
        lambda place, k: [metric("new_orders_per_minute", rates[place] * (1 + k / 100), "higher")],
        count,
        list(rates),
        spec_changes=driven("tpcc", warehouses=10, users=8, duration="3m"),
    )
    for side in sides:
        for run in side:
            with_artifacts(run, {"io-relations": io_relations()})
        runs += side
    return runs


def answer_of(root: Path, rates: dict[str, float], count: int = 12) -> RelationAnswer:
    (answer,) = relation_answers(panels(runs_of(root, rates, count), "placement", "ssd-both"))
    return answer


def test_the_share_of_the_bytes_and_of_the_gain(tmp_path: Path) -> None:
    answer = answer_of(tmp_path, RATES)
    index, both = answer.arms
    assert [arm.bytes_share for arm in answer.every_arm] == [0.01, 0.3, 1]
    assert index.gain and index.gain.value == pytest.approx(2 * (1 - 600 / 610), abs=0.01)
    assert both.gain and both.gain.value == pytest.approx(0.9, abs=0.01)
    assert both.gain.low and both.gain.high and both.gain.low <= both.gain.high
    assert answer.chosen is both
    assert "30 %" in answer.sentence
    rows = answer.rows()
    assert [row["relation"] for row in rows[:2]] == ["index:stock_pkey", "table:stock"]
    assert rows[1]["device_share"] == pytest.approx(0.9)
    assert rows[1]["gain_share"]["value"] == both.gain.value and rows[2]["gain_share"] is None


def test_an_arm_that_was_not_measured_leaves_the_share_unknown(tmp_path: Path) -> None:
    rates = {name: rate for name, rate in RATES.items() if not name.startswith("data=pmem")}
    answer = answer_of(tmp_path, rates)
    assert answer.everything is None and answer.chosen is answer.arms[1]
    assert answer.chosen.gain is None


@pytest.mark.parametrize(
    ("rate", "count", "verdict"), [(600.0, 12, "no difference"), (1200.0, 2, "not resolvable")]
)
def test_nothing_is_moved_without_a_gain(
    tmp_path: Path, rate: float, count: int, verdict: str
) -> None:
    answer = answer_of(tmp_path, {**dict.fromkeys(RATES, 600.0), [*RATES][-1]: rate}, count)
    assert answer.chosen is None and answer.everything
    assert answer.everything.group.verdict == verdict
    assert answer.undecided == (verdict == "not resolvable")
    assert not answer.sentence.startswith("Move")


# The arms ---------------------------------------------------------------------------


def uses() -> list[RelationUse]:
    return [
        RelationUse(
            Relation("index" if name.endswith("pkey") else "table", name),
            name,
            gigabytes * GB,
            seconds,
            0,
        )
        for name, (gigabytes, seconds) in RELATIONS.items()
    ]


def tier(free: int | None) -> Tier:
    return Tier(TierClaim("pmem", "devdax"), TierFacts("devdax", free_bytes=free))


def arms(budget: int | None = None, free: int | None = None) -> tuple[list[str], str | None, str]:
    factory: EngineFactory = engine("postgres")
    planned = relation_arms(uses(), "ssd", tier(free), "data=pmem", factory, budget)
    return [*planned.placements], planned.everything, " ".join(planned.notes)


def test_candidates_are_moved_best_first_within_the_budget() -> None:
    index, stock, history = "index:stock_pkey=pmem", "table:stock=pmem", "table:history=pmem"
    assert arms() == (
        [
            f"data=ssd,{index}",
            f"data=ssd,{index},{stock}",
            f"data=ssd,{index},{stock},{history}",
        ],
        "data=pmem",
        "",
    )
    placements, everything, notes = arms(budget=2 * GB, free=50 * GB)
    assert (placements, everything) == ([f"data=ssd,{index}"], None)
    assert notes
    # One after another: what does not fit is left out, not what comes after it.
    assert arms(budget=62 * GB)[0][-1] == f"data=ssd,{index},{stock}"


def test_what_cannot_be_moved_is_named_or_refused() -> None:
    strange = [RelationUse(Relation("table", "a;b"), "a;b", GB, 100, 0)]
    planned = relation_arms(strange, "ssd", tier(None), "data=pmem", engine("postgres"), None)
    assert not planned.placements and "table:a;b" in planned.notes[0]
    for budget, free in ((1000, None), (None, GB)):
        with pytest.raises(UsageError):
            arms(budget, free)


def test_a_budget_is_of_time_and_of_bytes() -> None:
    assert budgets("20m", "5m") == ("20m", None)
    assert budgets("10GB", "5m") == ("5m", 10 * GB)
    assert budgets("20m, 1.5MiB", "5m") == ("20m", 3 << 19)
    for wrong in ("20m,30m", "1GB,2GB", "10K", ""):
        with pytest.raises(UsageError):
            budgets(wrong, "5m")


def test_a_report_has_the_answer_and_a_chart(tmp_path: Path) -> None:
    report = Report(runs_of(tmp_path, RATES))
    files = report.write(tmp_path / "out")
    page = files.markdown.read_text()
    (answer,) = relation_answers(report.panels)
    assert present(answer.chosen).names.replace("_", "\\_") in page
    assert any("relations" in path.name for path in files.figures)
