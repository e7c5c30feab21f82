"""RocksDB's options: their text, and validation of names and values by the library itself.

Settings are RocksDB's names as in OPTIONS files, without their section: ``write_buffer_size`` and
``max_background_jobs`` as well as ``block_size`` of the table. In addition, there are ``sync`` and
``disable_wal``, which are arguments of every write, and ``row_cache``, an object that the text
format of options cannot express.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from engines._settings import SettingTable
from engines.rocksdb.installation import (
    DB,
    FAMILY,
    TABLE,
    Installation,
    OptionsFile,
    ask,
    read_options_file,
)
from harness.engine import FileSettings
from harness.errors import UsageError, nearest
from harness.units import suffixed_number
from harness.warnings import RunWarning

#: Options of every write, with RocksDB's defaults.
WRITES: Mapping[str, bool] = {"sync": False, "disable_wal": False}
#: Size of the cache of whole rows, used before the block cache; 0: none.
ROW_CACHE = "row_cache"
#: The native client and Java read sizes as signed numbers.
_MOST_BYTES = 2**63 - 1
#: Options that the library accepts but does not write to OPTIONS files, or only if they are set.
_CACHE = "block_cache"
_UNWRITTEN: Mapping[str, str] = {_CACHE: TABLE, "compression_per_level": FAMILY}
_TABLE_OPTION = "block_based_table_factory"
SETTINGS = SettingTable.read(Path(__file__).parent)
#: The file system of temporary files may lack direct I/O.
_DIRECT, _FILE_SYSTEM = "use_direct_", "IO error"
_TRUTHS = {"on": "true", "off": "false", "true": "true", "false": "false"}
_WHOLE_SIZE = re.compile(r"\d+[kKmMgGtT]?")


@dataclass(frozen=True)
class Options:
    """``database``, ``family``, ``table``: options by name, as text that RocksDB parses.

    ``defaults``: the library's. ``block_cache_bytes``: as read back from the library; None: there
    is no block cache. ``row_cache_bytes``: 0: there is no row cache.
    """

    database: Mapping[str, str]
    family: Mapping[str, str]
    table: Mapping[str, str]
    sync: bool
    disable_wal: bool
    defaults: Mapping[str, str] = field(repr=False)
    block_cache_bytes: int | None = None
    row_cache_bytes: int = 0

    def of_family(self) -> dict[str, str]:
        """Options of the column family; the table's are one of them."""
        inner = "".join(f"{name}={value};" for name, value in self.table.items())
        return {**self.family, **({_TABLE_OPTION: f"{{{inner}}}"} if inner else {})}

    def flat(self) -> dict[str, str]:
        """All of RocksDB's options by their plain names."""
        rows = {ROW_CACHE: str(self.row_cache_bytes)} if self.row_cache_bytes else {}
        return {**self.database, **self.family, **self.table, **rows}

    def text(self) -> str:
        return ";".join(f"{k}={v}" for k, v in {**self.database, **self.of_family()}.items())

    def stored(self) -> dict[str, str]:
        """Options that decide what a load leaves on disk and differ from their defaults."""
        deciding = {k: v for k, v in self.family.items() if k in SETTINGS.stored}
        deciding |= {k: v for k, v in self.table.items() if k not in SETTINGS.not_stored}
        return {k: v for k, v in sorted(deciding.items()) if not same(v, self.defaults.get(k, ""))}


def read_settings(installation: Installation, settings: Mapping[str, str]) -> Options:
    """UsageError for a name that this RocksDB does not have, or a value that it rejects."""
    title = installation.title
    defaults = defaults_of(installation)
    writes = {name: _truth(title, name, settings.get(name)) for name in WRITES}
    parts: dict[str, dict[str, str]] = {DB: {}, TABLE: {}, "": {}}
    sections = sections_of(defaults)
    for name, value in settings.items():
        if name in WRITES or name == ROW_CACHE:
            continue
        _check_name(title, name, value, sections)
        part = parts[sections[name] if sections[name] in parts else ""]
        part[name] = str(suffixed_number(value)) if name == _CACHE else _TRUTHS.get(value, value)
    if parts[TABLE].get("no_block_cache", "false") != "false":
        raise UsageError(  # 11.8.1: cache hits, and the size is no longer reported
            f"{title}: no_block_cache={parts[TABLE]['no_block_cache']}",
            "RocksDB ignores it when options are text, and keeps its block cache",
            "write block_cache=0",
        )
    options = Options(
        parts[DB],
        parts[""],
        parts[TABLE],
        writes["sync"],
        writes["disable_wal"],
        defaults.options(),
        row_cache_bytes=_row_cache(title, settings.get(ROW_CACHE, "0")),
    )
    if options.sync and options.disable_wal:
        raise UsageError(
            f"{title}: sync with disable_wal", "there is no WAL to sync", "remove one of them"
        )
    return replace(options, block_cache_bytes=_checked(title, installation.library, options))


