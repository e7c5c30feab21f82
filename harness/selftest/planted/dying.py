"""A monitor that dies under way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from harness.monitors import MonitorContext
from harness.warnings import RunWarning


class Dying:
    """Starts, and has nothing but an error afterwards."""

    name: ClassVar[str] = "dying"
    cost: ClassVar[str] = "none"
    default: ClassVar[bool] = False
    scope: ClassVar[Literal["engine", "host"]] = "host"

    def __init__(self, context: MonitorContext) -> None:
        pass

    def preflight(self) -> RunWarning | None:
        """Nothing is known beforehand."""
        return None

    def start(self) -> None:
        """As any other."""

    def stop(self) -> None:
        """It has died."""
        raise RuntimeError("planted")

    def totals(self) -> Mapping[str, float]:
        """Nothing."""
        return {}

    def series(self) -> Mapping[str, Any]:
        """Nothing."""
        return {}


MONITOR = Dying
