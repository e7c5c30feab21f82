"""VoltDB as an engine."""
