"""Parameters of transactions and analytics at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from harness.workloads import parameters
from harness.workloads.kinds import QUERIES, Duration, QueryNumbers
from harness.workloads.parameters import Outline, Parameters, parameter
from harness.workloads.tpcc.params import TpccParams


@dataclass(frozen=True, kw_only=True)
class HtapParams(Parameters):
    """Transactions and analytics at once: TPC-C's terminals, and queries over its tables."""

    workload = "htap"
    smaller = "fewer --warehouses"
    small: ClassVar[Mapping[str, str]] = {"warehouses": "2"}
    drivers: ClassVar[Mapping[str, str]] = {"loadgen": "native client"}
    aliases: ClassVar[Mapping[str, str]] = {
        "scale": "warehouses",
        "terminals": "users",
        "rampup": "ramp_up",
    }

    warehouses: Annotated[int, Meta(ge=1, le=20_000)] = parameter(
        10, option=True, help="Number of warehouses, of 100 to 150 MB each."
    )
    users: Annotated[int, Meta(ge=1, le=10_000)] = parameter(
        8, option=True, help="Emulated users of the transactions (terminals)."
    )
    streams: Annotated[int, Meta(ge=1, le=1_000)] = parameter(
        1, option=True, help="Sessions that run queries, one after the other."
    )
    ramp_up: Duration = parameters.ramp_up(default="1m")
    duration: parameters.Window = parameters.duration(default="5m")
    queries: Annotated[tuple[int, ...], QueryNumbers()] = parameter(
        list(QUERIES),
        option=True,
        default_text="all",
        help="Queries of each stream.",
    )
    query_timeout_s: parameters.Seconds | None = parameters.query_timeout()
    isolation: Literal["read-committed", "repeatable-read", "serializable"] | None = parameter(
        default_text="the engine's",
        help="Isolation level of every transaction.",
        omit_unset=True,
    )
    stall_timeout: parameters.Window | None = parameters.stall_timeout()
    data_seed: Annotated[int, Meta(ge=0, le=2**32 - 1)] = parameter(
        1, help="Seed of the population (clause 4.3)."
    )

    @property
    def transactions(self) -> TpccParams:
        """The parameters of TPC-C's load and terminals."""
        same = ("warehouses", "users", "ramp_up", "duration", "isolation", "stall_timeout")
        given = self.to_json()
        return TpccParams.from_mapping({name: given.get(name) for name in (*same, "data_seed")})

    def outline(self) -> Outline:
        return Outline(
            scale=self.warehouses,
            connections=self.users + self.streams,
            # Of three windows, those before the last one, with their own ramp-ups.
            ramp_up_ns=3 * self.ramp_up.ns + 2 * self.duration.ns,
            window_ns=self.duration.ns,
            stall_timeout_ns=self.stall_timeout.ns if self.stall_timeout else 0,
        )


PARAMS = HtapParams
