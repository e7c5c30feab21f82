"""Conformance of one engine: whether what it claims to do holds when it is tried.

Each run has all of the data on one tier and every other part that the engine can place on another,
so a run shows placement and trace, too. Data are small, windows short: a case tells right from
wrong, and measures nothing. What an engine does not claim is not applicable, with its own reason.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from harness.drivers.result import DriverResult, WindowCallbacks
from harness.engine import DataDirectories, Engine, EngineFactory, EngineVersion
from harness.errors import HarnessError, RunFailed, UsageError
from harness.execution.data import make_engine
from harness.execution.environment import work_directory
from harness.experiment.placement import DIRECTORY_PARTS, Part
from harness.iotrace.intervals import COMPLETE_SHARE
from harness.iotrace.page import LIBRARY
from harness.native_programs import find_native
from harness.selftest import Case, NotApplicableError, NotMetError, expect
from harness.selftest.lab import DISK, TIER, Fixed, Lab, replaced
from harness.store.runs import StoredRun
from harness.store.spec import Json, JsonObject
from harness.supervise.user_files import walk
from harness.units import counted
from harness.workload import Session
from harness.workloads.ycsb import workload as ycsb
from harness.workloads.ycsb.workload import YcsbLoadgen

#: By workload, the parameters of its run; every check of the workload must pass.
_PARAMS: Mapping[str, JsonObject] = {
    "tpch": {"scale": 0.01, "plans": False},
    "tpcc": {"warehouses": 1, "users": 2, "ramp_up": "0s", "duration": "3s"},
    "ycsb": {
        "records": 2000,
        "threads": 2,
        "readproportion": 0.5,
        "updateproportion": 0.5,
        "ramp_up": "0s",
        "duration": "2s",
    },
}
#: TPC-H with its refresh functions, so that the log is written; or, where the engine has none.
_TPCH_TESTS: Sequence[Mapping[str, str]] = (
    {"test": "power", "cache": "cold-per-run"},
    {"cache": "cold-per-run"},
    {"cache": "warm"},
)
#: Below it, what a process writes to its client's socket may be more than a part's bytes.
_ENOUGH_BYTES = 1 << 20
_NO_SUCH_SETTING = "harness_no_such_setting"
#: Rows that are committed one by one before the kill.
_ROWS = 20
#: Into a window of two seconds.
_KILL_AFTER_S = 1.0


@dataclass
class Conformance:
    """The cases of one engine, and the runs that they share."""

    lab: Lab
    factory: EngineFactory
    options: Mapping[str, str]
    _runs: dict[str, StoredRun] = field(default_factory=dict)

    def cases(self) -> Iterator[Case]:
        """Yield them in the order of the life of an engine."""
        checks: Mapping[str, Callable[[], str]] = {
            "tpch-answers": partial(self._sound, "tpch", "answer"),
            "tpcc-conditions": partial(self._sound, "tpcc", "consistency"),
            "ycsb-records": partial(self._sound, "ycsb", "records"),
            "kill-and-recovery": self._kill,
            "placement": self._placement,
            "io-trace": self._trace,
            "restore": self._restore,
            "refusals": self._refusals,
        }
        for name, check in checks.items():
            yield Case(name, check)

    @property
    def version(self) -> EngineVersion:
        """Version to verify; UsageError where it is missing."""
        return self.factory.available(self.options, self.lab.environment.engines_prefix)

    @property
    def _external(self) -> bool:
        return not self.factory.supported_parts(self.options)

    def _workloads(self) -> list[str]:
        return [name for name in _PARAMS if name in self.factory.workloads]

    def _fixed(self, workload: str, **params: Json) -> Fixed:
        """Data on one tier, every other part on the other."""
        apart = [f"data={DISK}", *(f"{part}={TIER}" for part in self._apart())]
        return Fixed(
            workload,
            self.factory.name,
            {**_PARAMS[workload], **params},
            placement=None if self._external else ",".join(apart),
            engine_options={self.factory.name: self.options},
        )

    def _apart(self) -> list[Part]:
        parts = self.factory.supported_parts(self.options)
        return [part for part in DIRECTORY_PARTS if part in parts and part != "data"]

    def _run(self, workload: str, **params: Json) -> StoredRun:
        """One such run; RunFailed with the reason where it did not end well."""
        (run,) = self.lab.run(self._fixed(workload, **params), retries=0)
        failed = [check for check in run.result.checks if check.status == "failed"]
        if failed:
            raise NotMetError("; ".join(f"{check.name}: {check.detail}" for check in failed))
        if error := run.result.error:
            raise RunFailed(error.problem, error.context, error.hint)
        return run

    def _sound(self, workload: str, check: str) -> str:
        """Require that every check of a run's answers, conditions or records has passed."""
        if workload not in self.factory.workloads:
            raise NotApplicableError(f"{self.factory.title} runs no {workload}")
        params = self._tpch_test() if workload == "tpch" else {}
        run = self._runs[workload] = self._run(workload, **params)
        checks = [result for result in run.result.checks if result.name == check]
        unknown = [result.detail for result in checks if result.status == "unknown"]
        passed = len(checks) - len(unknown)
        detail = f"{passed} of {counted(len(checks), check)} passed"
        return expect(passed > 0 and not unknown, "; ".join([detail, *unknown[:1]]))

    def _tpch_test(self) -> Mapping[str, str]:
        """The first test that this engine does not refuse."""
        for test in _TPCH_TESTS[:-1]:
            with suppress(UsageError):
                self.lab.prepared(self._fixed("tpch", **test))
                return test
        return _TPCH_TESTS[-1]

    def _shared(self) -> StoredRun:
        """The run that writes most of those that ended well."""
        for workload in ("tpcc", "ycsb", "tpch"):
            if workload in self._runs:
                return self._runs[workload]
        raise NotMetError("no run of a workload ended well")

    # Kill and recovery --------------------------------------------------------------

    def _kill(self) -> str:
        if self._external:
            raise NotApplicableError("the harness may kill only servers of its own")
        workload = self._workloads()[0]
        engine = self.factory.create(
            self.lab.prepared(self._fixed(workload)).context(
                self.lab.environment, self.lab.environment.supervisor, Path("/nonexistent")
            )
        )
        if engine.unchangeable:
            raise NotApplicableError(engine.unchangeable)
        if engine.lost_when_killed:
            raise NotApplicableError(f"{engine.lost_when_killed} is lost, by design")
        if "tpcc" in self.factory.workloads:
            run = self._run("tpcc", test="durability")
            details = [check.detail for check in run.result.checks if check.name == "durability"]
            return expect(bool(details), details[0].partition(" (")[0] if details else "no check")
        if engine.inside_client:
            return self._kill_client()
        return self._kill_between_statements(workload)

    def _kill_client(self) -> str:
        """Kill a client with its engine: all records are there; acknowledgements die with it."""
        with replaced(ycsb.DRIVERS, "loadgen", cast("Callable[..., Any]", _KilledOnce)):
            run = self._run("ycsb")
        details = [check.detail for check in run.result.checks if check.name == "records"]
        return f"reopened after a kill under way: {details[0] or 'every record is whole'}"

    def _kill_between_statements(self, workload: str) -> str:
        with self._at_work(workload) as (engine, _):
            engine.start()
            with closing(engine.connect()) as connection:
                connection.execute("CREATE TABLE harness_verify (k INTEGER)")
                for key in range(_ROWS):
                    connection.execute(f"INSERT INTO harness_verify VALUES ({key})")
                engine.kill()
            engine.start()
            with closing(engine.connect()) as connection:
                rows = connection.execute("SELECT count(*) FROM harness_verify").rows
            engine.stop()
        count = int(str(rows[0][0]))
        return expect(count == _ROWS, f"{count} of {_ROWS} committed rows are there")

    # Placement, trace, restore ------------------------------------------------------

    def _placement(self) -> str:
        """The files of each part lie on its tier, by size and, of what is written, by the trace."""
        self._refuse_external("its owner decides where its data are")
        run = self._shared()
        sizes: Mapping[str, int] = run.result.part_bytes
        moved = {cell["part"] for cell in run.artifact("io-operations") or () if cell["bytes"]}
        used = [part for part in ("data", *self._apart()) if sizes.get(part) or part in moved]
        unused = [part for part in ("data", *self._apart()) if part not in used]
        missing = [part for part in unused if part in ("data", "wal")]
        detail = f"used on the tier of each: {', '.join(used)}"
        if unused:
            detail += f"; nothing was written to {', '.join(unused)}"
        return expect(not missing, detail)

    def _trace(self) -> str:
        """The trace saw what the engine's processes moved by system calls."""
        self._refuse_external("the harness does not start its processes")
        run = self._shared()
        if find_native(LIBRARY) is None:
            raise NotMetError(f"{LIBRARY} was not built")
        codes = [warning.code for warning in run.result.uncontrolled]
        if "io-not-traced" in codes:
            raise NotApplicableError(f"{self.factory.title} is not started with the trace")
        moved: Counter[str] = Counter()
        for cell in run.artifact("io-operations") or ():
            moved[cell["part"]] += cell["bytes"]
        shares = {
            str(metric.labels["part"]): metric.value or 0.0
            for metric in run.result.metrics
            if metric.name == "io_trace_coverage_share"
        }
        if shares and not any(shares.values()):
            raise NotMetError("no process of the engine has loaded the library")
        enough = {part: share for part, share in shares.items() if moved[part] >= _ENOUGH_BYTES}
        if not enough:
            raise NotApplicableError("the engine moved too few bytes in the run")
        detail = ", ".join(f"{part} {share:.1%}" for part, share in sorted(enough.items()))
        return expect(min(enough.values()) >= COMPLETE_SHARE, f"seen of the bytes moved: {detail}")

    def _restore(self) -> str:
        """A run leaves nothing in the dataset, and none of it to the next one."""
        self._refuse_external("its files belong to its owner")
        workload = self._workloads()[0]
        dataset = self.lab.dataset(self._fixed(workload))
        with self._at_work(workload) as (engine, places):
            first = self._files(places)
            engine.start()
            if engine.sql_folder is not None and not engine.unchangeable:
                with closing(engine.connect()) as connection:
                    connection.execute("CREATE TABLE harness_verify (k INTEGER PRIMARY KEY)")
            engine.stop()
        with self._at_work(workload) as (_, places):
            second = self._files(places)
        different = sorted(
            name for name in first.keys() | second.keys() if first.get(name) != second.get(name)
        )
        if different:
            raise NotMetError(f"two restores differ in {', '.join(different[:3])}")
        if problems := dataset.verify(self.lab.environment.progress):
            raise NotMetError(f"a run changed the dataset: {'; '.join(problems[:3])}")

        return f"{counted(len(first), 'file')} restored twice alike"

    def _files(self, places: DataDirectories) -> dict[str, int]:
        """Return part and path of every file, with its size."""
        user = self.lab.environment.credentials
        return {
            f"{part}/{path.relative_to(places[part])}": facts.st_size
            for part in DIRECTORY_PARTS
            for path, facts in walk([places[part]], user)
            if path != places[part]
        }

    @contextmanager
    def _at_work(self, workload: str) -> Iterator[tuple[Engine, DataDirectories]]:
        """Restore the workload's dataset as a run does; the engine is not started."""
        env = self.lab.environment
        resolved = self.lab.prepared(self._fixed(workload))
        dataset = self.lab.dataset(self._fixed(workload))
        with ExitStack() as stack:
            directories = {
                part: stack.enter_context(
                    env.directory(work_directory(resolved.tiers[part], "verify", part))
                )
                for part in DIRECTORY_PARTS
            }
            engine = make_engine(resolved, env, stack, env.supervisor)
            places = DataDirectories(directories)
            engine.restore(dataset.content, places)
            yield engine, places

    # Refusals -----------------------------------------------------------------------

    def _refusals(self) -> str:
        """Check that what cannot work is refused before anything is made."""
        refused = []
        for workload in self._workloads()[:1]:
            fixed = self._fixed(workload)
            wrong = {
                f"setting {_NO_SUCH_SETTING}": replace(fixed, settings={_NO_SUCH_SETTING: "1"})
            }
            parts = self.factory.supported_parts(self.options)
            for part in () if self._external else DIRECTORY_PARTS:
                if part not in parts:
                    placement = f"{fixed.placement},{part}={TIER}"
                    wrong[f"{part} on its own"] = replace(fixed, placement=placement)
            for what, refused_run in wrong.items():
                with suppress(UsageError):
                    self.lab.prepared(refused_run)
                    raise NotMetError(f"{what} was accepted")
                refused.append(what)
        return ", ".join(refused)

    def _refuse_external(self, reason: str) -> None:
        if self._external:
            raise NotApplicableError(reason)


class _KilledOnce(YcsbLoadgen):
    """The native client, killed under way with the engine in it; then it offers the load again."""

    def drive(self, session: Session, drives: WindowCallbacks) -> DriverResult:
        kill = threading.Timer(_KILL_AFTER_S, session.engine.kill)
        begun = WindowCallbacks(on_measuring=kill.start)
        try:
            super().drive(session, begun)
        except HarnessError:
            pass
        else:
            raise NotMetError("the client outlived its kill")
        finally:
            kill.cancel()
        session.engine.start()
        return super().drive(session, drives)
