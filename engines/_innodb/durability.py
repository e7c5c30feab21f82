"""Return whether a loss of power may take acknowledged commits, by the server's variables.

Data that were not forced to the device are in the page cache or in the device's own cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

#: The variables that decide durability.
DURABILITY_SETTINGS = (
    "innodb_doublewrite",
    "innodb_flush_log_at_trx_commit",
    "innodb_flush_method",
    "log_bin",
    "sync_binlog",
)
_UNSYNCED = (
    "pages are written without fsync: a device with a volatile cache may lose pages whose log "
    "a checkpoint has discarded"
)
#: Values of innodb_flush_method that do not force log and pages.
_FLUSH_METHODS = {
    "o_direct_no_fsync": _UNSYNCED,
    "littlesync": _UNSYNCED,
    "nosync": "nothing that is written is forced to the device",
}


def lost_without_power(variables: Mapping[str, str]) -> dict[str, str]:
    """``setting=value`` → consequence; ``variables``: the server's global variables."""
    reported = {name: value for name, value in variables.items() if value}
    return {f"{name}={reported[name]}": meaning for name, meaning in _risks(reported)}


def _risks(variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    def value(name: str) -> str:
        return variables.get(name, "").lower()

    # 3 (MariaDB) forces the log as 1 does.
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
    # Recovery follows the binary log: transactions that it lacks are rolled back.
    if value("log_bin") in ("on", "1") and value("sync_binlog") not in ("1", ""):
        yield (
            "sync_binlog",
            "commits are acknowledged before the binary log is forced to the device",
        )
    if (method := value("innodb_flush_method")) in _FLUSH_METHODS:
        yield "innodb_flush_method", _FLUSH_METHODS[method]
    doublewrite = value("innodb_doublewrite")
    if doublewrite in ("off", "0", "detect_only"):
        yield "innodb_doublewrite", "torn pages cannot be repaired"
    if doublewrite == "fast":  # MariaDB
        yield "innodb_doublewrite", _UNSYNCED
