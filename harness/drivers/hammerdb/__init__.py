"""HammerDB 4.x as driver: it builds its own schema, drives it, and reports NOPM and TPM.

``find`` the program, then ``check`` that it can run here; ``target_of`` an engine says
what it is to connect to. ``build`` fills the started, empty engine; ``measure`` drives
what ``build`` has made::

    hammerdb = find()
    hammerdb.check(target.dialect, clients)
    build(hammerdb, target, clients, Build(warehouses=10, users=2), progress)
    timed = measure(hammerdb, target, clients, Timed(users=8, ramp_up_min=1, duration_min=3), …)

What HammerDB does otherwise than the specification, and than our client: docs/hammerdb.md.
"""

from harness.drivers.hammerdb.dialect import Target, drivable, target_of
from harness.drivers.hammerdb.installation import HammerDb, find
from harness.drivers.hammerdb.metrics import Measured
from harness.drivers.hammerdb.process import build, measure
from harness.drivers.hammerdb.script import Build, Timed, whole_minutes

__all__ = [
    "Build",
    "HammerDb",
    "Measured",
    "Target",
    "Timed",
    "build",
    "drivable",
    "find",
    "measure",
    "target_of",
    "whole_minutes",
]
