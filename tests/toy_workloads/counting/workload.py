"""A toy workload: count the rows of a table.

Found by ``HARNESS_WORKLOAD_PATH=tests/toy_workloads``.
"""

from statistics import fmean
from typing import Any

from harness.experiment.placement import Part
from harness.store.result import Check, Metric
from harness.units import MIB
from harness.workload import Loading, Outcome, Session, Workload

from .params import CountingParams

_ROWS_PER_STATEMENT = 1000


class Counting(Workload[CountingParams]):
    """One table with one column."""

    name = "counting"

    def data_key(self, params: CountingParams, driver: str) -> dict[str, Any]:
        return {"rows": params.rows}

    def estimate_bytes(self, params: CountingParams, engine_format: str) -> dict[Part, int]:
        return {"data": 64 * MIB + 100 * params.rows, "wal": 64 * MIB + 100 * params.rows}

    def load(self, params: CountingParams, loading: Loading) -> dict[str, Any]:
        connection = loading.engine.connect()
        connection.execute("create table numbers (n integer)")
        for first in range(0, params.rows, _ROWS_PER_STATEMENT):
            numbers = range(first, min(first + _ROWS_PER_STATEMENT, params.rows))
            values = ", ".join(f"({number})" for number in numbers)
            connection.execute(f"insert into numbers values {values}")
        connection.close()
        return {"rows": params.rows}

    def measure(self, params: CountingParams, session: Session) -> Outcome:
        session.cold_start("count")
        connection = session.engine.connect()
        results = [connection.execute("select count(*) from numbers") for _ in range(params.times)]
        connection.close()
        durations = tuple(result.duration_ns for result in results)
        counts = {int(str(result.rows[0][0])) for result in results}
        return Outcome(
            metrics=[
                Metric("counts_per_second", "1/s", "higher", value=1e9 / fmean(durations)),
                Metric("count_duration_ns", "ns", "lower", samples=durations),
            ],
            checks=[Check("count", "passed" if counts == {params.rows} else "failed", str(counts))],
        )


WORKLOAD = Counting()
