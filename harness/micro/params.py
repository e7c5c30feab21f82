"""What the command line changes of a suite: ``--duration 1s -p only='random_*'``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.host.processors import parse_cpus
from harness.micro.io_jobs import Patterns, Size
from harness.micro.keys import KEYS
from harness.micro.model import Pages
from harness.store.spec import MICRO
from harness.workloads.parameters import (
    Choice,
    Count,
    Duration,
    Parameters,
    Time,
    parameter,
)


@dataclass(frozen=True)
class _Cpus:
    values = "0-7,16-23, socket:0, node:0"

    def parse(self, name: str, value: Any) -> str:
        return parse_cpus(str(value))


@dataclass(frozen=True)
class _Library:
    values = "FILE.so"

    def parse(self, name: str, value: Any) -> str:
        path = Path(str(value)).resolve()
        if path.is_file():
            return str(path)
        raise UsageError(f"{name} {value}", "there is no such file", "name a shared library")


#: Of a parameter that leaves the suite as it is.
_SUITES: Mapping[str, Any] = {"default_text": "the suite's"}


@dataclass(frozen=True)
class MicroParams(Parameters):
    """A suite of microbenchmarks on a tier."""

    workload = MICRO
    aliases = {"runtime": "duration"}  # noqa: RUF012

    threads: int | None = parameter(
        Count(1_000_000), help="Most threads.", option="--threads", **_SUITES
    )
    duration: Duration | None = parameter(
        Time(1), help="Duration of each measurement.", option="--duration", **_SUITES
    )
    warm_up: Duration | None = parameter(
        Time(), help="Time before each measurement.", option="--ramp-up", **_SUITES
    )
    operations: int | None = parameter(
        Count(10**15), help="Most operations of a measurement.", option="--operations", **_SUITES
    )
    cpus: str | None = parameter(
        _Cpus(), help="Processors to use.", option="--cpus", default_text="all"
    )
    only: tuple[str, ...] | None = parameter(
        Patterns(), help="Measurements or configurations.", default_text="all"
    )
    range_bytes: int | None = parameter(
        Size(), name="range", help="Largest range of a job.", **_SUITES
    )
    pages: Pages | None = parameter(
        Choice(("huge", "base", "1g")), help="Pages of DRAM.", **_SUITES
    )
    isa: str | None = parameter(
        Choice(tuple(KEYS["isa"].values.split(", "))), help="Instruction set.", **_SUITES
    )
    index_library: str | None = parameter(
        _Library(),
        help="Library that replaces each index.",
        option="--index-library",
        **_SUITES,
    )
