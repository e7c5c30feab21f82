"""Host settings that affect results: which files hold them, and their old values on record.

A request (``governor: performance``, ``turbo: false`` …) becomes settings: a kernel
file or a processor's register, and its new value. What this host lacks is reported as missing,
in the shape and by the names of ``harness doctor``'s findings. A value that this host does not
take is refused before anything is written.

The order that brings every old value back: the old values of all settings about to change are
on disk (temporary file, fsync, rename, fsync of the directory) *before* the first is written;
an old value on record is never replaced by a later one. Kernel settings end with the
boot: a record of an earlier boot restores nothing and is replaced.

Standard library only: it runs on the host that is set.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from .commands import Refused
from .record import (
    SCHEMA,
    delete_file,
    matches,
    members,
    number_below,
    read_document,
    replace_file,
    rows_of,
    unwritable,
)

_CPU = "/sys/devices/system/cpu"
#: Hardware prefetchers of Intel's processors, all four off by bits 0–3 (PerMA §4.5.1; Intel's
#: "Disclosure of Hardware Prefetcher Control on Some Intel Processors").
_PREFETCH_REGISTER = 0x1A4
_PREFETCH_MASK = 0xF


@dataclass(frozen=True)
class Setting:
    """One value of one file; ``register`` and ``mask`` where the file is a processor's MSRs."""

    what: str
    path: str
    value: str
    register: int | None = None
    mask: int = 0

    @property
    def key(self) -> str:
        return self.path if self.register is None else f"{self.path}:{self.register:#x}"


@dataclass(frozen=True)
class Missing:
    """A requested setting that the host lacks, in the shape of a finding of ``harness doctor``."""

    problem: str
    context: str
    hint: str

    def to_json(self) -> dict[str, str]:
        return {"what": self.problem, "found": self.context, "do": self.hint}


class Host:
    """The files of a host; ``root`` is another than ``/`` in tests alone."""

    def __init__(self, root: str = "/") -> None:
        self._root = root.rstrip("/")

    def path(self, name: str) -> str:
        return self._root + name

    def names(self, pattern: str) -> list[str]:
        """Existing files by pattern, processor 2 before processor 10."""
        paths = glob.glob(self.path(pattern))
        names = [name[len(self._root) :] for name in paths]
        return sorted(names, key=lambda name: [int(n) for n in re.findall(r"\d+", name)])

    def text(self, name: str) -> str | None:
        """Text of the file; None where it is not there or cannot be read."""
        try:
            with open(self.path(name)) as file:
                return file.read().strip()
        except OSError:
            return None

    def read(self, setting: Setting) -> str:
        """Its value now: the chosen word of a choice, the masked bits of a register."""
        if setting.register is not None:
            return str(self._register(setting) & setting.mask)
        with open(self.path(setting.path), encoding="utf-8", errors="replace") as file:
            text = file.read().strip()
        chosen = re.findall(r"(?:^|\s)\[(\S+)\](?=\s|$)", text)
        return str(chosen[0]) if len(chosen) == 1 else " ".join(text.split())

    def write(self, setting: Setting) -> None:
        """Give it its value, and see that the kernel kept it; OSError where not."""
        if setting.register is not None:
            self._write_register(setting, int(setting.value))
        else:
            with self._opened(setting, os.O_WRONLY | os.O_TRUNC) as descriptor:
                os.write(descriptor, f"{setting.value}\n".encode())
        value = self.read(setting)
        if value != setting.value:
            raise OSError(f"wrote {setting.value!r}, the kernel keeps {value!r}")

    @contextlib.contextmanager
    def _opened(self, setting: Setting, flags: int) -> Iterator[int]:
        descriptor = os.open(self.path(setting.path), flags)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _register(self, setting: Setting) -> int:
        with self._opened(setting, os.O_RDONLY) as descriptor:
            raw = os.pread(descriptor, 8, setting.register or 0)
        if len(raw) != 8:
            raise OSError(f"register {setting.register:#x} cannot be read")
        return int(struct.unpack("<Q", raw)[0])

    def _write_register(self, setting: Setting, bits: int) -> None:
        whole = self._register(setting) & ~setting.mask | bits & setting.mask
        with self._opened(setting, os.O_WRONLY) as descriptor:
            os.pwrite(descriptor, struct.pack("<Q", whole), setting.register or 0)


