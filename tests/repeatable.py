"""Property tests whose outcome is the program's: the same examples each time, and no clock.

Hypothesis draws others in each run and refuses one that takes longer than 200 ms, or whose
examples take long to draw: luck and a busy machine would decide.
"""

from hypothesis import HealthCheck, settings

repeatable = settings(derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
