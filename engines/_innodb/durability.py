"""Settings of MySQL and MariaDB by which a loss of power may take acknowledged commits.

What is not forced to the device by then is in the page cache, or in the device's own one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

_UNSYNCED = (
    "pages are written without fsync: a device with a volatile cache may lose some whose log "
    "a checkpoint has given up"
)
#: What innodb_flush_method leaves out; the others force log and pages.
_FLUSH_METHODS = {
    "o_direct_no_fsync": _UNSYNCED,
    "littlesync": _UNSYNCED,
    "nosync": "nothing that is written is forced to the device",
}


def lost_without_power(variables: Mapping[str, str]) -> dict[str, str]:
    """``setting=value`` → what follows; ``variables``: the server's global ones."""
    found = {name: value for name, value in variables.items() if value}
    return {f"{name}={found[name]}": meaning for name, meaning in _risks(found)}


def _risks(variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    def value(name: str) -> str:
        return variables.get(name, "").lower()

    # MariaDB's 3 forces the log as 1 does.
    flushed = value("innodb_flush_log_at_trx_commit")
    if flushed == "0":
        yield (
            "innodb_flush_log_at_trx_commit",
            "commits are acknowledged before their log is written",
        )
    if flushed == "2":
        yield (
            "innodb_flush_log_at_trx_commit",
            "commits are acknowledged before their log is forced to the device",
        )
    # With a binary log recovery goes by it: what it lacks is rolled back.
    if value("log_bin") in ("on", "1") and value("sync_binlog") not in ("1", ""):
        yield (
            "sync_binlog",
            "commits are acknowledged before the binary log is forced to the device",
        )
    if (method := value("innodb_flush_method")) in _FLUSH_METHODS:
        yield "innodb_flush_method", _FLUSH_METHODS[method]
    doublewrite = value("innodb_doublewrite")
    if doublewrite in ("off", "0", "detect_only"):
        yield "innodb_doublewrite", "pages that are half written then cannot be repaired"
    if doublewrite == "fast":  # MariaDB
        yield "innodb_doublewrite", _UNSYNCED
