"""Microbenchmarks: suites of memory and device measurements, run on one tier and stored.

::

    suite YAML (ours, or PerMA-Bench's) ─expand→ measurements ─fit to the host→ microbench's spec
        → program → metrics → store

A suite's run is a run like any other in the store, so lists, exports and reports have it; but
nothing is placed, restored or started as for an engine, so it has a runner of its own
(``harness.micro.runner``).
"""
