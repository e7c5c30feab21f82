"""A tier that is modelled for the traced programs, and files on it."""

import os
import struct

from traced_calls import OPEN

from harness.iotrace.page import HEADER_BYTES, MODELS_BYTES
from harness.models import durations
from harness.models.device import DeviceModel, SizePoint
from harness.models.page_cache import PageCache
from harness.models.page_table import models_table

MIB = 1 << 20
OPEN_TABLE = OPEN.format("data/table")

#: A file on the base tier that the modelled device has, and its page cache has not.
STORED = OPEN_TABLE + "os.truncate(fd, 1 << 20)\n"

#: On the page: requested and done ns, whether a thread of kernel-work is there, and by how many ns
#: it was late.
WORK = struct.Struct("<QQI20xQ16x")
URGENT, ORDINARY, ORDINARY_READS = range(3)
PROCESSOR, _PROCESSORS = min(os.sched_getaffinity(0)), 512


def place_of_work(urgency):
    """Return where the work on PROCESSOR is."""
    return HEADER_BYTES + MODELS_BYTES + (urgency * _PROCESSORS + PROCESSOR) * WORK.size


def constant(**points_us):
    """Each operation takes that many microseconds."""
    return {
        name: (SizePoint(4096, durations.constant(duration * 1000)),)
        for name, duration in points_us.items()
    }


def use(trace, model, size_bytes=None, available=1 << 40, parts=("data", "wal")):
    """``size_bytes``: of the page cache; ``available``: a fifth of it may be dirty."""
    models = dict.fromkeys(parts, model)
    tiers = dict.fromkeys(parts, "fast")
    cache = PageCache(size_bytes, available // 10, available // 5, 30_000_000_000)
    trace.page.model(models_table(models, tiers, cache))


def buffered(**points_us):
    return DeviceModel("disk", "", "published", points=constant(**points_us))
