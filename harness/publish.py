"""Runs without what identifies their host and their user: ``harness runs export --public``.

Documents are walked by the types that they are declared with. A rule names each text, by the class
and the field that it is in; numbers and the words of a ``Literal`` need none. A text, an artifact
or a file that no rule names is refused: what is new does not pass unseen.

What identifies is replaced by a pseudonym: a keyed hash, whose key stays on the host that exports.
Equal values have equal pseudonyms in all its exports, so that runs of one host stay together and
comparisons find the same differences; without the key no list of names leads back. Prose (contexts,
details, notes, errors) is left out. At last each value that was removed anywhere is replaced
wherever it occurs in a text that was kept, such as a host's name in that of an arm.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

import msgspec

from harness import paths, registry, structs
from harness.errors import UsageError
from harness.experiment.placement import Placement
from harness.query_plan import Operator
from harness.store import artifacts, result
from harness.store.datasets import DatasetName
from harness.store.documents import write_json_atomically
from harness.store.host import HostFacts, LinuxFacts, NumaNode, Processors
from harness.store.runs import ORIGIN_FILE, StoredRun
from harness.store.spec import MICRO, RunSpec
from harness.supervise.own_files import make_own
from harness.tiers.linux.model import ModelName, TierFacts, TierRecord
from harness.warnings import RunWarning

#: A name: of a metric, a tier, an arm, a query, a program and its version.
_NAME = re.compile(r"[\w(<+*][\w .,:;=+~|*%()<>&#/-]{0,199}")
#: A number with a unit, or several; hexadecimal; a date.
_NUMBER = re.compile(
    r"-?\d+(\.\d+)?([eE][+-]?\d+)? ?([kKMGTP]?i?[bB]?|ns|us|ms|s|min|h|d|%)"
    r"|0x[0-9a-f]+|\d{4}-\d\d-\d\d"
)
#: Words of settings that say how something works.
_WORDS = frozenset({
    "on", "off", "true", "false", "yes", "no", "none", "null", "default", "auto", "always",
    "never", "enabled", "disabled", "full", "partial", "replica", "minimal", "logical",
    "open_sync", "open_datasync", "fsync", "fdatasync", "fsync_writethrough", "O_DIRECT",
    "O_DSYNC", "io_uring", "worker", "sync", "async", "nosync", "local", "remote_write",
    "remote_apply", "read-committed", "repeatable-read", "serializable", "madvise", "try",
    "lz4", "zstd", "snappy", "pglz", "zlib", "kLZ4Compression", "kNoCompression",
    "kSnappyCompression", "kZSTD", "passive", "active", "nosmt", "debug", "info", "warning",
    "error", "crc32", "strict", "row", "statement", "mixed", "constant", "zipfian", "uniform",
    "latest", "hashed", "ordered", "C", "UTF8", "utf8mb4",
})  # fmt: skip
#: Arguments of the kernel that state how it works, never who or where it is.
_ARGUMENTS = frozenset({
    "mitigations", "isolcpus", "nohz", "nohz_full", "rcu_nocbs", "intel_pstate", "amd_pstate",
    "intel_idle.max_cstate", "processor.max_cstate", "idle", "transparent_hugepage",
    "hugepages", "hugepagesz", "default_hugepagesz", "iommu", "intel_iommu", "amd_iommu",
    "numa_balancing", "numa", "memmap", "efi", "nosmt", "maxcpus", "tsc", "clocksource", "pci",
    "pcie_aspm", "audit", "selinux", "preempt", "threadirqs", "skew_tick", "nmi_watchdog",
    "cgroup_disable", "swapaccount", "systemd.unified_cgroup_hierarchy", "console", "panic",
    "reboot",
})  # fmt: skip
_FLAGS = frozenset({
    "quiet", "splash", "ro", "rw", "nosmt", "nokaslr", "nomodules", "nomodule", "noapic",
    "nolapic", "threadirqs",
})  # fmt: skip
#: Names that occur in every document, whoever's they are.
_COMMON = frozenset({
    "root", "admin", "user", "test", "postgres", "mysql", "mariadb", "duckdb", "rocksdb",
    "spark", "localhost", "ubuntu", "debian", "home", "data", "temp", "index",
    "memory", "local", "host", "server", "client", "default", "unknown", "none", "removed",
})  # fmt: skip
_ADDRESS = re.compile(
    r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])"
    r"|(?<![0-9A-Fa-f:])(?:[0-9A-Fa-f]{1,4}:){3,7}[0-9A-Fa-f:]*[0-9A-Fa-f](?![\w:])"
    r"|(?<![0-9A-Fa-f-])(?:[0-9A-Fa-f]{2}-){5}[0-9A-Fa-f]{2}(?![\w-])"
)
_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
#: Marks of what is no name, wherever it is.
_PRIVATE = re.compile(
    r"//|@|\b(?:home|Users)/|\b(?:password|passwd|pwd|user|uid|host|hostaddr|server)="
    rf"|\b(?:[A-Za-z][\w-]*\.){{2,}}[A-Za-z]{{2,}}\b|{_ADDRESS.pattern}|{_UUID.pattern}"
)
_USER = re.compile(r"/(?:home|Users)/([^/\s:'\"]+)|([\w.-]+)(?::[^@\s/]*)?@[\w.-]+")
_AT_HOST = re.compile(r"@([\w.-]+)")
_CONNECTION = re.compile(r"\b(user|password|host|hostaddr|dbname|uid|pwd|server)=([^\s;,'\"]+)")
_PATHS = re.compile(r"(?<![\w.])/[\w.-]+/[^\s:,;'\"()]+")
#: Places that every host has.
_PLACES = frozenset({"/", "/dev/shm", "/tmp", "tmpfs", "none", ""})
_KERNEL_DEVICE = re.compile(
    r"(?:/dev/)?(?:(?:sd|vd|xvd)[a-z]+\d*|nvme\d+n\d+(?:p\d+)?|pmem\d+(?:\.\d+)?s?(?:p\d+)?"
    r"|(?:loop|md|dm-|zram|ram)\d+(?:p\d+)?|dax\d+\.\d+|nmem\d+|mem\d+)"
)
_RELEASE = re.compile(
    r"\d+|amd64|arm64|x86|64|generic|cloud|default|aws|azure|gcp|rt|fc|v\d+|el\d+|fc\d+|deb\d+u?\d*"
    r"|bpo\d*|aarch64|lowlatency|rc\d+"
)
#: An operator of a plan, with the relation that it reads.
_OPERATOR = re.compile(r"[A-Za-z_][\w $<>./-]*")
_OPTION = re.compile(r"[a-z_0-9]+")
_SAMPLE = re.compile(r"[a-zA-Z0-9_.-]+(?:\[[^\[\]]*\])?")
_SCRIPT = re.compile(r"(.+?)(\.(?:sql|lua|pgbench))?(@\d+)?")

#: What a rule makes of a value; its place is for errors.
Rule: TypeAlias = Callable[["Publication", Any, str], Any]


@dataclass
class Publication:
    """Documents of runs that may be published. ``removed``: numbers of values by kind."""

    key: bytes
    removed: Counter[str] = field(default_factory=Counter)
    #: What is replaced wherever it occurs, with what stands for it.
    identities: dict[str, str] = field(default_factory=dict)
    #: Names of engines, workloads and tiers: no identities, whoever else has them.
    names: set[str] = field(default_factory=set)

    def pseudonym(self, kind: str, text: str, identifies: bool = False) -> str:
        """Return what stands for a text of this kind, the same in every export of this host."""
        self.removed[kind] += 1
        self._note(text)
        name = self._name(kind, text)
        if identifies:
            self._identity(text, name)
            if kind == "host" and not _ADDRESS.fullmatch(text):
                short, _, domain = text.partition(".")
                self._identity(short, name)
                if "." in domain:
                    self._identity(domain, self._name("host", domain))
        return name

    def leave_out(self, kind: str, value: Any) -> None:
        """Count a value that is left out; what identifies in it is replaced elsewhere."""
        if value not in (None, "", [], {}):
            self.removed[kind] += 1
        for text in _texts(value):
            self._note(text)

    def _name(self, kind: str, text: str) -> str:
        digest = hmac.new(self.key, f"{kind}\0{text}".encode("utf-8", "replace"), hashlib.sha256)
        return f"{kind.replace(' ', '-')}-{digest.hexdigest()[:10]}"

    def _note(self, text: str) -> None:
        """Note the users, hosts, addresses and paths that a removed text names."""
        for match in _USER.finditer(text):
            user = match[1] or match[2]
            self._identity(user, self._name("user", user))
        for match in _AT_HOST.finditer(text):
            self._identity(match[1], self._name("host", match[1]))
        for match in _CONNECTION.finditer(text):
            kind = "host" if match[1] in ("host", "hostaddr", "server") else "user"
            self._identity(match[2], self._name(kind, match[2]))
        for match in (*_ADDRESS.finditer(text), *_UUID.finditer(text)):
            self._identity(match[0], self._name("address", match[0]))
        for match in _PATHS.finditer(text):
            if match[0] not in _PLACES and not _KERNEL_DEVICE.fullmatch(match[0]):
                self._identity(match[0], "/" + self._name("path", match[0]))

    def _identity(self, text: str, name: str) -> None:
        plain = text.lower() in _COMMON or text in _WORDS or _NUMBER.fullmatch(text)
        if len(text) >= 3 and not plain and text not in _PLACES:
            self.identities.setdefault(text, name)

    def replaced(self, documents: Mapping[str, Any]) -> dict[str, Any]:
        """Return documents without the identities in the texts that were kept."""
        longest_first = sorted(self.identities.keys() - self.names, key=len, reverse=True)
        names = {text.lower(): self.identities[text] for text in longest_first}
        if not longest_first:
            return dict(documents)
        pattern = re.compile(
            "|".join(  # a short one would be found within words
                re.escape(text) if len(text) > 5 else rf"(?<!\w){re.escape(text)}(?!\w)"
                for text in longest_first
            ),
            re.IGNORECASE,
        )

        def name_of(match: re.Match[str]) -> str:
            self.removed["within names"] += 1
            return names[match[0].lower()]

        def walk(value: Any) -> Any:
            if isinstance(value, str):
                return pattern.sub(name_of, value)
            if isinstance(value, dict):
                return {walk(key): walk(member) for key, member in value.items()}
            return [*map(walk, value)] if isinstance(value, list) else value

        return {name: walk(document) for name, document in documents.items()}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, member in value.items():
            yield key
            yield from _texts(member)
    elif isinstance(value, list | tuple):
        for member in value:
            yield from _texts(member)


# Rules -----------------------------------------------------------------------------------


def _each(rule: Callable[[Publication, str], str]) -> Rule:
    """Make a rule of texts one of lists and mappings of them; keys are names."""

    def of_value(publication: Publication, value: Any, where: str) -> Any:
        if isinstance(value, str):
            return rule(publication, value)
        if isinstance(value, dict):
            return {
                _name(publication, key): of_value(publication, member, where)
                for key, member in value.items()
            }
        if isinstance(value, list):
            return [of_value(publication, member, where) for member in value]
        return value

    return of_value


def _name(publication: Publication, text: str) -> str:
    if not text or _name_is_plain(text):
        return text
    return _device(publication, text) if text[0] == "/" else publication.pseudonym("name", text)


def _run_id(publication: Publication, text: str) -> str:
    """A run's id, which has its label: its time stays where that is private."""
    return text if not _PRIVATE.search(text) else _other_run_id(publication, text)


