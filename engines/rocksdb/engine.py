"""RocksDB as an engine: a library inside the client that offers the load.

Layout, the same for every placement, so that only the devices differ::

    <data>/rocksdb     the database directory: its tables, MANIFEST, OPTIONS, LOG
    <wal>/rocksdb      wal_dir: the write-ahead log

A dataset contains the two as ``data`` and ``wal``. The only location in them is ``wal_dir`` in the
OPTIONS file, which is rewritten. RocksDB has no temporary files, and its indexes are inside its
tables.

Inside the official YCSB client, a Java binding (``ycsb/``) uses the library and the classes of the
engine's installation and the same option strings as the native client.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from engines._installation import check_reachable
from engines._loading import verify_counts
from engines._settings import choice_of
from engines._thread_waits import ThreadObserver
from engines.rocksdb.background import background_tasks, write_back_warnings
from engines.rocksdb.installation import (
    OptionsFile,
    choose,
    parse_options,
    row_cache_of,
)
from engines.rocksdb.options import (
    ROW_CACHE,
    Options,
    differing,
    read_settings,
    settings_of_file,
)
from harness.copytree import copy_tree, make_durable, move_tree
from harness.engine import (
    DataDirectories,
    Engine,
    EngineContext,
    EngineFactory,
    EngineKind,
    EngineOptions,
    EngineVersion,
    FileSettings,
    FillRequest,
    ProcessId,
    TaskTimes,
    YcsbBinding,
)
from harness.errors import RunFailed, UsageError
from harness.experiment.placement import Part
from harness.store.spec import JsonObject
from harness.supervise.process import alive, send_signal
from harness.supervise.user_files import acting_as, make_directory, read_text, write_text
from harness.warnings import RunWarning

_FOLDER = "rocksdb"
_OPTIONS = "OPTIONS-[0-9]*"
_LOG, _LOGS = "LOG", "LOG*"
_WAL_DIR = re.compile(r"^(\s*wal_dir=).*$", re.MULTILINE)
#: YCSB's parameter ``update`` → call of the native client.
_UPDATES = {
    "blind": "put :key :record",
    "read-modify-write": "modify :key :change",
    "merge": "merge :key :change",
}
_WORKLOADS = ("ycsb",)
_PROJECT = Path(__file__).parent / "ycsb"
#: A ticker's line in the statistics; those of histograms have more fields.
_TICKER = re.compile(r"^(\S+) COUNT : (\d+)$", re.MULTILINE)
_UNITS = {"bytes": ("_bytes", 1), "micros": ("_ns", 1000), "nanos": ("_ns", 1)}
#: A wall clock that was set by more than this meanwhile cannot date the log's events.
_CLOCK_SET_NS = 50_000_000
#: Hours of flushes and compactions.
_MOST_LOG_BYTES = 256 << 20


class RocksDb(Engine):
    """One database directory, for one client process at a time."""

    name = "rocksdb"
    kind: EngineKind = "embedded"
    inside_client = True
    native_backend = "rocksdb"
    traced = True
    supported_parts: frozenset[Part] = frozenset({"data", "wal", "memory"})
    #: Flushes and compactions.
    background_threads = ("thread=rocksdb:",)
    durability_settings = ("disable_wal", "manual_wal_flush", "sync")
    _directories: DataDirectories

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._user = context.credentials
        self._installation = choose(context.options, context.engines_prefix)
        self._options = read_settings(self._installation, context.settings)
        self._statistics = choice_of(
            context.options, "statistics", ("on", "off", "true", "false")
        ) in ("on", "true")
        check_reachable("RocksDB", self._installation.library.parent)
        self._loading = False
        self._client: ProcessId | None = None
        #: Wall clock less monotonic clock, as the last client started.
        self._clock_ahead_ns = 0
        #: The OPTIONS files from before a client of this run opened the database.
        self._older: frozenset[Path] = frozenset()

    def unmodelled(self, part: str) -> tuple[str, str] | None:
        for name in ("allow_mmap_reads", "allow_mmap_writes"):
            if part != "wal" and self._options.flat().get(name) == "true":
                return f"RocksDB maps its files ({name}=true)", f"leave out {name}"
        return None

    def version(self) -> EngineVersion:
        """Release, revision and a digest of the library."""
        return self._installation

    @property
    def library(self) -> Path:
        """The shared library that clients open."""
        return self._installation.library

    def format_options(self) -> Mapping[str, str]:
        """Options that decide the files and levels that a load leaves."""
        return self._options.stored()

    def initialise(self, directories: DataDirectories) -> None:
        """Make empty directories; the loading client makes the database in them.

        Until a restore, clients use the options for loading.
        """
        self._loading = True
        self._directories = directories
        for folder in (self._data, self._wal):
            make_directory(folder, self._user)

    def start(self) -> None:
        """Nothing to start: a client opens the database."""
        if self._running():
            raise RuntimeError("a client has the database open")

    def stop(self) -> None:
        """Verify the options that the client used; RunFailed if it has not closed the database."""
        if self._running():
            raise RunFailed("close the RocksDB database", f"its client {self._client} still runs")
        if self._client is not None:
            self._client = None
            self._verify()

    def kill(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            send_signal(client, signal.SIGKILL)

    def host(self, process: ProcessId) -> None:
        """One client at a time: RocksDB locks the directory."""
        if self._running():
            raise RunFailed(
                "open the RocksDB database in a second process",
                f"process {self._client} has it open",
                "use one client process with more threads",
            )
        self._client = process
        self._clock_ahead_ns = _clock_ahead_ns()

    def effective_config(self) -> Mapping[str, str]:
        """The OPTIONS file of the last opening, and options that are not in it."""
        file = self._options_file()
        config = file.options() if file else self._options.flat()
        config.pop("merge_operator", None)  # the client's own
        used = self._used()
        if used.block_cache_bytes is not None:
            config["block_cache"] = str(used.block_cache_bytes)
        return {
            **config,
            ROW_CACHE: str(used.row_cache_bytes),
            "sync": _text(used.sync),
            "disable_wal": _text(used.disable_wal),
            "statistics": _text(self._statistics),
        }

    def processes(self) -> Sequence[ProcessId]:
        return [self._client] if self._client is not None and self._running() else []

    def files(self) -> Sequence[Path]:
        return [self._data, self._wal]

    def snapshot(self, dataset: Path) -> None:
        """Move (copy across file systems) both directories to ``dataset``, without info logs."""
        with acting_as(self._user):
            for path in self._data.glob(_LOGS):
                path.unlink()
        for folder, name in self._dataset_names().items():
            move_tree(folder, dataset / name, self._user)
        make_durable(dataset)

    def restore(self, dataset: Path, directories: DataDirectories) -> None:
        self._loading = False
        self._directories = directories
        for folder, name in self._dataset_names().items():
            copy_tree(dataset / name, folder, writer=self._user)
        self._older = frozenset(self._option_files())
        for path in self._older:
            text = read_text(path, self._user)
            moved = _WAL_DIR.sub(lambda match: f"{match[1]}{self._wal}", text)
            write_text(path, moved, self._user)

    def wait_observer(self) -> ThreadObserver:
        """System calls of the native client's threads, which execute the operations.

        Such a thread sleeps where RocksDB delays writes until a memtable is flushed, and sleeps
        until a time where that of its next operation has not come.
        """
        return ThreadObserver(
            self.processes,
            foreground=lambda name: name == "loadgen-worker",
            is_log=lambda path: path.endswith(".log"),
            idle=frozenset({"poll", "recv", "send", "sleep until"}),
        )

    def background_tasks(self) -> TaskTimes:
        """Flushes and compactions, from the info log of the last opening."""
        ahead_ns = _clock_ahead_ns()
        if abs(ahead_ns - self._clock_ahead_ns) > _CLOCK_SET_NS:
            return {}
        try:
            log = read_text(self._data / _LOG, self._user, _MOST_LOG_BYTES)
        except OSError:
            return {}
        if len(log.encode()) >= _MOST_LOG_BYTES:  # its last jobs would have no end
            return {}
        return background_tasks(log, ahead_ns, time.monotonic_ns())

    def lost_without_power(self) -> Mapping[str, str]:
        if self._options.disable_wal:
            return {"disable_wal=true": "writes are only in memory until a memtable is flushed"}
        risks = {}
        if self._options.flat().get("manual_wal_flush") == "true":
            risks["manual_wal_flush=true"] = "writes are acknowledged before their log is written"
        if not self._options.sync:
            risks["sync=false"] = "writes are acknowledged before their log is forced to the device"
        return risks

    def write_back_warnings(
        self, ramp_up: Mapping[str, float], window: Mapping[str, float], window_ns: int
    ) -> Iterable[RunWarning]:
        return write_back_warnings(window)

    def native_connection(self) -> JsonObject:
        """Library, directories and options, for the native client and for one in Java.

        ``options``: all of them, as text that RocksDB parses; ``db_options`` and ``cf_options``:
        the same in two parts. ``classes``: folder of the Java classes, or None.
        ``row_cache_bytes``: 0: no row cache.
        """
        used = self._used()
        classes = self._installation.classes
        return {
            "library": str(self._installation.library),
            "classes": str(classes) if classes else None,
            "directory": str(self._data),
            "wal_directory": str(self._wal),
            "options": {**used.database, **used.of_family()},
            "db_options": dict(used.database),
            "cf_options": used.of_family(),
            "row_cache_bytes": used.row_cache_bytes,
            "sync": used.sync,
            "disable_wal": used.disable_wal,
            "statistics": self._statistics,
            "create": self._loading,
        }

    def native_calls(self, workload: str, params: JsonObject) -> Mapping[str, str | Sequence[str]]:
        """The calls of the native back end."""
        if workload not in _WORKLOADS:
            raise UsageError(
                f"{workload} on RocksDB",
                "RocksDB is a key-value store, without SQL",
                f"run {', '.join(_WORKLOADS)}, or use another engine",
            )
        update = _UPDATES[str(params["update"])]
        return {
            "read": "get :key",
            "update": update,
            "insert": "put :key :record",
            "scan": "scan :key :length",
        }

    def native_load(self, request: FillRequest) -> None:
        """The client fills the empty database and compacts it; row counts verified."""
        verify_counts(request.fill(self.native_connection()), request.row_counts, "load again")

    def ycsb_binding(self) -> YcsbBinding:
        """UsageError if there are no Java classes next to the library."""
        installation = self._installation
        if installation.classes is None:
            raise UsageError(
                f"driver ycsb on {installation.title} ({installation.source})",
                "this installation has no Java classes",
                "run `harness engines install rocksdb`, and omit prefix and version",
            )
        return YcsbBinding(
            _PROJECT,
            "tierbench.ycsb.RocksDbBinding",
            built_with={"rocksdb.version": installation.version},
            classpath=[installation.classes],
            libraries=[installation.library.parent],
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

    @property
    def _data(self) -> Path:
        return self._directories["data"] / _FOLDER

    @property
    def _wal(self) -> Path:
        return self._directories["wal"] / _FOLDER

    def _dataset_names(self) -> dict[Path, str]:
        return {self._data: "data", self._wal: "wal"}

    def _used(self) -> Options:
        """The options of the run, or those for loading: only options in the dataset's key, and no
        WAL, since a load ends with a flush.
        """
        if not self._loading:
            return self._options
        settings = {
            "max_background_jobs": str(max(2, self._context.threads)),
            **self.format_options(),
            "disable_wal": "true",
        }
        return read_settings(self._installation, settings)

    def _running(self) -> bool:
        return self._client is not None and alive(self._client)

    def _options_file(self) -> OptionsFile | None:
        """The OPTIONS file of the last opening by a client of this run."""
        new = sorted(set(self._option_files()) - self._older)
        return parse_options(read_text(new[-1], self._user), str(new[-1])) if new else None

    def _option_files(self) -> list[Path]:
        with acting_as(self._user):
            return list(self._data.glob(_OPTIONS))

    def _verify(self) -> None:
        file = self._options_file()
        if file is None:
            raise RunFailed(
                "run RocksDB with the requested options",
                f"it wrote no OPTIONS file to {self._data}, so its options are unknown",
            )
        options = file.options()
        if self._used().row_cache_bytes:
            options[ROW_CACHE] = self._row_cache_size()
        changed = differing(self._used().flat(), options)
        if Path(options.get("wal_dir", "")) != self._wal:
            changed.append(f"wal_dir={self._wal} would be {options.get('wal_dir', 'that of data')}")
        if changed:
            raise RunFailed("run RocksDB with the requested options", "; ".join(changed))

    def _row_cache_size(self) -> str:
        """Bytes at the last opening, or that they are unknown."""
        log = self._data / _LOG
        try:
            size = row_cache_of(read_text(log, self._user))
        except FileNotFoundError:
            size = None
        return f"unknown from {log}" if size is None else str(size)


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


def _clock_ahead_ns() -> int:
    return time.time_ns() - time.monotonic_ns()


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _settings_of_file(options: EngineOptions, engines_prefix: Path) -> FileSettings:
    if (named := options.get("options_file")) is None:
        return FileSettings()
    return settings_of_file(Path(str(named)), choose(options, engines_prefix))


ENGINE = EngineFactory(
    name="rocksdb",
    title="RocksDB",
    kinds=("embedded",),
    options={
        "options_file": "a RocksDB OPTIONS file: overrides the tuning profile; --set overrides it",
        "prefix": "folder of the RocksDB to use (it contains lib/librocksdb.so)",
        "version": "release to use, such as 11 or 7.8.3 (default: the pinned one)",
        "statistics": "off: no tickers, which cost a little per operation [on]",
    },
    workloads=_WORKLOADS,
    placeable=RocksDb.supported_parts,
    not_placeable={
        "index": "its indexes are inside its tables",
        "relations": "it has one column family, whose files have all keys",
        "temp": "it has no temporary files: compactions write new tables next to the old ones",
    },
    make=RocksDb,
    installation=choose,
    settings_of_file=_settings_of_file,
)
