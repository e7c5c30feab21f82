"""Parts that the load benchmarks share: the two arms in alternating pairs, each on empty data.

Both start from an empty server of the same binaries, read the same CSV files, and end with
the same loaded, durable database and the server restarted with its ordinary settings.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from smoke import SMOKE

from harness.engine import DataDirectories
from harness.execution import data
from harness.execution.engine_run import EngineRun
from harness.execution.environment import Environment, open_environment
from harness.experiment.placement import DIRECTORY_PARTS, parse_placement
from harness.experiment.preflight import prepare
from harness.progress import SilentProgress
from harness.store.spec import RunSpec
from harness.workload import Clients, Loading
from harness.workloads.tpch.params import TpchParams
from harness.workloads.tpch.workload import WORKLOAD
from reports.statistics import ratio_of

SMALL = {"scale": 0.01, "pairs": 1}
#: Loads by hand: the started engine, table → its files in order, the largest table
#: first, and how many connections.
ByHand = Callable[[Any, dict[str, list[Path]], int], None]


def tables_of(source: Path) -> dict[str, list[Path]]:
    """Table → its files in the order of their numbers, the largest table first."""
    tables: dict[str, list[Path]] = {}
    for path in sorted(source.rglob("*.csv"), key=lambda p: int(p.name.split(".")[1])):
        tables.setdefault(path.name.split(".")[0], []).append(path)
    largest = sorted(tables, key=lambda t: -sum(p.stat().st_size for p in tables[t]))
    return {table: tables[table] for table in largest}


def timed(by_hand: ByHand | None, prepared: EngineRun, env: Environment, source: Path) -> float:
    """Seconds from an empty server to a loaded, durable one; None is the harness's own load."""
    with ExitStack() as stack:
        engine: Any = data.make_engine(prepared, env, stack, env.supervisor)
        base = Path(prepared.tiers["data"].claim.path or "") / "tierbench-work"
        places = DataDirectories(
            {
                part: stack.enter_context(env.directory(base / f"bench-{part}"))
                for part in DIRECTORY_PARTS
            }
        )
        stack.callback(engine.kill)  # before its directories go
        engine.initialise(places)
        engine.start()
        started = time.monotonic()
        if by_hand is None:
            scratch = stack.enter_context(env.scratch())
            clients = Clients(env.supervisor, env.credentials, scratch)
            loading = Loading(
                engine, prepared.spec.driver, source, clients, prepared.threads, SilentProgress()
            )
            assert isinstance(prepared.params, TpchParams)
            WORKLOAD.load(prepared.params, loading)
        else:
            by_hand(engine, tables_of(source), prepared.threads)
        return time.monotonic() - started


def compare(
    engine: str, options: dict[str, Any], by_hand: ByHand, scale: float, pairs: int
) -> None:
    """Alternate the arms; print each pair and the ratio with its interval."""
    spec = RunSpec(
        "tpch", engine, parse_placement("ssd-both"), {"scale": scale},
        engine_options=options,
    )  # fmt: skip
    with open_environment(None, [], SilentProgress()) as env:
        prepared = prepare(spec, env)
        print(f"{engine} {prepared.version.version}, {prepared.threads} connections", flush=True)
        with ExitStack() as stack:
            made = data.make_engine(prepared, env, stack, env.supervisor)
            source = data.source_data(prepared, env, made)
        assert source is not None
        arms: dict[str, ByHand | None] = {"by hand": by_hand, "harness": None}
        times: dict[str, list[float]] = {arm: [] for arm in arms}
        if SMOKE:
            print(f"by hand {timed(by_hand, prepared, env, source.content):.1f} s; ours left out")
            return
        for pair in range(pairs):
            for arm in sorted(arms, reverse=bool(pair % 2)):
                times[arm].append(timed(arms[arm], prepared, env, source.content))
            print(f"pair {pair + 1}: harness {times['harness'][-1]:.1f} s, "
                  f"by hand {times['by hand'][-1]:.1f} s", flush=True)  # fmt: skip
    print(f"harness / by hand: {ratio_of(times['harness'], times['by hand'])}")


def arguments(description: str) -> argparse.ArgumentParser:
    """``--scale`` and ``--pairs``; :data:`SMALL` replaces them for ``--smoke``."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--pairs", type=int, default=3)
    return parser
