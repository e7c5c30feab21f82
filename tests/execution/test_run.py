"""How a run ends: stored as failed, whatever was raised; not at all on Ctrl-C."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from example_run import SPEC

from harness.execution.run import Run
from harness.progress import SilentProgress
from harness.store.checkpoint import Attempt
from harness.store.result import Check, Experiment, Metric, Program
from harness.store.runs import Store

ENV: Any = SimpleNamespace(host={"mode": "Default"}, progress=SilentProgress())
ATTEMPT = Attempt(experiment=Experiment("x", "0"))
PERHAPS: Any = "perhaps"  # as a plug-in may say


PROGRAM = Program("postgres", "18", "", "")


def record() -> Run:
    return Run(SPEC, ENV, ATTEMPT, [])


def test_the_manifest_has_the_prices_of_tiers_that_no_part_uses(tmp_path: Path) -> None:
    tiers = {
        name: SimpleNamespace(claim=SimpleNamespace(price_per_gb=price))
        for name, price in {"dram": 5.0, "ssd": None}.items()
    }
    env: Any = SimpleNamespace(**vars(ENV), tiers=tiers, argv=())
    one = Run(SPEC, env, ATTEMPT, [])
    with one.storing(Store(tmp_path)):
        manifest = one._manifest(PROGRAM)
    assert (list(manifest.tiers), manifest.prices_per_gb) == ([], {"dram": 5.0})


@pytest.mark.parametrize(
    "error",
    [KeyError("rows"), AssertionError(), MemoryError(), RecursionError("deep"), OSError(5, "I/O")],
)
def test_whatever_is_raised_is_stored_with_its_traceback(tmp_path: Path, error: Exception) -> None:
    one = record()
    with one.storing(Store(tmp_path)):
        raise error
    (stored,) = Store(tmp_path).runs()
    assert stored.document["status"] == "failed" and stored.directory == one.folder.directory
    found = stored.document["error"]
    assert found["type"] == "RunFailed" and found["context"]
    assert type(error).__name__ in found["traceback"] and "raise error" in found["traceback"]


@pytest.mark.parametrize(
    "result",
    [
        {"metrics": [Metric("operations_per_second", "1/s", "higher", value=math.nan)]},
        {"metrics": [Metric("Not A Name", "1", "none", value=1)]},
        {"checks": [Check("answer", PERHAPS)]},
        {"artifacts": {"plans": {1, 2}}},
        {"artifacts": {"plans": math.inf}},
        {"data_bytes": -1},
    ],
)
def test_a_result_that_cannot_be_stored_fails_its_run_alone(tmp_path, result):
    one = record()
    with one.storing(Store(tmp_path)):
        for name, value in result.items():
            setattr(one, name, value)
    (stored,) = Store(tmp_path).runs()
    assert stored.document["status"] == "failed"
    assert stored.document["error"]["context"] and not stored.document["metrics"]


@pytest.mark.parametrize("ended", [KeyboardInterrupt(), SystemExit(143)])
def test_an_interrupted_run_leaves_nothing(tmp_path: Path, ended: BaseException) -> None:
    with pytest.raises(type(ended)), record().storing(Store(tmp_path)):
        raise ended
    assert not list((tmp_path / "runs").iterdir())
