"""Parameters of YCSB: those of the official client's core workload (0.17.0) by its names, and ours.

A parameter that has no effect with the others (the length of scans where there are none) is null
in the JSON.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from harness.errors import UsageError
from harness.store.spec import Json, JsonObject
from harness.workloads import parameters
from harness.workloads.kinds import Choice, Duration
from harness.workloads.parameters import (
    STATISTICS,
    Outline,
    Parameters,
    check_clients,
    check_instances,
    parameter,
)
from harness.workloads.ycsb.properties import CORE_CLASS, OFFICIAL, PropertyReader

#: The operations, by the names that statements, metrics and labels have.
OPERATIONS = ("read", "update", "insert", "scan", "read_modify_write")
#: Their weights, in the same order.
PROPORTIONS = (
    "readproportion",
    "updateproportion",
    "insertproportion",
    "scanproportion",
    "readmodifywriteproportion",
)


def _official(requestdistribution: str, **given: Json) -> Mapping[str, Json]:
    """Proportions that the official file leaves out are 0, others have the core's defaults."""
    none = dict.fromkeys(PROPORTIONS, 0)
    return {**none, "requestdistribution": requestdistribution, **given}


#: The proportions and distributions of the official files workloada … workloadf.
_CORE: Mapping[str, Mapping[str, Json]] = {
    "a": _official("zipfian", readproportion=0.5, updateproportion=0.5),
    "b": _official("zipfian", readproportion=0.95, updateproportion=0.05),
    "c": _official("zipfian", readproportion=1),
    "d": _official("latest", readproportion=0.95, insertproportion=0.05),
    "e": _official(
        "zipfian",
        scanproportion=0.95,
        insertproportion=0.05,
        minscanlength=1,
        maxscanlength=100,
        scanlengthdistribution="uniform",
    ),
    "f": _official("zipfian", readproportion=0.5, readmodifywriteproportion=0.5),
}
#: The official client counts in 32-bit integers.
_MOST = 2**31 - 1
#: Of a record's fields together: MySQL's largest packet is 16 MB.
_LARGEST_RECORD = 16_000_000


@dataclass(frozen=True)
class _CoreKind:
    values = f"{', '.join(_CORE)}; {CORE_CLASS}"

    def parse(self, name: str, value: Any) -> str:
        if str(value).rpartition(".")[2] == CORE_CLASS:
            return CORE_CLASS
        return Choice(tuple(_CORE)).parse(name, str(value).lower())


#: A parameter that the native client is sent.
_native = partial(parameter, native=True)


