"""The chart of a device's model: how long each request takes, over its size."""

from __future__ import annotations

from collections.abc import Iterator

from harness.models.device import GROWN, SERVICES, DeviceModel
from harness.models.table import quantile_ns
from reports.charts.curves import Curve, Plot, draw
from reports.sections import Drawing
from reports.values import Summary

#: What each service is called in a legend.
_NAMES = {"read": "read", "write": "write", "sync": "sync", GROWN: "sync of a file that grew"}
_CAPTION = (
    "Of one request at a time: medians, bars end at the 99th percentile. A sync's size is what is "
    "dirty since the last one."
)


def draw_model(model: DeviceModel) -> Drawing | None:
    """Draw the durations that a model states; None of a device on which no call waits."""
    if model.instant or not (curves := tuple(_curves(model))):
        return None
    title = f"Durations of the model {model.name}"
    plot = Plot(title, "size", "bytes", "duration", "ns", curves, log=True)
    return draw(model.name, title, [plot], caption=_CAPTION)


def _curves(model: DeviceModel) -> Iterator[Curve]:
    for service in SERVICES:
        points = tuple(
            (point.size_bytes, Summary(1, median, median, max(median, quantile_ns(point, 99))))
            for point in model.points.get(service, ())
            if (median := quantile_ns(point, 50)) > 0
        )
        if points:
            yield Curve(_NAMES[service], points)
