"""Loading TPC-H into PostgreSQL: the harness against a hand-written parallel load.

    .venv/bin/python benchmarks/load_postgres.py --scale 1 --pairs 3

Both arms start from an empty cluster of the same binaries with the same loading settings
(wal_level minimal, fsync off while loading), read the same CSV files on the server's
side, and end with the same schema, keys, indexes, foreign keys, statistics, everything
on the device and the server restarted with its ordinary settings. The hand-written arm is
what a good administrator would write: psql commands, as many at a time as there are
processors, largest table first, COPY FREEZE in the transaction that truncates.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from harness import runner
from harness.engine import Places
from harness.engines._sqlfiles import statements
from harness.engines.postgres.engine import ManagedPostgres
from harness.engines.postgres.load import loading_settings
from harness.environment import Environment
from harness.opening import open_environment
from harness.placement import DIRECTORY_PARTS, parse_placement
from harness.preflight import Prepared, prepare
from harness.progress import SilentProgress
from harness.reports.statistics import compare_paired
from harness.spec import RunSpec
from harness.workloads.tpch import WORKLOAD


def by_harness(prepared: Prepared, engine: ManagedPostgres, source: Path) -> None:
    """What a run does when golden data are missing."""
    WORKLOAD.load(prepared.spec.params, engine, source, SilentProgress())


def by_hand(engine: ManagedPostgres, source: Path, threads: int) -> None:
    """psql processes, ``threads`` at a time."""
    server = engine._started_or_found()
    server.stop()
    server.start({**engine.stored_settings(), **loading_settings(threads, None)})
    folder = engine.sql_folder / "tpch"
    for statement in statements(folder, "10_tables"):
        at_a_time(engine, [statement], 1)
    files = {p.name.split(".")[0]: [] for p in source.iterdir() if p.is_dir()}
    tables = {t: sorted((source / t).rglob("*.csv")) for t in files} or _flat(source)
    largest = sorted(tables, key=lambda t: -sum(p.stat().st_size for p in tables[t]))
    at_a_time(engine, [_copy(table, tables[table]) for table in largest], threads)
    for name in ("20_keys", "30_indexes", "40_foreign_keys", "50_analyze"):
        at_a_time(engine, statements(folder, name), threads)
    server.stop()
    os.sync()
    server.start(engine.stored_settings())


def _flat(source: Path) -> dict[str, list[Path]]:
    tables: dict[str, list[Path]] = {}
    for path in sorted(source.rglob("*.csv")):
        tables.setdefault(path.name.split(".")[0], []).append(path)
    return tables


def _copy(table: str, paths: Sequence[Path]) -> str:
    copies = "".join(
        f"COPY {table} FROM '{path}' WITH (FORMAT csv, HEADER, FREEZE);\n" for path in paths
    )
    return f"BEGIN;\nTRUNCATE {table};\n{copies}COMMIT;\n"


def at_a_time(engine: ManagedPostgres, scripts: Sequence[str], threads: int) -> None:
    """Run psql on each script, ``threads`` of them at any time."""
    command = [
        str(engine._installation.bin / "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1",
        "-h", str(engine._context.scratch), "-U", "harness", "-d", "harness", "-f", "-",
    ]  # fmt: skip
    with engine._open() as connection:
        info = connection.info
        command[command.index("-U") + 1] = info.user
        command[command.index("-d") + 1] = info.dbname
        environment = {**os.environ, "PGPASSWORD": info.password}

    def run(script: str) -> None:
        subprocess.run(
            command, input=script.encode(), stdout=subprocess.DEVNULL, env=environment, check=True
        )

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(run, scripts))


def timed(arm: str, prepared: Prepared, env: Environment, source: Path) -> float:
    """Seconds from an empty cluster to a loaded, durable one."""
    with ExitStack() as stack:
        engine: Any = runner.make_engine(prepared, env, stack, None)
        base = Path(prepared.tiers["data"].claim.path or "") / "tierbench-work"
        places = Places(
            {
                part: stack.enter_context(env.directory(base / f"bench-{part}"))
                for part in DIRECTORY_PARTS
            }
        )
        engine.initialise(places)
        engine.start()
        started = time.monotonic()
        if arm == "harness":
            by_harness(prepared, engine, source)
        else:
            by_hand(engine, source, prepared.threads)
        return time.monotonic() - started


def main() -> None:
    """Alternate the arms and print each pair, the medians and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--pairs", type=int, default=3)
    given = parser.parse_args()
    params = WORKLOAD.normalise({"scale": given.scale})
    spec = RunSpec("tpch", "postgres", parse_placement("ssd-both"), params)
    with open_environment(None, [], SilentProgress()) as env:
        prepared = prepare(spec, env)
        with ExitStack() as stack:
            engine = runner.make_engine(prepared, env, stack, None)
            source = runner.source_data(prepared, env, engine).content
        times: dict[str, list[float]] = {"harness": [], "by hand": []}
        for pair in range(given.pairs):
            for arm in sorted(times, reverse=bool(pair % 2)):
                times[arm].append(timed(arm, prepared, env, source))
            print(f"pair {pair + 1}: harness {times['harness'][-1]:.1f} s, "
                  f"by hand {times['by hand'][-1]:.1f} s")  # fmt: skip
    found = compare_paired(times["harness"], times["by hand"])
    print(f"harness / by hand: {found}")


if __name__ == "__main__":
    main()
