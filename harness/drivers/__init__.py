"""Client programs of other people that offer a workload's load, so that one calibrates another.

Our own client is ``harness.loadgen``. What stands here finds somebody else's program,
writes what it wants as input, runs it under the supervisor, and reads from its words what
it measured, or why it failed.
"""
