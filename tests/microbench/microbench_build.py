"""The sources of microbench, and running it on specs."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parents[2] / "microbench"
TOY = Path(__file__).resolve().parents[1] / "toy_kernels/increment.c"

Run = Callable[..., dict[str, Any]]


def with_toy_kernel(folder: Path) -> Path:
    """A copy of the sources with tests/toy_kernels in it: a file, and a line in the registry.

    Returns what replaces SOURCE. Copies keep the times of their originals, so that what has not
    changed since an earlier session is not compiled again.
    """
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("microbench", "native"):
        shutil.copytree(SOURCE.parent / name, folder / name)
    (folder / "harness").mkdir()
    shutil.copy2(SOURCE.parent / "harness/native_programs.py", folder / "harness")
    for file in (TOY, TOY.with_suffix(".json")):
        shutil.copy2(file, folder / "microbench/kernels")
    registry = folder / "microbench/kernel_registry.c"
    original = registry.stat()
    text = registry.read_text()
    text = text.replace(" mb_throughput,", " mb_increment, mb_throughput,")
    registry.write_text(text.replace("&mb_throughput,", "&mb_increment, &mb_throughput,"))
    os.utime(registry, (original.st_atime, original.st_mtime))
    return folder / "microbench"


def execute(program: Path, spec, how: str = "-") -> subprocess.CompletedProcess[str]:
    """Run the program on a spec, however that ends; ``how``: ``--check`` only looks at it."""
    return subprocess.run(
        [str(program), how], input=json.dumps(spec), capture_output=True, text=True, check=False
    )


def spec_of(targets, *measurements, seed: int = 1) -> dict[str, Any]:
    """A spec; a measurement without a name, a job without name and target get the usual ones."""
    named = [
        {
            "name": f"m{number}",
            **measurement,
            "jobs": [
                {"name": f"j{index}", "target": next(iter(targets)), "threads": 1, **job}
                for index, job in enumerate(measurement["jobs"])
            ],
        }
        for number, measurement in enumerate(measurements)
    ]
    return {"schema": 2, "seed": seed, "targets": targets, "measurements": named}


def throughput(operation: str = "load", pattern: str = "sequential", **keys) -> dict[str, Any]:
    """A job that loads or stores lines."""
    return {
        "kind": "throughput", "operation": operation, "pattern": pattern,
        "access_bytes": 64, **keys,
    }  # fmt: skip


def latency(**keys) -> dict[str, Any]:
    """A job that times operations on lines at random, each alone."""
    return {"kind": "latency", "access_bytes": 64, "pattern": "random", **keys}


def chain(text: str, *, dependent: bool, **keys) -> dict[str, Any]:
    """A chain in PerMA-Bench's words: r_512,w_64_cache_128."""
    steps = []
    for step_text in text.split(","):
        letters, size, *how = step_text.split("_")
        step: dict[str, Any] = {
            "operation": "read" if letters[0] == "r" else "write",
            "target": "second" if letters.endswith("d") else "first",
            "bytes": int(size),
        }
        if how:
            step |= {"persist": how[0], "offset_bytes": int(how[1]) if how[1:] else 0}
        steps.append(step)
    return {"kind": "chain", "steps": steps, "dependent": dependent, **keys}


def measured(job: dict[str, Any], operations: int = 2000) -> dict[str, Any]:
    """A measurement of one job that ends by a count."""
    return {"jobs": [{**job, "operations": operations}]}


def jobs(result: dict[str, Any]) -> list[dict[str, Any]]:
    """The first job of every measurement's only repeat."""
    return [measurement["repeats"][0]["jobs"][0] for measurement in result["measurements"]]


def runner(program: Path) -> Run:
    def run(targets, *measurements, seed: int = 1) -> dict[str, Any]:
        spec = spec_of(targets, *measurements, seed=seed)
        done = execute(program, spec)
        assert done.returncode == 0, done.stderr
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    return run
