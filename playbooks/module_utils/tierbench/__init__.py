"""Provisioning of persistent memory: state → changes → one step at a time → verified end state.

Runs on the target with the standard library alone (Python 3.9 or later). A mode is verified by the
harness's own code for tiers (linux.py).

The idea that keeps data safe: the list of changes is a pure function of the host's state and the
desired state. Only its first step is carried out; then the state is read and the list computed
again, with all refusals. No state is kept between two steps, so an interrupted run is simply
restarted, and changes by others are noticed.
"""
