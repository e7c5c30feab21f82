"""RocksDB's options: their names and values checked by the library itself, and their text.

Settings are RocksDB's own names, without their section, as OPTIONS files have them:
``write_buffer_size`` and ``max_background_jobs`` as well as ``block_size`` of the table.
Beside them stand ``sync`` and ``disable_wal``, which RocksDB is told with every write, and
``row_cache``, an object that its options can hold and their text cannot name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from engines.rocksdb.installation import Installation, ask
from engines.rocksdb.optionsfile import DB, FAMILY, TABLE, OptionsFile
from harness.errors import UsageError, nearest

#: Options of every write, and what RocksDB has them at.
WRITES: Mapping[str, bool] = {"sync": False, "disable_wal": False}
#: Size of the cache of whole rows, asked before the block cache; 0: there is none.
ROW_CACHE = "row_cache"
#: The native client reads sizes as signed numbers, and so does Java.
_MOST_BYTES = 2**63 - 1
#: Taken by the library, and not among what it writes to OPTIONS files, or only where it is set.
_CACHE = "block_cache"
_UNWRITTEN: Mapping[str, str] = {_CACHE: TABLE, "compression_per_level": FAMILY}
_TABLE_OPTION = "block_based_table_factory"
#: What the harness decides: where things lie, what records are made of, how it is opened.
_FIXED = frozenset(
    {
        "wal_dir",
        "db_log_dir",
        "db_paths",
        "cf_paths",
        "create_if_missing",
        "error_if_exists",
        "create_missing_column_families",
        "merge_operator",
        "comparator",
        "table_factory",
        "env",
        "statistics",
        "compaction_filter",
        "compaction_filter_factory",
        "persist_stats_to_disk",
        "db_host_id",
        "disallow_memtable_writes",
        "persist_user_defined_timestamps",
    }
)
#: What decides the files that a load leaves and their order in levels, beside the table's.
_STORED = frozenset(
    {
        "blob_compression_opts",
        "blob_compression_type",
        "blob_file_size",
        "blob_file_starting_level",
        "bottommost_compression",
        "bottommost_compression_opts",
        "compaction_options_fifo",
        "compaction_options_universal",
        "compaction_style",
        "compression",
        "compression_manager",
        "compression_opts",
        "compression_per_level",
        "enable_blob_files",
        "level0_file_num_compaction_trigger",
        "level_compaction_dynamic_level_bytes",
        "max_bytes_for_level_base",
        "max_bytes_for_level_multiplier",
        "max_bytes_for_level_multiplier_additional",
        "max_compaction_bytes",
        "min_blob_size",
        "num_levels",
        "optimize_filters_for_hits",
        "prefix_extractor",
        "target_file_size_base",
        "target_file_size_multiplier",
    }
)
#: Of the table's options those that only say how files are read.
_READING = frozenset(
    {
        "block_cache",
        "cache_index_and_filter_blocks",
        "cache_index_and_filter_blocks_with_high_priority",
        "initial_auto_readahead_size",
        "max_auto_readahead_size",
        "metadata_cache_options",
        "no_block_cache",
        "num_file_reads_for_auto_readahead",
        "pin_l0_filter_and_index_blocks_in_cache",
        "pin_top_level_index_and_filter",
        "prepopulate_block_cache",
        "read_amp_bytes_per_bit",
        "verify_compression",
    }
)
#: Some file systems of temporary files have no direct I/O.
_DIRECT, _FILE_SYSTEM = "use_direct_", "IO error"
_TRUTHS = {"on": "true", "off": "false", "true": "true", "false": "false"}
_WHOLE_SIZE = re.compile(r"\d+[kKmMgGtT]?")
_SUFFIXES = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@dataclass(frozen=True)
class Options:
    """``database``, ``family``, ``table``: options by name, as texts that RocksDB parses.

    ``usual``: what the library has them at where nothing is said. ``block_cache_bytes``: as it
    was read back; None: there is none. ``row_cache_bytes``: 0: there is none.
    """

    database: Mapping[str, str]
    family: Mapping[str, str]
    table: Mapping[str, str]
    sync: bool
    disable_wal: bool
    usual: Mapping[str, str] = field(repr=False)
    block_cache_bytes: int | None = None
    row_cache_bytes: int = 0

    def of_family(self) -> dict[str, str]:
        """With the table's as the one option that they are then."""
        inner = "".join(f"{name}={value};" for name, value in self.table.items())
        return {**self.family, **({_TABLE_OPTION: f"{{{inner}}}"} if inner else {})}

    def flat(self) -> dict[str, str]:
        """All of RocksDB's by their plain names."""
        rows = {ROW_CACHE: str(self.row_cache_bytes)} if self.row_cache_bytes else {}
        return {**self.database, **self.family, **self.table, **rows}

    def text(self) -> str:
        """As rocksdb_get_options_from_string takes them."""
        return ";".join(f"{k}={v}" for k, v in {**self.database, **self.of_family()}.items())

    def stored(self) -> dict[str, str]:
        """Those that decide what a load leaves, where they are not as they usually are."""
        deciding = {k: v for k, v in self.family.items() if k in _STORED}
        deciding |= {k: v for k, v in self.table.items() if k not in _READING}
        return {k: v for k, v in sorted(deciding.items()) if not same(v, self.usual.get(k, ""))}


