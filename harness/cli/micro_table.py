"""A run of microbenchmarks as a table: a line a configuration and job, medians of the repeats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from harness import hdr
from harness.store.result import Metric
from harness.terminal import print_table
from harness.units import format_ns

_WHOLE = "operation_duration_ns"
_PERCENTILES = "p50, p99.9, max"
#: Of the calls that one operation consists of, each for itself.
_OF_PARTS = f"of each call: {_PERCENTILES}"
#: Labels that a configuration's name may lack, or have as requested only (``auto``).
_AS_DONE = ("sync", "direct")


def print_figures(metrics: Iterable[Metric]) -> None:
    """Print the figures of a run."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for metric in (one for one in metrics if one.better != "none"):
        labels = metric.labels
        if cell := _cell(metric):
            column, text = cell
            row = rows.setdefault((_title(metric.name, labels), labels.get("job", "")), {})
            row[column] = f"{row[column]}\n{text}" if column in row else text
    columns = list(dict.fromkeys(name for row in rows.values() for name in row))
    several = any(job for _, job in rows)
    print_table(
        ("configuration", *(("job",) if several else ()), *columns),
        [
            (name, *((job,) if several else ()), *(row.get(column, "") for column in columns))
            for (name, job), row in rows.items()
        ],
    )


def _title(metric: str, labels: Mapping[str, str]) -> str:
    """The configuration; after it what was done and its name does not say.

    ``wal/access=4096,sync=dsync,direct=auto (direct=yes)``.
    """
    name = labels.get("configuration", metric)
    named = name.partition("/")[2].split(",")
    stated = (f"{key}={labels[key]}" for key in _AS_DONE if labels.get(key, "none") != "none")
    details = ", ".join(one for one in stated if one not in named)
    if "mix" in labels and "chain" in labels:  # a chain of the mix by itself
        details = labels["chain"]
    return f"{name} ({details})" if details else name


def _cell(metric: Metric) -> tuple[str, str] | None:
    """Return the column and the text of a metric."""
    name = metric.name
    if metric.hdr is not None:
        return _percentiles(name, hdr.decode(metric.hdr))
    value = metric.median or 0.0
    if metric.unit == "B/s":
        return "GB/s", f"{value / 1e9:.3g}"
    if metric.unit == "ns":
        return name.removesuffix("_ns").replace("_", " "), format_ns(value)
    if name == "operations_per_second":
        return "operations/s", f"{value:,.0f}"
    return name.replace("_", " "), f"{value:,.4g}"


def _percentiles(name: str, times: hdr.Histogram) -> tuple[str, str] | None:
    """Those of a part are no percentiles of the whole, and stand apart from them."""
    if not times.total:
        return None
    p50, p999 = times.percentiles([50.0, 99.9])
    tail = format_ns(p999) if times.total >= hdr.fewest(99.9) else "—"  # too few operations
    text = f"{format_ns(p50)}, {tail}, {format_ns(times.max)}"
    if name == _WHOLE:
        return _PERCENTILES, text
    return _OF_PARTS, f"{name.removesuffix('_duration_ns').replace('_', ' ')} {text}"
