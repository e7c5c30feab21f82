#!/usr/bin/env python3
"""Whether calibration and the sequential rule of docs/trust.md keep what they promise.

``trust.py rules``: by simulation (seeded), how often a family of two comparisons without a
difference has one, when repeats end by results and by time.
``trust.py planted``: DuckDB on TPC-H at a small scale: the difference that ``harness calibrate``
predicts for seven repeats, and how often one of that size is shown that is planted as a delay of
each read. About half an hour.
``trust.py alike``: the profile ``demo`` where both tiers are directories of one disk, 20 times:
how often a difference is shown that is not there. About half an hour.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from harness.experiment.sequential import LOOKS, numbers_of_blocks
from harness.store.runs import Store
from reports.compare import compare
from reports.statistics import Estimate, compare_paired, decide

_REPEATS, _TRIALS = 7, 20
_PARAMETERS = {"scale": 0.1, "queries": [1, 3, 6, 12], "cache": "cold-per-query", "plans": False}
#: Long enough to stand out of the noise of a few runs.
_PILOT_US, _PILOTS = 2000, 10


def rules(families: int = 2000) -> None:
    """Print the share of families with a difference, for each kind of noise."""
    draws = {
        "normal": lambda draw, n: draw.normal(0, 0.1, n),
        "log-normal": lambda draw, n: np.exp(draw.normal(0, 1, n)) / 5,
        "outliers": lambda draw, n: draw.normal(0, 0.1, n) * np.where(draw.random(n) < 0.1, 20, 1),
    }
    for name, noise in draws.items():
        for budget in (False, True):
            draw = np.random.default_rng(1)
            shown = sum(_family(draw, noise, budget) for _ in range(families))
            print(f"{name}, {'with' if budget else 'no'} budget: {shown / families:.1%}")


def _family(draw: np.random.Generator, noise: Any, budget: bool) -> bool:
    """Two comparisons, the one with the wider interval first; the budget ends within a stage.

    As in harness.experiment.sequential: a slow block takes more of the budget.
    """
    counts = numbers_of_blocks(9, 27, LOOKS)
    a, b = (np.exp([noise(draw, counts[-1]) for _ in range(2)]) for _ in range(2))
    left = draw.uniform(20, 50) if budget else math.inf
    took = (a + b) / 2
    done, stage = [0, 0], [0, 0]
    for block in range(counts[0]):
        left -= float(took[:, block].sum())
        done = [block + 1] * 2
    found = [compare_paired(a[i, : done[i]], b[i, : done[i]], looks=LOOKS) for i in range(2)]
    while left > 0:
        open_ = [i for i in range(2) if stage[i] + 1 < len(counts) and not _resolved(found, i)]
        if not open_:
            break
        widest = max(open_, key=lambda i: (found[i].high or 9) / (found[i].low or 0.1))
        stage[widest] += 1
        while left > 0 and done[widest] < counts[stage[widest]]:
            left -= float(took[widest, done[widest]])
            done[widest] += 1
        n = done[widest]
        found[widest] = compare_paired(a[widest, :n], b[widest, :n], looks=LOOKS)
    return any(one.outcome == "shown" for one in decide(found))


def _resolved(found: list[Estimate], i: int) -> bool:
    one = found[i]
    assert one.low is not None and one.high is not None
    return decide(found)[i].outcome == "shown" or (one.low >= 1 / 1.05 and one.high <= 1.05)


def planted() -> None:
    """Print the prediction, what was planted, and what trials show."""
    with tempfile.TemporaryDirectory(prefix="trust-") as folder:
        root = Path(folder)
        calibrated = _harness(
            root, "calibrate", "tpch", "--engine", "duckdb", "--placement", "ssd-both",
            "--threads", "1", *(f"-p{key}={_text(value)}" for key, value in _PARAMETERS.items()),
        )["calibrations"][0]  # fmt: skip
        deciding = calibrated["metrics"][calibrated["headline"]]
        (predicted,) = (
            one["difference"] for one in deciding["resolutions"] if one["repeats"] == _REPEATS
        )
        plain, delayed = _pairs(root, "pilot", _PILOT_US, _PILOTS)
        slope = float(np.median(delayed - plain) / np.median(plain)) / _PILOT_US
        delay_us = max(1, round(predicted / slope))
        plain, delayed = _pairs(root, "trials", delay_us, _REPEATS * _TRIALS)
        trials = [
            compare_paired(delayed[i : i + _REPEATS], plain[i : i + _REPEATS])
            for i in range(0, len(plain), _REPEATS)
        ]
        truth = math.exp(float(np.median(np.log(delayed / plain)))) - 1
        shown = sum(one.p <= 0.05 for one in trials)
        noise = float(np.sqrt(np.mean((np.log(delayed / plain) - math.log1p(truth)) ** 2)))
        print(f"noise of {len(deciding['log_ratios'])} pairs: {deciding['noise']:.1%}; "
              f"predicted for {_REPEATS} repeats: {predicted:.1%}")  # fmt: skip
        print(f"planted: {delay_us} us a read, {truth:.1%} over all; noise there {noise:.1%}")
        print(f"shown in {shown} of {len(trials)} trials; estimates "
              + ", ".join(f"{one.ratio - 1:.1%}" for one in trials))  # fmt: skip
        for factor in (1.0, 1.5):
            again = sum(
                compare_paired(
                    delayed[i : i + _REPEATS] * (1 + factor * predicted) / (1 + truth),
                    plain[i : i + _REPEATS],
                ).p <= 0.05
                for i in range(0, len(plain), _REPEATS)
            )  # fmt: skip
            print(f"of {factor:g} times the predicted size: shown in {again} of {len(trials)}")


def alike() -> None:
    """Print what each family of two engines shows."""
    wrong = 0
    for i in range(_TRIALS):
        with tempfile.TemporaryDirectory(prefix="trust-", dir="/var/tmp") as folder:
            root = Path(folder)
            root.chmod(0o755)
            tiers = {name: {"kind": "block", "path": str(root / name)} for name in ("ssd", "pmem")}
            for name in tiers:
                (root / name).mkdir()
            host = root / "host.yml"
            host.write_text(json.dumps({"schema": 1, "tiers": tiers}))
            _harness(root, "experiment", "run", "demo", "--host", str(host))
            runs = Store(root).runs()
            a, b = (
                [
                    run
                    for run in runs
                    if run.spec.placement and run.spec.placement.name == f"{tier}-both"
                ]
                for tier in tiers
            )
            groups = compare(a, b, ["placement"]).groups
        rows = [group.deciding for group in groups if group.deciding and group.deciding.estimate]
        shown = any(row.shown for row in rows)
        wrong += shown
        ratios = ", ".join(f"{row.estimate.ratio - 1:+.1%}" for row in rows if row.estimate)
        print(f"{i + 1}: {ratios}{', SHOWN' if shown else ''}", flush=True)
    print(f"a difference is shown in {wrong} of {_TRIALS} families")


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value).lower()


def _pairs(root: Path, name: str, delay_us: int, repeats: int) -> tuple[Any, Any]:
    """Times of the query without and with a delay of each read, side by side."""
    place = {"placement": "ssd-both"}
    profile = {
        "schema": 1, "name": name, "description": name, "workload": "tpch", "repeats": repeats,
        "axes": {"configuration": [place, place | {"plant": [f"data.read=+{delay_us}us"]}]},
        "fixed": {"engine": "duckdb", "threads": 1, "params": _PARAMETERS},
    }  # fmt: skip
    path = root / f"{name}.yml"
    path.write_text(json.dumps(profile))
    runs = _harness(root, "experiment", "run", str(path))["runs"]
    times: dict[bool, dict[int, float]] = {False: {}, True: {}}
    for run in runs:
        (value,) = (m["value"] for m in run["metrics"] if m["name"] == "queries_geomean_ns")
        times[bool(run["spec"].get("plant"))][run["spec"]["block"]] = value
    plain, delayed = (np.array([own[k] for k in sorted(own)]) for own in times.values())
    return plain, delayed


def _harness(root: Path, *words: str) -> Any:
    command = [str(Path(sys.executable).parent / "harness"), *words]
    done = subprocess.run(
        [*command, "--json", "--quiet", "--results", str(root)],
        stdout=subprocess.PIPE,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with status {done.returncode}")
    return json.loads(done.stdout)


if __name__ == "__main__":
    {"rules": rules, "planted": planted, "alike": alike}[sys.argv[1]]()