def read_settings(installation: Installation, settings: Mapping[str, str]) -> Options:
    """UsageError for a name that this RocksDB does not know, or a value it does not take."""
    title = f"RocksDB {installation.version}"
    usual = _usual(installation)
    writes = {name: _truth(title, name, settings.get(name)) for name in WRITES}
    parts: dict[str, dict[str, str]] = {DB: {}, TABLE: {}, "": {}}
    homes = {name: section for section, part in usual.sections.items() for name in part}
    homes |= _UNWRITTEN
    for name, value in settings.items():
        if name in WRITES or name == ROW_CACHE:
            continue
        _check_name(title, name, value, homes)
        part = parts[homes[name] if homes[name] in parts else ""]
        part[name] = _whole_size(value) if name == _CACHE else _TRUTHS.get(value, value)
    if parts[TABLE].get("no_block_cache", "false") != "false":
        raise UsageError(  # 11.8.1: hits of a cache, whose size it then no longer tells
            f"{title}: no_block_cache={parts[TABLE]['no_block_cache']}",
            "RocksDB keeps its block cache nevertheless where options are given as text",
            "write block_cache=0",
        )
    found = Options(
        parts[DB],
        parts[""],
        parts[TABLE],
        writes["sync"],
        writes["disable_wal"],
        usual.options(),
        row_cache_bytes=_row_cache(title, settings.get(ROW_CACHE, "0")),
    )
    if found.sync and found.disable_wal:
        raise UsageError(
            f"{title}: sync with disable_wal", "there is no WAL to sync then", "leave one out"
        )
    return replace(found, block_cache_bytes=_checked(title, installation.library, found))


def settings_of_file(file: OptionsFile, path: Path) -> dict[str, str]:
    """What an OPTIONS file says, as settings; what the harness decides is left out.

    UsageError where the file's database kept its records in another way than ours, and for a
    line that RocksDB itself would not read.
    """
    found = file.options()
    if ROW_CACHE in found:
        raise UsageError(
            f"{path}:{file.lines[ROW_CACHE]}",
            f"{ROW_CACHE}: no OPTIONS file of RocksDB has it",
            f"take the line out, and say --set {ROW_CACHE}=SIZE",
        )
    for name, ours in (
        ("comparator", "leveldb.BytewiseComparator"),
        ("table_factory", "BlockBasedTable"),
    ):
        if found.get(name, ours) != ours:
            raise UsageError(
                f"{path}:{file.lines[name]}",
                f"{name}={found[name]} is not supported",
                f"take the line out for RocksDB's own {ours}",
            )
    return {name: value for name, value in found.items() if name not in _FIXED}


def differing(asked: Mapping[str, str], taken: Mapping[str, str]) -> list[str]:
    """Options that RocksDB has at another value than was asked for, in words."""
    return [
        f"{name}={value} would be {taken[name]}"
        for name, value in asked.items()
        if name in taken and not same(value, taken[name])
    ]


def same(one: str, other: str) -> bool:
    """Whether two texts are the same value: 64K and 65536, 10 and 10.000000."""
    return _plain(one) == _plain(other)


def _plain(text: str) -> str | float | frozenset[str]:
    lower = text.strip().lower()
    if lower.startswith("{"):
        return frozenset(filter(None, lower.strip("{}").split(";")))
    factor = _SUFFIXES.get(lower[-1:], 0)
    try:
        return float(lower[:-1]) * factor if factor else float(lower)
    except ValueError:
        return text.strip()


