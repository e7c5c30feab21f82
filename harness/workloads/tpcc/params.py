"""Parameters of TPC-C; a terminal of the specification is called a user here."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from msgspec import Meta

from harness.errors import UsageError, nearest
from harness.workloads import parameters
from harness.workloads.kinds import Duration, is_number
from harness.workloads.parameters import (
    STATISTICS,
    Outline,
    Parameters,
    check_clients,
    check_instances,
    parameter,
)

#: The five transactions, by the names that statements, metrics and labels have.
TRANSACTIONS = ("new_order", "payment", "order_status", "delivery", "stock_level")
#: Terminals of a warehouse (clause 4.2.2), one for each of its districts.
TERMINALS_PER_WAREHOUSE = 10
#: ``deck``, or weights by transaction.
Mix: TypeAlias = str | Mapping[str, float]

_USERS = 8
_SHARED_CONNECTIONS = 32
_CONNECTIONS_PER_THREAD = 16
_FEWEST_THREADS = 2
_MOST_THREADS = 8


@dataclass(frozen=True)
class _MixKind:
    values = "deck, or weights by transaction"

    def parse(self, name: str, value: Any) -> Mix:
        if value == "deck":
            return "deck"
        if not isinstance(value, Mapping):
            raise UsageError(
                f"{name} {value!r}",
                "neither the deck nor weights",
                "write deck, or weights such as {new_order: 45, payment: 43, …}",
            )
        for transaction, weight in value.items():
            if transaction not in TRANSACTIONS:
                raise UsageError(
                    f"{name} {dict(value)!r}",
                    f"no transaction {transaction!r}{nearest(str(transaction), TRANSACTIONS)}",
                    f"the transactions are {', '.join(TRANSACTIONS)}",
                )
            if not is_number(weight) or weight < 0:
                raise UsageError(
                    f"{name} {dict(value)!r}", f"{weight!r} is not a weight", "write a number >= 0"
                )
        weights = {transaction: value.get(transaction, 0) for transaction in TRANSACTIONS}
        if not any(weights.values()):
            raise UsageError(name, "all weights are 0", "give at least one transaction a weight")
        return weights


def event_loops(connections: float) -> int:
    """Return the default number of event loops of a client process.

    One loop serves many connections, but two do more from two connections on (BENCHMARKS.md).
    """
    fewest = min(_FEWEST_THREADS, math.ceil(connections))
    return min(_MOST_THREADS, max(fewest, math.ceil(connections / _CONNECTIONS_PER_THREAD)))


def shares(mix: Mix) -> dict[str, float]:
    """Return the share of each transaction among all; the shares add up to 1.

    The deck has ten New-Orders and ten Payments and one of each other (clause 5.2.4.2).
    """
    if isinstance(mix, str):
        cards = {name: 10 if name in ("new_order", "payment") else 1 for name in TRANSACTIONS}
        return {name: count / 23 for name, count in cards.items()}
    total = math.fsum(mix.values())
    return {name: mix[name] / total for name in TRANSACTIONS}


def _users(params: TpccParams) -> int:
    return TERMINALS_PER_WAREHOUSE * params.warehouses if params.think_time else _USERS


def _connections(params: TpccParams) -> int:
    return min(params.users, _SHARED_CONNECTIONS) if params.think_time else params.users


@dataclass(frozen=True, kw_only=True)
class TpccParams(Parameters):
    """TPC-C-derived: order entry; throughput and durability tests."""

    workload = "tpcc"
    smaller = "fewer --warehouses"
    small: ClassVar[Mapping[str, str]] = {"warehouses": "2"}
    drivers: ClassVar[Mapping[str, str]] = {
        "loadgen": "native client",
        "hammerdb": "HammerDB 4 to 6, with its own schema and procedures",
    }
    aliases: ClassVar[Mapping[str, str]] = {
        "scale": "warehouses",
        "streams": "users",
        "virtual_users": "users",
        "terminals": "users",
        "rampup": "ramp_up",
        "query_seed": "data_seed",
    }

    warehouses: Annotated[int, Meta(ge=1, le=1_000_000)] = parameter(
        # w_id is a 32-bit integer in every schema; a million warehouses are 100 TB.
        10,
        option=True,
        help="Number of warehouses, of 100 to 150 MB each.",
        native=True,
    )
    test: Literal["throughput", "durability"] = parameter(
        "throughput",
        option=True,
        help="Throughput, or durability: kill the server, look for committed transactions.",
    )
    users: Annotated[int, Meta(ge=1, le=10_000_000)] = parameter(
        derive=_users,
        default_text=f"{_USERS}; with think time {TERMINALS_PER_WAREHOUSE} per warehouse",
        option=True,
        help="Emulated users (the specification's terminals).",
    )
    think_time: bool = parameter(False, option=True, help="Keying and think times of clause 5.2.5.")
    rate: Annotated[float, parameters.per_second("transactions")] | None = parameters.rate(
        "transactions"
    )
    ramp_up: Duration = parameters.ramp_up(default="2m")
    duration: parameters.Window = parameters.duration(default="3m")
    home: Literal["all", "fixed"] = parameter(
        derive=lambda params: "fixed" if params.think_time else "all",
        default_text="all; fixed with think time",
        help="Warehouse of a transaction: any of all (VLDB 2023 §5.1), or the user's own "
        "(clause 5.2.2).",
        native=True,
    )
    mix: Annotated[Mix, _MixKind()] = parameter(
        "deck",
        help="Cards of clause 5.2.4.2, or weights by transaction (in a profile).",
        native=True,
    )
    connections: Annotated[int, Meta(ge=1, le=100_000)] = parameter(
        derive=_connections,
        default_text=f"users; at most {_SHARED_CONNECTIONS} with think time",
        help="Connections that the users share.",
    )
    instances: parameters.Instances = parameters.instances()
    client_hosts: parameters.Hosts = parameters.client_hosts()
    clients: parameters.Clients = parameters.clients()
    client_threads: Annotated[int, Meta(ge=1, le=1_024)] = parameter(
        derive=lambda params: event_loops(params.connections / params.clients),
        default_text=f"1 per {_CONNECTIONS_PER_THREAD} connections; at least {_FEWEST_THREADS}",
        help="Event loops of a client process.",
    )
    isolation: Literal["read-committed", "repeatable-read", "serializable"] | None = parameter(
        default_text="the engine's",
        help="Isolation level of every transaction.",
        omit_unset=True,
    )
    stall_timeout: parameters.Window | None = parameters.stall_timeout()
    data_seed: Annotated[int, Meta(ge=0, le=2**32 - 1)] = parameter(
        1, help="Seed of the population (clause 4.3).", native=True
    )

    def resolve(self) -> TpccParams:
        if self.rate is not None and self.think_time:
            raise UsageError(
                f"rate {self.rate:g} with think_time",
                "think times decide how much users offer, so there is no rate to set",
                "leave one of the two out",
            )
        check_clients(self.clients, self.client_hosts)
        if self.connections > self.users:
            raise UsageError(
                f"{self.connections} connections for {self.users} users",
                "a user has one transaction at a time, and so one connection at most",
                f"choose {self.users} connections or fewer, or more users",
            )
        if self.clients * self.client_threads > self.connections:
            raise UsageError(
                f"{self.clients} clients of {self.client_threads} threads for "
                f"{self.connections} connections",
                "every event loop needs a connection of its own",
                "choose fewer clients or client_threads, or more connections",
            )
        instances = check_instances(self.instances, self.client_hosts)
        if instances is not None and self.test == "durability":
            raise UsageError(
                f"{instances} instances with test durability",
                "one server is killed and looked at",
                "leave --instances out",
            )
        return replace(self, instances=instances)

    def latency_statistics(self, driver: str) -> Collection[str]:
        """HammerDB reports no histogram, and a test of durability no latencies."""
        if self.test == "durability":
            return ()
        return STATISTICS[:3] if driver == "hammerdb" else STATISTICS

    def takes_rate(self, driver: str) -> bool:
        """HammerDB takes none, and think times decide it."""
        return driver != "hammerdb" and not self.think_time

    def outline(self) -> Outline:
        return Outline(
            scale=self.warehouses,
            connections=self.connections,
            ramp_up_ns=self.ramp_up.ns,
            window_ns=self.duration.ns,
            client_hosts=self.client_hosts,
            clients=self.clients,
            stall_timeout_ns=self.stall_timeout.ns if self.stall_timeout else 0,
            instances=self.instances or 1,
        )


PARAMS = TpccParams
