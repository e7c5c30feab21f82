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
import fcntl
import glob
import json
import os
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_CPU = "/sys/devices/system/cpu"
#: Hardware prefetchers of Intel's processors, all four off by bits 0–3 (PerMA §4.5.1; Intel's
#: "Disclosure of Hardware Prefetcher Control on Some Intel Processors").
_PREFETCH_REGISTER = 0x1A4
_PREFETCH_MASK = 0xF
_SCHEMA = 1


class Refused(Exception):
    """A requested setting that this host cannot have; nothing is changed."""

    def __init__(self, item: str, why: str, do: str) -> None:
        super().__init__(f"{item}: {why}; {do}")
        self.refusal = {"object": item, "why": why, "do": do}


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
        """Tells it from every other setting."""
        return self.path if self.register is None else f"{self.path}:{self.register:#x}"


@dataclass(frozen=True)
class Missing:
    """What was asked for and is not here, as a finding of ``harness doctor`` is told."""

    what: str
    found: str
    do: str

    def to_json(self) -> dict[str, str]:
        return {"what": self.what, "found": self.found, "do": self.do}


class Host:
    """The files of a host; ``root`` is another than ``/`` in tests alone."""

    def __init__(self, root: str = "/") -> None:
        self._root = root.rstrip("/")

    def path(self, name: str) -> str:
        return self._root + name

    def names(self, pattern: str) -> list[str]:
        """Existing files by pattern, processor 2 before processor 10."""
        found = glob.glob(self.path(pattern))
        names = [name[len(self._root) :] for name in found]
        return sorted(names, key=lambda name: [int(n) for n in re.findall(r"\d+", name)])

    def text(self, name: str) -> str | None:
        """What the file says; None where it is not there or cannot be read."""
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

    def write(self, setting: Setting, value: str) -> None:
        """Write it, and see that the kernel kept it; OSError where not."""
        if setting.register is not None:
            self._write_register(setting, int(value))
        else:
            descriptor = os.open(self.path(setting.path), os.O_WRONLY | os.O_TRUNC)
            try:
                os.write(descriptor, f"{value}\n".encode())
            finally:
                os.close(descriptor)
        found = self.read(setting)
        if found != value:
            raise OSError(f"wrote {value!r}, the kernel keeps {found!r}")

    def _register(self, setting: Setting) -> int:
        descriptor = os.open(self.path(setting.path), os.O_RDONLY)
        try:
            raw = os.pread(descriptor, 8, setting.register or 0)
        finally:
            os.close(descriptor)
        if len(raw) != 8:
            raise OSError(f"register {setting.register:#x} cannot be read")
        return int(struct.unpack("<Q", raw)[0])

    def _write_register(self, setting: Setting, bits: int) -> None:
        whole = self._register(setting) & ~setting.mask | bits & setting.mask
        descriptor = os.open(self.path(setting.path), os.O_WRONLY)
        try:
            os.pwrite(descriptor, struct.pack("<Q", whole), setting.register or 0)
        finally:
            os.close(descriptor)


# Requested settings ------------------------------------------------------------------

_Found = Iterator[Any]


def find_settings(requested: Mapping[str, Any], host: Host) -> tuple[list[Setting], list[Missing]]:
    """The settings of ``requested`` on this host, in the order they are to be made, and what it
    does not have. None leaves a setting as it is. Raises Refused."""
    unknown = sorted(set(requested) - set(_SETTINGS))
    if unknown:
        raise Refused(", ".join(unknown), "no such setting", f"known are {', '.join(_SETTINGS)}")
    found: list[Any] = []
    for name, settings_of in _SETTINGS.items():
        if requested.get(name) is not None:
            found += settings_of(host, requested[name])
    return (
        [one for one in found if isinstance(one, Setting)],
        [one for one in found if isinstance(one, Missing)],
    )


_SWITCHED = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def _number_of(what: str, value: Any) -> int:
    """Of a number or a switch, 1 and 0 for that; ``-e name=value`` gives both as text."""
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
    """Told as a word, unlike other switches (ABI/testing/sysfs-kernel-mm-numa)."""
    what, name = "memory demotion", "/sys/kernel/mm/numa/demotion_enabled"
    on = _switch_of(what, value)
    if host.text(name) is None:
        yield Missing(what, f"no {name}", "this kernel does not demote memory")
    else:
        yield Setting(what, name, "true" if on else "false")


_NO_DRIVER = "on your own server: load the driver; in a VM: request fixed clocks"
#: By name and in the order they are made; ``what`` as ``harness doctor`` calls it. The cap comes
#: before turbo, and so goes behind it: without turbo the kernel takes no clock above the base.
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


