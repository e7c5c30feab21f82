#!/usr/bin/env python3
"""A stand-in for Intel PCM's ``pcm-memory``: a recording's first figures, with the time, for ever.

Next to it, ``recording`` is what it prints; a file ``no-rights`` takes its rights away.
"""

import argparse
import itertools
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(sys.argv[0]).parent


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False, prefix_chars="-")
    parser.add_argument("delay", type=float)
    for flag in ("-nc", "-csv", "-f"):
        parser.add_argument(flag, action="store_true", required=True)
    parser.add_argument("-i", type=int)
    given = parser.parse_args()
    if (HERE / "no-rights").exists():
        print("Can not access CPUs Model Specific Registers (MSRs).", file=sys.stderr)
        print(
            "execute 'modprobe msr' as root user, then execute pcm as root user.", file=sys.stderr
        )
        sys.exit(1)
    signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
    sockets, names, figures, *_ = (HERE / "recording").read_text().splitlines()
    print(sockets, names, sep="\n")
    for _ in itertools.count() if given.i is None else range(given.i):
        time.sleep(given.delay)
        now = datetime.now(UTC).strftime("%Y-%m-%d,%H:%M:%S.%f")[:-3]
        print(now, *figures.split(",")[2:], sep=",", flush=True)


main()
