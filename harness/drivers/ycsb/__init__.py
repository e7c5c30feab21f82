"""The official YCSB client as driver: its core from Maven Central, bindings of our own.

``built`` with an engine's binding, it is ``run``; ``measured`` is what it saw::

    build, java = built(engine.ycsb_binding(), progress), find_java()
    done = run(build, java, clients, Asked(properties, threads=8, ramp_up_s=10, duration_s=60), …)
    measured(done, {"read"}, target=None, bounded_by_time=True).operations["read"]

What it does otherwise than our client: docs/ycsb-client.md.
"""

from collections.abc import Mapping

from harness.drivers.ycsb.build import VERSION, Build, builds, built, check_buildable
from harness.drivers.ycsb.client import Done, run
from harness.drivers.ycsb.java import Java, find_java, find_maven
from harness.drivers.ycsb.metrics import Measured, measured
from harness.drivers.ycsb.process import Asked

NAME = f"YCSB {VERSION}"
#: What tells every binding of ours that this is a load: nobody waits for a single insert.
LOADING: Mapping[str, str] = {"tierbench.loading": "true"}

__all__ = [
    "LOADING",
    "NAME",
    "VERSION",
    "Asked",
    "Build",
    "Done",
    "Java",
    "Measured",
    "builds",
    "built",
    "check_buildable",
    "find_java",
    "find_maven",
    "measured",
    "run",
]
