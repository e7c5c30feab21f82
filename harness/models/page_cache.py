"""The memory of a modelled page cache, and how much of it may be dirty.

Linux starts to write dirty pages back above one limit and makes writers wait above another
(mm/page-writeback.c). Both are shares of the memory that can be dirty: what the host's own
processes leave of it, or, where a control group of version 2 limits memory, what its processes
leave of that limit. A limit of version 1 has no dirty limits of its own: there the host's hold.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.tiers.linux.kernel import LIVE, Kernel

#: Linux's own, where /proc/sys/vm cannot be read.
_BACKGROUND_PERCENT, _THROTTLE_PERCENT, _EXPIRE_CENTISECONDS = 10, 20, 3000


@dataclass(frozen=True)
class PageCache:
    """``size_bytes``: pages that may be resident (None: no limit).

    ``background_bytes``: dirty bytes above which write-back begins; ``throttle_bytes``: above
    which a writer waits; ``expire_ns``: age of dirty pages at which write-back takes them.
    """

    size_bytes: int | None
    background_bytes: int
    throttle_bytes: int
    expire_ns: int


def page_cache(
    host_bytes: int,
    own_bytes: int,
    limit_bytes: int | None = None,
    group_has_dirty_limits: bool = False,
    kernel: Kernel = LIVE,
) -> PageCache:
    """Return the page cache of an engine whose own memory is ``own_bytes``.

    ``host_bytes``: the host's memory. ``limit_bytes``: of the engine's control group;
    ``group_has_dirty_limits``: that group is of version 2.
    """
    left = None if limit_bytes is None else max(0, limit_bytes - own_bytes)
    of_host = max(0, host_bytes - own_bytes)
    available = left if left is not None and group_has_dirty_limits else of_host

    def limit(name: str, default_percent: int) -> int:
        if stated := kernel.read_int(f"/proc/sys/vm/dirty_{name}bytes"):
            return stated * available // max(1, of_host)
        percent = kernel.read_int(f"/proc/sys/vm/dirty_{name}ratio")
        return available * (default_percent if percent is None else percent) // 100

    throttle = limit("", _THROTTLE_PERCENT)
    background = limit("background_", _BACKGROUND_PERCENT)
    expire = kernel.read_int("/proc/sys/vm/dirty_expire_centisecs")
    return PageCache(
        left,
        background if background < throttle else throttle // 2,
        throttle,
        (_EXPIRE_CENTISECONDS if expire is None else expire) * 10_000_000,
    )