def _other_run_id(publication: Publication, text: str) -> str:
    return f"{text[:16]}-{publication.pseudonym('name', text)}"


def _name_is_plain(text: str) -> bool:
    return bool(_NAME.fullmatch(text)) and not _PRIVATE.search(text)


def _value(publication: Publication, text: str) -> str:
    if not text or text.lower() in _WORDS or text in _WORDS or _NUMBER.fullmatch(text):
        return text
    return _path(publication, text) if text[0] == "/" else publication.pseudonym("value", text)


def _path(publication: Publication, text: str) -> str:
    if text in _PLACES:
        return text
    return "/" + publication.pseudonym("path", text, identifies=True)


def _device(publication: Publication, text: str) -> str:
    if text in _PLACES or _KERNEL_DEVICE.fullmatch(text):
        return text
    slash = "/" if text[0] == "/" else ""
    return slash + publication.pseudonym("device", text, identifies=True)


def _source(publication: Publication, text: str) -> str:
    """A package, or where a program was found."""
    if text[:1] == "/":
        return _path(publication, text)
    plain = text.replace("'s ", " ")  # Debian's
    return text if _name_is_plain(plain) else _name(publication, text)


def _operator(publication: Publication, text: str) -> str:
    """What an engine calls an operator, without literals of its conditions."""
    plain = _OPERATOR.fullmatch(text) and _name_is_plain(text)
    return text if plain or not text else publication.pseudonym("literal", text)


