"""Overhead of the harness on a query: its recorded time against the same SQL by hand.

    .venv/bin/python benchmarks/overhead.py --scale 0.1 --pairs 15

One PostgreSQL server, warm, started by the harness. Each query is run in alternation by
the harness's connection (the time it would record) and by a plain psycopg connection
(execute, fetchall, two clock readings around them). The bar: no more than 2 % or 5 ms.
A query is within it, or over it, where its whole interval is; else more pairs are needed.
"""

from __future__ import annotations

import argparse
import statistics
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from smoke import parsed

from harness.engine import DataDirectories
from harness.execution import data
from harness.execution.environment import open_environment
from harness.experiment.placement import DIRECTORY_PARTS, parse_placement
from harness.experiment.preflight import prepare
from harness.progress import SilentProgress
from harness.store.spec import RunSpec
from harness.workloads.tpch.params import TpchParams
from harness.workloads.tpch.qgen import parameters
from harness.workloads.tpch.statements import query_sql
from reports.statistics import Ratio, ratio_of

ALLOWED_RATIO, ALLOWED_S = 1.02, 0.005


def by_hand(connection: Any, text: str) -> float:
    """Seconds of a plain execute and fetchall."""
    started = time.perf_counter()
    connection.execute(text).fetchall()
    return time.perf_counter() - started


def verdict(ratio: Ratio, median_s: float) -> str:
    """Position of the interval of the ratio against the bar, for a query of this time."""
    bar = max(ALLOWED_RATIO, 1 + ALLOWED_S / median_s)
    if ratio.low is None or ratio.high is None:
        return "undecided"
    return "within" if ratio.high <= bar else "OVER" if ratio.low > bar else "undecided"


def main() -> None:
    """Print the pairs' medians and ratio per query, and whether the bar is met."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--queries", default=None, help="such as 1,6 [all]")
    given = parsed(parser, scale=0.01, pairs=2, queries="6")
    asked = {"queries": given.queries} if given.queries else {}
    params = TpchParams.from_mapping({"scale": given.scale, "cache": "warm", **asked})
    spec = RunSpec("tpch", "postgres", parse_placement("ssd-both"), params.to_json())
    with open_environment(None, [], SilentProgress()) as env, ExitStack() as stack:
        prepared = prepare(spec, env)
        golden = data.loaded_dataset(prepared, env)
        engine: Any = data.make_engine(prepared, env, stack, env.supervisor)
        base = Path(prepared.tiers["data"].claim.path or "") / "tierbench-work"
        places = DataDirectories(
            {
                part: stack.enter_context(env.directory(base / f"bench-{part}"))
                for part in DIRECTORY_PARTS
            }
        )
        engine.restore(golden.content, places)
        engine.start()
        stack.callback(engine.stop)
        ours, plain = engine.connect(), engine._open()
        # By default psycopg prepares a statement at its sixth execution: planned once, the
        # same SQL would be less work by hand than in a run, which executes it once.
        plain.prepare_threshold = None
        folder = engine.sql_folder / "tpch"
        verdicts: list[str] = []
        every: dict[str, list[float]] = {"harness": [], "by hand": []}
        for query in params.queries:
            text = query_sql(query, parameters(query, None, given.scale), folder)
            by_hand(plain, text)
            times: dict[str, list[float]] = {"harness": [], "by hand": []}
            for pair in range(given.pairs):
                for arm in sorted(times, reverse=bool(pair % 2)):
                    times[arm].append(
                        ours.execute(text).duration_ns / 1e9
                        if arm == "harness"
                        else by_hand(plain, text)
                    )
            ratio = ratio_of(times["harness"], times["by hand"])
            extra = statistics.median(times["harness"]) - statistics.median(times["by hand"])
            verdicts.append(verdict(ratio, statistics.median(times["by hand"])))
            for arm, values in times.items():
                every[arm] += values
            print(f"Q{query}: by hand {statistics.median(times['by hand']) * 1e3:.1f} ms, ratio "
                  f"{ratio.value:.4f} [{ratio.low:.4f}, {ratio.high:.4f}], "
                  f"{extra * 1e3:+.2f} ms, {verdicts[-1]}")  # fmt: skip
        ratio = ratio_of(every["harness"], every["by hand"])
        print(f"all queries, {ratio.n_a} pairs: ratio {ratio.value:.4f} "
              f"[{ratio.low:.4f}, {ratio.high:.4f}]")  # fmt: skip
        print(", ".join(f"{verdicts.count(word)} {word}" for word in dict.fromkeys(verdicts)))


if __name__ == "__main__":
    main()
