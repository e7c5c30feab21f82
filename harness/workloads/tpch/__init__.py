"""TPC-H-derived decision support: 22 queries over eight tables (TPC-H 3.0.1).

Results are not TPC-H results: nothing here was audited, and neither the refresh
functions nor the throughput test belong to it.
"""

from harness.workloads.tpch.workload import Tpch

WORKLOAD = Tpch()