def differing(requested: Mapping[str, str], reported: Mapping[str, str]) -> list[str]:
    """Options for which RocksDB reports another value than the requested one, as text."""
    return [
        f"{name}={value} would be {reported[name]}"
        for name, value in requested.items()
        if name in reported and not same(value, reported[name])
    ]


def same(value: str, reported: str) -> bool:
    """Check that ``value`` asks for the value ``reported``: 64K for 65536, 10 for 10.000000.

    A struct keeps the members that ``value`` does not name.
    """
    requested, full = members(value), members(reported)
    if requested is None or full is None:
        numbers = [suffixed_number(text) for text in (value, reported)]
        return value.strip() == reported.strip() if None in numbers else numbers[0] == numbers[1]
    return all(name in full and same(text, full[name]) for name, text in requested.items())


def members(text: str) -> dict[str, str] | None:
    """The members of a struct ``{a=1;b={c=2;};}``, those of a list as names; None for others."""
    inner = text.strip()
    if not (inner.startswith("{") and inner.endswith("}")):
        return None
    values, depth, start = {}, 0, 0
    inner = inner[1:-1] + ";"
    for at, character in enumerate(inner):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == ";" and depth == 0:
            name, _, value = inner[start:at].partition("=")
            values[name.strip()] = value.strip()
            start = at + 1
    values.pop("", None)
    return values


def _check_size(title: str, name: str, value: str) -> None:
    if not _WHOLE_SIZE.fullmatch(value):
        raise UsageError(  # RocksDB would read 0.5G as 0, no cache
            f"{title}: option {name}={value}",
            "must be a whole number of bytes, K, M or G",
            "write 67108864 or 64M",
        )


def _row_cache(title: str, value: str) -> int:
    _check_size(title, ROW_CACHE, value)
    if (size := int(suffixed_number(value) or 0)) > _MOST_BYTES:
        raise UsageError(
            f"{title}: option {ROW_CACHE}={value}",
            f"must be <= {_MOST_BYTES} bytes",
            "set it to a part of the memory",
        )
    return size


def sections_of(defaults: OptionsFile) -> dict[str, str]:
    """The section of each option that the library has."""
    written = {name: section for section, part in defaults.sections.items() for name in part}
    return written | dict(_UNWRITTEN)


def defaults_of(installation: Installation) -> OptionsFile:
    """The options of an empty database of this library; UsageError if it writes none."""
    options = ask(installation.library).options
    if options is None:
        raise UsageError(
            f"options of {installation.title}",
            "it writes no OPTIONS file",
            "select another installation with the engine option 'prefix'",
        )
    return options


def _truth(title: str, name: str, value: str | None) -> bool:
    if value is None:
        return WRITES[name]
    if value not in _TRUTHS:
        raise UsageError(
            f"{title}: setting {name}={value}", "neither true nor false", "write one of them"
        )
    return _TRUTHS[value] == "true"


def _check_name(title: str, name: str, value: str, sections: Mapping[str, str]) -> None:
    hint = "remove it; --placement decides where the parts are"
    SETTINGS.refuse_fixed(title, {name: name}, hint)
    if name == _TABLE_OPTION:
        raise UsageError(
            f"{title}: option {name}",
            "table options are set by their own names",
            "write block_size=…, for example",
        )
    if name not in sections:
        names = [*sections, *WRITES, ROW_CACHE]
        raise UsageError(
            f"{title}: option {name}",
            f"no such option{nearest(name, names)}",
            f"use the names in RocksDB's OPTIONS files, {ROW_CACHE}, sync or disable_wal",
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
            f"{title}: option {name}={value}", "not a single value", "put several in {braces}"
        )


def _checked(title: str, library: Path, options: Options) -> int | None:
    """Open an empty database with the options and compare them with those that RocksDB reports.

    Returns the size of its block cache.
    """
    rows = options.row_cache_bytes
    answer = ask(library, options.text(), rows)
    if answer.error.startswith(_FILE_SYSTEM):  # that of the test, not that of the data
        indirect = {k: v for k, v in options.database.items() if not k.startswith(_DIRECT)}
        options = replace(options, database=indirect)
        answer = ask(library, options.text(), rows)
    if answer.error:
        raise UsageError(
            f"options for {title}", answer.error, "correct the value, or remove the option"
        )
    reported = answer.options.options() if answer.options else {}
    if answer.block_cache_bytes is not None:
        reported[_CACHE] = str(answer.block_cache_bytes)
    if answer.row_cache_bytes is not None:
        reported[ROW_CACHE] = str(answer.row_cache_bytes)
    missing = sorted(name for name, v in options.flat().items() if v and name not in reported)
    if ROW_CACHE in missing:
        raise UsageError(
            f"options for {title}: {ROW_CACHE}",
            "RocksDB reports it only in its info log, and wrote none",
            "leave info_log_level at INFO_LEVEL",
        )
    if missing:
        raise UsageError(
            f"options for {title}",
            f"RocksDB does not report {', '.join(missing)}",
            "remove them: their values in the run would be unknown",
        )
    if changed := differing(options.flat(), reported):
        raise UsageError(
            f"options for {title}",
            "; ".join(changed),
            "set the values that RocksDB would use",
        )
    return answer.block_cache_bytes


