#!/usr/bin/env python3
"""A stand-in for pmu-tools' ``toplev``.

It runs perf with the program that it observes and writes its table when that ends, by Ctrl-C too.
With ``--perf`` it prints perf's command line before it starts perf. Options that it does not know
are perf's.
"""

import argparse
import signal
import subprocess
from pathlib import Path

from stand_in import fail, may_observe, operations

HEADER = "Area,Value,Unit,Description,Sample,Stddev,Multiplex,Bottleneck,Idle"


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for flag in ("--no-desc", "--global", "--perf"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--verbose", "-v", action="store_true")
    parser.add_argument("--level", "-l", type=int)
    parser.add_argument("--csv", "-x")
    parser.add_argument("--output", "-o", type=Path, required=True)
    given, rest = parser.parse_known_args()
    if rest[:1] != ["-a"] or not rest[1:]:
        fail(f"perf: nothing to observe in {rest}")
    if given.csv != "," or given.level is None or not vars(given)["global"]:
        fail("not a table of the whole host")
    with given.output.open("w") as table:
        interrupts: list[int] = []
        signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
        before = operations()
        if given.perf:
            print("perf stat -x\\; -e '{cycles,instructions}'", *rest, flush=True)
        if not may_observe():
            fail("Access to performance monitoring and observability operations is limited.", 255)
        observed = subprocess.Popen(rest[1:])
        for number in interrupts:  # before it was there to be interrupted, too
            observed.send_signal(number)
        observed.wait()
        seen = operations() - before
        print("# 5.0-full-perf on toy", HEADER, sep="\n", file=table)
        print(f"Backend_Bound.Toy_Bound,{seen},% Slots,,,0.0,50.0,<==,", file=table)
        if given.verbose:
            print("Frontend_Bound,1.5,% Slots <,,,0.0,50.0,,", file=table)


main()
