"""Value of the procedures: ours under loadgen against HammerDB's under HammerDB.

    HAMMERDB_HOME=… .venv/bin/python benchmarks/tpcc_procedures.py --warehouses 10 --pairs 5
    HAMMERDB_HOME=… .venv/bin/python benchmarks/tpcc_procedures.py --client loadgen

The second has our client call HammerDB's procedures, too: what clients cost does not matter then.

Each drives its own schema on the same binaries, settings and durability, on a copy of its own
database that was warmed for a minute. Users ask for whatever warehouse: ours draws one for
each transaction, HammerDB's users share all of them out, which makes its conflicts fewer.
"""

from __future__ import annotations

import argparse
import itertools
import os

from smoke import SMOKE, parsed
from tpcc import (
    SMALL,
    MeasuredWindow,
    ServerFactory,
    alternated,
    arguments,
    drive_hammerdb,
    drive_loadgen,
    opened,
    report,
)

ARMS = ("ours",) if SMOKE else ("ours", "hammerdb")


def measure(
    servers: ServerFactory, arm: str, users: int, given: argparse.Namespace
) -> MeasuredWindow:
    """One arm on a copy of its own database."""
    with servers.server(f"{arm}-{given.warehouses}") as server:
        if arm == "hammerdb" and given.client == "HammerDB":
            return drive_hammerdb(server, users)
        procedures = "own" if arm == "ours" else "hammerdb"
        times = (60, 60) if given.client == "HammerDB" else (given.ramp_up, given.window)
        return drive_loadgen(server, users, given.warehouses, procedures, *times)


def main() -> None:
    """Alternate the arms for each number of users; print every round, then the ratios."""
    parser = arguments(str(__doc__).split("\n")[0], warehouses=10, pairs=5)
    parser.add_argument("--users", type=int, nargs="+", default=[2, 8, 32])
    parser.add_argument(
        "--client", choices=("HammerDB", "loadgen"), default="HammerDB",
        help="who calls HammerDB's procedures; with loadgen windows may be shorter than a minute",
    )  # fmt: skip
    parser.add_argument("--ramp-up", type=int, default=20, help="seconds, with --client loadgen")
    parser.add_argument("--window", type=int, default=30, help="seconds, with --client loadgen")
    given = parsed(parser, **SMALL, users=[2], client="loadgen", ramp_up=0, window=0.5)
    print(f"load average {os.getloadavg()[0]:.1f}, {given.warehouses} warehouses", flush=True)
    seen: dict[tuple[int, str], list[MeasuredWindow]] = {}
    with opened(given.databases) as servers:
        if not SMOKE:
            servers.keep_hammerdbs(given.warehouses)
        servers.keep_ours(given.warehouses)
        for pair, users in itertools.product(range(given.pairs), given.users):
            for arm in alternated(ARMS, pair):
                costs = measure(servers, arm, users, given)
                seen.setdefault((users, arm), []).append(costs)
                print(
                    f"{pair + 1}, {users} users, {arm}: {costs.new_orders_per_minute:.0f} NOPM, "
                    f"server {costs.server_us:.0f} µs, client {costs.client_us:.1f} µs "
                    "a transaction",
                    flush=True,
                )
    for users in () if SMOKE else given.users:
        for name in ("new_orders_per_minute", "server_us", "client_us"):
            ours, theirs = ([getattr(s, name) for s in seen[users, arm]] for arm in ARMS)
            report(f"{users} users, {name}, ours / HammerDB", ours, theirs)


if __name__ == "__main__":
    main()
