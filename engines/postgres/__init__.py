"""PostgreSQL: managed (our own directory and server process) or external (a DSN)."""