def _stand_in(publication: Publication, text: str) -> str:
    """``tmpfs at /dev/shm/pmem``."""
    kind, at, place = text.partition(" at ")
    return _name(publication, kind) + (at + _path(publication, place) if at else "")


def _release(publication: Publication, text: str) -> str:
    """A kernel's release: numbers and distributions' words; the rest may name who built it."""
    parts = re.split(r"([-._+])", text)
    return "".join(
        part
        if part in ("-", ".", "_", "+", "") or _RELEASE.fullmatch(part)
        else publication.pseudonym("kernel argument", part)
        for part in parts
    )


def _arguments(publication: Publication, text: str) -> str:
    """The command line of the kernel, word by word."""
    return " ".join(_argument(publication, word) for word in text.split())


def _argument(publication: Publication, word: str) -> str:
    name, equals, _ = word.partition("=")
    allowed = name in _ARGUMENTS if equals else name in _FLAGS
    if allowed and _name_is_plain(word):
        return word
    return publication.pseudonym("kernel argument", word)


def _mount_option(publication: Publication, text: str) -> str:
    name, equals, option = text.partition("=")
    if not _OPTION.fullmatch(name):
        return publication.pseudonym("value", text)
    return name + equals + _value(publication, option)


def _script(publication: Publication, text: str) -> str:
    """A path of a script with its weight; its extension says whose language it is."""
    match = _SCRIPT.fullmatch(text)
    if match is None or "/" not in text:
        return _name(publication, text.partition("@")[0]) + "".join(text.partition("@")[1:])
    return _path(publication, match[1]) + (match[2] or "") + (match[3] or "")


