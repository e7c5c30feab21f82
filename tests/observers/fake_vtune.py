#!/usr/bin/env python3
"""A stand-in for ``vtune``: it accepts only complete, harmless command lines, and behaves alike."""

import os
import sys
import time
from pathlib import Path

from stand_in import HERE, fail, may_observe, operations

FORM = ["-format", "csv", "-csv-delimiter", "comma"]
KNOBS = {
    "memory-access": {"analyze-mem-objects=false", "dram-bandwidth-limits=false"},
    "hotspots": {"sampling-mode=hw"},
}


def value(name: str) -> str:
    return sys.argv[sys.argv.index(name) + 1]


def collect(result: Path) -> None:
    """Until it is stopped; commands of other processes are files in the result."""
    if result.exists():
        fail("vtune: Error: the result directory exists")
    if "-start-paused" in sys.argv or value("-duration") != "unlimited":
        fail("vtune: Error: system-wide collection needs -duration")
    if value("-finalization-mode") != "none":
        fail("vtune: Error: finalises while the engine runs")
    knobs = {sys.argv[i + 1] for i, word in enumerate(sys.argv) if word == "-knob"}
    expected = KNOBS.get(value("-collect"), {"dram-bandwidth-limits=false"})
    if knobs != expected:
        fail(f"vtune: Error: knobs {knobs}")
    if not may_observe():
        fail("vtune: Error: Cannot enable Hardware Event-based Sampling: insufficient rights")
    result.mkdir()
    seen, began = 0, operations()
    collecting = True
    print("vtune: Collection started. To stop the collection, press CTRL-C.", flush=True)
    while not (result / "stop").exists():
        if collecting and (result / "pause").exists():
            seen, collecting = seen + operations() - began, False
            (result / "pause").unlink()
        elif not collecting and (result / "resume").exists():
            began, collecting = operations(), True
            (result / "resume").unlink()
        time.sleep(0.01)
    (result / "raw").write_text(str(seen + (operations() - began if collecting else 0)))


def command(name: str, result: Path) -> None:
    """Return when it has been obeyed."""
    if name == "pause" and (HERE / "no-pause").exists():
        fail("vtune: Error: Cannot pause this collection")
    request = result / name
    request.touch()
    while name != "stop" and request.exists():
        time.sleep(0.01)


def report(result: Path) -> None:
    if not (result / "final").exists() or any(word not in sys.argv for word in FORM):
        fail("vtune: Error: nothing to report")
    seen = (result / "final").read_text()
    tables = {
        "summary": "Hierarchy Level,Metric Name,Metric Value\n"
        f"0,Elapsed Time,2.5\n0,Memory Bound,76.2\n1,DRAM Bound,70.7\n0,Toy Operations,{seen}\n"
        f"0,Toy User,{os.geteuid()}\n",
        "hw-events": "Process,Hardware Event Count:INST_RETIRED.ANY,Module Count\n"
        f"toy-client,7,1\ntoy-engine,{1000 * int(seen)},2\n",
    }
    kind = value("-report")
    if kind == "hw-events" and value("-group-by") != "process":
        fail("vtune: Error: events by function")
    if (link := HERE / "link").exists():  # as the servers' user could
        Path(value("-report-output")).symlink_to(link.read_text())
    else:
        Path(value("-report-output")).write_text(tables[kind])


def main() -> None:
    result = Path(value("-r"))
    if "-collect" in sys.argv:
        collect(result)
    elif "-command" in sys.argv:
        command(value("-command"), result)
    elif "-finalize" in sys.argv:
        (result / "raw").rename(result / "final")
    elif "-report" in sys.argv:
        report(result)
    else:
        fail("vtune: Error: no action")


main()
