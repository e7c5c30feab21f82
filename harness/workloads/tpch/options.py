"""Parameters of the TPC-H workload: names, defaults, and what is refused.

==================== ================= ==================================================
name                 default           meaning
==================== ================= ==================================================
scale                1                 scale factor; the TPC knows 1, 10, 30, 100 … only
queries              1 … 22            a list, or text such as "1,6"; run in this order
cache                cold-per-query    cold-per-query (VLDB 2023 §3), cold-per-run, warm;
                                       cold-per-run where streams run at the same time
query_seed           null              null: validation values; else those of qgen -r SEED
query_timeout_s      null              seconds after which a query is stopped
plans                true              explain each query in a second, untimed execution;
                                       false where streams run at the same time
warmups              1 if warm         untimed executions before each timed one
test                 queries           queries: one stream of those named, as above;
                                       power (clause 5.3.3), throughput (5.3.4), both
streams              clause 5.3.4's    query streams of a throughput test
refresh              true              refresh functions in power and throughput tests
refresh_batch_orders null              orders of one transaction; null: a function is one
q6_dates             null              [from, to]: query 6 over this interval of l_shipdate
                                       and no other predicate (VLDB 2023, Fig 4)
==================== ================= ==================================================

The last four, and ``test`` itself, stand in the result only where they mean something:
a run of test ``queries`` is described by the same parameters as ever.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, get_args

from harness.errors import UsageError, nearest
from harness.workload import CacheMode
from harness.workloads.tpch.ordering import minimum_streams
from harness.workloads.tpch.qgen import QUERIES, SEEDS
from harness.workloads.tpch.refresh_data import LARGEST_SET
from harness.workloads.tpch.selectivity import normalise_dates
from harness.workloads.tpch.tables import OFFICIAL_SCALES, keys_are_unique

Test = Literal["queries", "power", "throughput", "both"]
#: The tests in which streams run at the same time.
CONCURRENT: frozenset[Test] = frozenset({"throughput", "both"})

_DEFAULTS: Mapping[str, Any] = {
    "scale": 1,
    "queries": list(QUERIES),
    "cache": None,
    "query_seed": None,
    "query_timeout_s": None,
    "plans": None,
    "warmups": None,
    "test": "queries",
    "streams": None,
    "refresh": None,
    "refresh_batch_orders": None,
    "q6_dates": None,
}
PARAMETERS = tuple(_DEFAULTS)
#: What the same thing is called in TPC-C here.
_ELSEWHERE: Mapping[str, str] = {"warehouses": "scale", "users": "streams"}
#: With the pair of a power test as many refresh sets as there are.
_MOST_STREAMS = LARGEST_SET - 1
_SMALLEST_SCALE = 0.001
_LARGEST_SCALE = OFFICIAL_SCALES[-1]
_STEP = 10_000  # suppliers per unit of scale: the coarsest table's


def normalise(params: Mapping[str, Any]) -> dict[str, Any]:
    """Defaults filled in, every value checked; idempotent. UsageError names what is allowed."""
    for name in params:
        if name not in _DEFAULTS:
            same = _ELSEWHERE.get(name)
            hint = f" (did you mean {same!r}?)" if same else nearest(name, list(_DEFAULTS))
            raise UsageError(
                f"tpch parameter {name!r}",
                f"not a parameter of tpch{hint}",
                f"the parameters are {', '.join(_DEFAULTS)}",
            )
    given = dict(_DEFAULTS) | dict(params)
    test = _test(given["test"])
    cache = _cache(given["cache"], test)
    scale = _scale(given["scale"])
    queries = _queries(given["queries"])
    return {
        "scale": scale,
        "queries": queries if test == "queries" else _query_set(queries, test),
        "cache": cache,
        "query_seed": _seed(given["query_seed"]),
        "query_timeout_s": _timeout(given["query_timeout_s"]),
        "plans": _plans(given["plans"], test),
        "warmups": _warmups(given["warmups"], cache),
        **_of_test(given, test, scale),
        **normalise_dates(given["q6_dates"], queries, test),
    }


def _of_test(given: Mapping[str, Any], test: Test, scale: float) -> dict[str, Any]:
    """The parameters that only power and throughput tests have."""
    if test == "queries":
        for name in ("streams", "refresh", "refresh_batch_orders"):
            if given[name] is not None:
                raise UsageError(
                    f"{name} {given[name]} with test queries",
                    "it runs one stream of queries and changes no data",
                    "choose test power, throughput or both",
                )
        return {}
    refresh = _refresh(given["refresh"])
    found: dict[str, Any] = {"test": test}
    streams = _streams(given["streams"], test, scale)
    if streams is not None:
        found["streams"] = streams
    found["refresh"] = refresh
    found["refresh_batch_orders"] = _batch(given["refresh_batch_orders"], refresh)
    return found


def _test(value: Any) -> Test:
    tests: tuple[Test, ...] = get_args(Test)
    for test in tests:
        if value == test:
            return test
    raise UsageError(
        f"test {value!r}",
        f"not a test{nearest(str(value), list(tests))}",
        f"choose {', '.join(tests)}",
    )


def _query_set(queries: list[int], test: Test) -> list[int]:
    if sorted(queries) != list(QUERIES):
        raise UsageError(
            f"queries {','.join(map(str, queries))} with test {test}",
            "a query stream is all 22 queries in the order of the specification (clause 5.3.5)",
            "leave queries out, or choose test queries",
        )
    return list(QUERIES)


def _streams(value: Any, test: Test, scale: float) -> int | None:
    if test == "power":
        if value is not None:
            raise UsageError(
                f"streams {value!r} with test power",
                "a power test has one query stream (clause 5.3.3)",
                "leave streams out, or choose test throughput or both",
            )
        return None
    if value is None:
        return minimum_streams(scale)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MOST_STREAMS:
        raise UsageError(
            f"streams {value!r}",
            "not a number of query streams",
            f"choose 1 … {_MOST_STREAMS:,}; the specification asks for {minimum_streams(scale)} "
            "or more at this scale",
        )
    return value


def _refresh(value: Any) -> bool:
    if value is None:
        return True
    if not isinstance(value, bool):
        raise UsageError(f"refresh {value!r}", "neither true nor false", "choose true or false")
    return value


def _batch(value: Any, refresh: bool) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UsageError(
            f"refresh_batch_orders {value!r}",
            "not a number of orders",
            "choose 1, 2, 3 … orders a transaction, or null for one transaction a function",
        )
    if not refresh:
        raise UsageError(
            f"refresh_batch_orders {value} without refresh functions",
            "there is nothing to cut into transactions",
            "leave one of the two out",
        )
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _scale(value: Any) -> int | float:
    known = f"the TPC's scales are {', '.join(f'{scale:,}' for scale in OFFICIAL_SCALES)}"
    do = f"choose a number from {_SMALLEST_SCALE} to {_LARGEST_SCALE:,}; {known}"
    if not _is_number(value):
        raise UsageError(f"scale {value!r}", "not a number", do)
    if not _SMALLEST_SCALE <= value <= _LARGEST_SCALE:
        raise UsageError(f"scale {value!r}", "out of range", do)
    if not keys_are_unique(value):
        usable = next(
            count / _STEP
            for count in range(int(value * _STEP) + 1, _STEP)
            if keys_are_unique(count / _STEP)
        )
        raise UsageError(
            f"scale {value!r}",
            "with so few suppliers the specification's formula (clause 4.2.3) gives partsupp "
            "the same primary key twice",
            f"the next scale that works is {usable:g}; {known}",
        )
    return int(value) if value == int(value) else float(value)


def _queries(value: Any) -> list[int]:
    asked = f"queries {value!r}"
    do = "name queries from 1 to 22, each once, such as 1,6"
    items = value.split(",") if isinstance(value, str) else value
    if isinstance(items, int) and not isinstance(items, bool):
        items = [items]
    if not isinstance(items, list | tuple) or not items:
        raise UsageError(asked, "not a list of queries", do)
    numbers = []
    for item in items:
        text = str(item).strip()
        if not text.isdecimal() or isinstance(item, bool) or int(text) not in QUERIES:
            raise UsageError(asked, f"{text!r} is not a query of TPC-H", do)
        if int(text) in numbers:
            raise UsageError(asked, f"query {int(text)} is named twice", do)
        numbers.append(int(text))
    return numbers


def _cache(value: Any, test: Test) -> CacheMode:
    if value is None:
        return "cold-per-run" if test in CONCURRENT else "cold-per-query"
    modes: tuple[CacheMode, ...] = get_args(CacheMode)
    for mode in modes:
        if value != mode:
            continue
        if mode == "cold-per-query" and test in CONCURRENT:
            raise UsageError(
                f"cache {mode} with test {test}",
                "a cold start of one stream's query would stop the queries of all others",
                "choose cold-per-run or warm; test power may be cold-per-query",
            )
        return mode
    raise UsageError(
        f"cache {value!r}",
        f"not a cache mode{nearest(str(value), list(modes))}",
        f"choose {', '.join(modes)}",
    )


def _seed(value: Any) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value not in SEEDS:
        raise UsageError(
            f"query_seed {value!r}",
            "not a seed of qgen",
            f"choose a whole number from 1 to {SEEDS[-1]:,}, or null for the validation values",
        )
    return value


def _timeout(value: Any) -> int | float | None:
    if value is None:
        return None
    if not _is_number(value) or value <= 0:
        raise UsageError(
            f"query_timeout_s {value!r}",
            "not a time limit",
            "choose a positive number of seconds, or null",
        )
    limit: int | float = value
    return limit


def _plans(value: Any, test: Test) -> bool:
    if value is None:
        return test not in CONCURRENT
    if not isinstance(value, bool):
        raise UsageError(f"plans {value!r}", "neither true nor false", "choose true or false")
    if value and test == "throughput":
        raise UsageError(
            "plans with test throughput",
            "what a query does beside others its plan alone does not tell",
            "leave plans out, or choose test power or both",
        )
    return value


def _warmups(value: Any, cache: CacheMode) -> int:
    if value is None:
        return 1 if cache == "warm" else 0
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise UsageError(f"warmups {value!r}", "not a count", "choose 0, 1, 2 …")
    if value and cache != "warm":
        raise UsageError(
            f"warmups {value} with cache {cache}",
            "a query that was warmed up is not cold",
            "leave warmups out, or choose cache warm",
        )
    return value