def _definition(publication: Publication, text: str) -> str:
    name, equals, defined = text.partition("=")
    return _name(publication, name) + equals + _value(publication, defined)


def _digest(publication: Publication, text: str) -> str:
    """A hash of what identifies, of the same form: a search through names could undo it."""
    return hmac.new(publication.key, text.encode(), hashlib.sha256).hexdigest()[: len(text)]


def _identified(kind: str) -> Rule:
    return _each(
        lambda publication, text: (
            publication.pseudonym(kind, text, identifies=True) if text else text
        )
    )


def _prose(publication: Publication, value: Any, where: str) -> Any:
    """Leave text out; a list of texts is empty then."""
    publication.leave_out("text", value)
    return [] if isinstance(value, list) else "removed" if value else value


def _nothing(publication: Publication, value: Any, where: str) -> Any:
    publication.leave_out("text", value)


def _numbers(publication: Publication, value: Any, where: str) -> Any:
    """Keep numbers and flags; refuse a text, which no rule covers."""
    if isinstance(value, str):
        raise _refusal(where)
    if isinstance(value, dict):
        for key in value:
            if not _SAMPLE.fullmatch(key) and not _NAME.fullmatch(key):
                raise _refusal(f"{where}.{key}")
        return {
            _name(publication, key): _numbers(publication, member, f"{where}.{key}")
            for key, member in value.items()
        }
    return [_numbers(publication, v, where) for v in value] if isinstance(value, list) else value


def _samples(publication: Publication, value: Any, where: str) -> Any:
    """A monitor's samples: keys are ``name[label=value]``."""
    for sample in value:
        for key, member in sample.items():
            if not _SAMPLE.fullmatch(key) or _PRIVATE.search(key):
                raise _refusal(f"{where}.{key}")
            _numbers(publication, member, f"{where}.{key}")
    return value


