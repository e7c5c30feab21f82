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
ramp_up          2m                   before anything is measured
duration         3m                   of the measured window; a second or more
home             all                  all: every transaction draws its warehouse anew (VLDB
                                      2023 §5.1); fixed: a user has its own (clause 5.2.2);
                                      fixed with think time
mix              deck                 deck: the cards of clause 5.2.4.2; or weights in
                                      per cent by transaction
connections      users                over which they go; no more than 32 with think time
client_threads   1 for 16 connections event loops in a client process (one each for two)
clients          1, or one a host     client processes
client_hosts     this host            hosts of them, as ssh takes them (client1,bench@client2)
isolation        the engine's         of every transaction: read-committed, repeatable-read or
                                      serializable
stall_timeout    the window, at least the run fails after this time without an answer on any
                 2m                   connection; a shorter stall is measured
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

Test = Literal["throughput", "durability"]
Home = Literal["all", "fixed"]
#: Levels that every engine has, as SQL calls them.
Isolation = Literal["read-committed", "repeatable-read", "serializable"]

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
    "ramp_up": "2m",
    "duration": "3m",
    "home": None,
    "mix": "deck",
    "connections": None,
    "client_threads": None,
    "clients": None,
    "client_hosts": None,
    "isolation": None,
    "stall_timeout": None,
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
_ONE_LOOP_EACH = 2
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


def normalise(params: Mapping[str, Any]) -> dict[str, Any]:
    """Defaults filled in, every value checked; idempotent. UsageError names what is allowed."""
    for name in params:
        if name not in _DEFAULTS:
            raise unknown("tpcc", name, PARAMETERS, _ELSEWHERE)
    given = dict(_DEFAULTS) | {name: value for name, value in params.items() if value is not None}
    found: dict[str, Any] = {
        "warehouses": _count("warehouses", given["warehouses"]),
        "test": one_of("test", given["test"], get_args(Test)),
    }
    think_time = flag("think_time", given["think_time"])
    terminals = TERMINALS_PER_WAREHOUSE * found["warehouses"]
    users = _count("users", given_or(given["users"], terminals if think_time else _USERS))
    found |= {
        "users": users,
        "think_time": think_time,
        "rate_per_s": _rate(given["rate_per_s"], think_time),
        "ramp_up": duration("ramp_up", given["ramp_up"], 0),
        "duration": duration("duration", given["duration"], _SHORTEST_WINDOW_NS),
        "home": one_of("home", given_or(given["home"], _home(think_time)), get_args(Home)),
        "mix": _mix(given["mix"]),
    }
    return (
        found
        | _client(given, users, think_time)
        | {"data_seed": _count("data_seed", given["data_seed"], least=0)}
    )


def event_loops(connections: float) -> int:
    """How many a client process has for so many connections, where nobody says.

    One serves many. Two connections have one each: their answers come far apart, and a loop that
    sleeps in between wakes up sooner where the server's process has just been.
    """
    if connections <= _ONE_LOOP_EACH:
        return math.ceil(connections)
    return min(_MOST_THREADS, math.ceil(connections / _CONNECTIONS_PER_THREAD))


def _client(given: Mapping[str, Any], users: int, think_time: bool) -> dict[str, Any]:
    """How the client side is laid out: hosts, processes, event loops and connections."""
    hosts = client_hosts(given["client_hosts"])
    shared = min(users, _SHARED_CONNECTIONS) if think_time else users
    connections = _count("connections", given_or(given["connections"], shared))
    clients = _count("clients", given_or(given["clients"], max(1, len(hosts))))
    check_clients(clients, hosts)
    found: dict[str, Any] = {
        "connections": connections,
        "client_threads": _count(
            "client_threads", given_or(given["client_threads"], event_loops(connections / clients))
        ),
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
    if (isolation := given["isolation"]) is not None:
        found["isolation"] = one_of("isolation", isolation, get_args(Isolation))
    if (stall := given["stall_timeout"]) is not None:
        found["stall_timeout"] = duration("stall_timeout", stall, _SHORTEST_WINDOW_NS)
    return found | ({"client_hosts": hosts} if hosts else {})


def shares(mix: str | Mapping[str, float]) -> dict[str, float]:
    """Which share of all transactions each is to be; they add up to 1.

    The deck has ten New-Orders and ten Payments and one of each other (clause 5.2.4.2).
    """
    if isinstance(mix, str):
        cards = {name: 10 if name in ("new_order", "payment") else 1 for name in TRANSACTIONS}
        return {name: count / 23 for name, count in cards.items()}
    total = math.fsum(mix.values())
    return {name: mix[name] / total for name in TRANSACTIONS}


def _home(think_time: bool) -> Home:
    return "fixed" if think_time else "all"


def _count(name: str, value: Any, least: int = 1) -> int:
    return count(name, value, _LARGEST[name], least)


def _rate(value: Any, think_time: bool) -> int | float | None:
    found = rate("rate_per_s", value, "transactions")
    if found is not None and think_time:
        raise UsageError(
            f"rate_per_s {value:g} with think_time",
            "think times decide how much users offer, so there is no rate to set",
            "leave one of the two out",
        )
    return found


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