# Requested settings ------------------------------------------------------------------

_Found = Iterator[Any]


def find_settings(requested: Mapping[str, Any], host: Host) -> tuple[list[Setting], list[Missing]]:
    """The settings of ``requested`` on this host, in the order they are to be made, and what it
    does not have. None leaves a setting as it is. Raises Refused."""
    unknown = sorted(set(requested) - set(_SETTINGS))
    if unknown:
        raise Refused(", ".join(unknown), "no such setting", f"known are {', '.join(_SETTINGS)}")
    settings: list[Any] = []
    for name, settings_of in _SETTINGS.items():
        if requested.get(name) is not None:
            settings += settings_of(host, requested[name])
    return (
        [setting for setting in settings if isinstance(setting, Setting)],
        [setting for setting in settings if isinstance(setting, Missing)],
    )


_SWITCHED = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def _number_of(what: str, value: Any) -> int:
    """Value of a number or a switch, 1 and 0 for that; ``-e name=value`` gives both as text."""
    text = str(value).strip().lower()
    if text in _SWITCHED:
        return int(_SWITCHED[text])
    try:
        return int(text)
    except ValueError:
        raise Refused(what, f"no number, true or false: {value!r}", "use one of these") from None


def _switch_of(what: str, value: Any) -> bool:
    """``value`` as a switch; 1 and 0 are one, too."""
    number = _number_of(what, value)
    if number not in (0, 1):
        raise Refused(what, f"neither true nor false: {value!r}", "use one of these")
    return bool(number)


def _turbo(host: Host, value: Any) -> _Found:
    on = _switch_of("turbo", value)
    for name, bit in (
        (f"{_CPU}/intel_pstate/no_turbo", not on),
        (f"{_CPU}/cpufreq/boost", on),
    ):
        if host.text(name) is not None:
            yield Setting("turbo", name, str(int(bit)))
            return
    yield Missing("turbo", "neither intel_pstate/no_turbo nor cpufreq/boost", _NO_DRIVER)


def _governor(host: Host, governor: str) -> _Found:
    names = host.names(f"{_CPU}/cpufreq/policy*/scaling_governor")
    for name in names:
        offered = (host.text(f"{os.path.dirname(name)}/scaling_available_governors") or "").split()
        if offered and governor not in offered:
            raise Refused(name, f"no governor {governor!r}", f"choose one of {', '.join(offered)}")
        yield Setting("frequency governor", name, governor)
    if not names:
        yield Missing("frequency governor", "no cpufreq driver: the clock is unknown", _NO_DRIVER)


def _frequency(host: Host, value: Any) -> _Found:
    cap_khz = _number_of("clock frequency", value)
    names = host.names(f"{_CPU}/cpufreq/policy*/scaling_max_freq")
    for name in names:
        folder = os.path.dirname(name)
        least, most = (host.text(f"{folder}/cpuinfo_{end}_freq") for end in ("min", "max"))
        if least and most and not int(least) <= cap_khz <= int(most):
            raise Refused(
                name, f"{cap_khz} kHz lies outside {least} to {most} kHz", "choose a cap in between"
            )
        yield Setting("clock frequency", name, str(cap_khz))
    if not names:
        yield Missing("clock frequency", "no cpufreq driver: the clock is unknown", _NO_DRIVER)


