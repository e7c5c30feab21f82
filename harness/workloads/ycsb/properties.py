r"""Properties of the official client, from its files as they are and from the command line.

Files have the syntax of ``java.util.Properties``: a key ends with ``=``, ``:`` or white space;
``\`` at the end of a line continues it; lines that begin with ``#`` or ``!`` are comments;
``\t``, ``\n``, ``\f``, ``\r`` and ``\uXXXX`` are characters, any other character after a ``\``
is itself. Files are Latin-1. Values mean what they mean to the client: ``010`` is ten, ``5e-2``
a number, and only ``true`` is true.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.errors import UsageError, nearest
from harness.workloads.kinds import Count, Number
from harness.workloads.parameters import Parameter
from harness.yamlfile import scalar

#: The class that the official files name as ``workload``.
CORE_CLASS = "CoreWorkload"
#: Properties that have another name here, as the options have: the official client's by ours.
OFFICIAL: Mapping[str, str] = {
    "records": "recordcount",
    "operations": "operationcount",
    "threads": "threadcount",
    "rate": "target",
}
#: Names of other clients for the same properties: YCSB-C's and YCSB-cpp's.
_OTHER_NAMES: Mapping[str, str] = {
    "field_len_dist": "fieldlengthdistribution",
    "zero_padding": "zeropadding",
}
_KEY = re.compile(r"(?P<key>(?:\\.|[^\\=:\s])*)[ \t\f]*[=:]?[ \t\f]*(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u(?P<hex>[0-9A-Fa-f]{4})|(?P<bad>u)|(?P<plain>.))", re.DOTALL)
_PLAIN: Mapping[str, str] = {"t": "\t", "n": "\n", "f": "\f", "r": "\r"}
#: Properties that other options replace here, or that change no number.
_NO_MATTER: Mapping[str, str] = {
    "db": "--engine says what is measured",
    "status": "progress is reported anyway",
    "status.interval": "progress is reported anyway",
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
#: Those that would change what is measured, with the value at which they do not, if any.
_ONLY: Mapping[str, tuple[str | None, str]] = {
    "table": ("usertable", "the table has this name: usertable"),
    "fieldnameprefix": ("field", "fields have this prefix: field"),
    "core_workload_insertion_retry_limit": ("0", "an insert that fails for good fails the run: 0"),
    "core_workload_insertion_retry_interval": ("3", "an insert is not tried again: 3"),
    "batch.size": ("1", "an operation has one record: 1"),
    "deleteproportion": ("0", "no operation removes a record: 0"),
    "overwriteproportion": (
        "0",
        "whole records are overwritten by updates: updateproportion with writeallfields=true",
    ),
    "zipfianconstant": ("0.99", "keys are drawn with the official client's constant: 0.99"),
    "zipfian_const": ("0.99", "keys are drawn with the official client's constant: 0.99"),
    "fieldlengthhistogram": (None, "lengths are constant, uniform or zipfian"),
}
#: Flags of the official client; ours are read as YAML.
_OFFICIAL_FLAGS = ("readallfields", "writeallfields", "dataintegrity")
_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)
_NUMBER = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?", re.ASCII)
#: Byte order marks, and the names of their encodings.
_MARKS = {codecs.BOM_UTF8: "UTF-8", codecs.BOM_UTF16_LE: "UTF-16", codecs.BOM_UTF16_BE: "UTF-16"}
#: What clients call the core workload: its class, or as go-ycsb does.
_CORE_NAMES = (CORE_CLASS, "core")
_GUESS_CUTOFF = 0.8
_LONGEST_SHOWN = 80


def read(file: Path) -> dict[str, str]:
    """All properties of a file, the last of a name; UsageError where it cannot be read."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise UsageError(
            f"property file {file}", str(error.strerror or error), "give a file that can be read"
        ) from error
    for mark, encoding in _MARKS.items():
        if content.startswith(mark):
            raise UsageError(
                f"property file {file}",
                f"it begins with the byte order mark of {encoding}, which the client takes for a "
                "part of the first property",
                "save it as ASCII or Latin-1, without the mark",
            )
    return dict(_pairs(content.decode("latin-1"), file))


