"""Extensions that fail on purpose: a folder for ``$HARNESS_MONITOR_PATH``."""
