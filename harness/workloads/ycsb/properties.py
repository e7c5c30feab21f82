r"""Property files of the official client, as they are: the syntax of ``java.util.Properties``.

A key ends with ``=``, ``:`` or white space; ``\`` at the end of a line continues it; lines
that begin with ``#`` or ``!`` are comments; ``\t``, ``\n``, ``\f``, ``\r`` and ``\uXXXX`` are
characters, any other character behind a ``\`` is itself. Files are Latin-1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.errors import UsageError, nearest
from harness.workloads.ycsb.options import CORE_CLASS, PARAMETERS
from harness.yamlfile import scalar

_KEY = re.compile(r"(?P<key>(?:\\.|[^\\=:\s])*)[ \t\f]*[=:]?[ \t\f]*(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u(?P<hex>[0-9A-Fa-f]{4})|(?P<bad>u)|(?P<plain>.))", re.DOTALL)
_PLAIN: Mapping[str, str] = {"t": "\t", "n": "\n", "f": "\f", "r": "\r"}
#: Properties that say what is asked for otherwise here, or nothing that could change a number.
_NO_MATTER: Mapping[str, str] = {
    "db": "--engine says what is measured",
    "status": "progress is told anyway",
    "status.interval": "progress is told anyway",
    "label": "runs have names of their own",
    "exporter": "results are stored as runs",
    "exportfile": "results are stored as runs",
    "measurementtype": "latencies are kept as histograms",
    "measurement.interval": "latencies count from the intended start where a rate is set",
    "measurement.trackjvm": "the client's processor time is counted",
    "reportlatencyforeacherror": "errors are counted by their code",
    "latencytrackederrors": "errors are counted by their code",
    "dotransactions": "data are loaded where they are missing, and then measured",
    "readallfieldsbyname": "fields are read by name",
    "columnfamily": "no engine here has such",
    "silent": "",
}
_NO_MATTER_GROUPS = ("measurement.", "histogram.", "hdrhistogram.", "timeseries.", "htrace.")
#: Those that would change what is measured, with the value at which they do not.
_ONLY: Mapping[str, tuple[str, str]] = {
    "table": ("usertable", "the table has this name"),
    "fieldnameprefix": ("field", "fields have this prefix"),
    "core_workload_insertion_retry_limit": (
        "0", "an insert that fails for good fails the run",
    ),
    "core_workload_insertion_retry_interval": ("3", "an insert is not tried again"),
}  # fmt: skip
_REFUSED: Mapping[str, str] = {
    "fieldlengthhistogram": "lengths are constant, uniform or zipfian",
}


def read(file: Path) -> dict[str, str]:
    """All properties of a file, the last of a name; UsageError where it cannot be read."""
    try:
        text = file.read_text(encoding="latin-1")
    except OSError as error:
        raise UsageError(
            f"property file {file}", str(error.strerror or error), "give a file that can be read"
        ) from error
    return dict(_pairs(text, file))


def parameters(files: Sequence[Path]) -> tuple[dict[str, Any], list[str]]:
    """What the files, one after another, ask for; and in words what of them is left out.

    UsageError for what would change the numbers and is not done here.
    """
    found: dict[str, Any] = {}
    told: list[str] = []
    for file in files:
        for name, value in read(file).items():
            if name in PARAMETERS and name != "workload":
                found[name] = scalar(value.strip())
            elif (why := _left_out(file, name, value.strip(), found)) is not None:
                told.append(f"{file}: {name} is left out{f': {why}' if why else ''}")
    return found, told


def _left_out(file: Path, name: str, value: str, found: dict[str, Any]) -> str | None:
    """Why a property that is no parameter has no effect; None where it has one or is as here."""
    if name == "maxexecutiontime":
        found["duration"] = f"{value}s"
    elif name == "workload":
        _check_class(file, value)
    elif name in _ONLY:
        _check_only(file, name, value)
    elif name in _REFUSED:
        raise _refused(file, name, value, _REFUSED[name])
    elif name in _NO_MATTER or name.startswith(_NO_MATTER_GROUPS):
        return _NO_MATTER.get(name, "latencies are kept as histograms")
    elif "." in name:
        return "it is a binding's; engines are configured with --set, --tuning and --option"
    elif similar := nearest(name, list(PARAMETERS)):
        raise UsageError(
            f"{file}: property {name}",
            f"neither a property of the core workload nor one of ours{similar}",
            "correct its name, or take it out",
        )
    else:
        return "it is not a property of the core workload"
    return None


def _check_class(file: Path, value: str) -> None:
    if value.rpartition(".")[2] != CORE_CLASS:
        raise _refused(file, "workload", value, f"only the {CORE_CLASS} is done here")


def _check_only(file: Path, name: str, value: str) -> None:
    only, why = _ONLY[name]
    if value != only:
        raise _refused(file, name, value, f"{why}: {only}")


def _refused(file: Path, name: str, value: str, why: str) -> UsageError:
    return UsageError(f"{file}: property {name}={value}", why, "take it out of the file")


def _pairs(text: str, file: Path) -> Iterator[tuple[str, str]]:
    for line in _logical_lines(text):
        match = _KEY.fullmatch(line)
        assert match is not None  # whatever follows the key is the value
        try:
            yield _unescaped(match["key"]), _unescaped(match["value"])
        except ValueError as error:
            raise UsageError(
                f"property file {file}", f"{line!r}: {error}", "write \\u and four hex digits"
            ) from error


def _logical_lines(text: str) -> Iterator[str]:
    """Lines with those that continue them, without comments and blank lines."""
    kept = ""
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(" \t\f")
        if not kept and (not line or line[0] in "#!"):
            continue
        kept += line
        if _continues(line):
            kept = kept[:-1]
            if kept:
                continue
        if kept:
            yield kept
        kept = ""
    if kept:
        yield kept


def _continues(line: str) -> bool:
    """An odd number of backslashes at its end."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescaped(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        if match["bad"]:
            raise ValueError("malformed \\uxxxx")
        if match["hex"]:
            return chr(int(match["hex"], 16))
        return _PLAIN.get(match["plain"], match["plain"])

    return _ESCAPE.sub(one, text)
