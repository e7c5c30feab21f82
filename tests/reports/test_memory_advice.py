"""``harness advise --to memory=cxl``: DRAM at its own size against more memory, slower in part."""

import json
from pathlib import Path

import pytest
from report_runs import Case, driven, interleaved, metric, with_artifacts, write

from harness.cli.advise import _print
from harness.cli.advise_memory import MemoryArm
from harness.cli.advise_trials import AdviseOptions, Trials
from harness.errors import RunFailed
from harness.store.runs import StoredRun
from reports.advice import PlannedArm, answers, memory_prices, trials_of
from reports.more_memory import memory_answers
from reports.report import Report
from reports.sections import Paragraph

GIB, GB = 1 << 30, 10**9
PRICES = {"dram": 5.0, "ssd": 0.4}
ARMS = {
    "data=ssd,memory=dram": ("dram", 12, 10_000),
    "data=ssd,memory=weighted:dram=3,cxl=1": ("weighted", 16, 13_000),
    "data=ssd,memory=preferred:dram": ("preferred", 16, 9_000),
}
PART_BYTES = {"data": 90 * GB, "wal": 10 * GB, "temp": 0, "index": 0}
#: As the manifest has it of policies that set_mempolicy(2) alone does not apply.
IN_FORCE = {"weighted": {"memory_policy": "nodes 0, 2 by weights 3:1, by Linux"}}


def runs_of(root: Path, placement: str, noise: float = 0.0, **changes: object) -> list[StoredRun]:
    label, gib, per_minute = ARMS[placement]
    limit = {"memory_limit_bytes": gib * GIB}
    (runs,) = interleaved(
        root,
        lambda _, k: [
            metric(
                "new_orders_per_minute",
                per_minute * (1 + k / 100) * (1 + noise * (-1) ** k),
                "higher",
            )
        ],
        8,
        [placement],
        label=label,
        memory_bytes=gib * GIB,
        spec_changes=driven("tpcc", warehouses=10, users=8, duration="3m") | limit,
        run_changes={"part_bytes": PART_BYTES, **changes},
        manifest_changes={
            "memory_cap": {"method": "cgroup-v2", "limit_bytes": gib * GIB},
            "prices_per_gb": PRICES,
            "memory_nodes": {"dram": [0], "cxl": [2]},
            "run_state": IN_FORCE.get(label, {}),
        },
    )
    return list(runs)


def arms(root: Path) -> list[PlannedArm]:
    tiers = {place: (("memory",), f"{gib} GiB {label}") for place, (label, gib, _) in ARMS.items()}
    return trials_of([run for place in ARMS for run in runs_of(root, place)], tiers)


def test_more_slower_memory_pays_up_to_a_price(tmp_path: Path) -> None:
    today, *trials = arms(tmp_path)
    first, second = answers(today, trials, [])
    assert first.group.verdict == "faster"
    estimate = first.group.deciding and first.group.deciding.estimate
    assert estimate and estimate.value == pytest.approx(1.3)
    assert (first.group.a.name, first.group.b.name) == ("dram", "weighted")
    assert second.group.verdict == "slower"
    (answer,) = memory_prices(today, trials)
    weighted, preferred = answer.prices
    # 12.88 GB of DRAM and 100 GB of the SSD cost 64.42 + 40 = 104.42 USD, and 1.3 times the work
    # may cost 135.75: 31.33 are left for 4.29 GB of CXL memory.
    assert weighted.break_even and weighted.break_even.value == pytest.approx(7.294, abs=0.001)
    assert weighted.pays is None and preferred.pays is False
    assert "weighted pays below 7.29" in answer.sentence and "GB of cxl" in answer.sentence


