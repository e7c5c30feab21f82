"""Charts of devices' models: durations over sizes, and throughput over a device's latency."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.models.device import GROWN, SERVICES, DeviceModel, quantile_ns
from reports.charts.curves import Curve, Plot, draw
from reports.response import PointOfCurve, ResponseCurve
from reports.sections import Drawing
from reports.values import Summary

#: What each service is called in a legend.
_NAMES = {"read": "read", "write": "write", "sync": "sync", GROWN: "sync of a file that grew"}
_OF_MODEL = (
    "Of one request at a time: medians, bars end at the 99th percentile. A sync's size is what is "
    "dirty since the last one."
)


def draw_model(model: DeviceModel) -> Drawing | None:
    """Draw the durations that a model states; None of a device on which no call waits."""
    if model.instant or not (curves := tuple(_services(model))):
        return None
    title = f"Durations of the model {model.name}"
    plot = Plot(title, "size", "bytes", "duration", "ns", curves, log=True)
    return draw(model.name, title, [plot], caption=_OF_MODEL)


def _services(model: DeviceModel) -> Iterator[Curve]:
    for service in SERVICES:
        points = tuple(
            (point.size_bytes, Summary(1, median, median, max(median, quantile_ns(point, 99))))
            for point in model.points.get(service, ())
            if (median := quantile_ns(point, 50)) > 0
        )
        if points:
            yield Curve(_NAMES[service], points)


# Response curves -----------------------------------------------------------------

_TITLE = "Throughput over the latency of a part's device (MODELLED)"
_CAPTION = (
    "Lines: tiers whose file operations take a modelled device's time, all else as today. Stars: "
    "today's device, measured. Dotted: known models. Bars: intervals."
)


def draw_curves(curves: Sequence[ResponseCurve]) -> Drawing:
    """Draw every curve in one pair of axes, with today's device and the known models."""
    latencies = [p.latency_ns for one in curves for p in one.points if p.latency_ns > 0]
    plot = Plot(
        _TITLE,
        "mean latency of the operation on the device of the part",
        "ns",
        curves[0].unit,
        "",
        tuple(curve for one in curves for curve in _curves(one)),
        x_log=False,
        linear_to=min(latencies, default=1.0),
        marks=_marks(curves),
    )
    return draw("curve", _TITLE, [plot], caption=_CAPTION)


def _curves(one: ResponseCurve) -> Iterator[Curve]:
    name = f"{one.operation} of {one.part}"
    yield Curve(name, tuple(map(_point, one.points)), name)
    yield Curve(f"{name}, today", (_point(one.today),), name, star=True)


def _point(one: PointOfCurve) -> tuple[float, Summary]:
    value = one.throughput
    return one.latency_ns, Summary(
        1, value.value, value.low or value.value, value.high or value.value
    )


def _marks(curves: Sequence[ResponseCurve]) -> dict[float, str]:
    """Names of known models by their latency, of a single curve: those of several overlap."""
    found: dict[float, str] = {}
    for name, (latency, _) in curves[0].models.items() if len(curves) == 1 else ():
        found[latency] = f"{found[latency]}, {name}" if latency in found else name
    return found
