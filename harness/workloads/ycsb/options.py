"""Parameters of the YCSB workload: names, defaults, and what is refused.

Those of the official client's core workload (0.17.0) have its names and its meaning:

========================= ============== =================================================
name                      default        meaning
========================= ============== =================================================
workload                  a              a … f: the core workloads' proportions and
                                         distribution; CoreWorkload (what a property file
                                         begins with): the defaults below. In the result
                                         it is the one that the properties describe
recordcount               1000000        records of the data; about 1.1 kB each
operationcount            null           operations of the measured window; null: by time.
                                         Beside a duration it only foretells, as in the
                                         official client, how many records zipfian will see
                                         inserted
insertstart, insertcount  0, all         the records that are loaded, by number: the last of them,
                                         since operations ask for every one up to recordcount
fieldcount, fieldlength   10, 100        of a record
minfieldlength            1              where lengths are not constant
fieldlengthdistribution   constant       constant, uniform, zipfian
readallfields             true           false: a read is of one field
writeallfields            false          true: an update writes all of them
readproportion …          0.95           of all operations, with updateproportion (0.05),
                                         insertproportion, scanproportion,
                                         readmodifywriteproportion (0): weights
requestdistribution       uniform        zipfian, uniform, latest, hotspot, sequential,
                                         exponential
hotspotdatafraction       0.2            of the records that are hot,
hotspotopnfraction        0.8            and of the operations that go to them
exponential.percentile    95             of the operations that go to the newest
exponential.frac          0.8571428571   of the records
insertorder               hashed         hashed: keys in the order of no one; ordered
zeropadding               1              digits of a key at least
minscanlength,            1, 1000        records of a scan, drawn by scanlengthdistribution
maxscanlength                            (uniform, zipfian); 100 in workload e
threadcount               8              client threads: operations under way at a time, each
                                         on a connection of its own
target                    null           operations a second that are offered, whatever the
                                         engine answers; null: each thread waits for its
                                         answer
========================= ============== =================================================

What means nothing beside the others (the length of scans where there are none) is null in
the result. Beside them, ours:

========================= ============== =================================================
update                    read-modify-   what an update is on a key-value engine:
                          write          read-modify-write: the record is read, changed and
                                         written, and no other update is lost meanwhile;
                                         blind: a new record is written, nothing is read;
                                         merge: the engine's merge operator is given the
                                         change. SQL's UPDATE is always the first
ramp_up                   2m             before anything is measured; 0s where operationcount
                                         bounds the window
duration                  60s            of the measured window, where operationcount does
                                         not bound it
verify_reads              false          whether every read is checked as it comes
dataintegrity             false          official client: whether it writes values that it
                                         can check by themselves. They are the same whenever
                                         a field is written, so that an update changes
                                         nothing. (The native client's can be always.)
clients                   1, or one a    client processes
                          host
client_hosts              this host      hosts of them, as ssh takes them; no inserts then,
                                         unless it is one process on one host
client_threads            as fits        event loops in a client process
stall_timeout             the window,    the run fails after this time without an answer on any
                          at least 2m    connection; a shorter stall is measured
data_seed                 1              of the values of the records
========================= ============== =================================================
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.errors import UsageError
from harness.workloads.parameters import (
    check_clients,
    client_hosts,
    count,
    duration,
    flag,
    given_or,
    one_of,
    rate,
    unknown,
)
from harness.workloads.ycsb.drivers import OPERATIONS

#: The weights of operations, in the order of OPERATIONS.
PROPORTIONS = (
    "readproportion",
    "updateproportion",
    "insertproportion",
    "scanproportion",
    "readmodifywriteproportion",
)
#: What the official files workloada … workloadf say of operations and keys; what they leave
#: out is 0, or the default of the core.
_CORE: Mapping[str, Mapping[str, Any]] = {
    "a": {"readproportion": 0.5, "updateproportion": 0.5, "requestdistribution": "zipfian"},
    "b": {"readproportion": 0.95, "updateproportion": 0.05, "requestdistribution": "zipfian"},
    "c": {"readproportion": 1, "requestdistribution": "zipfian"},
    "d": {"readproportion": 0.95, "insertproportion": 0.05, "requestdistribution": "latest"},
    "e": {
        "scanproportion": 0.95,
        "insertproportion": 0.05,
        "requestdistribution": "zipfian",
        "maxscanlength": 100,
        "scanlengthdistribution": "uniform",
    },
    "f": {
        "readproportion": 0.5,
        "readmodifywriteproportion": 0.5,
        "requestdistribution": "zipfian",
    },
}
#: The class that the official files name as ``workload``.
CORE_CLASS = "CoreWorkload"
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "fieldlengthdistribution": ("constant", "uniform", "zipfian"),
    "requestdistribution": (
        "zipfian",
        "uniform",
        "latest",
        "hotspot",
        "sequential",
        "exponential",
    ),
    "insertorder": ("hashed", "ordered"),
    "scanlengthdistribution": ("uniform", "zipfian"),
    "update": ("read-modify-write", "blind", "merge"),
}
#: Whole numbers: default, least, most. Beyond 2^31 the official client cannot count.
_COUNTS: Mapping[str, tuple[int | None, int, int]] = {
    "recordcount": (1_000_000, 1, 2**31 - 1),
    "operationcount": (None, 1, 2**31 - 1),
    "insertstart": (0, 0, 2**31 - 1),
    "insertcount": (None, 1, 2**31 - 1),
    "fieldcount": (10, 1, 64),
    "fieldlength": (100, 1, 1_000_000),
    "minfieldlength": (1, 1, 1_000_000),
    "zeropadding": (1, 1, 100),
    "minscanlength": (1, 1, 1_000_000),
    "maxscanlength": (1000, 1, 1_000_000),
    "threadcount": (8, 1, 10_000),
    "clients": (None, 1, 64),
    "client_threads": (None, 1, 1_024),
    "data_seed": (1, 0, 2**32 - 1),
}
_FLAGS: Mapping[str, bool] = {
    "readallfields": True,
    "writeallfields": False,
    "verify_reads": False,
    "dataintegrity": False,
}
_SHARES: Mapping[str, float] = {
    "hotspotdatafraction": 0.2,
    "hotspotopnfraction": 0.8,
    "exponential.frac": 0.8571428571,
}
_OTHERS: Mapping[str, Any] = {
    "requestdistribution": "uniform",
    "fieldlengthdistribution": "constant",
    "insertorder": "hashed",
    "scanlengthdistribution": "uniform",
    "exponential.percentile": 95,
    "update": "read-modify-write",
    "target": None,
    "ramp_up": None,
    "duration": None,
    "client_hosts": None,
    "stall_timeout": None,
}
_WEIGHTS: Mapping[str, float] = dict(zip(PROPORTIONS, (0.95, 0.05, 0, 0, 0), strict=True))
_DEFAULTS: Mapping[str, Any] = {
    "workload": None,
    **{name: default for name, (default, _, _) in _COUNTS.items()},
    **_FLAGS,
    **_WEIGHTS,
    **_SHARES,
    **_OTHERS,
}
PARAMETERS = tuple(_DEFAULTS)
#: Of which type the official client has its own, and ours are.
WHOLE_NUMBERS = (*_COUNTS,)
NUMBERS = (*PROPORTIONS, *_SHARES, "exponential.percentile", "target")
OFFICIAL_FLAGS = ("readallfields", "writeallfields", "dataintegrity")
#: What the same thing is called elsewhere: on the command line, and in other workloads.
_ELSEWHERE: Mapping[str, str] = {
    "records": "recordcount",
    "operations": "operationcount",
    "threads": "threadcount",
    "users": "threadcount",
    "connections": "threadcount",
    "rate": "target",
    "rate_per_s": "target",
    "rampup": "ramp_up",
    "scale": "recordcount",
    "warehouses": "recordcount",
}
#: Of all records together: what one field of each has, and beside it 16 MB at most.
_LARGEST_RECORD = 16_000_000
_RAMP_UP, _DURATION = "2m", "60s"
_SHORTEST_WINDOW_NS = 10**9


def normalise(params: Mapping[str, Any]) -> dict[str, Any]:
    """Defaults filled in, every value checked; idempotent. UsageError names what is allowed."""
    for name in params:
        if name not in _DEFAULTS:
            raise unknown("ycsb", name, PARAMETERS, _ELSEWHERE)
    said = {name: value for name, value in params.items() if value is not None}
    given = {**_DEFAULTS, **_preset(said), **said}
    hosts = client_hosts(given["client_hosts"])
    given["clients"] = given_or(given["clients"], max(1, len(hosts)))
    found: dict[str, Any] = {
        "workload": None,
        **{name: _count(name, given[name]) for name in _COUNTS},
        **{name: flag(name, given[name]) for name in _FLAGS},
        **{name: _share(name, given[name], most=math.inf) for name in PROPORTIONS},
        **{name: _share(name, given[name], most=1) for name in _SHARES},
        **{name: one_of(name, given[name], known) for name, known in _CHOICES.items()},
        "exponential.percentile": _percentile(given["exponential.percentile"]),
        "target": rate("target", given["target"], "operations"),
        **_window(given),
    }
    _check_mix(found)
    _check_records(found)
    _check_client(found, hosts)
    found |= {"client_hosts": hosts} if hosts else {}
    if (stall := given["stall_timeout"]) is not None:
        found["stall_timeout"] = duration("stall_timeout", stall, _SHORTEST_WINDOW_NS)
    return {**found, **dict.fromkeys(_idle(found)), "workload": _described(found)}


def shares(params: Mapping[str, Any]) -> dict[str, float]:
    """Which share of all operations each is to be, by OPERATIONS; they add up to 1."""
    total = math.fsum(params[name] for name in PROPORTIONS)
    return {
        operation: params[name] / total
        for operation, name in zip(OPERATIONS, PROPORTIONS, strict=True)
    }


def loaded_records(params: Mapping[str, Any]) -> int:
    """Records of the loaded data."""
    found: int = given_or(params["insertcount"], params["recordcount"] - params["insertstart"])
    return found


def writes(params: Mapping[str, Any]) -> bool:
    """Whether the measured phase writes anything."""
    asked = shares(params)
    return any(asked[name] for name in ("update", "insert", "read_modify_write"))


def _preset(said: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the named core workload sets; a, where neither it nor properties say what is done.

    The class of them all sets nothing: what is not said is as the core has it.
    """
    name = said.get("workload")
    if name is None and not {*PROPORTIONS, "requestdistribution"} & said.keys():
        name = "a"
    if name is None or str(name).rpartition(".")[2] == CORE_CLASS:
        return {}
    core = _CORE[one_of("workload", str(name).lower(), tuple(_CORE))]
    return {**dict.fromkeys(PROPORTIONS, 0), **core}