def _argv(publication: Publication, value: Any, where: str) -> Any:
    publication.leave_out("command line", value[1:])
    return ["harness"]


def _warning(publication: Publication, value: Any, where: str) -> Any:
    """The code, which docs/warnings.md explains."""
    publication.leave_out("text", [value[key] for key in value if key != "code"])
    return {"code": value["code"], "what": value["code"].replace("-", " "), "found": "", "do": ""}


def _modules(publication: Publication, value: Any, where: str) -> Any:
    return [_by_key(publication, module, _MODULE, where) for module in value]


def _mounts(publication: Publication, value: Any, where: str) -> Any:
    return [_by_key(publication, mount, _MOUNT, where) for mount in value]


def _suite(publication: Publication, value: Any, where: str) -> Any:
    """Of a suite's documents, which paper they repeat."""
    documents = {}
    for name, document in value.items():
        published = document.get("published") if isinstance(document, dict) else None
        publication.leave_out(
            "suite",
            {k: v for k, v in document.items() if k != "published"}
            if isinstance(document, dict)
            else document,
        )
        of_paper = {"published": NAME(publication, published, where)} if published else {}
        documents[_name(publication, Path(name).name)] = of_paper
    return documents


def _by_key(
    publication: Publication, value: Mapping[str, Any], rules: Mapping[str, Rule], where: str
) -> dict[str, Any]:
    document = {}
    for key, member in value.items():
        if key not in rules:
            raise _refusal(f"{where}.{key}")
        document[key] = rules[key](publication, member, f"{where}.{key}")
    return document


def _refusal(where: str) -> UsageError:
    return UsageError(
        "runs export --public",
        f"no rule says whether {where} may be published",
        "leave the run out by a selector, or export it without --public for those who may see it",
    )


NAME, VALUE, PATH, DEVICE = _each(_name), _each(_value), _each(_path), _each(_device)
SOURCE, SCRIPT, DEFINITION, DIGEST = map(_each, (_source, _script, _definition, _digest))
RUN_ID = _each(_run_id)
OPTION, HOST, SERIAL = _each(_mount_option), _identified("host"), _identified("serial")
ADDRESS, ENVIRONMENT = _identified("address"), _identified("environment")

_MODULE: Mapping[str, Rule] = {
    **dict.fromkeys(("source", "dev", "name", "type", "technology", "vendor", "device"), NAME),
    **dict.fromkeys(("formats", "flags", "firmware_version"), NAME),
    **dict.fromkeys(
        ("mapped_bytes", "size_bytes", "speed_mts", "ram_bytes", "pmem_bytes"), _numbers
    ),
    **dict.fromkeys(("numa_node", "active"), _numbers),
    **dict.fromkeys(("id", "serial"), SERIAL),
    **dict.fromkeys(("locator", "health", "firmware", "pci"), _nothing),
}
_MOUNT: Mapping[str, Rule] = {
    "tier": NAME, "point": PATH, "device": DEVICE, "filesystem": NAME, "options": OPTION,
    "dax": _numbers,
}  # fmt: skip
#: Of parameters of workloads; of the others that are declared texts are names.
_PARAMETERS: Mapping[str, Rule] = {
    "folder": PATH, "script": SCRIPT, "define": DEFINITION, "client_hosts": HOST,
}  # fmt: skip
#: Of suites of microbenchmarks, which declare none.
_OF_SUITES = (
    "suite",
    "suite_hash",
    "requested",
    "repeats",
    "overwrite",
    "configurations",
    "index_library",
)

