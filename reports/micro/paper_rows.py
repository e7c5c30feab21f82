"""What a row of a paper asks of a device: which quantity, of which curve, at which place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.micro.points import Device


@dataclass(frozen=True)
class Asked:
    """One row in the column of one device.

    ``paper``, ``figure``, ``arm``, ``metric``, ``x``: as in published.csv. ``others``: all
    devices of the report, with what they have of suites that repeat the figure, as ``device``.
    """

    paper: str
    figure: str
    metric: str
    arm: str
    x: str
    device: Device
    others: Sequence[Device] = ()

    @property
    def source(self) -> tuple[str, str]:
        """Paper and figure."""
        return self.paper, self.figure
