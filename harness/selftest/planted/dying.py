"""A monitor that dies under way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from harness.monitors import Monitor


class Dying(Monitor):
    """Starts, and has nothing but an error afterwards."""

    name: ClassVar[str] = "dying"
    cost: ClassVar[str] = "none"
    default: ClassVar[bool] = False

    def stop(self) -> None:
        """It has died."""
        raise RuntimeError("planted")

    def series(self) -> Mapping[str, Any]:
        return {}


MONITOR = Dying
