"""Parameters of the TPC-C workload: names, defaults, and what is refused.

================ ==================== ==================================================
name             default              meaning
================ ==================== ==================================================
warehouses       10                   how many; about 100 MB of data and indexes each
test             throughput           throughput, or durability: the server is killed under
                                      way, and what was told to be committed is looked for
users            8                    emulated users; 10 a warehouse with think time
think_time       false                keying and think times of clause 5.2.5
rate_per_s       null                 transactions a second that are offered, whatever the
                                      server answers; null: each user waits for its answer
ramp_up          30s                  before anything is measured
duration         3m                   of the measured window; a second or more
home             all                  all: every transaction draws its warehouse anew (VLDB
                                      2023 §5.1); fixed: a user has its own (clause 5.2.2);
                                      fixed with think time
mix              deck                 deck: the cards of clause 5.2.4.2; or weights in
                                      per cent by transaction
connections      users                over which they go; no more than 32 with think time
client_threads   1 for 16 connections event loops in a client process
clients          1                    client processes
data_seed        1                    of the population (clause 4.3)
================ ==================== ==================================================

What the specification calls a terminal is a user here, as in the paper. Durations are
texts with their unit (``30s``, ``3m``, ``500ms``) and stand in the result in one form.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, get_args

from harness.errors import UsageError, nearest
from harness.units import parse_duration_ns

Test = Literal["throughput", "durability"]
Home = Literal["all", "fixed"]

#: The five transactions, by the names that statements, metrics and labels have.
TRANSACTIONS = ("new_order", "payment", "order_status", "delivery", "stock_level")
#: Terminals of a warehouse (clause 4.2.2), one for each of its districts.
TERMINALS_PER_WAREHOUSE = 10

_DEFAULTS: Mapping[str, Any] = {
    "warehouses": 10,
    "test": "throughput",
    "users": None,
    "think_time": False,
    "rate_per_s": None,
    "ramp_up": "30s",
    "duration": "3m",
    "home": None,
    "mix": "deck",
    "connections": None,
    "client_threads": None,
    "clients": 1,
    "data_seed": 1,
}
PARAMETERS = tuple(_DEFAULTS)
#: What the same thing is called elsewhere: in TPC-H here, and in other programs.
_ELSEWHERE: Mapping[str, str] = {
    "scale": "warehouses",
    "streams": "users",
    "virtual_users": "users",
    "terminals": "users",
    "rate": "rate_per_s",
    "rampup": "ramp_up",
    "query_seed": "data_seed",
}
_USERS = 8
_SHARED_CONNECTIONS = 32
_CONNECTIONS_PER_THREAD = 16
_MOST_THREADS = 8
_LARGEST: Mapping[str, int] = {
    # w_id is a 32-bit integer in every schema; a million warehouses are 100 TB.
    "warehouses": 1_000_000,
    "users": 10_000_000,
    "connections": 100_000,
    "client_threads": 1_024,
    "clients": 64,
    "data_seed": 2**32 - 1,
}
_SHORTEST_WINDOW_NS = 10**9
_LONGEST_NS = 7 * 24 * 3600 * 10**9
_UNITS = (("h", 3600 * 10**9), ("m", 60 * 10**9), ("s", 10**9), ("ms", 10**6), ("us", 10**3))


def normalise(params: Mapping[str, Any]) -> dict[str, Any]:
    """Defaults filled in, every value checked; idempotent. UsageError names what is allowed."""
    for name in params:
        if name not in _DEFAULTS:
            raise _unknown(name)
    given = dict(_DEFAULTS) | {name: value for name, value in params.items() if value is not None}
    found: dict[str, Any] = {
        "warehouses": _count("warehouses", given["warehouses"]),
        "test": _one_of("test", given["test"], get_args(Test)),
    }
    think_time = _flag("think_time", given["think_time"])
    terminals = TERMINALS_PER_WAREHOUSE * found["warehouses"]
    users = _count("users", _or(given["users"], terminals if think_time else _USERS))
    found |= {
        "users": users,
        "think_time": think_time,
        "rate_per_s": _rate(given["rate_per_s"], think_time),
        "ramp_up": _duration("ramp_up", given["ramp_up"], 0),
        "duration": _duration("duration", given["duration"], _SHORTEST_WINDOW_NS),
        "home": _one_of("home", _or(given["home"], _home(think_time)), get_args(Home)),
        "mix": _mix(given["mix"]),
    }
    return found | _client(given, users, think_time) | {
        "data_seed": _count("data_seed", given["data_seed"], least=0)
    }  # fmt: skip


def _client(given: Mapping[str, Any], users: int, think_time: bool) -> dict[str, int]:
    """How the client side is laid out: processes, event loops and connections."""
    shared = min(users, _SHARED_CONNECTIONS) if think_time else users
    connections = _count("connections", _or(given["connections"], shared))
    clients = _count("clients", given["clients"])
    threads = min(_MOST_THREADS, math.ceil(connections / clients / _CONNECTIONS_PER_THREAD))
    found = {
        "connections": connections,
        "client_threads": _count("client_threads", _or(given["client_threads"], threads)),
        "clients": clients,
    }
    if connections > users:
        raise UsageError(
            f"{connections} connections for {users} users",
            "a user has one transaction at a time, and so one connection at most",
            f"choose {users} connections or fewer, or more users",
        )
    if clients * found["client_threads"] > connections:
        raise UsageError(
            f"{clients} clients of {found['client_threads']} threads for {connections} connections",
            "every event loop needs a connection of its own",
            "choose fewer clients or client_threads, or more connections",
        )
    return found


def duration_ns(params: Mapping[str, Any], name: str) -> int:
    """A duration of normalised parameters."""
    return parse_duration_ns(params[name])


def shares(mix: str | Mapping[str, float]) -> dict[str, float]:
    """Which share of all transactions each is to be; they add up to 1.

    The deck has ten New-Orders and ten Payments and one of each other (clause 5.2.4.2).
    """
    if isinstance(mix, str):
        cards = {name: 10 if name in ("new_order", "payment") else 1 for name in TRANSACTIONS}
        return {name: count / 23 for name, count in cards.items()}
    total = math.fsum(mix.values())
    return {name: mix[name] / total for name in TRANSACTIONS}


def _unknown(name: str) -> UsageError:
    known = list(_DEFAULTS)
    same = _ELSEWHERE.get(name)
    hint = f" (did you mean {same!r}?)" if same else nearest(name, known)
    return UsageError(
        f"tpcc parameter {name!r}",
        f"not a parameter of tpcc{hint}",
        f"the parameters are {', '.join(known)}",
    )


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _home(think_time: bool) -> Home:
    return "fixed" if think_time else "all"


def _count(name: str, value: Any, least: int = 1) -> int:
    whole = isinstance(value, float) and value.is_integer()
    if isinstance(value, bool) or not (isinstance(value, int) or whole):
        found = "not a whole number"
    elif not least <= value <= _LARGEST[name]:
        found = "out of range"
    else:
        return int(value)
    raise UsageError(
        f"{name} {value!r}", found, f"choose a whole number from {least} to {_LARGEST[name]:,}"
    )


def _flag(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise UsageError(f"{name} {value!r}", "neither true nor false", "choose true or false")


def _one_of(name: str, value: Any, known: tuple[str, ...]) -> str:
    if value in known:
        return str(value)
    raise UsageError(
        f"{name} {value!r}",
        f"there is no such {name}{nearest(str(value), known)}",
        f"choose {', '.join(known)}",
    )


def _rate(value: Any, think_time: bool) -> int | float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UsageError(f"rate_per_s {value!r}", "not a number", "give transactions a second")
    if value <= 0:
        raise UsageError(f"rate_per_s {value!r}", "nothing would be offered", "give 1 or more")
    if think_time:
        raise UsageError(
            f"rate_per_s {value:g} with think_time",
            "think times decide how much users offer, so there is no rate to set",
            "leave one of the two out",
        )
    return int(value) if value == int(value) else float(value)


def _duration(name: str, value: Any, least_ns: int) -> str:
    """One form for each: ``90s`` and ``1.5m`` are both ``90s``."""
    nanoseconds = parse_duration_ns(str(value)) if value != 0 else 0
    if not least_ns <= nanoseconds <= _LONGEST_NS:
        do = f"choose from {_text_of(least_ns)} to {_text_of(_LONGEST_NS)} (7 days)"
        raise UsageError(f"{name} {value!r}", "out of range", do)
    return _text_of(nanoseconds)


def _text_of(nanoseconds: int) -> str:
    if nanoseconds == 0:
        return "0s"
    unit, size = next(((u, s) for u, s in _UNITS if nanoseconds % s == 0), ("ns", 1))
    return f"{nanoseconds // size}{unit}"


def _mix(value: Any) -> str | dict[str, float]:
    if value == "deck":
        return "deck"
    if not isinstance(value, Mapping):
        raise UsageError(
            f"mix {value!r}",
            "neither the deck nor weights",
            "write deck, or weights such as {new_order: 45, payment: 43, …}",
        )
    for name, weight in value.items():
        if name not in TRANSACTIONS:
            raise UsageError(
                f"mix {dict(value)!r}",
                f"no transaction {name!r}{nearest(str(name), TRANSACTIONS)}",
                f"the transactions are {', '.join(TRANSACTIONS)}",
            )
        number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not number or not math.isfinite(weight) or weight < 0:
            raise UsageError(f"mix {dict(value)!r}", f"{weight!r} is no weight", "write a number")
    weights = {name: value.get(name, 0) for name in TRANSACTIONS}
    if not any(weights.values()):
        raise UsageError("mix", "all weights are 0", "give at least one transaction a weight")
    return weights
