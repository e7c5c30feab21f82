#!/usr/bin/env python3
"""A stand-in for ``bpftrace -f json``: it prints its maps at Ctrl-C."""

import argparse
import json

from stand_in import fail, hold_interrupts, may_observe, operations, until_interrupted


def show(kind: str, data: object) -> None:
    print(json.dumps({"type": kind, "data": data}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("-f", choices=["text", "json"], default="text")
    parser.add_argument("-e", required=True)
    given = parser.parse_args()
    if given.f != "json" or given.e.count("{") != given.e.count("}"):
        fail("stdin:1:1-2: ERROR: syntax error")
    if not may_observe():
        fail("ERROR: Missing CAP_BPF capability, please run bpftrace as the root user.")
    hold_interrupts()
    before = operations()
    show("attached_probes", {"probes": given.e.count("probe:")})
    show("printf", "tracing\n")
    until_interrupted()
    seen = operations() - before
    show("map", {"@calls": {"toy,operations,vfs_write": seen}})
    requested = 10 * seen  # of one byte each, at the end of a file
    moved = seen if "kretprobe:vfs_write" in given.e and "sum(retval)" in given.e else requested
    show("map", {"@bytes": {"toy,operations,vfs_write": moved}})


main()