class Record:
    """Old values by setting, of this boot, in the order they were changed."""

    def __init__(self, path: str, host: Host) -> None:
        self.path = path
        self._boot = host.text("/proc/sys/kernel/random/boot_id") or ""
        self.entries: list[dict[str, Any]] = []
        #: Settings that an earlier boot's record held: the reboot has undone them.
        self.gone_with_the_boot = 0
        document = self._read()
        if document.get("boot_id") == self._boot:
            self.entries = document["settings"]
        else:
            self.gone_with_the_boot = len(document.get("settings", []))

    def _read(self) -> dict[str, Any]:
        """What is on disk; Refused where it is not what save() writes."""
        try:
            with open(self.path, encoding="utf-8") as file:
                document: dict[str, Any] = json.load(file)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._unusable(f"it cannot be read: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise self._unusable(f"no JSON: {error}") from error
        if not isinstance(document, dict) or document.get("schema") != _SCHEMA:
            raise self._unusable(f"no record of schema {_SCHEMA}")
        entries = document.get("settings")
        if not isinstance(document.get("boot_id"), str) or not isinstance(entries, list):
            raise self._unusable("boot_id or settings are missing")
        for entry in entries:
            if not _is_entry(entry):
                raise self._unusable(f"malformed setting: {str(entry)[:200]!r}")
        return document

    def _unusable(self, why: str) -> Refused:
        return Refused(
            self.path,
            why,
            "put it right, or restart the host (which undoes every setting) and remove it",
        )

    def unwritable(self, error: OSError) -> Refused:
        """Said before anything is changed."""
        return Refused(
            self.path,
            f"cannot be written: {error.strerror or error}",
            "make its file system writable, with room on it",
        )

    def old(self, setting: Setting) -> str | None:
        """The value before the first change of this boot."""
        return next((e["old"] for e in self.entries if e["key"] == setting.key), None)

    def note(self, changes: list[tuple[Setting, str]]) -> None:
        """(setting, its value now), about to be changed; on disk when this returns."""
        for setting, now in changes:
            known = next((e for e in self.entries if e["key"] == setting.key), None)
            if known is not None:
                known["new"] = setting.value
                continue
            self.entries.append(
                {
                    "key": setting.key,
                    "what": setting.what,
                    "path": setting.path,
                    "register": setting.register,
                    "mask": setting.mask,
                    "old": now,
                    "new": setting.value,
                }
            )
        self.save()

    def forget(self, entry: Mapping[str, Any]) -> None:
        """It has its old value again."""
        self.entries = [one for one in self.entries if one["key"] != entry["key"]]
        self.save()

    def save(self) -> None:
        """Whole or as it was; nothing is left of an empty record."""
        folder = os.path.dirname(self.path)
        os.makedirs(folder, mode=0o755, exist_ok=True)
        if not self.entries:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)
            return
        document = {"schema": _SCHEMA, "boot_id": self._boot, "settings": self.entries}
        partial = f"{self.path}.partial"
        with open(partial, "w") as file:
            json.dump(document, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.rename(partial, self.path)
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """One at a time. Refused where no record could be kept."""
        try:
            os.makedirs(os.path.dirname(self.path), mode=0o755, exist_ok=True)
            descriptor = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise self.unwritable(error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


# Changes ----------------------------------------------------------------------


def plan(settings: list[Setting], host: Host) -> list[dict[str, str]]:
    """What is not as wanted: ``{do, object, what, old, new, why}``, in order."""
    steps = []
    for setting in settings:
        now = host.read(setting)
        if now != setting.value:
            steps.append(_step("set", setting, now, setting.value))
    return steps


def apply(settings: list[Setting], record: Record, host: Host) -> None:
    """Change what is not as wanted, old values on record first; OSError names the file."""
    changes = [(s, now) for s in settings if (now := host.read(s)) != s.value]
    if not changes:
        return
    try:
        record.note(changes)
    except OSError as error:
        raise record.unwritable(error) from error
    for setting, _ in changes:
        _written(host, setting, setting.value)


def plan_restore(record: Record, host: Host) -> list[dict[str, str]]:
    """What :func:`restore` does, the latest change first; with what others have set since."""
    steps = []
    for entry in reversed(record.entries):
        setting = _setting_of(entry)
        try:
            now = host.read(setting)
        except OSError as error:
            now = f"({error.strerror})"
        if now == entry["old"]:
            continue
        step = _step("restore", setting, now, entry["old"])
        if now != entry["new"]:
            step["why"] += f"; it was changed since from our {entry['new']}"
        steps.append(step)
    return steps


def restore(record: Record, host: Host) -> None:
    """Every old value back, the latest change first; what is back leaves the record.

    OSError, when all others are back, names those that are not; they stay on record.
    """
    failures = []
    for entry in reversed(list(record.entries)):
        setting = _setting_of(entry)
        try:
            if host.read(setting) != entry["old"]:
                host.write(setting, entry["old"])
        except OSError as error:
            failures.append(f"set {setting.key} back to {entry['old']}: {error}")
        else:
            record.forget(entry)
    record.save()
    if failures:
        raise OSError("; ".join(failures))


def _is_entry(entry: Any) -> bool:
    """Whether it is a setting of ours: a file of the kernel's, or a register of a processor."""
    if not isinstance(entry, dict) or set(entry) != set(_ENTRY):
        return False
    if not all(type(entry[name]) in kinds for name, kinds in _ENTRY.items()):
        return False
    if not all(re.fullmatch(r"[\x20-\x7e]*", each) for each in entry.values() if type(each) is str):
        return False
    if entry["register"] is None:
        path = entry["path"]
        return re.fullmatch(r"/(sys|proc)(/[\w.-]+)+", path) is not None and ".." not in path
    numbers = (entry["register"], entry["mask"])
    return (
        re.fullmatch(r"/dev/cpu/\d+/msr", entry["path"]) is not None
        and all(0 <= number < 1 << 32 for number in numbers)
        and re.fullmatch(r"\d{1,20}", entry["old"]) is not None
    )


_ENTRY: dict[str, tuple[type, ...]] = {
    "key": (str,),
    "what": (str,),
    "path": (str,),
    "register": (int, type(None)),
    "mask": (int,),
    "old": (str,),
    "new": (str,),
}


def _setting_of(entry: Mapping[str, Any]) -> Setting:
    return Setting(entry["what"], entry["path"], entry["old"], entry["register"], entry["mask"])


def _written(host: Host, setting: Setting, value: str) -> None:
    try:
        host.write(setting, value)
    except OSError as error:
        raise OSError(f"set {setting.key} ({setting.what}) to {value}: {error}") from error


def _step(do: str, setting: Setting, old: str, new: str) -> dict[str, str]:
    return {
        "do": do,
        "object": setting.key,
        "what": setting.what,
        "old": old,
        "new": new,
        "why": f"{setting.what}: {old} → {new}",
    }
