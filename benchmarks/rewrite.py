"""A rewritten program against the same change made in its source.

    .venv/bin/python benchmarks/rewrite.py --pairs 8

microbench's level hashing under YCSB A: as designed with clflush (vanilla), the same program
rewritten (`harness rewrite`: clwb, and sfence where no fence follows), and the same in its source
(manual). Arms in random order in each pair, half a second each, one thread, DRAM.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import tempfile
from pathlib import Path
from statistics import median

from smoke import SMOKE, parsed

from harness.native_programs import microbench_program
from harness.rewrite import rewrite
from reports.statistics import ratio_of

#: Of times and memory, what ``--smoke`` uses.
_PART = 16 if SMOKE else 1


def operations_per_second(program: Path, flush: str, added_fence: str, seed: int) -> float:
    """In half a second."""
    job = {"name": "j0", "kind": "index", "target": "t0", "threads": 1, "index": "level_hash"}
    job |= {"workload": "a", "flush": flush, "fence": "mfence", "added_fence": added_fence}
    measurement = {
        "name": "m0",
        "repeats": 1,
        "warm_up_ns": 100_000_000 // _PART,
        "duration_ns": 500_000_000 // _PART,
    }
    targets = {"t0": {"kind": "dram", "size_bytes": (1 << 28) // _PART}}
    measurements = [{**measurement, "jobs": [job]}]
    spec = {"schema": 2, "seed": seed, "targets": targets, "measurements": measurements}
    command = [str(program), "-"]
    done = subprocess.run(
        command, input=json.dumps(spec), capture_output=True, text=True, check=True
    )
    (repeat,) = json.loads(done.stdout)["measurements"][0]["repeats"]
    return float(repeat["jobs"][0]["operations_per_second"])


def main() -> None:
    """Print medians, and the ratios with their intervals."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=8)
    pairs = parsed(parser, pairs=1).pairs
    with tempfile.TemporaryDirectory() as folder:
        old, new = Path(microbench_program()), Path(folder) / "microbench"
        arms = {"vanilla": (old, "clflush", "none"), "manual": (old, "clwb", "sfence")}
        if SMOKE:
            print("left out: the rewritten program (half a minute; tests/rewrite)")
        else:
            done = rewrite(old, new)
            print(
                f"{len(done.sites)} flushes; before {dict(done.before)}, after {dict(done.after)}"
            )
            arms["rewritten"] = (new, "clflush", "none")
        rates: dict[str, list[float]] = {arm: [] for arm in arms}
        for seed in range(1, pairs + 1):
            for arm in random.sample(list(arms), len(arms)):
                rates[arm].append(operations_per_second(*arms[arm], seed))
    print(", ".join(f"{arm} {median(values) / 1e3:.0f} k/s" for arm, values in rates.items()))
    for a, b in () if SMOKE else (("rewritten", "manual"), ("manual", "vanilla")):
        ratio = ratio_of(rates[a], rates[b])
        print(f"{a} / {b}: {ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]")


if __name__ == "__main__":
    main()