def _described(found: Mapping[str, Any]) -> str | None:
    """The core workload that the properties are; None where they are of their own."""
    for name, core in _CORE.items():
        wanted = {**dict.fromkeys(PROPORTIONS, 0), **core}
        shape = {"minscanlength": 1} if core.get("scanproportion") else {}
        if all(found[key] == value for key, value in {**wanted, **shape}.items()):
            return name
    return None


def _idle(found: Mapping[str, Any]) -> Iterator[str]:
    """Parameters that say nothing beside the others: they are null in the result."""
    distribution = found["requestdistribution"]
    if distribution != "hotspot":
        yield from ("hotspotdatafraction", "hotspotopnfraction")
    if distribution != "exponential":
        yield from ("exponential.percentile", "exponential.frac")
    if not found["scanproportion"]:
        yield from ("minscanlength", "maxscanlength", "scanlengthdistribution")
    if found["fieldlengthdistribution"] == "constant":
        yield "minfieldlength"
    foretells = distribution == "zipfian" and found["insertproportion"]
    if found["duration"] is not None and not foretells:
        yield "operationcount"


def _count(name: str, value: Any) -> int | None:
    _, least, most = _COUNTS[name]
    return None if value is None else count(name, value, most, least)


def _share(name: str, value: Any, most: float) -> int | float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and math.isfinite(value) and 0 <= value <= most:
        return int(value) if value == int(value) else float(value)
    raise UsageError(
        f"{name} {value!r}",
        "not a share" if number else "not a number",
        "choose 0 or more" if most == math.inf else "choose a number from 0 to 1",
    )


