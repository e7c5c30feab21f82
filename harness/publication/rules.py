"""Rules of what is published, by the class and the field that a text is in.

Numbers and the words of a ``Literal`` need no rule. A text that no rule names is refused: what is
new does not pass unseen. Prose (contexts, details, notes, errors) is left out.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from harness.errors import UsageError
from harness.experiment.placement import Placement
from harness.publication.pseudonyms import (
    ADDRESSES,
    KERNEL_DEVICE,
    NUMBER,
    PLACES,
    UUID,
    WORDS,
    Publication,
)
from harness.query_plan import Operator
from harness.store import artifacts, result
from harness.store.datasets import DatasetName
from harness.store.host import HostFacts, LinuxFacts, NumaNode, Processors
from harness.store.spec import RunSpec
from harness.tiers.linux.model import ModelName, TierFacts, TierRecord

#: A name: of a metric, a tier, an arm, a query, a program and its version.
_NAME = re.compile(r"[\w(<+*][\w .,:;=+~|*%()<>&#/-]{0,199}")
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
#: Marks of what is no name, wherever it is.
_PRIVATE = re.compile(
    r"//|@|(?<![\w.)\]])/\w|~[A-Za-z_][\w.-]*/|\b(?:home|Users)/"
    r"|\b(?:password|passwd|pwd|user|uid|host|hostaddr|server)="
    r"|\.(?:service|slice|scope|mount|socket)\b|\b0x[0-9A-Fa-f]{9}|\b(?:eui|naa|nguid|wwn)[.-]"
    rf"|\b(?:[A-Za-z][\w-]*\.){{2,}}[A-Za-z]{{2,}}\b|{ADDRESSES.pattern}|{UUID.pattern}"
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


def _each(rule: Callable[[Publication, str], str]) -> Rule:
    """Make a rule of texts one of lists and mappings of them; keys are names."""

    def of_value(publication: Publication, value: Any, where: str) -> Any:
        if isinstance(value, str):
            return rule(publication, value)
        if isinstance(value, dict):
            return {
                plain_name(publication, key): of_value(publication, member, where)
                for key, member in value.items()
            }
        if isinstance(value, list):
            return [of_value(publication, member, where) for member in value]
        return value

    return of_value


def plain_name(publication: Publication, text: str) -> str:
    """Return a name, or what stands for a text that is none."""
    if not text or _name_is_plain(text):
        return text
    return _device(publication, text) if text[0] == "/" else publication.pseudonym("name", text)


def _run_id(publication: Publication, text: str) -> str:
    """A run's id, which has its label: its time stays where that is private."""
    return text if not _PRIVATE.search(text) else other_run_id(publication, text)


def other_run_id(publication: Publication, text: str) -> str:
    """Return a run's id with a pseudonym in place of its label."""
    stamp = re.match(r"\d{8}T\d{6}Z-|", text)
    return f"{stamp[0] if stamp else ''}{publication.pseudonym('name', text)}"


def _name_is_plain(text: str) -> bool:
    return bool(_NAME.fullmatch(text)) and not _PRIVATE.search(text)


def _value(publication: Publication, text: str) -> str:
    if not text or text.lower() in WORDS or text in WORDS or NUMBER.fullmatch(text):
        return text
    return _path(publication, text) if text[0] == "/" else publication.pseudonym("value", text)


def _path(publication: Publication, text: str) -> str:
    if text in PLACES:
        return text
    return "/" + publication.pseudonym("path", text, identifies=True)


def _device(publication: Publication, text: str) -> str:
    if text in PLACES or KERNEL_DEVICE.fullmatch(text):
        return text
    slash = "/" if text[0] == "/" else ""
    return slash + publication.pseudonym("device", text, identifies=True)


def _source(publication: Publication, text: str) -> str:
    """A package, or where a program was found."""
    if text[:1] == "/":
        return _path(publication, text)
    plain = text.replace("'s ", " ")  # Debian's
    return text if _name_is_plain(plain) else plain_name(publication, text)


def _operator(publication: Publication, text: str) -> str:
    """What an engine calls an operator, without literals of its conditions."""
    plain = _OPERATOR.fullmatch(text) and _name_is_plain(text)
    return text if plain or not text else publication.pseudonym("literal", text)


def _stand_in(publication: Publication, text: str) -> str:
    """``tmpfs at /dev/shm/pmem``."""
    kind, at, place = text.partition(" at ")
    return plain_name(publication, kind) + (at + _path(publication, place) if at else "")


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
        return plain_name(publication, text.partition("@")[0]) + "".join(text.partition("@")[1:])
    return _path(publication, match[1]) + (match[2] or "") + (match[3] or "")


def _definition(publication: Publication, text: str) -> str:
    name, equals, defined = text.partition("=")
    return plain_name(publication, name) + equals + _value(publication, defined)


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
        raise refusal(where)
    if isinstance(value, dict):
        for key in value:
            if not _SAMPLE.fullmatch(key) and not _NAME.fullmatch(key):
                raise refusal(f"{where}.{key}")
        return {
            plain_name(publication, key): _numbers(publication, member, f"{where}.{key}")
            for key, member in value.items()
        }
    return [_numbers(publication, v, where) for v in value] if isinstance(value, list) else value


def _samples(publication: Publication, value: Any, where: str) -> Any:
    """A monitor's samples: keys are ``name[label=value]``."""
    for sample in value:
        for key, member in sample.items():
            if not _SAMPLE.fullmatch(key) or _PRIVATE.search(key):
                raise refusal(f"{where}.{key}")
            _numbers(publication, member, f"{where}.{key}")
    return value


def _argv(publication: Publication, value: Any, where: str) -> Any:
    publication.leave_out("command line", value[1:])
    return ["harness"]


def warning_code(publication: Publication, value: Any, where: str) -> Any:
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
        documents[plain_name(publication, Path(name).name)] = of_paper
    return documents


def _by_key(
    publication: Publication, value: Mapping[str, Any], rules: Mapping[str, Rule], where: str
) -> dict[str, Any]:
    document = {}
    for key, member in value.items():
        if key not in rules:
            raise refusal(f"{where}.{key}")
        document[key] = rules[key](publication, member, f"{where}.{key}")
    return document


def refusal(where: str) -> UsageError:
    """Return the error of a text that no rule covers."""
    return UsageError(
        "runs export --public",
        f"no rule says whether {where} may be published",
        "leave the run out by a selector, or export it without --public for those who may see it",
    )


NAME, VALUE, PATH, DEVICE = _each(plain_name), _each(_value), _each(_path), _each(_device)
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
PARAMETERS: Mapping[str, Rule] = {
    "folder": PATH, "script": SCRIPT, "define": DEFINITION, "client_hosts": HOST,
}  # fmt: skip
#: Of suites of microbenchmarks, which declare none.
OF_SUITES = (
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
DECLARED_ALONE = (artifacts._ProgramResult, artifacts._Caches)