@dataclass(frozen=True, kw_only=True)
class YcsbParams(Parameters):
    """YCSB core workloads a to f: records by key; throughput and latency."""

    workload = "ycsb"
    smaller = "fewer --records"
    property_files = True
    drivers: ClassVar[Mapping[str, str]] = {
        "loadgen": "native client",
        "ycsb": "official client, YCSB 0.17.0 on Java, with bindings of this project",
    }
    aliases: ClassVar[Mapping[str, str]] = {
        **{official: name for name, official in OFFICIAL.items()},
        "users": "threads",
        "connections": "threads",
        "rampup": "ramp_up",
        "scale": "records",
        "warehouses": "records",
    }

    core: Annotated[str, _CoreKind()] | None = parameter(
        name="workload",
        default_text="a, unless proportions are given",
        option=True,
        help="Core workload: its proportions and distributions (SoCC 2010).",
    )
    records: Annotated[int, Meta(ge=1, le=_MOST)] = parameter(
        1_000_000,
        option=True,
        native=OFFICIAL["records"],
        help="Number of records, of about 1.1 kB each.",
    )
    operations: Annotated[int, Meta(ge=1, le=_MOST)] | None = parameter(
        native=OFFICIAL["operations"],
        default_text="none: the duration bounds the window",
        option=True,
        help="Operations of the measurement window.",
    )
    insertstart: Annotated[int, Meta(ge=0, le=_MOST)] = _native(
        0, help="Number of the first loaded record."
    )
    insertcount: Annotated[int, Meta(ge=1, le=_MOST)] | None = _native(
        default_text="all", help="Number of loaded records."
    )
    fieldcount: Annotated[int, Meta(ge=1, le=64)] = _native(10, help="Fields of a record.")
    fieldlength: Annotated[int, Meta(ge=1, le=1_000_000)] = _native(100, help="Bytes of a field.")
    minfieldlength: Annotated[int, Meta(ge=1, le=1_000_000)] = _native(
        1, help="Least bytes of a field whose length varies."
    )
    zeropadding: Annotated[int, Meta(ge=1, le=100)] = _native(1, help="Least digits of a key.")
    minscanlength: Annotated[int, Meta(ge=1, le=1_000_000)] = _native(
        1, help="Least records of a scan."
    )
    maxscanlength: Annotated[int, Meta(ge=1, le=1_000_000)] = _native(
        1000,
        default_text="1000; 100 in workload e",
        help="Most records of a scan.",
    )
    threads: Annotated[int, Meta(ge=1, le=10_000)] = parameter(
        8,
        option=True,
        help="Client threads: concurrent operations, each on its own connection.",
    )
    instances: parameters.Instances = parameters.instances()
    client_hosts: parameters.Hosts = parameters.client_hosts()
    clients: parameters.Clients = parameters.clients()
    client_threads: Annotated[int, Meta(ge=1, le=1_024)] | None = parameter(
        default_text="1 per 16 connections",
        help="Event loops of a client process.",
    )
    data_seed: Annotated[int, Meta(ge=0, le=2**32 - 1)] = _native(
        1, help="Seed of the records' values."
    )
    readallfields: bool = _native(True, help="Read all fields of a record, or one.")
    writeallfields: bool = _native(False, help="Update all fields of a record, or one.")
    verify_reads: bool = _native(False, help="Check every read: value, key and version.")
    dataintegrity: bool = parameter(
        False, help="Official client: write values that it can check by themselves."
    )
    readproportion: Annotated[float, Meta(ge=0)] = _native(0.95, help="Weight of reads.")
    updateproportion: Annotated[float, Meta(ge=0)] = _native(0.05, help="Weight of updates.")
    insertproportion: Annotated[float, Meta(ge=0)] = _native(0, help="Weight of inserts.")
    scanproportion: Annotated[float, Meta(ge=0)] = _native(0, help="Weight of scans.")
    readmodifywriteproportion: Annotated[float, Meta(ge=0)] = _native(
        0, help="Weight of read-modify-writes."
    )
    hotspotdatafraction: Annotated[float, Meta(ge=0, le=1)] = _native(
        0.2, help="Hotspot: share of the records that are hot."
    )
    hotspotopnfraction: Annotated[float, Meta(ge=0, le=1)] = _native(
        0.8, help="Hotspot: share of the operations on hot records."
    )
    exponential_frac: Annotated[float, Meta(ge=0, le=1)] = _native(
        0.8571428571,
        name="exponential.frac",
        help="Exponential: share of the records, the newest, that the percentile covers.",
    )
    fieldlengthdistribution: Literal["constant", "uniform", "zipfian"] = _native(
        "constant",
        help="Distribution of field lengths.",
    )
    requestdistribution: Literal[
        "zipfian", "uniform", "latest", "hotspot", "sequential", "exponential"
    ] = _native(
        "uniform",
        default_text="uniform; the core workload's",
        help="Distribution of requested keys.",
    )
    insertorder: Literal["hashed", "ordered"] = _native(
        "hashed", help="Keys: hashed, or in the order of insertion."
    )
    scanlengthdistribution: Literal["uniform", "zipfian"] = _native(
        "uniform", help="Distribution of scan lengths."
    )
    update: Literal["read-modify-write", "blind", "merge"] = _native(
        "read-modify-write",
        option=True,
        help="Update on a key-value engine.",
    )
    exponential_percentile: Annotated[float, Meta(gt=0, lt=100)] = _native(
        95,
        name="exponential.percentile",
        help="Exponential: percentage of the operations on the newest records.",
    )
    rate: Annotated[float, parameters.per_second("operations")] | None = parameters.rate(
        "operations"
    )
    duration: parameters.Window | None = parameters.duration(
        derive=lambda params: None if params.operations is not None else "60s",
        default_text="1m, or until --operations are done",
    )
    ramp_up: Duration = parameters.ramp_up(
        derive=lambda params: "0s" if params.duration is None else "2m",
        default_text="2m; 0s with --operations",
    )
    stall_timeout: parameters.Window | None = parameters.stall_timeout()

    @classmethod
    def presets(cls, given: JsonObject) -> JsonObject:
        """The named core workload's; a, where neither it nor proportions are given."""
        name = given.get("workload")
        if name is None and not {*PROPORTIONS, "requestdistribution"} & given.keys():
            name = "a"
        return _CORE.get(str(name).lower(), {})  # the class has the core's defaults

    @classmethod
    def from_text(
        cls, pairs: Mapping[str, str], files: Sequence[Path] = ()
    ) -> tuple[JsonObject, Sequence[str]]:
        """Read properties as the official client does; those of files come first."""
        reader = PropertyReader(cls.declared())
        reader.read_files(files)
        reader.read_options(pairs)
        reader.check_bound()
        params = {n: v for n, v in reader.params.items() if (n, v) != ("operations", 0)}
        return params, reader.notes

    @property
    def shares(self) -> dict[str, float]:
        """Share of each operation (:data:`OPERATIONS`) among all; they add up to 1."""
        weights: list[float] = [getattr(self, name) for name in PROPORTIONS]
        total = math.fsum(weights)
        return {name: weight / total for name, weight in zip(OPERATIONS, weights, strict=True)}

    @property
    def loaded_records(self) -> int:
        """Number of records of the loaded data."""
        return self.records - self.insertstart if self.insertcount is None else self.insertcount

    @property
    def writes(self) -> bool:
        """Return whether the measured phase writes anything."""
        return any(self.shares[name] for name in ("update", "insert", "read_modify_write"))

    @property
    def foretells_inserts(self) -> bool:
        """Return whether ``operations`` says how many records zipfian keys will see inserted."""
        return self.requestdistribution == "zipfian" and self.insertproportion > 0

    def resolve(self) -> YcsbParams:
        if not any(getattr(self, name) for name in PROPORTIONS):
            raise UsageError(
                "the proportions of operations", "all are 0", "give at least one of them a share"
            )
        self._check_records()
        self._check_client()
        bounded_by_time = self.duration is not None and not self.foretells_inserts
        instances = check_instances(self.instances, self.client_hosts)
        if instances is not None and self.duration is None:
            raise UsageError(
                f"{self.operations} operations on {instances} instances",
                "one would end before another, so that they had no window in common",
                "set --duration",
            )
        return replace(
            self,
            core=self._core(),
            instances=instances,
            operations=None if bounded_by_time else self.operations,
        )

    def _core(self) -> str | None:
        """The core workload that the parameters describe; None for another."""
        return next(
            (
                letter
                for letter, core in _CORE.items()
                if all(getattr(self, name) == value for name, value in core.items())
            ),
            None,
        )

    def _check_records(self) -> None:
        self._check_loaded()
        for least, most in (("minscanlength", "maxscanlength"), ("minfieldlength", "fieldlength")):
            low, high = getattr(self, least), getattr(self, most)
            varies = most == "maxscanlength" or self.fieldlengthdistribution != "constant"
            if varies and low > high:
                raise UsageError(f"{least} {low}", f"more than {most} {high}", "choose less")
        if self.fieldcount * self.fieldlength > _LARGEST_RECORD:
            raise UsageError(
                f"{self.fieldcount} fields of {self.fieldlength:,} bytes",
                f"a record has {_LARGEST_RECORD:,} bytes at most",
                "choose a smaller fieldcount or fieldlength",
            )

    def _check_loaded(self) -> None:
        """Check that every record that operations may request is loaded."""
        start, total, count = self.insertstart, self.records, self.loaded_records
        problem = f"insertstart {start} and insertcount {count}"
        if count < 1 or start + count > total:
            raise UsageError(
                problem,
                f"the records are numbered from 0 to {total}",
                "choose fewer, or more --records",
            )
        if start + count < total:
            raise UsageError(
                problem,
                f"operations request records up to number {total}, and the last of them "
                "would not be loaded",
                f"choose --records {start + count}, or leave insertcount out",
            )
        if start and self.requestdistribution in ("latest", "exponential"):
            raise UsageError(
                problem,
                f"{self.requestdistribution} requests earlier records, too, which would not be "
                "loaded",
                "leave insertstart out",
            )

    def _check_client(self) -> None:
        check_clients(self.clients, self.client_hosts)
        if self.client_hosts and self.clients > 1 and self.insertproportion:
            raise UsageError(
                f"insertproportion {self.insertproportion} with {self.clients} clients on "
                f"client_hosts {','.join(self.client_hosts)}",
                "new records take their numbers from one counter, which the processes of this "
                "host share and other hosts do not: two would insert the same record",
                "choose workload a, b, c or f, or a single client process on one host",
            )
        if self.duration is None and self.clients > (self.operations or self.clients):
            raise UsageError(
                f"{self.clients} clients for {self.operations} operations",
                "each client process begins one operation at least",
                "choose fewer clients, or more --operations",
            )
        loops = self.client_threads or 1
        if self.clients * loops > self.threads:
            raise UsageError(
                f"{self.clients} clients of {loops} event loops for {self.threads} threads",
                "every event loop needs a client thread of its own",
                "choose fewer clients or client_threads, or more --threads",
            )

    def refuse_update_on_sql(self, engine: str) -> None:
        """Raise UsageError for another update than that of SQL."""
        if self.update != "read-modify-write":
            raise UsageError(
                f"update {self.update} on {engine}",
                "SQL's UPDATE is what it does: the server reads the row, changes it and writes it",
                "leave --update out",
            )

    def latency_statistics(self, driver: str) -> Collection[str]:
        return STATISTICS

    def outline(self) -> Outline:
        return Outline(
            connections=self.threads,
            ramp_up_ns=self.ramp_up.ns,
            window_ns=self.duration.ns if self.duration else 0,
            client_hosts=self.client_hosts,
            clients=self.clients,
            stall_timeout_ns=self.stall_timeout.ns if self.stall_timeout else 0,
            instances=self.instances or 1,
        )

    def without_effect(self) -> set[str]:
        names = set()
        if self.requestdistribution != "hotspot":
            names |= {"hotspotdatafraction", "hotspotopnfraction"}
        if self.requestdistribution != "exponential":
            names |= {"exponential.percentile", "exponential.frac"}
        if not self.scanproportion:
            names |= {"minscanlength", "maxscanlength", "scanlengthdistribution"}
        if self.fieldlengthdistribution == "constant":
            names.add("minfieldlength")
        return names


PARAMS = YcsbParams
