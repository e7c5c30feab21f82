#!/usr/bin/env python3
"""A stand-in for ``perfspect metrics`` of PerfSpect 3.

It ends with Ctrl-C, and writes its summary then (cmd/metrics/metrics.go). Status messages go to
stderr, each once if that is no terminal (internal/progress).
"""

import argparse
from pathlib import Path

from stand_in import fail, hold_interrupts, may_observe, operations, until_interrupted

HOST = "toy"


def status(text: str) -> None:
    from sys import stderr

    print(f"{HOST:<20}  ⣾  {text:<40}", file=stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("command", choices=["metrics"])
    parser.add_argument("--format", choices=["csv", "json", "txt", "wide"], default="csv")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--interval", type=int, default=5)
    parser.add_argument("--duration", type=int, default=0)
    given = parser.parse_args()
    if given.interval < 1:
        fail("Error: event collection interval must be at least 1 second")
    given.output.mkdir(exist_ok=True)
    hold_interrupts()
    status("configuring target")
    if not may_observe():
        fail("Error: can't elevate privileges; elevated privileges required")
    before = operations()
    status("collecting metrics, press Ctrl+c to stop")
    until_interrupted()
    seen = operations() - before
    (given.output / f"{HOST}_metrics.csv").write_text(f"TS,toy operations\n1.0,{seen}\n")
    summary = f"metric,mean,min,max,stddev\ntoy operations,{seen:f},{seen:f},{seen:f},{0:f}\n"
    (given.output / f"{HOST}_metrics_summary.csv").write_text(summary + "unseen,NaN,NaN,NaN,NaN\n")
    status("collection complete")


main()
