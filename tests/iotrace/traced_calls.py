"""Calls of programs under the trace, and what it has counted of them."""

from harness.iotrace.page import CounterCell

DATA_READ = CounterCell("data", "read", "foreground")
DATA_WRITE = CounterCell("data", "write", "foreground")
DATA_SYNC = CounterCell("data", "sync", "foreground")
WAL_WRITE = CounterCell("wal", "write", "foreground")
WAL_SYNC = CounterCell("wal", "sync", "foreground")

OPEN = "fd = os.open({!r}, os.O_RDWR | os.O_CREAT)\n"


def counted(trace, cell, *fields):
    reading = trace.page.read()
    return tuple(reading.value(cell, field) for field in fields)
