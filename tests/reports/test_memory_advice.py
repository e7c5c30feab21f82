"""``harness advise --to memory=cxl``: DRAM at its own size against more memory, slower in part."""

import json
from pathlib import Path

import pytest
from report_runs import driven, interleaved, metric

from harness.cli.advise import AdviseOptions, _print, _Trials
from harness.cli.advise_memory import MemoryArm
from harness.errors import RunFailed
from harness.store.runs import StoredRun
from reports.advice import PlannedArm, answers, trials_of

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


def runs_of(root: Path, placement: str, **changes: object) -> list[StoredRun]:
    label, gib, per_minute = ARMS[placement]
    limit = {"memory_limit_bytes": gib * GIB}
    (runs,) = interleaved(
        root,
        lambda _, k: [metric("new_orders_per_minute", per_minute * (1 + k / 100), "higher")],
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
    price = 0.3 * (40 + 5 * 12 * GIB / GB) / (4 * GIB / GB)
    assert f"{price:.3g}" in first.sentence and "GB of cxl" in first.sentence
    assert second.group.verdict == "slower"


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
    planned = _Trials((today.placement, today.memory), tiers, memory, ("tiered is not tried",))
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
    planned = _Trials((today, ""), {weighted: (("memory",), "")}, memory)
    with pytest.raises(RunFailed) as failed:
        _print(planned, AdviseOptions(), {}, [], runs, "decided")
    assert "weighted failed its check memory-policy: node 2 has 1.00 GiB" in failed.value.context
    assert "free memory" in failed.value.hint and "--budget" not in failed.value.hint