def _percentile(value: Any) -> int | float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and 0 < value < 100:
        return int(value) if value == int(value) else float(value)
    raise UsageError(
        f"exponential.percentile {value!r}", "not a percentile", "choose one between 0 and 100"
    )


def _window(given: Mapping[str, Any]) -> dict[str, str | None]:
    """One that operations bound begins with the first of them, as the official client's does."""
    counted = given["duration"] is None and given["operationcount"] is not None
    ramp_up = given_or(given["ramp_up"], "0s" if counted else _RAMP_UP)
    length = given_or(given["duration"], _DURATION)
    return {
        "ramp_up": duration("ramp_up", ramp_up, 0),
        "duration": None if counted else duration("duration", length, _SHORTEST_WINDOW_NS),
    }


def _check_mix(found: Mapping[str, Any]) -> None:
    if not any(found[name] for name in PROPORTIONS):
        raise UsageError(
            "the proportions of operations", "all are 0", "give at least one of them a share"
        )
    if found["minscanlength"] > found["maxscanlength"]:
        raise UsageError(
            f"minscanlength {found['minscanlength']}",
            f"more than maxscanlength {found['maxscanlength']}",
            "choose a smaller one",
        )


def _check_records(found: Mapping[str, Any]) -> None:
    _check_loaded(found)
    if found["fieldlengthdistribution"] != "constant" and (
        found["minfieldlength"] > found["fieldlength"]
    ):
        raise UsageError(
            f"minfieldlength {found['minfieldlength']}",
            f"more than fieldlength {found['fieldlength']}",
            "choose a smaller one",
        )
    size = found["fieldcount"] * found["fieldlength"]
    if size > _LARGEST_RECORD:
        raise UsageError(
            f"{found['fieldcount']} fields of {found['fieldlength']:,} bytes",
            f"a record has {_LARGEST_RECORD:,} bytes at most",
            "choose a smaller fieldcount or fieldlength",
        )