#: Rules of texts by the class that declares them and the field; of a list or a mapping, of each.
RULES: Mapping[type, Mapping[str, Rule]] = {
    Placement: dict.fromkeys(("name", "data", "wal", "temp", "index", "memory"), NAME),
    RunSpec: {
        **dict.fromkeys(
            ("workload", "engine", "tuning", "emulate", "required_host_mode", "label", "driver",
             "monitors", "no_monitors", "observe", "cpus", "memory", "plant", "models",
             "required_dimms"), NAME),
        "settings": VALUE, "engine_options": VALUE,
        "listen": ADDRESS, "env": ENVIRONMENT,
    },
    result.Metric: {"name": NAME, "unit": NAME, "labels": NAME, "hdr": lambda _, value, __: value},
    result.Check: {"name": NAME, "detail": _prose, "labels": NAME},
    result.ClosedLoop: {"run_ids": RUN_ID},
    result.LatencyTarget: {"parameter": NAME},
    result.Experiment: {"name": NAME, "hash": DIGEST},
    result.Emulated: {"tier": NAME, "by": _each(_stand_in)},
    result.Cached: {"label": NAME, "note": _prose},
    result.Resumption: {"cut_off_run_id": RUN_ID, "after_step": NAME},
    result.Failure: {
        "type": NAME, "problem": _prose, "context": _prose, "hint": _prose, "traceback": _prose,
    },
    result.RunResult: {
        "run_id": RUN_ID, "spec_hash": DIGEST, "modelled": NAME, "part_bytes": NAME,
        "configurations": NAME,
    },
    result.HarnessVersion: {"version": NAME, "revision": NAME},
    result.Program: {
        **dict.fromkeys(("name", "version", "durability_settings"), NAME), "build": SOURCE,
        "source": SOURCE, "settings": VALUE, "effective_config": VALUE,
    },
    result.Manifest: {
        "run_id": RUN_ID, "argv": _argv, "run_state": NAME, "tools": NAME, "conditions": _nothing,
        "prices_per_gb": NAME, "memory_nodes": NAME, "processors": NAME,
    },
    DatasetName: {"key": NAME, "fingerprint": VALUE, "load_retries": NAME},
    Processors: dict.fromkeys(("model", "flags", "microcode", "online"), NAME),
    LinuxFacts: {"release": _each(_release), "cmdline": _each(_arguments)},
    NumaNode: {"cpus": NAME, "backing": NAME},
    HostFacts: {
        **dict.fromkeys(
            ("governor", "thp", "aslr", "prefetchers", "memory_speed", "uncore_frequency",
             "dimm_power_budget", "persistence_domains", "virtualised", "mitigations"), NAME),
        "host_id": HOST, "hostname": HOST, "mode_evidence": _prose, "dimms": _modules,
        "mounts": _mounts, "notes": _prose,
    },
    ModelName: {"name": NAME, "digest": NAME},
    TierRecord: {
        **dict.fromkeys(("name", "kind", "emulates"), NAME), "path": PATH, "device": DEVICE,
        "source": _prose, "warnings": _prose,
    },
    TierFacts: {
        **dict.fromkeys(
            ("filesystem_id", "filesystem", "device_model", "namespace", "namespace_mode", "region",
             "persistence_domain", "memory_kind"), NAME),
        "mount_point": PATH, "mount_options": OPTION, "device": DEVICE, "disks": DEVICE,
        "persistence_source": _nothing, "notes": _prose,
    },
    # Artifacts
    artifacts.SeriesPoint: {"counts": NAME},
    artifacts.LatencyPoint: {"operations": NAME},
    artifacts.TimelineEntry: dict.fromkeys(("query", "stream", "function", "user"), NAME),
    artifacts.Unexplained: {"why": _prose},
    artifacts.PlanAccount: {
        "why": _prose,
        **dict.fromkeys(("plan_ns", "execution_ns", "measured_ns", "remainder_ns"), _numbers),
    },
    artifacts.StoredPlan: {
        "duration_ns": _numbers, "outside_ns": _numbers, "clock": NAME, "raw_format": NAME,
        **dict.fromkeys(("raw", "note", "extra", "accounting"), _nothing),
    },
    Operator: {"name": _each(_operator), "relation": NAME},
    artifacts.IoCalls: dict.fromkeys(("late_ns", "due_ns", "achieved_ns", "sizes"), _numbers),
    artifacts.StoredSuite: {
        "name": NAME, "documents": _suite, "published": NAME, "description": _nothing,
        "configurations": _nothing,
    },
    artifacts.StoredProgramResult: {"spec": _nothing},
    artifacts._ProgramResult: {},
    artifacts._Caches: {},
    artifacts.MonitorSamples: {
        "disks": DEVICE, "samples": _samples, "clock": NAME, "stamp_error_ns": _numbers,
        "running_share": _numbers, "events": NAME, "failed_observations": _numbers,
        "engine_memory": NAME,
    },
    artifacts.RelationIo: {"name": NAME, "table": NAME},
}  # fmt: skip
#: Artifacts that are left out: texts of queries, answers, logs and programs' own words.
LEFT_OUT = frozenset(
    {"queries", "answers", "scripts", "statement-classes", "engine", "client", "fio", "ioping"}
)
#: Structs of which only the declared fields are published: people read the others.
_DECLARED_ALONE = (artifacts._ProgramResult, artifacts._Caches)
#: Fields that the tag of a document is in.
_SCHEMA = "schema"


