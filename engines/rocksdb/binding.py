"""RocksDB inside the official YCSB client: the Java binding (``ycsb/``) and its properties.

It uses the library and the classes of the engine's installation and the same option strings as the
native client.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from engines.rocksdb.installation import Installation
from harness.engine import Engine, YcsbBinding
from harness.errors import UsageError
from harness.store.spec import JsonObject

_PROJECT = Path(__file__).parent / "ycsb"
#: A ticker's line in the statistics; those of histograms have more fields.
_TICKER = re.compile(r"^(\S+) COUNT : (\d+)$", re.MULTILINE)
_UNITS = {"bytes": ("_bytes", 1), "micros": ("_ns", 1000), "nanos": ("_ns", 1)}


class OfficialClient(Engine):
    """RocksDB as an engine that the official client drives ."""

    _installation: Installation

    def ycsb_binding(self) -> YcsbBinding:
        """UsageError if there are no Java classes next to the library."""
        found = self._installation
        if found.classes is None:
            raise UsageError(
                f"driver ycsb on {found.title} ({found.source})",
                "this installation has no Java classes",
                "run `harness engines install rocksdb`, and omit prefix and version",
            )
        return YcsbBinding(
            _PROJECT,
            "tierbench.ycsb.RocksDbBinding",
            built_with={"rocksdb.version": found.version},
            classpath=[found.classes],
            libraries=[found.library.parent],
        )

    def ycsb_properties(
        self, connection: Mapping[str, Any], params: JsonObject
    ) -> Mapping[str, str]:
        """The members of the native client's connection, by the binding's names."""
        same = (
            "directory",
            "wal_directory",
            "row_cache_bytes",
            "sync",
            "disable_wal",
            "statistics",
            "create",
        )
        return {
            "db": self.ycsb_binding().database,
            "rocksdb.update": params["update"],
            **{f"rocksdb.{name}": _text(connection[name]) for name in same},
            **{f"rocksdb.db_option.{n}": v for n, v in connection["db_options"].items()},
            **{f"rocksdb.cf_option.{n}": v for n, v in connection["cf_options"].items()},
        }

    def ycsb_counters(
        self, reported: Mapping[str, Any]
    ) -> tuple[Mapping[str, float], Mapping[str, str]]:
        """Tickers, with the native client's names; levels and statistics as text."""
        if not reported:
            return {}, {}
        counters = dict(_tickers(reported["tickers"]))
        counters["rocksdb_pending_compaction_bytes"] = reported["pending_compaction_bytes"]
        text = {f"rocksdb_{name}": str(reported[name]) for name in ("levels", "statistics")}
        return counters, text


def _tickers(text: str) -> Iterator[tuple[str, float]]:
    for name, value in _TICKER.findall(text):
        unit, factor, words = "_count", 1, []
        parts = re.findall(r"[A-Za-z0-9]+", name)
        for number, word in enumerate(parts):
            last = number == len(parts) - 1
            if word == "size" and last:
                unit = "_bytes"
            elif word in _UNITS:
                unit, factor = _UNITS[word][0], max(factor, _UNITS[word][1])
            elif word != "count" or not last:
                words.append(word)
        yield "_".join(words) + unit, int(value) * factor


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