class PropertyReader:
    """Parameters from properties: of files first, then of the command line.

    ``declared``: the workload's parameters by name. ``params``: the values that were read;
    ``notes``: in words what is left out. What files do not say is as the core workload has it:
    they describe a workload, even where they name no share of an operation.
    """

    def __init__(self, declared: Mapping[str, Parameter]) -> None:
        self._declared = declared
        #: The parameters by the official client's names; ours are known on the command line.
        self._names: Mapping[str, str] = {
            **{name: name for name in declared},
            **{official: name for name, official in OFFICIAL.items()},
            **_OTHER_NAMES,
        }
        self.params: dict[str, Any] = {}
        self.notes: list[str] = []

    def read_files(self, files: Sequence[Path]) -> None:
        """Read the files, one after another.

        UsageError for what would change the numbers and is not done here, and for a file that has
        no property at all that anybody knows.
        """
        if files:
            self.params["workload"] = CORE_CLASS
        for file in files:
            pairs = read(file)
            if not pairs:
                raise UsageError(
                    f"property file {file}",
                    "it has no property",
                    "give one that describes a workload",
                )
            self._take_all(f"property file {file}", f"{file}: ", pairs)
            if not any(self._recognises(name) for name in pairs):
                raise UsageError(
                    f"property file {file}",
                    f"none of its {len(pairs)} properties is one of the core workload",
                    "give a property file of the official client",
                )

    def read_options(self, pairs: Mapping[str, str]) -> None:
        """Read properties of the command line; unknown names stay as they are."""
        official = {}
        for name, value in pairs.items():
            letter = name == "workload" and value not in _CORE_NAMES and "." not in value
            if not letter and (self._recognises(name) or "." in name):  # a binding's
                official[name] = value
            else:
                self.params[name] = value
        self._take_all("properties of -p", "-p ", official)

    def check_bound(self) -> None:
        """Raise UsageError where neither a number of operations nor a time ends the client."""
        if self.params.get("operations") == 0 and "duration" not in self.params:
            raise UsageError(
                "property operationcount=0",
                "it sets no bound, and without maxexecutiontime the client would never end",
                "give --duration, or a number of operations",
            )

    def _take_all(self, problem: str, where: str, pairs: Mapping[str, str]) -> None:
        """Take each property; one UsageError with all that cannot be taken."""
        errors = []
        for name, value in pairs.items():
            try:
                self._take(where, name, value)
            except UsageError as error:
                errors.append(error)
        if len(errors) == 1:
            raise errors[0]
        if errors:
            listed = (f"{e.problem.removeprefix(where)}: {e.context} ({e.hint})" for e in errors)
            raise UsageError(
                f"{problem}: {len(errors)} properties", "; ".join(listed), "correct or remove them"
            )

    def _decides(self, name: str) -> bool:
        """Return whether the property decides what is measured."""
        return name in self._names or name == "maxexecutiontime" or name in _ONLY

    def _recognises(self, name: str) -> bool:
        return self._decides(name) or name in _NO_MATTER or name.startswith(_NO_MATTER_GROUPS)

    def _take(self, where: str, name: str, value: str) -> None:
        """Take a property; ``where``: the words before its name in messages."""
        if value != value.rstrip() and name not in _OFFICIAL_FLAGS and self._decides(name):
            raise _refused(
                where, name, value, "it ends with a blank, with which the client fails", "remove it"
            )
        if name in self._names and name != "workload":
            self.params[self._names[name]] = self._value(where, name, value)
            if name in _OFFICIAL_FLAGS and value.lower() not in ("true", "false"):
                self.notes.append(
                    f"{where}{name}={_shown(value)} is false: only true is true to the client"
                )
        elif (why := self._left_out(where, name, value)) is not None:
            self.notes.append(f"{where}{_shown(name)} is left out{f': {why}' if why else ''}")

    def _value(self, where: str, name: str, text: str) -> Any:
        """Read a value as the client does (Integer.parseInt, Double.parseDouble …)."""
        kind = self._declared[self._names[name]].kind
        if isinstance(kind, Count | Number):
            number = _number(where, name, text, whole=isinstance(kind, Count))
            if self._names[name] == "operations" and number == 0:
                return number  # no bound: see check_bound
            try:
                return kind.parse(name, number)
            except UsageError as error:
                raise _refused(where, name, text, error.context, error.hint) from error
        if name in _OFFICIAL_FLAGS:
            return text.lower() == "true"
        return scalar(text)

    def _left_out(self, where: str, name: str, value: str) -> str | None:
        """Return why a property that is no parameter has no effect; None where it has one."""
        if name == "maxexecutiontime":
            self.params["duration"] = f"{_number(where, name, value, whole=True)}s"
        elif name == "workload":
            if value != "core" and value.rpartition(".")[2] != CORE_CLASS:
                raise _refused(
                    where,
                    name,
                    value,
                    f"another workload; only the {CORE_CLASS} (core) is done here",
                    "choose a file of the core workload",
                )
            self.params[name] = CORE_CLASS
        elif name in _ONLY:
            only, why = _ONLY[name]
            if value != only and not _equal(value, only):
                raise _refused(where, name, value, why)
        elif name in _NO_MATTER or name.startswith(_NO_MATTER_GROUPS):
            return _NO_MATTER.get(name, "latencies are kept as histograms")
        elif "." in name:
            return "it is a binding's; engines are configured with --set, --tuning and --option"
        elif similar := nearest(name, list(self._names), _GUESS_CUTOFF):
            raise UsageError(
                f"{where}property {_shown(name)}",
                f"neither a property of the core workload nor one of ours{similar}",
                "correct its name, or take it out",
            )
        else:
            return "it is not a property of the core workload"
        return None


def _equal(text: str, only: str | None) -> bool:
    """Return whether two texts are the same number."""
    number, other = _NUMBER.fullmatch(text), _NUMBER.fullmatch(only or "")
    return number is not None and other is not None and float(number[1]) == float(other[1])


def _number(where: str, name: str, text: str, *, whole: bool) -> int | float:
    form, noun = (_WHOLE, "a whole number") if whole else (_NUMBER, "a number")
    if not form.fullmatch(text) or len(text) > _LONGEST_SHOWN:
        raise _refused(where, name, text, f"not {noun}", f"write {noun} in decimal digits")
    return int(text) if whole else float(text.rstrip("fFdD"))


def _refused(where: str, name: str, value: str, why: str, do: str = "take it out") -> UsageError:
    return UsageError(f"{where}property {name}={_shown(value)}", why, do)


def _shown(text: str) -> str:
    """Return not all of a long text."""
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


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
    joined = ""
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(" \t\f")
        if not joined and (not line or line[0] in "#!"):
            continue
        joined += line
        if _continues(line):
            joined = joined[:-1]
            if joined:
                continue
        if joined:
            yield joined
        joined = ""
    if joined:
        yield joined


def _continues(line: str) -> bool:
    """An odd number of backslashes at its end."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        if match["bad"]:
            raise ValueError("malformed \\uxxxx")
        if match["hex"]:
            return chr(int(match["hex"], 16))
        return _PLAIN.get(match["plain"], match["plain"])

    return _ESCAPE.sub(character, text)
