"""The official YCSB client as driver: its core from Maven Central, bindings of our own.

``built`` with an engine's binding, it is ``run``; ``measured`` reads its result::

    build, java = built(engine.ycsb_binding(), progress), find_java()
    done = run(build, java, clients, Request(properties, 8, ramp_up_s=10, duration_s=60), …)
    measured(done, {"read"}, target=None, bounded_by_time=True).operations["read"]

How it differs from our client: docs/ycsb-client.md.
"""

from collections.abc import Mapping

from harness.drivers.ycsb.build import VERSION, Build, builds, built, check_buildable
from harness.drivers.ycsb.client import Done, run
from harness.drivers.ycsb.java import Java, find_java, find_maven
from harness.drivers.ycsb.metrics import Measured, measured
from harness.drivers.ycsb.process import Request

NAME = f"YCSB {VERSION}"
#: Marks a load for all bindings of ours: they may batch inserts.
LOADING: Mapping[str, str] = {"tierbench.loading": "true"}

__all__ = [
    "LOADING",
    "NAME",
    "VERSION",
    "Build",
    "Done",
    "Java",
    "Measured",
    "Request",
    "builds",
    "built",
    "check_buildable",
    "find_java",
    "find_maven",
    "measured",
    "run",
]
