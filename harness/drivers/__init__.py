"""Client programs of other people that offer a workload's load, so that one calibrates another.

``loadgen`` is the native client. The other drivers find the program, write its input, run it under
the supervisor, and parse its output: its measurements, or why it failed.
"""
