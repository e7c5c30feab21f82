"""Questions to stored runs: rankings, devices, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from example_run import result
from made_up import LEVELS, Window

from harness.errors import RunFailed, UsageError
from harness.experiment.placement import parse_placement
from harness.explain import question
from harness.explain.question import Device
from harness.hdr import Histogram
from harness.iotrace.page import CELL_FIELDS, LAYOUT
from harness.store.runs import Store, StoredRun
from harness.store.spec import RunSpec

SPEC = RunSpec("tpcc", "postgres", parse_placement("ssd-both"), {}, plant=(LEVELS,))
CALLS = {"part": "wal", "operation": "sync", "role": "foreground", "calls": 4000, "timed": 4000,
         "delay_ns": 0}  # fmt: skip


def stored(root: Path, spec: RunSpec, metrics=(), **artifacts) -> StoredRun:
    writer = Store(root).begin(spec)
    for name, document in artifacts.items():
        writer.write_artifact(name.replace("_", "-"), document)
    run = result(writer) | {"spec": spec.to_json(), "spec_hash": spec.hash()}
    return writer.finish(run | {"metrics": list(metrics)})


def answers(root: Path, call_ns: int = 300_000, device: Device | None = None, **window):
    delays = Window(call_ns=call_ns, **window).run()
    found = delays.concluded([], [{**CALLS, "ns": 4000 * call_ns}])
    document = {"fits": [one.to_json() for one in found]}
    return question.answers(stored(root, SPEC, whatif=document), device)


def durations(mean_ns: int, role: str = "foreground", name: str = "io_duration_ns"):
    counts = np.zeros(LAYOUT.counters, dtype=np.int64)
    counts[np.searchsorted(LAYOUT.bounds()[0], mean_ns, side="right") - 1] = 10
    labels = {"part": "wal", "operation": "sync", "role": role}
    return {"name": name, "unit": "ns", "better": "none", "labels": labels,
            "hdr": Histogram(LAYOUT, counts).encode()}  # fmt: skip


def test_an_answer_has_the_fit_and_both_predictions(tmp_path):
    (answer,) = answers(tmp_path, device=question.device_of_latency("100us"))
    document = answer.to_json()
    assert document["slope"]["value"] == pytest.approx(1.5, rel=0.02)
    assert document["linear"] is True
    assert len(document["levels"]) == 4
    assert document["prediction"]["device_call_ns"] == 100_000
    predicted = document["prediction"]["latency_ns"]["value"]
    assert predicted == pytest.approx(700_000, rel=0.03)
    speed_up = document["prediction"]["speed_up"]
    assert speed_up["value"] == pytest.approx(1 / 0.7, rel=0.03)
    assert speed_up["low"] <= speed_up["value"] <= speed_up["high"]
    assert question.ranking([answer]).shares["wal"].value == pytest.approx(0.45, rel=0.05)


def test_what_cannot_be_is_refused_and_ranked_last(tmp_path):
    (beyond,) = answers(tmp_path, call_ns=900_000)  # 1.5 of them are longer than the latency
    refused = beyond.to_json()["at_zero_latency"]["refused"]
    assert refused["code"] == "below-zero"
    assert refused["line_ns"]["value"] < 0
    (less,) = answers(tmp_path, slope=0.5)
    (more,) = answers(tmp_path)
    assert question.ranked([beyond, less, more]) == [more, less, beyond]
    found = question.ranking([beyond, less, more])
    assert found.shares["wal"].value == pytest.approx((0.15 + 0.45) / 2, rel=0.05)
    assert found.first == "wal"
    data = [replace(one, whatif=replace(one.whatif, part="data")) for one in (beyond, less)]
    assert question.ranking([data[1], more]).first == "wal"
    assert question.ranking([*data, more]).first is None  # data may cost anything
    assert question.ranking([more], without=["data"]).first is None
    floor = replace(more, whatif=replace(more.whatif, floor_ns=800_000))
    assert question.ranking([floor]).shares["wal"].value == pytest.approx(0.2, rel=0.05)
    assert question.ranking([data[1], less]).first is None
    assert question.ranking([beyond]).first is None
    assert all(len(row) == 7 for row in question.rows([beyond, less]))


def test_a_run_without_a_fit_has_no_answers(tmp_path):
    with pytest.raises(RunFailed):
        question.answers(stored(tmp_path, SPEC))


def places(run):
    """Those to vary, and why others are not."""
    chosen, others = question.operations_to_vary(run)
    left_out = {(one.part, one.operation): one.left_out for one in others}
    return [(one.part, one.operation) for one in chosen], left_out


def test_operations_of_clients_are_varied_if_they_are_frequent(tmp_path):
    cells = [
        dict.fromkeys(CELL_FIELDS, 0)
        | {"part": part, "operation": operation, "role": role, "calls": calls, "ns": ns}
        | {"sizes": {}}
        for part, operation, role, calls, ns in (
            ("wal", "sync", "foreground", 9000, 70),
            ("data", "read", "unknown", 9000, 90),
            ("data", "write", "background", 9000, 990),
            ("wal", "read", "foreground", 20, 990),
            ("index", "read", "foreground", 900, 1),
        )
    ]
    window = {"name": "window_duration_ns", "unit": "ns", "better": "none", "labels": {},
              "value": 20e9}  # fmt: skip
    run = stored(tmp_path, replace(SPEC, plant=()), [window], io_operations=cells)
    assert places(run) == ([("data", "read"), ("wal", "sync")],
                           {("wal", "read"): "rare", ("index", "read"): "small-share"})  # fmt: skip
    queries = stored(tmp_path, replace(SPEC, plant=()), [window | {"name": "queries_duration_ns"}],
                     io_operations=[one | {"role": "background"} for one in cells])  # fmt: skip
    # Sessions wait for the log.
    assert places(queries) == ([("wal", "sync")], {("wal", "read"): "rare"})
    with pytest.raises(RunFailed):
        question.operations_to_vary(stored(tmp_path, SPEC, [window], io_operations=cells[2:4]))


def test_a_tier_is_as_fast_as_a_run_has_measured_it(tmp_path):
    def found() -> Device:
        return question.device_like_tier(Store(tmp_path).runs(), "pmem", SPEC, "wal", "sync", {})

    there = replace(SPEC, placement=parse_placement("ssd-data-pmem-wal"), plant=())
    stored(tmp_path, replace(there, plant=("wal.sync=+100us",)), [durations(90_000)])
    other = stored(tmp_path, replace(there, engine="mysql"), [durations(80_000)])
    with pytest.raises(UsageError) as refused:
        found()
    assert "--placement data=ssd,wal=pmem --emulate pmem" in refused.value.hint
    slow = replace(there, placement=parse_placement("ssd-both"))
    here = stored(tmp_path, slow, [durations(70_000)])
    with pytest.raises(UsageError) as refused:
        found()
    assert f"run micro --like {here.run_id} --tier pmem" in refused.value.hint
    run = stored(tmp_path, there, [durations(20_000), durations(900_000, "background")])
    assert found() == Device("pmem", pytest.approx(20_000, rel=0.01), run.run_id)
    suite = RunSpec("micro", "fio", parse_placement("data=pmem"), {"like": other.run_id})
    like = durations(10_000, name="io_like_duration_ns")
    stored(tmp_path, suite, [like])
    assert found().source == run.run_id  # the suite is of another engine
    own = replace(suite, params={"like": here.run_id}, emulate=("pmem",))
    run = stored(tmp_path, own, [like])
    assert found() == Device("pmem", pytest.approx(10_000, rel=0.01), run.run_id, emulated=True)


def test_a_tier_that_is_nowhere_is_refused_with_the_list_of_tiers(tmp_path):
    stored(tmp_path, replace(SPEC, placement=parse_placement("cxl-both"), plant=()))
    runs = Store(tmp_path).runs()
    question.check_tier(runs, "cxl", ["ssd"])
    question.check_tier(runs, "ssd", ["ssd"])
    with pytest.raises(UsageError) as refused:
        question.check_tier(runs, "pmem", ["ssd"])
    assert refused.value.hint.startswith("one of cxl, ssd")