@pytest.mark.parametrize(("now", "pays"), [(20.0, False), (1.0, None), (None, None)])
def test_no_difference_is_no_answer_unless_its_interval_excludes_the_price(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, now: float | None, pays: bool | None
) -> None:
    """At 1.1 times the work, 4.29 GB of CXL memory may cost a tenth of 104.42 USD, 2.43 a GB."""
    today, weighted, _ = ARMS
    monkeypatch.setitem(ARMS, weighted, ("weighted", 16, 10_000))
    if now is not None:
        monkeypatch.setitem(PRICES, "cxl", now)
    runs = [*runs_of(tmp_path, today), *runs_of(tmp_path, weighted, noise=0.1)]
    tiers = dict.fromkeys((today, weighted), (("memory",), ""))
    base, *others = trials_of(runs, tiers)
    (answer,) = memory_prices(base, others)
    (price,) = answer.prices
    assert price.group.verdict == "no difference"
    assert price.break_even and price.break_even.high == pytest.approx(2.43, rel=0.1)
    assert price.pays is pays
    assert "pays at most below 2." in answer.sentence


#: Hand-made runs of all arms of profiles/cxl: memory, GiB, work per minute, and of arms without
#: weights the share of their memory that was on cxl.
OF_PROFILE = {
    "dram": ("dram", 12, 10_000, None),
    "weighted-1-3": ("weighted:dram=1,cxl=3", 48, 20_000, None),
    "interleave": ("interleave:dram,cxl", 48, 15_000, 0.5),
    "weighted-3-1": ("weighted:dram=3,cxl=1", 48, 18_000, None),
    "preferred": ("preferred:dram", 48, 25_000, 0.75),
    "tiered": ("tiered:dram,cxl", 48, 9_000, 0.75),
    "cxl": ("cxl", 12, 8_000, None),
}


def of_profile(root: Path, prices: dict[str, float]) -> list[StoredRun]:
    runs = []
    for block in range(8):
        for label, (memory, gib, per_minute, on_cxl) in OF_PROFILE.items():
            policy = memory.partition(":")[0]
            case = Case(
                placement=f"data=ssd,memory={memory}",
                block=block,
                metrics=[metric("new_orders_per_minute", per_minute * (1 + block / 100), "higher")],
                label=label,
                memory_bytes=gib * GIB,
                spec_changes=driven("tpcc", warehouses=10, users=8, duration="3m")
                | {"memory_limit_bytes": gib * GIB},
                run_changes={"part_bytes": PART_BYTES},
                manifest_changes={
                    "memory_cap": {"method": "cgroup-v2", "limit_bytes": gib * GIB},
                    "prices_per_gb": prices,
                    "memory_nodes": {"dram": [0], "cxl": [2]},
                    "run_state": {"memory_policy": memory}
                    if policy in ("weighted", "tiered")
                    else {},
                },
            )
            run = write(root, case)
            if on_cxl is not None:
                on = {"0": round(48 * GIB * (1 - on_cxl)), "2": round(48 * GIB * on_cxl)}
                reading = {"anonymous_bytes": {}, "shared_bytes": {}, "group_bytes": on}
                with_artifacts(run, {"monitor-vm": {"samples": [], "engine_memory": [reading]}})
            runs.append(run)
    return runs


def test_a_report_of_all_arms_answers_the_question_first(tmp_path: Path) -> None:
    """By hand: DRAM alone costs 12 GiB · 5 + 100 GB · 0.4 = 104.42 USD."""
    runs = of_profile(tmp_path, {**PRICES, "cxl": 2.0})
    report = Report(runs)
    (panel,) = report.panels
    (answer,) = memory_answers([panel])
    evens = {p.group.b.name: p.break_even and p.break_even.value for p in answer.prices}
    dram, gb = 5 * GIB / GB, GIB / GB
    whole = 12 * dram + 40
    assert evens == {
        "preferred": pytest.approx(1.5 * whole / (36 * gb)),  # 4.05 USD
        "weighted-1-3": pytest.approx(whole / (36 * gb)),  # 2.70 USD
        # 24 GiB of DRAM cost more than 1.5 times the work may.
        "interleave": 0.0,
        "weighted-3-1": 0.0,
        "tiered": pytest.approx(0.0),
    }
    assert [p.group.b.name for p in answer.prices][:2] == ["preferred", "weighted-1-3"]
    assert {p.group.b.name: p.pays for p in answer.prices}["tiered"] is False
    texts = [block.text for block in report.blocks() if isinstance(block, Paragraph)]
    assert f"{answer.where}: {answer.sentence}" in texts[:4]


