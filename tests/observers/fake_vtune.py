#!/usr/bin/env python3
"""A stand-in for ``vtune``: it accepts only complete, harmless command lines, and behaves alike."""

import sys
import time
from pathlib import Path

SUMMARY = """Hierarchy Level,Metric Name,Metric Value
0,Elapsed Time,2.5
0,Memory Bound,76.2
1,DRAM Bound,70.7
"""


def fail(text: str) -> None:
    print(f"vtune: Error: {text}", file=sys.stderr)
    sys.exit(1)


def value(name: str) -> str:
    return sys.argv[sys.argv.index(name) + 1]


def collect(result: Path) -> None:
    if result.exists():
        fail("the result directory exists")
    if (Path(sys.argv[0]).parent / "no-rights").exists():
        fail("Cannot enable Hardware Event-based Sampling: insufficient rights")
    if "-start-paused" in sys.argv or value("-duration") != "unlimited":
        fail("system-wide collection needs -duration")
    if value("-finalization-mode") != "none":
        fail("finalises while the engine runs")
    if value("-collect") == "memory-access":
        knobs = {sys.argv[i + 1] for i, word in enumerate(sys.argv) if word == "-knob"}
        if knobs != {"analyze-mem-objects=false", "dram-bandwidth-limits=false"}:
            fail(f"knobs {knobs}")
    result.mkdir()
    print("vtune: Collection started. To stop the collection, press CTRL-C.", flush=True)
    while not (result / "stop").exists():
        time.sleep(0.01)
    (result / "raw").touch()


def main() -> None:
    result = Path(value("-r"))
    if "-collect" in sys.argv:
        collect(result)
    elif "-command" in sys.argv:
        (result / value("-command")).touch()
    elif "-finalize" in sys.argv:
        (result / "raw").rename(result / "final")
    elif "-report" in sys.argv:
        if not (result / "final").exists() or value("-csv-delimiter") != "comma":
            fail("nothing to report")
        Path(value("-report-output")).write_text(SUMMARY)
    else:
        fail("no action")


main()
