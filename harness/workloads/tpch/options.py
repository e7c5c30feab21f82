"""Parameters of the TPC-H workload: names, defaults, and what is refused.

================ ================= ==================================================
name             default           meaning
================ ================= ==================================================
scale            1                 scale factor; the TPC knows 1, 10, 30, 100 … only
queries          1 … 22            a list, or text such as "1,6"; run in this order
cache            cold-per-query    cold-per-query (VLDB 2023 §3), cold-per-run, warm
query_seed       null              null: validation values; else those of qgen -r SEED
query_timeout_s  null              seconds after which a query is stopped
plans            true              explain each query in a second, untimed execution
warmups          1 if warm         untimed executions before each timed one
================ ================= ==================================================
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, get_args

from harness.errors import UsageError, nearest
from harness.workload import CacheMode
from harness.workloads.tpch.qgen import QUERIES, SEEDS
from harness.workloads.tpch.tables import OFFICIAL_SCALES, keys_are_unique

_DEFAULTS: Mapping[str, Any] = {
    "scale": 1,
    "queries": list(QUERIES),
    "cache": "cold-per-query",
    "query_seed": None,
    "query_timeout_s": None,
    "plans": True,
    "warmups": None,
}
_SMALLEST_SCALE = 0.001
_LARGEST_SCALE = OFFICIAL_SCALES[-1]
_STEP = 10_000  # suppliers per unit of scale: the coarsest table's


def normalise(params: Mapping[str, Any]) -> dict[str, Any]:
    """Defaults filled in, every value checked; idempotent. UsageError names what is allowed."""
    for name in params:
        if name not in _DEFAULTS:
            raise UsageError(
                f"tpch parameter {name!r}",
                f"not a parameter of tpch{nearest(name, list(_DEFAULTS))}",
                f"the parameters are {', '.join(_DEFAULTS)}",
            )
    given = dict(_DEFAULTS) | dict(params)
    cache = _cache(given["cache"])
    return {
        "scale": _scale(given["scale"]),
        "queries": _queries(given["queries"]),
        "cache": cache,
        "query_seed": _seed(given["query_seed"]),
        "query_timeout_s": _timeout(given["query_timeout_s"]),
        "plans": _plans(given["plans"]),
        "warmups": _warmups(given["warmups"], cache),
    }


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


def _cache(value: Any) -> CacheMode:
    modes: tuple[CacheMode, ...] = get_args(CacheMode)
    for mode in modes:
        if value == mode:
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


def _plans(value: Any) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"plans {value!r}", "neither true nor false", "choose true or false")
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