def _prefetchers(host: Host, value: Any) -> _Found:
    what = "hardware prefetchers"
    on = _switch_of(what, value)
    cpuinfo = host.text("/proc/cpuinfo") or ""
    if "GenuineIntel" not in cpuinfo:
        yield Missing(what, "not an Intel processor", "set them in the firmware's setup")
        return
    names = host.names("/dev/cpu/[0-9]*/msr")
    if not names:
        yield Missing(what, "no /dev/cpu/*/msr", "modprobe msr; not available in a VM")
    for name in names:
        setting = Setting(
            what, name, "0" if on else str(_PREFETCH_MASK), _PREFETCH_REGISTER, _PREFETCH_MASK
        )
        try:
            host.read(setting)
        except OSError as error:
            yield Missing(what, f"{setting.key}: {error}", "set them in the firmware's setup")
            return
        yield setting


def _choice(what: str, name: str) -> Callable[[Host, Any], _Found]:
    """A file of the kernel that takes one of the words it shows."""

    def settings(host: Host, value: str) -> _Found:
        text = host.text(name)
        if text is None:
            yield Missing(what, f"no {name}", "this kernel was built without it")
            return
        offered = text.replace("[", "").replace("]", "").split()
        if value not in offered:
            raise Refused(name, f"no choice {value!r}", f"choose one of {', '.join(offered)}")
        yield Setting(what, name, value)

    return settings


def _number(what: str, name: str) -> Callable[[Host, Any], _Found]:
    """A file of the kernel that takes a number; of true and false 1 and 0."""

    def settings(host: Host, value: Any) -> _Found:
        if host.text(name) is None:
            yield Missing(what, f"no {name}", "this kernel was built without it")
        else:
            yield Setting(what, name, str(_number_of(what, value)))

    return settings


def _demotion(host: Host, value: Any) -> _Found:
    """A word, unlike other switches (ABI/testing/sysfs-kernel-mm-numa)."""
    what, name = "memory demotion", "/sys/kernel/mm/numa/demotion_enabled"
    on = _switch_of(what, value)
    if host.text(name) is None:
        yield Missing(what, f"no {name}", "this kernel does not demote memory")
    else:
        yield Setting(what, name, "true" if on else "false")


_NO_DRIVER = "on your own server: load the driver; in a VM: request fixed clocks"
#: By name, in the order of changes. The clock cap comes before turbo, so that it is restored after
#: it: without turbo, the kernel accepts no clock above the base.
_SETTINGS: dict[str, Callable[[Host, Any], _Found]] = {
    "governor": _governor,
    "frequency_khz": _frequency,
    "turbo": _turbo,
    "transparent_huge_pages": _choice(
        "transparent huge pages", "/sys/kernel/mm/transparent_hugepage/enabled"
    ),
    "numa_balancing": _number("automatic NUMA balancing", "/proc/sys/kernel/numa_balancing"),
    "memory_demotion": _demotion,
    "prefetchers": _prefetchers,
    "address_space_randomisation": _number(
        "address space randomisation", "/proc/sys/kernel/randomize_va_space"
    ),
    "perf_event_paranoid": _number("perf_event_paranoid", "/proc/sys/kernel/perf_event_paranoid"),
}


# Old values on record ---------------------------------------------------------------


@dataclass
class Entry:
    """A setting with its value before the first change of this boot, and ours."""

    key: str
    what: str
    path: str
    register: int | None
    mask: int
    old: str
    new: str

    @property
    def setting(self) -> Setting:
        """The setting with its old value."""
        return Setting(self.what, self.path, self.old, self.register, self.mask)


_WORDS = matches(r"[\x20-\x7e]*")
_setting = partial(members, key=_WORDS, what=_WORDS, mask=number_below(1 << 32), new=_WORDS)
_OF_A_FILE = _setting(
    path=matches(r"(?!.*\.\.)/(sys|proc)(/[\w.-]+)+"),
    register=lambda value: value is None,
    old=_WORDS,
)
_OF_A_REGISTER = _setting(
    path=matches(r"/dev/cpu/\d+/msr"), register=number_below(1 << 32), old=matches(r"\d{1,20}")
)
#: A setting of ours is a kernel file, or a register of a processor.
_FORMS = {
    "boot_id": _WORDS,
    "settings": rows_of(lambda row: _OF_A_FILE(row) or _OF_A_REGISTER(row)),
}


