"""Planted faults: each ends as a failed run, a refusal, or a warning with a code.

A fault is planted where the product has a seam: in the data, a setting, a driver, an extension, a
host file, or the I/O trace.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from harness.drivers.loadgen.processes import StalledError
from harness.drivers.result import DriverResult, WindowCallbacks
from harness.errors import RunFailed
from harness.selftest import Case, NotMetError, expect
from harness.selftest.lab import YCSB, Fixed, Lab, replaced
from harness.store.runs import StoredRun
from harness.tiers.discovery import find_tiers
from harness.tiers.verify import WrongKindError
from harness.workload import Session
from harness.workloads.tpcc import workload as tpcc
from harness.workloads.tpcc.drivers import TpccLoadgen

_TPCH = Fixed("tpch", "duckdb", {"scale": 0.01, "queries": [1], "plans": False})
_TPCC = Fixed("tpcc", "postgres", {"warehouses": 1, "users": 2, "ramp_up": "0s", "duration": "2s"})
#: Those that are run.
WORKLOADS = (_TPCH, _TPCC, YCSB)
#: RocksDB forgets what it has in memory when it is closed, and no log has it.
_FORGETFUL = {
    "disable_wal": "true",
    "avoid_flush_during_shutdown": "true",
    "write_buffer_size": "512M",
}
#: Longer than the client waits for an answer.
_STALL = "wal.write=+10s"
_ONE_ROW = """
DELETE FROM lineitem WHERE rowid =
(SELECT min(rowid) FROM lineitem WHERE l_shipdate < DATE '1998-01-01')
"""


def cases(lab: Lab) -> Iterator[Case]:
    """Each with its control: without the fault, the run is complete."""
    for name, check in {
        "without a fault, runs are complete": _sound,
        "a wrong answer of a query fails the run": _wrong_answer,
        "a balance that does not add up fails the run": _wrong_balance,
        "lost updates fail the run": _lost_updates,
        "a driver that stalls fails the run": _stalls,
        "a monitor that dies is a warning": _dying_monitor,
        "a tier that is not what its file claims is refused": _false_claim,
        "a tmpfs in place of PMem is marked": _emulated,
    }.items():
        yield Case(f"faults: {name}", partial(check, lab))


def _sound(lab: Lab) -> str:
    """Also loads the data that faults are planted in."""
    runs = [run for fixed in WORKLOADS for run in lab.run(fixed)]
    return _ended(runs, "complete")


def _wrong_answer(lab: Lab) -> str:
    """One row of the loaded data is gone."""
    import duckdb

    dataset = lab.dataset(_TPCH)
    (file,) = dataset.content.rglob("*.duckdb")
    with closing(duckdb.connect(str(file))) as database:
        database.execute(_ONE_ROW)
    lab.record_again(dataset)  # else the run refuses the changed file
    return _ended(lab.run(_TPCH, retries=0), "failed", "answer")


class _Spoiling(TpccLoadgen):
    """The native client; a balance is changed after its last transaction."""

    def drive(
        self, session: Session, drives: WindowCallbacks, journal: Path | None = None
    ) -> DriverResult:
        driven = super().drive(session, drives, journal)
        with closing(session.engine.connect()) as connection:
            connection.execute("UPDATE warehouse SET w_ytd = w_ytd + 1")
        return driven


def _wrong_balance(lab: Lab) -> str:
    with replaced(tpcc.DRIVERS, "loadgen", cast("Callable[..., Any]", _Spoiling)):
        return _ended(lab.run(_TPCC, retries=0), "failed", "consistency")


def _lost_updates(lab: Lab) -> str:
    lab.dataset(YCSB)  # loaded by an engine that forgets nothing
    runs = lab.run(replace(YCSB, settings=_FORGETFUL), retries=0)
    return _ended(runs, "failed", "records")


def _stalls(lab: Lab) -> str:
    """RocksDB works inside its client: a write that does not end stops that."""
    stalling = replace(YCSB.with_params(stall_timeout="1s"), plant=[_STALL])
    runs = lab.run(stalling, retries=0)
    return _ended(runs, "failed", error=StalledError)


def _dying_monitor(lab: Lab) -> str:
    folder = str(Path(__file__).parent / "planted")
    paths = [folder, *filter(None, [os.environ.get("HARNESS_MONITOR_PATH")])]
    with replaced(os.environ, "HARNESS_MONITOR_PATH", ":".join(paths)):
        runs = lab.run(replace(YCSB, monitors=["dying"]))
    warnings = [(warning.code, warning.problem) for warning in runs[0].result.uncontrolled]
    if not any(code == "monitor-failed" and "dying" in what for code, what in warnings):
        raise NotMetError(f"its warnings: {', '.join(code for code, _ in warnings)}")
    return f"{_ended(runs, 'complete')}, with monitor-failed"


def _false_claim(lab: Lab) -> str:
    try:
        find_tiers(_host_file(lab, "fsdax"), (), lab.environment.credentials)
    except WrongKindError as error:
        return error.context
    raise NotMetError("a tmpfs was taken for a file system with DAX")


def _emulated(lab: Lab) -> str:
    tier = find_tiers(_host_file(lab, "tmpfs"), (), lab.environment.credentials)["pmem"]
    return expect(tier.emulated, tier.warnings[-1] if tier.warnings else "no warning")


def _host_file(lab: Lab, kind: str) -> Path:
    file = lab.root / f"{kind}.yml"
    file.write_text(f"schema: 1\ntiers:\n  pmem: {{kind: {kind}, path: /dev/shm}}\n")
    return file


def _ended(
    runs: list[StoredRun], status: str, check: str = "", error: type[RunFailed] | None = None
) -> str:
    """The detail of runs that ended so: by a failed check of this name, or by this error alone."""
    for run in runs:
        failed = [result for result in run.result.checks if result.status == "failed"]
        stored = run.result.error
        failures = [f"{result.name}: {result.detail}" for result in failed]
        failures += [f"{stored.problem}: {stored.context}"] if stored else []
        detail = f"{run.spec.engine}: {run.result.status}; {'; '.join(failures)}".removesuffix("; ")
        named = not check or any(result.name == check for result in failed)
        kind = error.__name__ if error else None
        if (run.result.status, stored and stored.type) != (status, kind) or not named:
            raise NotMetError(detail)
        if status == "failed":
            return detail
    return f"{', '.join(run.spec.engine for run in runs)}: {status}"
