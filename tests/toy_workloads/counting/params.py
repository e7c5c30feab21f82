"""Parameters of the toy workload."""

from dataclasses import dataclass

from harness.workloads.parameters import Count, Outline, Parameters, parameter


@dataclass(frozen=True)
class CountingParams(Parameters):
    """Counts the rows of a table."""

    workload = "counting"
    smaller = "fewer --rows"

    rows: int = parameter(Count(10**9), 1000, help="Rows of the table.", option=True)
    times: int = parameter(Count(10**6), 3, help="Number of counts.", option=True)

    def outline(self) -> Outline:
        return Outline(cache="cold-per-run", connections=1)


PARAMS = CountingParams