def _whole_size(text: str) -> str:
    """Bytes, so that nobody after us has to understand a suffix."""
    factor = _SUFFIXES.get(text[-1].lower(), 0)
    return str(int(text[:-1]) * factor if factor else int(text))


def _check_size(title: str, name: str, value: str) -> None:
    if not _WHOLE_SIZE.fullmatch(value):
        raise UsageError(  # RocksDB reads as far as it understands: 0.5G would be no cache
            f"{title}: option {name}={value}",
            "not a whole number of bytes, K, M or G",
            "write 67108864 or 64M",
        )


def _row_cache(title: str, value: str) -> int:
    _check_size(title, ROW_CACHE, value)
    if (size := int(_whole_size(value))) > _MOST_BYTES:
        raise UsageError(
            f"{title}: option {ROW_CACHE}={value}",
            "more bytes than can be counted",
            "give it a part of the memory",
        )
    return size


def _usual(installation: Installation) -> OptionsFile:
    found = ask(installation.library).options
    if found is None:
        raise UsageError(
            f"options of RocksDB {installation.version}",
            "it writes no OPTIONS file",
            "name another installation with the engine option 'prefix'",
        )
    return found


def _truth(title: str, name: str, value: str | None) -> bool:
    if value is None:
        return WRITES[name]
    if value not in _TRUTHS:
        raise UsageError(
            f"{title}: setting {name}={value}", "neither true nor false", "write one of them"
        )
    return _TRUTHS[value] == "true"


def _check_name(title: str, name: str, value: str, homes: Mapping[str, str]) -> None:
    if name in _FIXED:
        raise UsageError(
            f"{title}: option {name}",
            "decided by the harness (places, records, opening)",
            "leave it out; the placement says where the parts lie",
        )
    if name == _TABLE_OPTION:
        raise UsageError(
            f"{title}: option {name}",
            "the table's options are given by their own names",
            "write block_size=…, say",
        )
    if name not in homes:
        known = [*homes, *WRITES, ROW_CACHE]
        raise UsageError(
            f"{title}: option {name}",
            f"no such option{nearest(name, known)}",
            f"names are those of RocksDB's OPTIONS files, and {ROW_CACHE}, sync, disable_wal",
        )
    if name == _CACHE:
        _check_size(title, name, value)
    depth = 0
    for character in value:
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth < 0 or (character == ";" and not depth) or character in "\r\n":
            depth = -1
            break
    if depth:
        raise UsageError(
            f"{title}: option {name}={value}", "not one value", "put several in {braces}"
        )


def _checked(title: str, library: Path, options: Options) -> int | None:
    """The library opens an empty database with them: by its own rules, and reads them back.

    Returns the size of the block cache that it then has.
    """
    rows = options.row_cache_bytes
    answer = ask(library, options.text(), rows)
    if answer.error.startswith(_FILE_SYSTEM):  # where it was tried, not where the data will lie
        indirect = {k: v for k, v in options.database.items() if not k.startswith(_DIRECT)}
        options = replace(options, database=indirect)
        answer = ask(library, options.text(), rows)
    if answer.error:
        raise UsageError(
            f"options for {title}", answer.error, "correct the value, or leave the option out"
        )
    taken = answer.options.options() if answer.options else {}
    if answer.block_cache_bytes is not None:
        taken[_CACHE] = str(answer.block_cache_bytes)
    if answer.row_cache_bytes is not None:
        taken[ROW_CACHE] = str(answer.row_cache_bytes)
    untold = sorted(name for name, v in options.flat().items() if v and name not in taken)
    if ROW_CACHE in untold:
        raise UsageError(
            f"options for {title}: {ROW_CACHE}",
            "it tells of it in its info log alone, and it has written none",
            "leave info_log_level at INFO_LEVEL",
        )
    if untold:
        raise UsageError(
            f"options for {title}",
            f"it does not tell {', '.join(untold)} back",
            "leave them out: nobody would know with what it runs",
        )
    if changed := differing(options.flat(), taken):
        raise UsageError(
            f"options for {title}",
            "; ".join(changed),
            "ask for what it would be, so that the run is the one that was asked for",
        )
    return answer.block_cache_bytes
