"""Cost of a store of thousands of runs: CPU time and memory of the commands that read it.

    .venv/bin/python benchmarks/store_scale.py RUN_A RUN_B --runs 10000 --into /tmp/store

RUN_A, RUN_B: directories of finished runs of one experiment on two placements. They are written
again and again as experiments of 20 blocks, with values and times of their own, then each
command runs in a process of its own on an empty store and on this one.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from smoke import SMOKE, parsed

from harness import structs
from harness.store.spec import RunSpec, content_hash

HARNESS = str(Path(__file__).resolve().parents[1] / ".venv" / "bin" / "harness")
BLOCKS = 20
PROFILE = """\
schema: 1
name: scale-dry
description: what a dry run costs
workload: tpch
axes: {placement: [ssd-both, pmem-both]}
fixed: {engine: duckdb, emulate: [pmem], params: {scale: 0.01, queries: [1, 6]}}
"""


def documents(template: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """run.json and manifest.json of a finished run."""
    read = (json.loads((template / f"{name}.json").read_text()) for name in ("run", "manifest"))
    run, manifest = read
    return run, manifest


def write_run(
    into: Path, template: tuple[dict[str, Any], dict[str, Any]], number: int, rng: random.Random
) -> None:
    """One more run like ``template``; ``number`` decides its experiment and block."""
    run, manifest = (json.loads(json.dumps(document)) for document in template)
    experiment, block = divmod(number // 2, BLOCKS)
    name = f"scale-{experiment:04d}"
    spec = run["spec"] | {"block": block}
    started = run["started_unix_ns"] + number * 10**11
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(started // 10**9))
    run_id = f"{stamp}-{name}-b{block}-{number}"
    for metric in run["metrics"]:
        if "value" in metric and metric["better"] != "none":
            metric["value"] *= rng.lognormvariate(0, 0.05)
    run |= {
        "run_id": run_id,
        "spec": spec,
        "spec_hash": structs.convert(spec, RunSpec, "spec").hash(),
        "experiment": {"name": name, "hash": content_hash(name)},
        "started_unix_ns": started,
    }
    folder = into / "runs" / run_id
    folder.mkdir(parents=True)
    for file, document in (
        ("spec", spec),
        ("manifest", manifest | {"run_id": run_id, "spec": spec}),
        ("run", run),
    ):
        (folder / f"{file}.json").write_text(json.dumps(document, indent=1, ensure_ascii=False))


def measured(store: Path, *command: str) -> tuple[float, float, int]:
    """CPU seconds, peak resident MB and exit code of one command."""
    environment = os.environ | {"HARNESS_RESULTS": str(store)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(
        [HARNESS, *command], env=environment, stdout=subprocess.DEVNULL, cwd=store.parent
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, used.ru_maxrss / 1024, process.returncode


def main() -> None:
    """Parse the arguments, write the store and measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("templates", nargs="*" if SMOKE else 2, type=Path)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--into", type=Path, required=not SMOKE)
    given = parsed(parser, runs=8)
    if not given.smoke:
        measure(given)
        return
    with tempfile.TemporaryDirectory() as folder:
        given.into = Path(folder)
        given.templates = templates_in(given.into / "templates")
        measure(given)


def templates_in(store: Path) -> list[Path]:
    """Two small runs, of two placements."""
    argv = ("--engine", "duckdb", "--placement", "ssd-both", "--placement", "pmem-both",
            "--emulate", "pmem", "--scale", "0.01", "--queries", "6", "--quiet")  # fmt: skip
    measured(store, "run", "tpch", *argv)
    return sorted((store / "runs").iterdir())


def measure(given: argparse.Namespace) -> None:
    """Write the store, and print what each command takes."""
    store, empty = given.into / "results", given.into / "empty"
    empty.mkdir(parents=True, exist_ok=True)
    profile = given.into / "scale-dry.yml"
    profile.write_text(PROFILE)
    if not store.exists():
        templates = [documents(path) for path in given.templates]
        for number in range(given.runs):
            write_run(store, templates[number % 2], number, random.Random(number))
    (store / "runs.index").unlink(missing_ok=True)
    arms = [
        f"experiment=scale-0000,placement={documents(path)[0]['spec']['placement']['name']}"
        for path in given.templates
    ]
    two = [path.name for path in sorted((store / "runs").iterdir())[:2]]
    five = [f"scale-{number:04d}" for number in range(min(5, given.runs // 40))]
    dry = ("experiment", "run", str(profile), "--dry-run", "--emulate", "pmem", "--quiet")
    print("command | CPU s | peak MB | exit code")
    for title, where, command in (
        ("runs list, index built", store, ("runs", "list")),
        ("runs list", store, ("runs", "list")),
        ("runs list --json", store, ("runs", "list", "--json")),
        ("compare two named runs", store, ("compare", *two)),
        ("compare two arms of 20 runs", store, ("compare", *arms)),
        ("experiment run --dry-run", store, dry),
        ("experiment run --dry-run, empty store", empty, dry),
        ("report of 200 runs", store, ("report", *five, "--out", str(given.into / "report"))),
    ):
        cpu, memory, code = measured(where, *command)
        print(f"{title} | {cpu:.1f} | {memory:.0f} | {code}", flush=True)
    shutil.rmtree(given.into / "report", ignore_errors=True)


if __name__ == "__main__":
    main()