# The walk --------------------------------------------------------------------------------


def public(
    publication: Publication, value: Any, kind: Any, where: str, rule: Rule | None = None
) -> Any:
    """Return a valid document of a type as it may be published; UsageError where no rule is."""
    if rule is not None and not _has_structs(kind):
        return rule(publication, value, where)
    kind = _plain(kind, value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(kind, type) and (issubclass(kind, msgspec.Struct) or is_dataclass(kind)):
        return _of_struct(publication, value, kind, where)
    if get_origin(kind) is Literal:
        return value
    arguments = get_args(kind)
    if isinstance(value, dict) and len(arguments) == 2:
        return {
            _name(publication, key): public(publication, member, arguments[1], f"{where}.{key}")
            for key, member in value.items()
        }
    if isinstance(value, list) and arguments:
        several = Ellipsis not in arguments and len(arguments) > 1
        kinds = arguments if several else arguments[:1] * len(value)
        return [
            public(publication, member, each, where)
            for member, each in zip(value, kinds, strict=True)
        ]
    raise _refusal(where)


def _of_struct(publication: Publication, value: Any, kind: Any, where: str) -> Any:
    if kind is RunWarning:
        return _warning(publication, value, where)
    keys, rules = structs.keys_of(kind), RULES.get(kind, {})
    document = {}
    for key, member in value.items():
        place = f"{where}.{key}"
        if key == _SCHEMA:
            document[key] = member
        elif kind is RunSpec and key == "params":
            document[key] = _params(publication, value["workload"], member, place)
        elif key in keys:
            document[key] = public(publication, member, keys[key], place, rules.get(key))
        elif key in rules:
            document[key] = rules[key](publication, member, place)
        elif kind in _DECLARED_ALONE:
            publication.leave_out("text", member)
        else:
            raise _refusal(place)
    return document


def _params(publication: Publication, workload: str, params: Any, where: str) -> dict[str, Any]:
    declared: Sequence[str] = _OF_SUITES
    if workload != MICRO:
        declared = tuple(registry.parameters(workload).declared())
    document = {}
    for name, value in params.items():
        if name not in declared:
            raise _refusal(f"{where}.{name}")
        rule = _PARAMETERS.get(name, NAME)
        document[name] = rule(publication, value, f"{where}.{name}")
    return document


def _plain(kind: Any, value: Any) -> Any:
    """Return a type without bounds and without its alternatives that the value is not of."""
    while True:
        if get_origin(kind) is Annotated:
            kind = get_args(kind)[0]
        elif get_origin(kind) in (Union, UnionType):
            others = [each for each in get_args(kind) if each is not NoneType]
            if len(others) != 1:
                return kind
            kind = others[0]
        else:
            return kind


def _has_structs(kind: Any) -> bool:
    if isinstance(kind, type) and (issubclass(kind, msgspec.Struct) or is_dataclass(kind)):
        return True
    return any(map(_has_structs, get_args(kind)))


# Runs ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Published:
    """A public export. ``removed``: values that were left out or replaced, by kind."""

    run_ids: tuple[str, ...]
    removed: Mapping[str, int]


def publish_runs(runs: Sequence[StoredRun], folder: Path) -> Published:
    """Write runs that may be published as a results directory; UsageError before it is made."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"export to {folder}", "it is not empty", "name a new directory")
    publication = Publication(_key(), names=set(_names(runs)))
    documents = {run.run_id: _documents(publication, run) for run in runs}
    public_runs: dict[str, dict[str, Any]] = {}
    for run_id, of_run in documents.items():
        replaced = _checked(publication.replaced(of_run), run_id)
        name = replaced["run"]["run_id"]
        if name in public_runs or "@" in run_id:  # imported, with the name of another
            name += f"@{publication.pseudonym('host', run_id.rpartition('@')[2])}"
        public_runs[name] = replaced
    for run_id, of_run in public_runs.items():
        for name, document in sorted(of_run.items(), key=lambda item: item[0] == "run"):
            path = folder / "runs" / run_id / f"{name}.json"
            make_own(path.parent)
            write_json_atomically(path, document)
    return Published(tuple(public_runs), dict(sorted(publication.removed.items())))


def _names(runs: Sequence[StoredRun]) -> Iterator[str]:
    for run in runs:
        yield from (run.spec.workload, run.spec.engine, run.spec.driver)
        yield from (tier.name for tier in run.tiers)
        yield from run.spec.placement.tiers() if run.spec.placement else ()


def _documents(publication: Publication, run: StoredRun) -> dict[str, Any]:
    """The public documents of a run, by their path without ``.json``."""
    documents = {"run": public(publication, run.document, result.RunResult, "run.json")}
    if run.manifest_document:
        documents["manifest"] = public(
            publication, run.manifest_document, result.Manifest, "manifest.json"
        )
    documents["spec"] = documents["run"]["spec"]
    for path in sorted(run.directory.iterdir()):
        if path.name == "artifacts":
            for artifact in sorted(path.iterdir()):
                _artifact(publication, run, artifact, documents)
        elif path.name in ("observers", "steps.jsonl", ORIGIN_FILE):
            publication.removed["file"] += 1
        elif path.name not in ("run.json", "manifest.json", "spec.json"):
            raise _refusal(str(path))
    run_id, label = documents["run"]["run_id"], run.spec.label
    if label and documents["spec"]["label"] != label and run_id == run.result.run_id:
        publication.identities[run_id] = _other_run_id(publication, run_id)
    return documents


def _artifact(
    publication: Publication, run: StoredRun, path: Path, documents: dict[str, Any]
) -> None:
    name, where = path.stem, f"artifacts/{path.name}"
    if name in LEFT_OUT:
        publication.removed["artifact"] += 1
        with suppress(OSError, ValueError):
            publication.leave_out("text", msgspec.json.decode(path.read_bytes()))
        return
    kind = artifacts.kind_of(name)
    if path.suffix != ".json" or kind is Any:
        raise _refusal(f"{where} of {run.run_id}")
    document = run.artifact(name)
    if document is None:  # damaged: a warning says so
        publication.removed["artifact"] += 1
        return
    documents[f"artifacts/{name}"] = public(publication, document, kind, where)


def _checked(documents: dict[str, Any], run_id: str) -> dict[str, Any]:
    """Return the documents with the hash of the public spec, as valid as stored ones."""
    kinds: Mapping[str, Any] = {
        "run": result.RunResult, "manifest": result.Manifest, "spec": RunSpec,
    }  # fmt: skip
    spec = structs.convert(documents["spec"], RunSpec, f"public spec of {run_id}")
    documents["run"]["spec_hash"] = spec.hash()
    for name, document in documents.items():
        kind = kinds.get(name) or artifacts.kind_of(name.removeprefix("artifacts/"))
        structs.convert(document, kind, f"public {name}.json of {run_id}")
    return documents


def _key() -> bytes:
    """The secret that pseudonyms are made with, of this host and user; made at the first export."""
    path = paths.state_dir() / "publish.key"
    try:
        make_own(path.parent)
        with suppress(FileExistsError):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(32))
        key = path.read_bytes()
    except OSError as error:
        raise UsageError(f"key of pseudonyms {path}", str(error), "make it readable") from error
    if len(key) != 32:
        raise UsageError(f"key of pseudonyms {path}", "it is damaged", "remove it")
    return key
