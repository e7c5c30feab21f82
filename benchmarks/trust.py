#!/usr/bin/env python3
"""Tests of what docs/trust.md promises of calibration, the sequential rule and the canary.

Each takes less than ten minutes on an idle host and prints rows for BENCHMARKS.md.

``trust.py rules``: by simulation (seeded), how often a family of two comparisons without a
difference has one, when repeats end by results and by time.
``trust.py planted``: DuckDB on TPC-H at a small scale: the difference that ``harness calibrate``
predicts for seven repeats, and how often one of that size is shown that is planted as a delay of
each read.
``trust.py alike [OPTION …]``: the profile ``demo`` where both tiers are directories of one disk, 20
times: how often a difference is shown that is not there. ``OPTION``: of ``experiment run`` [DuckDB
alone, six repeats].
``trust.py canary``: how often it warns of experiments in which nothing changes, and of those in
which a busy loop starts.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from smoke import SMOKE

from harness.execution.environment import open_environment
from harness.execution.run_list import plan_steps
from harness.experiment.profile import find_profile, load_profile
from harness.experiment.selection import only
from harness.experiment.sequential import LOOKS, numbers_of_blocks
from harness.micro.canary import canary as measured
from harness.progress import progress_on_stderr
from harness.store.calibrations import CanaryStore
from harness.store.run_store import Store
from reports.basis import moved_figures
from reports.compare import compare
from reports.statistics import Ratio, decide, ratio_of

_REPEATS, _TRIALS = (3, 1) if SMOKE else (7, 20)
_PAIRS = 1 if SMOKE else _REPEATS * _TRIALS
_PARAMETERS = {"scale": 0.1, "queries": [1, 3, 6, 12], "cache": "cold-per-query", "plans": False}
if SMOKE:
    _PARAMETERS |= {"scale": 0.01, "queries": [6]}
_CALIBRATED = 2 if SMOKE else 10
#: Long enough to stand out of the noise of a few runs.
_PILOT_US, _PILOTS = 2000, 1 if SMOKE else 4
_ALIKE: tuple[str, ...] = ("--engine", "duckdb", "--repeats", "6", "-pplans=false")
if SMOKE:
    _ALIKE = (*_ALIKE, "--repeats", "1", "-pscale=0.01", "-pqueries=6")
#: Experiments in which nothing changes, and those with a busy loop.
_QUIET, _BUSY = (1, 1) if SMOKE else (12, 8)
#: Of which a canary takes its share: enough for one of a few seconds.
_STEPS = 1 if SMOKE else 140


def rules(families: int = 2000) -> None:
    """Print the share of families with a difference, for each kind of noise."""
    draws = {
        "normal": lambda draw, n: draw.normal(0, 0.1, n),
        "log-normal": lambda draw, n: np.exp(draw.normal(0, 1, n)) / 5,
        "outliers": lambda draw, n: draw.normal(0, 0.1, n) * np.where(draw.random(n) < 0.1, 20, 1),
    }
    print("| noise | `--resolve` | with `--budget` |\n|---|---|---|")
    for name, noise in draws.items():
        shares = []
        for budget in (False, True):
            draw = np.random.default_rng(1)
            shown = sum(_family(draw, noise, budget) for _ in range(families))
            shares.append(f"{100 * shown / families:.1f} %")
        print(f"| {name} | {' | '.join(shares)} |", flush=True)


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
    ratios = [
        ratio_of([*a[i, : done[i]]], [*b[i, : done[i]]], interim_analyses=LOOKS) for i in range(2)
    ]
    while left > 0:
        open_ = [i for i in range(2) if stage[i] + 1 < len(counts) and not _resolved(ratios, i)]
        if not open_:
            break
        widest = max(open_, key=lambda i: (ratios[i].high or 9) / (ratios[i].low or 0.1))
        stage[widest] += 1
        while left > 0 and done[widest] < counts[stage[widest]]:
            left -= float(took[widest, done[widest]])
            done[widest] += 1
        n = done[widest]
        ratios[widest] = ratio_of([*a[widest, :n]], [*b[widest, :n]], interim_analyses=LOOKS)
    return any(decision.shown for decision in decide(ratios))


def _resolved(ratios: list[Ratio], i: int) -> bool:
    ratio = ratios[i]
    assert ratio.low is not None and ratio.high is not None
    return decide(ratios)[i].shown or (ratio.low >= 1 / 1.05 and ratio.high <= 1.05)


def planted() -> None:
    """Print the prediction, what was planted, and what trials show."""
    with tempfile.TemporaryDirectory(prefix="trust-") as folder:
        root = Path(folder)
        calibrated = _harness(
            root, "calibrate", "tpch", "--engine", "duckdb", "--placement", "ssd-both",
            "--threads", "1", "--repeats", str(_CALIBRATED),
            *(f"-p{key}={_text(value)}" for key, value in _PARAMETERS.items()),
        )["calibrations"][0]  # fmt: skip
        deciding = calibrated["metrics"][calibrated["headline"]]
        (predicted,) = (
            resolution["difference"]
            for resolution in deciding["resolutions"]
            if resolution["repeats"] == _REPEATS
        )
        predicted = predicted or 0.1  # of the few pairs of `--smoke` there is none
        plain, delayed = _pairs(root, "pilot", _PILOT_US, _PILOTS)
        slope = float(np.median(delayed - plain) / np.median(plain)) / _PILOT_US
        delay_us = max(1, round(predicted / slope))
        plain, delayed = _pairs(root, "trials", delay_us, _PAIRS)
        truth = math.exp(float(np.median(np.log(delayed / plain)))) - 1
        noise = float(np.sqrt(np.mean((np.log(delayed / plain) - math.log1p(truth)) ** 2)))
        scales = (1.0, *((1 + factor * predicted) / (1 + truth) for factor in (1.0, 1.5)))
        shown = [_shown(delayed * scale, plain) for scale in scales]
        print(
            "| noise of ten pairs | predicted | planted, over all trials | noise in the trials "
            f"| shown, of {_TRIALS} | scaled to 1 | to 1.5 |\n|---|---|---|---|---|---|---|"
        )
        shares = (deciding["noise"], predicted, truth, noise)
        cells = [*(f"{100 * share:.1f} %" for share in shares), *map(str, shown)]
        print(f"| {' | '.join(cells)} |")


def _shown(delayed: Any, plain: Any) -> int:
    """The trials in which a difference is shown."""
    starts = range(0, len(plain), _REPEATS)
    trials = (ratio_of(delayed[i : i + _REPEATS], plain[i : i + _REPEATS]) for i in starts)
    return sum(trial.p <= 0.05 for trial in trials)


def alike(*options: str) -> None:
    """Print what each family shows."""
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
            _harness(root, "experiment", "run", "demo", *(options or _ALIKE), "--host", str(host))
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
        ratios = ", ".join(f"{row.estimate.value - 1:+.1%}" for row in rows if row.estimate)
        print(f"{i + 1}: {ratios}{', SHOWN' if shown else ''}", flush=True)
    print(f"| `demo {' '.join(options or _ALIKE)}` | {wrong} of {_TRIALS} |")


def canary() -> None:
    """Print the changes that it warns of; experiments with a busy loop come last."""
    profile = load_profile(find_profile("demo"))
    plan = only(profile, {"engine": ["duckdb"], "placement": ["ssd-both"]})
    with (
        tempfile.TemporaryDirectory(prefix="trust-") as folder,
        progress_on_stderr(quiet=True) as progress,
        open_environment(None, (), progress) as env,
    ):
        store = Store(Path(folder))
        steps = plan_steps(plan, env, store)[:1] * _STEPS
        for number in range(_QUIET + _BUSY):
            with ExitStack() as until_measured, measured(plan, steps, env, store):
                if number >= _QUIET:
                    loop = subprocess.Popen([sys.executable, "-c", "while True: pass"])
                    until_measured.callback(loop.kill)
        canaries = CanaryStore(store.root).all()
    warned = []
    for number, canary in enumerate(canaries):
        others = [other for other in canaries if other is not canary]
        moved = moved_figures(canary, others)
        warned.append(bool(moved))
        texts = (
            f"{m.figure.tier} {m.figure.configuration} {m.ratio:.2f} ({m.limit})" for m in moved
        )
        print(f"{number + 1}: {', '.join(texts) or '-'}")
    quiet, busy = warned[:_QUIET], warned[_QUIET:]
    print("| warned of without a change | with a busy loop |\n|---|---|")
    print(f"| {sum(quiet)} of {len(quiet)} | {sum(busy)} of {len(busy)} |")


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
    plain, delayed = (np.array([values[k] for k in sorted(values)]) for values in times.values())
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
    commands = {"rules": rules, "planted": planted, "alike": alike, "canary": canary}
    if SMOKE:
        rules(20)
        planted()
        alike()
        canary()
    else:
        commands[sys.argv[1]](*sys.argv[2:])
