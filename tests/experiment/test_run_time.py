"""How long runs take, by earlier ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from example_run import result

from harness.experiment.placement import parse_placement
from harness.experiment.run_time import Estimator, RunTime
from harness.store.runs import Store, StoredRun
from harness.store.spec import RunSpec

S = 10**9
SPEC = RunSpec("tpcc", "postgres", parse_placement("ssd-both"),
               {"warehouses": 1, "ramp_up": "5s", "duration": "20s"})  # fmt: skip


def stored(root: Path, spec: RunSpec, took_ns: int, status: str = "complete") -> StoredRun:
    writer = Store(root).begin(spec)
    own = replace(result(writer, status), spec=spec, spec_hash=spec.hash(), duration_ns=took_ns)
    return writer.finish(own)


def test_a_run_takes_as_long_as_its_earlier_repeats(tmp_path: Path) -> None:
    earlier = [stored(tmp_path, replace(SPEC, block=k), took * S)
               for k, took in enumerate((40, 44, 90))]  # fmt: skip
    earlier.append(stored(tmp_path, replace(SPEC, block=3), 1, "failed"))
    assert Estimator(earlier).run_time(SPEC, 0) == RunTime(44 * S, "earlier runs")


def test_another_window_has_the_same_overhead(tmp_path: Path) -> None:
    longer = replace(SPEC, params={**SPEC.params, "duration": "3m"})
    earlier = [stored(tmp_path, SPEC, 40 * S)]
    assert Estimator(earlier).run_time(longer, 0) == RunTime((185 + 15) * S, "earlier runs")


def test_runs_on_less_data_say_nothing_of_the_overhead(tmp_path: Path) -> None:
    larger = replace(SPEC, params={**SPEC.params, "warehouses": 10})
    earlier = Estimator([stored(tmp_path, SPEC, 40 * S)])
    assert earlier.run_time(larger, 1_500_000_000) == RunTime(40 * S, "assumptions")


def test_without_earlier_runs_copying_is_assumed() -> None:
    assert Estimator([]).run_time(SPEC, 750_000_000) == RunTime(35 * S, "assumptions")
    queries = replace(SPEC, workload="tpch", params={"scale": 1})
    assert Estimator([]).run_time(queries, 500_000_000) is None
