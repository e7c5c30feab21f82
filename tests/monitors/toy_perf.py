#!/usr/bin/env python3
"""``perf stat -I`` of the toy host (``$TOY_HOST``): each turn of its server is a cycle."""

import json
import os
import re
import sys
import time
from pathlib import Path


def turns() -> int:
    match = re.search(r"^pgfault (\d+)", (Path(os.environ["TOY_HOST"]) / "proc/vmstat").read_text())
    assert match is not None
    return int(match[1])


def option(name: str) -> str:
    return sys.argv[sys.argv.index(name) + 1]


def main() -> None:
    began = time.monotonic()
    command, answer = map(int, option("--control").removeprefix("fd:").split(","))
    interval_s = int(option("-I")) / 1000
    assert os.read(command, 16) == b"enable\n"
    os.write(answer, b"ack\n\0")
    before = turns()
    with os.fdopen(int(option("--log-fd")), "w") as log:
        while True:
            time.sleep(interval_s)
            stamp, now = time.monotonic() - began, turns()
            row = {"interval": stamp, "counter-value": f"{now - before}.000000", "unit": ""}
            print(
                json.dumps(row | {"event": "cycles", "pcnt-running": 100.0}), file=log, flush=True
            )
            before = now


if __name__ == "__main__":
    main()
