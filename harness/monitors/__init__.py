"""Monitors sample something during the measured phase, on the monotonic clock."""