class Record:
    """Old values of this boot, in the order of their changes."""

    def __init__(self, path: str, host: Host) -> None:
        self.path = path
        self._boot = host.text("/proc/sys/kernel/random/boot_id") or ""
        boot, entries = self._read()
        self.entries = entries if boot == self._boot else []
        #: Number of settings that an earlier boot's record lists: the reboot has undone them.
        self.gone_with_the_boot = 0 if boot == self._boot else len(entries)

    def _read(self) -> tuple[str | None, list[Entry]]:
        """Boot id and entries on disk; Refused where save() cannot have written them."""
        try:
            document = read_document(Path(self.path), _FORMS, _FORMS)
        except ValueError as error:
            do = "repair it, or restart the host (which undoes every setting) and remove it"
            raise Refused(self.path, str(error), do) from error
        if document is None:
            return None, []
        return document["boot_id"], [Entry(**row) for row in document["settings"]]

    def note(self, changes: list[Change]) -> None:
        """Record settings, with their values, that are about to be changed; durable at return."""
        for setting, now in ((change.setting, change.old) for change in changes):
            entry = next((each for each in self.entries if each.key == setting.key), None)
            if entry is not None:
                entry.new = setting.value
                continue
            place = (setting.key, setting.what, setting.path, setting.register, setting.mask)
            self.entries.append(Entry(*place, old=now, new=setting.value))
        self.save()

    def forget(self, entry: Entry) -> None:
        """Remove the entry of a setting that has its old value again."""
        self.entries.remove(entry)
        self.save()

    def save(self) -> None:
        """Replace the file durably; remove it if there is no entry."""
        if not self.entries:
            delete_file(Path(self.path))
            return
        entries = [asdict(entry) for entry in self.entries]
        document = {"schema": SCHEMA, "boot_id": self._boot, "settings": entries}
        replace_file(Path(self.path), json.dumps(document, indent=1), 0o644)


# Changes ----------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """A setting with its next value; ``old``: its value now, ``note``: more on that."""

    do: str
    setting: Setting
    old: str
    note: str = ""

    def to_json(self) -> dict[str, str]:
        """As a step of the report."""
        setting, new = self.setting, self.setting.value
        return {
            "do": self.do,
            "object": setting.key,
            "what": setting.what,
            "old": self.old,
            "new": new,
            "why": f"{setting.what}: {self.old} → {new}{self.note}",
        }


def plan(settings: list[Setting], host: Host) -> list[Change]:
    """The settings that have another value now, in order."""
    return [Change("set", s, now) for s in settings if (now := host.read(s)) != s.value]


def apply(changes: list[Change], record: Record, host: Host) -> None:
    """Record old values, then change the settings; OSError names the file."""
    if not changes:
        return
    try:
        record.note(changes)
    except OSError as error:
        raise unwritable(Path(record.path), error) from error
    for setting in (change.setting for change in changes):
        try:
            host.write(setting)
        except OSError as error:
            what = f"set {setting.key} ({setting.what}) to {setting.value}"
            raise OSError(f"{what}: {error}") from error


def plan_restore(record: Record, host: Host) -> list[Change]:
    """Plan what :func:`restore` does, the latest change first; note values changed since."""
    changes = []
    for entry in reversed(record.entries):
        try:
            now = host.read(entry.setting)
        except OSError as error:
            now = f"({error.strerror})"
        if now != entry.old:
            note = "" if now == entry.new else f"; it was changed since from our {entry.new}"
            changes.append(Change("restore", entry.setting, now, note))
    return changes


def restore(record: Record, host: Host) -> None:
    """Restore every old value, the latest change first, and remove its entry.

    OSError at the end for those that cannot be restored; they stay on record.
    """
    failures = []
    for entry in reversed(list(record.entries)):
        try:
            if host.read(entry.setting) != entry.old:
                host.write(entry.setting)
        except OSError as error:
            failures.append(f"restore {entry.key} to {entry.old}: {error}")
        else:
            record.forget(entry)
    record.save()
    if failures:
        raise OSError("; ".join(failures))
