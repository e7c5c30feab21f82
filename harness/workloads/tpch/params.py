"""Parameters of TPC-H."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from harness.errors import UsageError
from harness.store.spec import Json
from harness.workloads import parameters
from harness.workloads.kinds import Number, QueryNumbers, is_number
from harness.workloads.parameters import CacheMode, Outline, Parameters, check_warmups, parameter
from harness.workloads.tpch.qgen import QUERIES, SEEDS
from harness.workloads.tpch.refresh_data import LARGEST_SET
from harness.workloads.tpch.tables import OFFICIAL_SCALES, keys_are_unique

Test = Literal["queries", "power", "throughput", "both"]
#: The tests in which streams run at the same time.
CONCURRENT: frozenset[Test] = frozenset({"throughput", "both"})
#: The query that has a variant with a chosen interval of l_shipdate.
VARIANT_QUERY = 6

_SMALLEST_SCALE = 0.001
_LARGEST_SCALE = OFFICIAL_SCALES[-1]
_STEP = 10_000  # suppliers per unit of scale: the coarsest table's


@dataclass(frozen=True)
class _Scale(Number):
    values = f"{_SMALLEST_SCALE} to {_LARGEST_SCALE:,}"

    def parse(self, name: str, value: Any) -> int | float:
        scales = f"the TPC's scales are {', '.join(f'{scale:,}' for scale in OFFICIAL_SCALES)}"
        hint = f"choose a number from {self.values}; {scales}"
        if not is_number(value):
            raise UsageError(f"{name} {value!r}", "not a number", hint)
        if not _SMALLEST_SCALE <= value <= _LARGEST_SCALE:
            raise UsageError(f"{name} {value!r}", "out of range", hint)
        if not keys_are_unique(value):
            usable = next(
                count / _STEP
                for count in range(int(value * _STEP) + 1, _STEP)
                if keys_are_unique(count / _STEP)
            )
            raise UsageError(
                f"{name} {value!r}",
                "with so few suppliers the specification's formula (clause 4.2.3) gives partsupp "
                "the same primary key twice",
                f"the next scale that works is {usable:g}; {scales}",
            )
        return int(value) if value == int(value) else float(value)


@dataclass(frozen=True)
class _Dates:
    values = "FROM,BEFORE"

    def parse(self, name: str, value: Any) -> tuple[str, str]:
        problem = f"{name} {value!r}"
        hint = "give two dates, such as 1994-01-01,1995-01-01: from the first to before the second"
        items = value.split(",") if isinstance(value, str) else value
        if not isinstance(items, list | tuple) or len(items) != 2:
            raise UsageError(problem, "not two dates", hint)
        try:
            first, after = (date.fromisoformat(str(item).strip()) for item in items)
        except ValueError as error:
            raise UsageError(problem, str(error), hint) from error
        if not first < after:
            raise UsageError(problem, "the first date is not before the second", hint)
        return first.isoformat(), after.isoformat()


#: Clause 5.3.4: the least number of query streams of a throughput test, by scale factor.
_MINIMUM_STREAMS: Mapping[int, int] = {
    1: 2,
    10: 3,
    30: 4,
    100: 5,
    300: 6,
    1_000: 7,
    3_000: 8,
    10_000: 9,
    30_000: 10,
    100_000: 11,
}


def minimum_streams(scale: float) -> int:
    """Least number of query streams at ``scale``.

    The clause knows the TPC's scales only: one between two of them takes the smaller
    one's number, one below 1 that of scale 1.
    """
    return max(streams for minimum, streams in _MINIMUM_STREAMS.items() if minimum <= max(scale, 1))


def _streams(params: TpchParams) -> int | None:
    return minimum_streams(params.scale) if params.test in CONCURRENT else None


@dataclass(frozen=True, kw_only=True)
class TpchParams(Parameters):
    """TPC-H-derived: 22 analytical queries; power and throughput tests."""

    workload = "tpch"
    smaller = "a smaller --scale"
    aliases: ClassVar[Mapping[str, str]] = {"warehouses": "scale", "users": "streams"}

    scale: Annotated[float, _Scale()] = parameter(
        1,
        option=True,
        help="Scale factor; TPC itself defines 1, 10, 30, 100 … only.",
    )
    queries: Annotated[tuple[int, ...], QueryNumbers()] = parameter(
        list(QUERIES),
        default_text="all",
        option=True,
        help="Queries to run, in this order: 1,6.",
    )
    cache: CacheMode = parameters.cache(
        derive=lambda params: "cold-per-run" if params.test in CONCURRENT else "cold-per-query",
        default_text="cold-per-query; cold-per-run for concurrent streams",
    )
    query_seed: Annotated[int, Meta(ge=1, le=SEEDS[-1])] | None = parameter(
        default_text="validation values",
        option=True,
        help="Seed of random query parameters, as in qgen -r SEED.",
    )
    query_timeout_s: parameters.Seconds | None = parameters.query_timeout()
    plans: bool = parameters.plans(
        derive=lambda params: params.test not in CONCURRENT,
        default_text="true; false for concurrent streams",
    )
    warmups: parameters.Warmups = parameters.warmups()
    test: Test = parameter(
        "queries",
        option=True,
        help="One stream of --queries, or TPC's power test, throughput test or both.",
    )
    streams: Annotated[int, Meta(ge=1, le=LARGEST_SET - 1)] | None = parameter(
        # With the pair of a power test as many refresh sets as there are.
        derive=_streams,
        default_text="the minimum of clause 5.3.4",
        option=True,
        help="Query streams of a throughput test.",
        omit_unset=True,
    )
    refresh: bool | None = parameter(
        derive=lambda params: None if params.test == "queries" else True,
        default_text="true",
        option=True,
        help="Refresh functions in power and throughput tests.",
        omit_unset=True,
    )
    refresh_batch_orders: Annotated[int, Meta(ge=1, le=10**9)] | None = parameter(
        default_text="a whole function",
        help="Orders of one transaction of a refresh function.",
    )
    q6_dates: Annotated[tuple[str, str], _Dates()] | None = parameter(
        help="Interval of l_shipdate, the only predicate of query 6 then (VLDB 2023, Fig 4).",
        omit_unset=True,
    )

    def resolve(self) -> TpchParams:
        if self.test == "queries":
            self._check_no_test_options()
        else:
            self._check_test()
        if self.cache == "cold-per-query" and self.test in CONCURRENT:
            raise UsageError(
                f"cache {self.cache} with test {self.test}",
                "a cold start of one stream's query would stop the queries of all others",
                "choose cold-per-run or warm; test power may be cold-per-query",
            )
        if self.plans and self.test == "throughput":
            raise UsageError(
                "plans with test throughput",
                "a query's plan does not show the effect of the queries that run with it",
                "leave plans out, or choose test power or both",
            )
        check_warmups(self.cache, self.warmups)
        self._check_variant()
        # The order of a test's queries is the specification's.
        return self if self.test == "queries" else replace(self, queries=tuple(QUERIES))

    def _check_no_test_options(self) -> None:
        for name in ("streams", "refresh", "refresh_batch_orders"):
            if (value := getattr(self, name)) is not None:
                raise UsageError(
                    f"{name} {value} with test queries",
                    "it runs one stream of queries and changes no data",
                    "choose test power, throughput or both",
                )

    def _check_test(self) -> None:
        if sorted(self.queries) != list(QUERIES):
            raise UsageError(
                f"queries {','.join(map(str, self.queries))} with test {self.test}",
                "a query stream is all 22 queries in the order of the specification (clause 5.3.5)",
                "leave queries out, or choose test queries",
            )
        if self.test == "power" and self.streams is not None:
            raise UsageError(
                f"streams {self.streams} with test power",
                "a power test has one query stream (clause 5.3.3)",
                "leave streams out, or choose test throughput or both",
            )
        if self.refresh_batch_orders is not None and not self.refresh:
            raise UsageError(
                f"refresh_batch_orders {self.refresh_batch_orders} without refresh functions",
                "there is nothing to cut into transactions",
                "leave one of the two out",
            )

    def _check_variant(self) -> None:
        if self.q6_dates is None:
            return
        problem = f"q6_dates {','.join(self.q6_dates)}"
        if VARIANT_QUERY not in self.queries:
            raise UsageError(
                problem, f"query {VARIANT_QUERY} is not in the run", "add it to queries"
            )
        if self.test != "queries":
            raise UsageError(
                problem,
                f"the {self.test} test runs the specification's query {VARIANT_QUERY}",
                "leave it out, or choose test queries",
            )

    def outline(self) -> Outline:
        return Outline(scale=self.scale, cache=self.cache)

    def to_json(self) -> dict[str, Json]:
        """Return the parameters; without those that a run of test ``queries`` does not have."""
        document = super().to_json()
        if self.test == "queries":
            del document["test"], document["refresh_batch_orders"]
        return document


PARAMS = TpchParams