def test_what_is_missing_for_a_price_is_named(tmp_path: Path) -> None:
    (answer,) = memory_answers(Report(of_profile(tmp_path, {"cxl": 2.0})).panels)
    assert "price_per_gb" in answer.prices[0].missing
    assert answer.prices[0].missing in answer.sentence


@pytest.mark.parametrize("on_cxl", [0.0, 0.005])
@pytest.mark.parametrize("per_minute", [25_000, 9_000])
def test_an_arm_that_used_no_slower_memory_is_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_cxl: float, per_minute: int
) -> None:
    """Less than 1 % is what the warning slower-memory-not-used calls unused, too."""
    for label in set(OF_PROFILE) - {"dram", "preferred"}:
        monkeypatch.delitem(OF_PROFILE, label)
    monkeypatch.setitem(OF_PROFILE, "preferred", ("preferred:dram", 48, per_minute, on_cxl))
    runs = of_profile(tmp_path, {**PRICES, "cxl": 2.0})
    (answer,) = memory_answers(Report(runs).panels)
    (price,) = answer.prices
    assert (price.unused, price.pays, price.break_even) == (True, None, None)
    assert "Not known yet: preferred: no answer" in answer.sentence


def test_memory_that_gains_nothing_stays_where_it_is(tmp_path: Path) -> None:
    today, _, preferred = arms(tmp_path)
    (answer,) = answers(today, [preferred], [])
    assert answer.group.verdict == "slower"
    assert answer.to_json()["b"] == "preferred"


@pytest.mark.parametrize("today_gib", [12, 100])
def test_json_has_the_data_and_whether_they_fit_in_todays_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], today_gib: int
) -> None:
    runs = [run for place in ARMS for run in runs_of(tmp_path, place)]
    memory = tuple(
        MemoryArm(label, place, max(gib, today_gib) * GIB, f"{gib} GiB")
        for place, (label, gib, _) in ARMS.items()
    )
    today, *others = memory
    tiers = {arm.placement: (("memory",), arm.memory) for arm in others}
    planned = Trials((today.placement, today.memory), tiers, memory, ("tiered is not tried",))
    _print(planned, AdviseOptions(json_=True), {}, [], runs, "decided")
    document = json.loads(capsys.readouterr().out)
    size = runs[0].result.data_bytes
    assert size is not None
    assert document["data"] == {"bytes": size, "fit_in_memory": size <= today_gib * GIB}
    assert document["not_tried"] == ["tiered is not tried"]


def test_more_time_is_no_advice_for_memory_that_was_elsewhere(tmp_path: Path) -> None:
    today, weighted, _ = ARMS
    check = {"name": "memory-policy", "status": "failed", "detail": "node 2 has 1.00 GiB left"}
    failing = runs_of(tmp_path, weighted, checks=[check], status="failed")
    runs = [*runs_of(tmp_path, today), *failing]
    memory = tuple(MemoryArm(ARMS[p][0], p, ARMS[p][1] * GIB, "") for p in (today, weighted))
    planned = Trials((today, ""), {weighted: (("memory",), "")}, memory)
    with pytest.raises(RunFailed) as failed:
        _print(planned, AdviseOptions(), {}, [], runs, "decided")
    assert "weighted " in failed.value.context
    assert f"memory-policy: {check['detail']}" in failed.value.context
    assert "free memory" in failed.value.hint and "--budget" not in failed.value.hint
