"""MySQL as an engine."""
