"""Parameters of the toy workload."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from harness.workloads.parameters import Outline, Parameters, parameter


@dataclass(frozen=True)
class CountingParams(Parameters):
    """Counts the rows of a table."""

    workload = "counting"
    smaller = "fewer --rows"

    rows: Annotated[int, Meta(ge=1, le=10**9)] = parameter(
        1000, help="Rows of the table.", option=True
    )
    times: Annotated[int, Meta(ge=1, le=10**6)] = parameter(
        3, help="Number of counts.", option=True
    )

    def outline(self) -> Outline:
        return Outline(cache="cold-per-run", connections=1)


PARAMS = CountingParams
