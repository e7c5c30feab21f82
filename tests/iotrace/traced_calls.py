"""Calls of programs under the trace, and what it has counted of them."""

from harness.iotrace.page import Cell

DATA_READ = Cell("data", "read", "foreground")
DATA_WRITE = Cell("data", "write", "foreground")
DATA_SYNC = Cell("data", "sync", "foreground")
WAL_WRITE = Cell("wal", "write", "foreground")
WAL_SYNC = Cell("wal", "sync", "foreground")

OPEN = "fd = os.open({!r}, os.O_RDWR | os.O_CREAT)\n"


def counted(trace, cell, *fields):
    reading = trace.page.read()
    return tuple(reading.value(cell, field) for field in fields)
