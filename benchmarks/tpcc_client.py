"""Cost of a client: loadgen, HammerDB and pgbench calling the same procedures.

    HAMMERDB_HOME=… .venv/bin/python benchmarks/tpcc_client.py --warehouses 2 --users 2 --pairs 5

HammerDB builds its schema with its stored procedures; every measurement begins on a copy of
it and is warmed for a minute. Client CPU is that of the client's process, by transaction, in
the same minute as the rates. loadgen and HammerDB draw the same inputs and fetch the same
answers; pgbench draws a name by an expression that the server evaluates.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from smoke import SMOKE, parsed
from tpcc import (
    RAMP_UP_S,
    SMALL,
    WINDOW_S,
    MeasuredWindow,
    Server,
    ServerCpu,
    ServerFactory,
    alternated,
    arguments,
    children_ns,
    drive_hammerdb,
    drive_loadgen,
    opened,
    report,
    run,
)

#: The others need HammerDB, and pgbench its procedures.
ARMS = ("loadgen",) if SMOKE else ("loadgen", "HammerDB", "pgbench")
_SYLLABLES = "'{BAR,OUGHT,ABLE,PRI,PRES,ESE,ANTI,CALLY,ATION,EING}'::text[]"
_NAME = f"({_SYLLABLES})[:x::int] || ({_SYLLABLES})[:y::int] || ({_SYLLABLES})[:z::int]"
_DRAW = "\\set w random(1, {warehouses})\n\\set d random(1, 10)\n\\set c random(1, 3000)\n"
_DRAW_NAME = (
    "\\set x random(1, 10)\n\\set y random(1, 10)\n\\set z random(1, 10)\n"
    "\\set n case when random(1, 100) <= 60 then 1 else 0 end\n"
)
#: pgbench's scripts with their cards in HammerDB's deck of 23.
_SCRIPTS = {
    "new_order": (
        10,
        "\\set l random(5, 15)\n"
        "CALL neword(:w, {warehouses}, :d, :c, :l, 0.0, '', '', 0.0, 0.0, 0, localtimestamp);\n",
    ),
    "payment": (
        10,
        _DRAW_NAME + "\\set a random(1, 5000)\n"
        f"CALL payment(:w, :d, :w, :d, :n, :a, '0', {_NAME}, :c, '', '', '', '', '', '', '', '', "
        "'', '', '', '', '', '', '', '', '', '', localtimestamp, 0.0, 0.0, 0.0, '', "
        "localtimestamp);\n",
    ),
    "delivery": (1, "\\set o random(1, 10)\nCALL delivery(:w, :o, localtimestamp);\n"),
    "stock_level": (1, "\\set t random(10, 20)\nCALL slev(:w, :d, :t, 0);\n"),
    "order_status": (
        1,
        _DRAW_NAME
        + f"CALL ostat(:w, :d, :c, :n, {_NAME}, '', '', 0.0, 0, localtimestamp, 0, '');\n",
    ),
}


def drive_pgbench(server: Server, users: int, warehouses: int) -> MeasuredWindow:
    """pgbench with prepared statements: a warming run, then the measured one."""
    argv = [
        str(server.engine._installation.bin / "pgbench"), "-n", "-M", "prepared",
        "-c", str(users), "-j", "1",
        "-h", server.connection["host"], "-p", str(server.connection["port"]),
        "-U", server.connection["user"], *_script_files(server.clients.scratch, warehouses),
    ]  # fmt: skip
    database = server.connection["database"]
    run([*argv, "-T", str(RAMP_UP_S), database], server, {})
    server_cpu = ServerCpu(server)
    before, client = _new_orders(server), children_ns()
    server_cpu.begin()
    said = run([*argv, "-T", str(WINDOW_S), database], server, {})
    server_cpu.end()
    client = children_ns() - client
    done = re.search(r"number of transactions actually processed: (\d+)", said)
    failed = re.search(r"number of failed transactions: (\d+)", said)
    assert done and failed and failed[1] == "0", said
    new_orders = _new_orders(server) - before
    return MeasuredWindow(new_orders * 60 / WINDOW_S, int(done[1]), client, server_cpu.spent_ns)


def _script_files(folder: Path, warehouses: int) -> list[str]:
    """``-f file@weight`` of each transaction."""
    folder.chmod(0o755)
    options = []
    for name, (weight, text) in _SCRIPTS.items():
        path = folder / f"{name}.sql"
        path.write_text((_DRAW + text).replace("{warehouses}", str(warehouses)))
        path.chmod(0o644)
        options += ["-f", f"{path}@{weight}"]
    return options


def _new_orders(server: Server) -> int:
    return int(server.execute("SELECT sum(d_next_o_id) FROM district")[0][0])


def measure(servers: ServerFactory, arm: str, users: int, warehouses: int) -> MeasuredWindow:
    """One arm on a copy of HammerDB's database; of ours with `--smoke`."""
    if SMOKE:
        with servers.server(f"ours-{warehouses}") as server:
            return drive_loadgen(server, users, warehouses, "own")
    with servers.server(f"hammerdb-{warehouses}") as server:
        if arm == "HammerDB":
            return drive_hammerdb(server, users)
        if arm == "pgbench":
            return drive_pgbench(server, users, warehouses)
        return drive_loadgen(server, users, warehouses, "hammerdb")


def main() -> None:
    """Alternate the arms; print every round, the medians and the ratios."""
    parser = arguments(str(__doc__).split("\n")[0], warehouses=2, pairs=5)
    parser.add_argument("--users", type=int, default=2)
    given = parsed(parser, **SMALL)
    print(f"load average {os.getloadavg()[0]:.1f}, {given.users} users, "
          f"{given.warehouses} warehouses", flush=True)  # fmt: skip
    seen: dict[str, list[MeasuredWindow]] = {arm: [] for arm in ARMS}
    with opened(given.databases) as servers:
        (servers.keep_ours if SMOKE else servers.keep_hammerdbs)(given.warehouses)
        for pair in range(given.pairs):
            for arm in alternated(ARMS, pair):
                costs = measure(servers, arm, given.users, given.warehouses)
                seen[arm].append(costs)
                print(
                    f"{pair + 1} {arm}: client {costs.client_us:.1f} µs, server "
                    f"{costs.server_us:.0f} µs a transaction, "
                    f"{costs.new_orders_per_minute:.0f} NOPM",
                    flush=True,
                )
    ours = seen["loadgen"]
    for arm in ARMS[1:]:
        report(f"client µs, loadgen / {arm}", [s.client_us for s in ours],
               [s.client_us for s in seen[arm]])  # fmt: skip
        report(f"NOPM, loadgen / {arm}", [s.new_orders_per_minute for s in ours],
               [s.new_orders_per_minute for s in seen[arm]])  # fmt: skip


if __name__ == "__main__":
    main()
