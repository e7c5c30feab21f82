"""Monitors of a run, none of which fails it."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pytest
from example_run import SPEC
from msgspec.structs import replace

from harness import registry
from harness.execution.run_monitors import RunMonitors
from harness.monitors import Monitor, MonitorContext
from harness.store.result import Metric
from harness.warnings import RunWarning


class Toy(Monitor):
    """A monitor that works, and notes what is done to it."""

    name: ClassVar[str] = "toy"
    done: ClassVar[list[str]] = []

    def start(self) -> None:
        self.done.append("start")

    def stop(self) -> None:
        self.done.append("stop")

    def totals(self) -> Mapping[str, float]:
        return {"toy_count": 1.0}

    def series(self) -> Mapping[str, Any]:
        return {"samples": []}

    def warnings(self) -> Sequence[RunWarning]:
        return [RunWarning("toy-imprecise", "imprecise", "")]


class Absent(Toy):
    """One that cannot work here."""

    name: ClassVar[str] = "absent"

    def preflight(self) -> RunWarning | None:
        return RunWarning("no-toys", "no toys", "none here")


class Optional(Toy):
    """One that must be requested."""

    name: ClassVar[str] = "optional"
    default: ClassVar[bool] = False


def _fail(*_: Any) -> Any:
    raise RuntimeError("broken")


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> dict[str, type[Toy]]:
    kinds = {kind.name: kind for kind in (Toy, Absent, Optional)}
    monkeypatch.setattr(registry, "monitors", lambda: kinds)
    Toy.done.clear()
    return kinds


@pytest.mark.parametrize(
    ("requested", "excluded", "ran", "warned"),
    [
        ((), (), ["toy"], ["toy-imprecise"]),
        (("optional",), ("toy",), ["optional"], ["toy-imprecise"]),
        (("absent",), ("toy",), [], ["no-toys"]),
    ],
)
def test_defaults_and_what_is_requested_run_where_they_can(requested, excluded, ran, warned):
    """A default monitor that cannot work is no warning; a requested one is."""
    spec = replace(SPEC, monitors=requested, no_monitors=excluded)
    monitors = RunMonitors(spec, MonitorContext())
    with monitors.running() as started:
        assert [monitor.name for monitor in started] == ran
    assert [warning.code for warning in monitors.warnings()] == warned
    assert sorted(monitors.artifacts()) == [f"monitor-{name}" for name in ran]
    assert Toy.done == ["start", "stop"] * len(ran)


@pytest.mark.parametrize(
    "function", ["__init__", "preflight", "start", "stop", "totals", "series", "warnings"]
)
def test_a_broken_monitor_leaves_a_warning_and_the_others(monkeypatch, function):
    monkeypatch.setattr(Optional, function, _fail)
    monitors = RunMonitors(replace(SPEC, monitors=("optional",)), MonitorContext())
    with monitors.running() as started:
        totals = [monitor.totals() for monitor in started]
    assert {"toy_count": 1.0} in totals
    assert monitors.artifacts()["monitor-toy"] == {"samples": []}
    (failed,) = [warning for warning in monitors.warnings() if warning.code == "monitor-failed"]
    assert failed.context == "optional: RuntimeError: broken"


@pytest.mark.parametrize("function", ["series", "metrics"])
def test_what_a_monitor_returns_and_json_cannot_express_is_left_out(monkeypatch, function):
    nothing = {"series": {"rate": math.nan}, "metrics": [Metric("x", "1", "none", value=math.inf)]}
    monkeypatch.setattr(Optional, function, lambda _: nothing[function], raising=False)
    monitors = RunMonitors(replace(SPEC, monitors=("optional",)), MonitorContext())
    with monitors.running():
        pass
    assert monitors.metrics() == []
    assert monitors.artifacts()["monitor-optional"] in ({}, {"samples": []})
    assert "monitor-failed" in [warning.code for warning in monitors.warnings()]


def test_a_failed_run_stops_its_monitors() -> None:
    with pytest.raises(KeyError), RunMonitors(SPEC, MonitorContext()).running():
        raise KeyError
    assert Toy.done == ["start", "stop"]
