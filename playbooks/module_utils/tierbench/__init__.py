"""Provisioning of persistent memory: state → plan → one step at a time → verified end state.

Runs on the target with the standard library alone (Python 3.9 or later); ``tiers`` is a link to
the harness's own code, so that a mode is verified by what later verifies the tier.

The idea that keeps data safe: a plan is a pure function of the host's state and of what is
wanted. Only its first step is ever carried out; then the state is read anew and the plan is made
anew, with all its refusals. Nothing about the host is remembered between two steps, so a run that
was cut off at any place is simply started again, and what changed under our hands is seen.
"""
