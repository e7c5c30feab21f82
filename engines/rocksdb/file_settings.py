"""The settings that a run takes from an OPTIONS file, which another release may have written.

What such a file has and this release has not is left out, and listed in a warning of the run. In
a file of this release, or of none, an unknown name is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from engines.rocksdb.installation import Installation, ask
from engines.rocksdb.options import (
    ROW_CACHE,
    SETTINGS,
    Options,
    defaults_of,
    members,
    same,
    sections_of,
)
from engines.rocksdb.optionsfile import DB, TABLE, OptionsFile, read_options_file
from harness.engine import FileSettings
from harness.errors import UsageError, nearest
from harness.warnings import RunWarning

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
        requested, known = members(value), members(defaults.get(name, ""))
        if requested and known and (lacking := sorted(set(requested) - set(known))):
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
