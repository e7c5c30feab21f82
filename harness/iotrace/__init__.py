"""The I/O trace: file I/O of an engine's processes by part, operation and role (docs/io-trace.md).

``libiotrace.so`` (``iotrace/``, C) is preloaded into the processes and counts in a shared page.
"""