def _check_loaded(found: Mapping[str, Any]) -> None:
    """Whether every record that operations may ask for is one of those that are loaded."""
    start, total = found["insertstart"], found["recordcount"]
    count = given_or(found["insertcount"], total - start)
    asked = f"insertstart {start} and insertcount {count}"
    if count < 1 or start + count > total:
        raise UsageError(
            asked,
            f"the records are numbered from 0 to recordcount, {total}",
            "choose fewer, or a larger recordcount",
        )
    if start + count < total:
        raise UsageError(
            asked,
            f"the records behind them, up to recordcount, {total}, would be asked for and not be "
            "there",
            f"choose --records {start + count}, or leave insertcount out",
        )
    if start and found["requestdistribution"] in ("latest", "exponential"):
        raise UsageError(
            asked,
            f"{found['requestdistribution']} asks for records before them, too, which would not be "
            "there",
            "leave insertstart out",
        )


def _check_client(found: Mapping[str, Any], hosts: Sequence[str]) -> None:
    processes, loops = found["clients"], found["client_threads"]
    check_clients(processes, hosts)
    if hosts and processes > 1 and found["insertproportion"]:
        raise UsageError(
            f"insertproportion {found['insertproportion']} with {processes} clients on "
            f"client_hosts {','.join(hosts)}",
            "new records take their numbers from one counter, which the processes of this host "
            "share and other hosts do not: two would insert the same record, and none could ask "
            "for what another has inserted",
            "choose workload a, b, c or f, or a single client process on one host",
        )
    if processes * given_or(loops, 1) > found["threadcount"]:
        raise UsageError(
            f"{processes} clients of {given_or(loops, 1)} event loops for "
            f"{found['threadcount']} threads",
            "every event loop needs a client thread of its own",
            "choose fewer clients or client_threads, or more --threads",
        )
