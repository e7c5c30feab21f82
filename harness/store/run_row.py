"""The facts of a run as one flat row: selectors, lists, tables of DuckDB and CSV files read it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from harness.store.runs import StoredRun

Value: TypeAlias = str | int | None


@dataclass(frozen=True)
class Column:
    """A fact of a run. ``type``: in DuckDB; ``title``: heading in tables of the terminal.

    ``absent``: what a selector calls a run without the fact; None where it is no key of selectors.
    A key's value is in the head of a run, which is read without its documents.
    """

    name: str
    type: Literal["VARCHAR", "BIGINT"]
    value: Callable[[StoredRun], Value]
    absent: str | None = None
    title: str = ""

    @property
    def key(self) -> str:
        """Return its name in a selector, where sizes have a unit of their own."""
        return self.name.removesuffix("_bytes")

    def text(self, run: StoredRun) -> str:
        """Return the value as a selector has it."""
        value = self.value(run)
        return self.absent or "" if value in (None, "") else str(value)


def _engine_version(run: StoredRun) -> str | None:
    return run.manifest.engine.version if run.manifest else None


def _hostname(run: StoredRun) -> str | None:
    return run.head.host.hostname if run.head.host else None


def _host_id(run: StoredRun) -> str | None:
    return run.head.host.host_id if run.head.host else None


COLUMNS: tuple[Column, ...] = (
    Column("run_id", "VARCHAR", lambda run: run.run_id, title="run"),
    Column("status", "VARCHAR", lambda run: run.head.status, "none"),
    Column("experiment", "VARCHAR", lambda run: run.head.experiment.name, "none"),
    Column("block", "BIGINT", lambda run: run.spec.block, "none"),
    Column("workload", "VARCHAR", lambda run: run.spec.workload, "none"),
    Column("engine", "VARCHAR", lambda run: run.spec.engine, "none"),
    Column("engine_version", "VARCHAR", _engine_version),
    Column("driver", "VARCHAR", lambda run: run.spec.driver, "none"),
    Column("placement", "VARCHAR", lambda run: run.spec.where, "none"),
    Column("arm", "VARCHAR", lambda run: run.spec.arm, "none"),
    Column("host_mode", "VARCHAR", lambda run: run.head.host_mode, "none"),
    Column("host", "VARCHAR", _hostname, "unknown"),
    Column("host_id", "VARCHAR", _host_id, "unknown"),
    Column("started_unix_ns", "BIGINT", lambda run: run.head.started_unix_ns),
    Column("duration_ns", "BIGINT", lambda run: run.result.duration_ns),
    Column("data_bytes", "BIGINT", lambda run: run.result.data_bytes),
    Column("memory_bytes", "BIGINT", lambda run: run.result.memory_bytes),
    Column("emulate", "VARCHAR", lambda run: ", ".join(run.spec.emulate)),
    Column("modelled", "VARCHAR", lambda run: ", ".join(run.head.modelled)),
    Column("plant", "VARCHAR", lambda run: " ".join(run.spec.plant), "none"),
    Column("memory_limit_bytes", "BIGINT", lambda run: run.spec.memory_limit_bytes, "none"),
    Column("threads", "BIGINT", lambda run: run.spec.threads, "none"),
    Column("cpus", "VARCHAR", lambda run: run.spec.cpus, "all"),
    Column("memory", "VARCHAR", lambda run: run.spec.memory, "none"),
    Column("listen", "VARCHAR", lambda run: run.spec.listen, "none"),
    Column("tuning", "VARCHAR", lambda run: run.spec.tuning, "none"),
    Column("seed", "BIGINT", lambda run: run.spec.seed),
)
#: The columns that are keys of selectors, by key.
KEYS: Mapping[str, Column] = {column.key: column for column in COLUMNS if column.absent is not None}
_BY_NAME = {column.name: column for column in COLUMNS}


def run_row(run: StoredRun, names: Iterable[str] = tuple(_BY_NAME)) -> dict[str, Value]:
    """Return the values of these columns by name."""
    return {name: _BY_NAME[name].value(run) for name in names}


def titles(names: Iterable[str]) -> list[str]:
    """Return the headings of these columns."""
    return [_BY_NAME[name].title or name.replace("_", " ") for name in names]