# An OPTIONS file, which another release may have written --------------------------
#
# What such a file has and this release has not is left out, and listed in a warning of the run. In
# a file of this release, or of none, an unknown name is an error.

_ONLY = (("comparator", "leveldb.BytewiseComparator"), ("table_factory", "BlockBasedTable"))
_NOTHING = ("", "nullptr")


def settings_of_file(path: Path, installation: Installation) -> FileSettings:
    """The file's settings; UsageError for one that stores records in another way than the harness.

    All names and values that cannot be used are in one error.
    """
    file = read_options_file(path)
    _check_records(file, path)
    defaults = defaults_of(installation)
    sections = sections_of(defaults)
    values = file.options()
    fixed = {name: values.pop(name) for name in SETTINGS.fixed & set(values)}
    left_out = [
        f"{name}={value} (decided by the harness)"
        for name, value in sorted(fixed.items())
        if value not in (*_NOTHING, defaults.options().get(name))
    ]
    unknown = sorted(set(values) - set(sections))
    if unknown and file.release in ("", installation.version):
        listed = (f"line {file.lines[n]}: {n}{nearest(n, list(sections))}" for n in unknown)
        raise UsageError(
            f"RocksDB options file {path}",
            f"{installation.title} has no such option: {'; '.join(listed)}",
            "correct or remove these lines, or add the [Version] of the release that wrote them",
        )
    left_out += [f"{name}={values.pop(name)} (not in this release)" for name in unknown]
    if file.release not in ("", installation.version):
        left_out += _adapted(values, defaults.options())
        left_out += _read_back(values, sections, installation, path)
    return FileSettings(values, _warnings(path, file, installation, left_out))


def _check_records(file: OptionsFile, path: Path) -> None:
    values = file.options()
    if ROW_CACHE in values:
        raise UsageError(
            f"{path}:{file.lines[ROW_CACHE]}",
            f"{ROW_CACHE}: not an option of OPTIONS files",
            f"remove the line, and use --set {ROW_CACHE}=SIZE",
        )
    for name, ours in _ONLY:
        if values.get(name, ours) != ours:
            raise UsageError(
                f"{path}:{file.lines[name]}",
                f"{name}={values[name]} is not supported",
                f"remove the line; RocksDB's default is {ours}",
            )


def _adapted(values: dict[str, str], defaults: Mapping[str, str]) -> list[str]:
    """Leave out members of structs that this release does not have; what was left out."""
    left_out = []
    for name, value in values.items():
        requested, supported = members(value), members(defaults.get(name, ""))
        if requested and supported and (lacking := sorted(set(requested) - set(supported))):
            left_out += [f"{name}.{m}={requested.pop(m)} (not in this release)" for m in lacking]
            values[name] = "{" + "".join(f"{m}={v};" for m, v in requested.items()) + "}"
    return left_out


def _read_back(
    values: dict[str, str], sections: Mapping[str, str], installation: Installation, path: Path
) -> list[str]:
    """Set ``values`` to what this release makes of them; what has another value than the file.

    UsageError with every value that it rejects.
    """
    answer = ask(installation.library, _options(values, sections).text())
    if answer.error:
        errors = {
            name: alone.error
            for name, value in values.items()
            if (alone := ask(installation.library, _options({name: value}, sections).text())).error
        }
        listed = "; ".join(f"{name}={values[name]}: {text}" for name, text in errors.items())
        raise UsageError(
            f"RocksDB options file {path} for {installation.title}",
            listed or answer.error,
            "correct or remove these lines",
        )
    reported = answer.options.options() if answer.options else {}
    changed = []
    for name, value in values.items():
        if name in reported and not same(value, reported[name]):
            changed.append(f"{name}={value} (is {reported[name]} in this release)")
            values[name] = reported[name]
    unreported = sorted(name for name, value in values.items() if value and name not in reported)
    return changed + [f"{name}={values.pop(name)} (has no effect)" for name in unreported]


def _options(values: Mapping[str, str], sections: Mapping[str, str]) -> Options:
    parts: dict[str, dict[str, str]] = {DB: {}, TABLE: {}, "": {}}
    for name, value in values.items():
        parts[sections[name] if sections[name] in parts else ""][name] = value
    return Options(parts[DB], parts[""], parts[TABLE], False, False, {})


def _warnings(
    path: Path, file: OptionsFile, installation: Installation, left_out: list[str]
) -> tuple[RunWarning, ...]:
    if not left_out:
        return ()
    release = f" of RocksDB {file.release}" if file.release else ""
    return (
        RunWarning(
            "options-file-not-applied",
            "settings of the OPTIONS file are not those of the run",
            f"{path}{release}, read by {installation.title}: {'; '.join(left_out)}",
            "see the run's effective settings",
        ),
    )
