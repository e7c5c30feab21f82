"""``harness doctor``: what this host offers, and what reduces the quality of measurements."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from harness import jsonfile, native_programs, registry
from harness.cli.common import (
    EmulateOption,
    HostOption,
    JsonOption,
    available,
    print_json,
    store,
)
from harness.cli.engines import engine_rows
from harness.cli.memory_table import print_memory
from harness.errors import HarnessError, UsageError
from harness.host.doctor import examine
from harness.host.tools import UNKNOWN
from harness.micro import fio, ioping
from harness.monitors import GuardedMonitor, MonitorContext
from harness.native_programs import loadgen_backends, missing_packages
from harness.supervise import programs
from harness.supervise.credentials import shared_user_warnings, unprivileged
from harness.supervise.journal import left_behind
from harness.terminal import print_table, say
from harness.tiers.discovery import find_tiers_and_problems
from harness.tiers.linux.model import Tier
from harness.units import format_bytes
from harness.warnings import RunWarning

#: Vector instruction sets of x86, the widest first.
_X86_SETS = ("avx512", "avx2", "sse2")
_TIMEOUT_S = 60
#: Where persistence ends, in words.
_ENDS = {
    "cpu_cache": "the processors' caches (eADR)",
    "memory_controller": "the memory controllers (ADR)",
    "cxl_device": "the CXL device (Global Persistent Flush)",
    "cxl_switch": "the CXL switch, which does not pass Global Persistent Flush on",
    "none": "nowhere, the memory is volatile",
    "unknown": "not known",
}


def doctor(
    host: HostOption = None, emulate: EmulateOption = None, json_: JsonOption = False
) -> None:
    """Show tiers, host mode, engines, tools, uncontrolled settings."""
    tiers, problems = find_tiers_and_problems(host, emulate or [], unprivileged())
    document = examine(list(tiers.values()))
    document["tier_problems"] = [problem.to_json() for problem in problems]
    _add_measured(document)
    document["engines"] = engine_rows()
    document["servers_user"] = _servers_user()
    document["left_behind"] = [warning.to_json() for warning in _left_behind()]
    document["monitors"] = list(_monitors(list(tiers.values())))
    document["microbenchmarks"] = _microbenchmarks()
    document["official_ycsb"] = _official_ycsb()
    document["native_client"] = {"backends": loadgen_backends(), "missing": missing_packages()}
    if json_:
        print_json(document)
    else:
        _print(document)


def _print(document: dict[str, Any]) -> None:
    facts = document["host"]
    cpu = facts["cpu"]
    say(
        f"host     {facts['hostname']}: {cpu['model']}, {cpu['threads']} threads, "
        f"{format_bytes(facts['memory_bytes'])} memory, "
        f"Linux {facts['kernel']['release']}",
        hanging=9,
    )
    say(f"mode     {document['mode']['mode']}: {document['mode']['evidence']}", hanging=9)
    for group, names in document["instructions"].items():
        say(f"CPU      {group}: {_split(names)}", hanging=9)
    user = document["servers_user"]
    say(f"servers  run as {user['name']}", hanging=9)
    for entry in user["warnings"]:
        say(f"  {entry['code']}: {entry['what']}: {entry['found']}\n    {entry['do']}")
    for entry in document["left_behind"]:
        say(f"left     {entry['code']}: {entry['what']}: {entry['found']}\n    {entry['do']}")
    cap = document["memory_cap"]
    say(
        f"memory   cap by {cap['method']}{': ' + cap['reason'] if cap['reason'] else ''}", hanging=9
    )
    for monitor in document["monitors"]:
        say(f"monitor  {monitor['name']}: {_availability(monitor)}", hanging=9)
    native = document["native_client"]
    lacking = f"; for the others install {', '.join(native['missing'])}"
    say(
        f"client   loadgen for {', '.join(native['backends']) or 'no engine'}"
        f"{lacking if native['missing'] else ''}",
        hanging=9,
    )
    for line in _clients(document["official_ycsb"], document["microbenchmarks"]):
        say(line, hanging=9)
    print()
    print_table(
        ("tier", "kind", "where", "kernel's finding"),
        [(t["name"], t["kind"], t["place"], t["finding"]) for t in document["tiers"]],
    )
    for tier in document["tiers"]:
        for warning in tier["warnings"]:
            say(f"  {tier['name']}: {warning}")
        if ends := tier["facts"]["persistence_domain"]:
            source = tier["facts"]["persistence_source"]
            say(f"  {tier['name']}: persistence ends at: {_ENDS.get(ends, ends)} ({source})")
    for problem in document["tier_problems"]:
        say(f"  {problem['problem']}: {problem['context']}\n    {problem['hint']}")
    print()
    print_memory(document)
    print()
    print_table(
        ("engine", "version", "from"),
        [
            (e["name"], e["version"] or "missing", e["source"] or e["missing"])
            for e in document["engines"]
        ],
    )
    print()
    print_table(
        ("tool", "version"),
        [(name, _version(text)) for name, text in document["tools"].items()],
    )
    print()
    if not document["uncontrolled"]:
        say("Everything that affects results is controlled.")
        return
    say("Not controlled (each makes numbers less repeatable):")
    for entry in document["uncontrolled"]:
        say(f"  {entry['code']}: {entry['what']}: {entry['found']}\n    {entry['do']}")


def _add_measured(document: dict[str, Any]) -> None:
    """Add to each node what stored microbenchmarks measured of it on this host; else None."""
    from reports.micro.node_figures import node_figures  # reports are loaded where they are needed

    figures: Mapping[int, Any] = {}
    with suppress(HarnessError, OSError):  # results that cannot be read are no figures
        figures = node_figures(store(None).runs(), document["host"]["host_id"])
    for node in document["nodes"]:
        measured = figures.get(node["node"])
        node["measured"] = asdict(measured) if measured else None


def _version(text: str | None) -> str:
    return {None: "not found", UNKNOWN: "installed"}.get(text, text or "")


def _monitors(tiers: Sequence[Tier]) -> Iterator[dict[str, Any]]:
    """Each with its cost, and the problem that keeps it from working here."""
    for name, kind in registry.monitors().items():
        problem = GuardedMonitor(kind, MonitorContext(tiers=tiers)).preflight()
        yield {
            "name": name,
            "default": kind.default,
            "cost": kind.cost,
            "available": problem is None,
            "code": problem.code if problem else None,
            "problem": problem.context if problem else None,
            "hint": problem.hint if problem else None,
        }


def _availability(monitor: Mapping[str, Any]) -> str:
    """Return its cost, or the reason why it does not work here."""
    if monitor["available"]:
        return f"{monitor['cost']}{'' if monitor['default'] else ' (only with --monitor)'}"
    hint = f"; {monitor['hint']}" if monitor["hint"] else ""
    return f"not available: {monitor['problem']}{hint}"


def _split(names: Mapping[str, bool]) -> str:
    """``avx2, sse2 (not: avx512f)``."""
    have, lack = (", ".join(n for n, has in names.items() if has is each) for each in (True, False))
    return (have or "none") + (f" (not: {lack})" if lack else "")


def _servers_user() -> dict[str, Any]:
    """The user of servers and clients: ``{name, warnings: [{code, what, found, do}]}``."""
    user = unprivileged()
    if user is None:
        try:
            name = pwd.getpwuid(os.geteuid()).pw_name
        except KeyError:  # as in a container of docker run --user
            name = f"uid {os.geteuid()}"
        return {"name": name, "warnings": []}
    return {
        "name": user.name,
        "warnings": [warning.to_json() for warning in shared_user_warnings(user)],
    }


def _left_behind() -> Iterator[RunWarning]:
    """Return the changes of killed harnesses to this host that nothing has undone."""
    for left in left_behind():
        for what in (*left.undone, *left.failures):
            yield RunWarning(
                "left-behind",
                "an earlier harness left something behind",
                f"{what} (harness {left.owner})",
                "the next `harness run` undoes it first",
            )


def _official_ycsb() -> dict[str, Any]:
    """Report the bindings that the official client was built for, and what a build lacks."""
    from harness.drivers.ycsb import build

    answers = (available(find)[1] for find in (build.find_java, build.find_maven))
    missing = [reason for reason in answers if reason]
    return {"version": build.VERSION, "built": build.builds(), "missing": missing}


def _microbenchmarks() -> dict[str, Any]:
    """Each program that measures suites: its version, or what is missing."""
    others = {"fio": available(fio.version), "ioping": available(ioping.version)}
    return {"microbench": _microbench()} | {
        name: {"version": version, "missing": missing}
        for name, (version, missing) in others.items()
    }


def _microbench() -> dict[str, Any]:
    """``instructions``: the sets of this processor's family, and whether it has them."""
    document: dict[str, Any] = {
        "version": None,
        "program": None,
        "interface": native_programs.microbench_interface(),
        "wanted_interface": native_programs.MICROBENCH_INTERFACE,
        "instructions": {},
        "flushes": [],
        "missing": None,
    }
    try:
        program = native_programs.microbench_program()
        document["program"] = str(program)
        done = programs.run([program, "--version"], timeout_s=_TIMEOUT_S)
        done.check_returncode()
        printed = jsonfile.parse(done.stdout)
    except UsageError as error:
        return document | {"missing": f"{error.context}; {error.hint}"}
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return document | {"missing": str(error)}
    has = printed["cpu"]["isa"]
    names = _X86_SETS if set(has) & set(_X86_SETS) else has
    return document | {
        "version": printed["version"],
        "instructions": {name: name in has for name in names},
        "flushes": [name for name in printed["cpu"]["flush"] if name != "none"],
    }


def _clients(official: Mapping[str, Any], micro: Mapping[str, Any]) -> Iterator[str]:
    """The official YCSB client, and the programs of microbenchmarks, a line each."""
    built = ", ".join(official["built"])
    state = f"built for {built}" if built else "not built: Maven builds it on first use"
    text = "; ".join([state, *official["missing"]])
    yield f"client   official YCSB {official['version']}: {text}"
    microbench = micro["microbench"]
    if microbench["missing"]:
        yield f"micro    microbench: {microbench['missing']}"
    else:
        flushes = ", ".join(microbench["flushes"]) or "none"
        instructions = _split(microbench["instructions"])
        interface = microbench["interface"]
        yield f"micro    microbench, interface {interface}: {instructions}; flushes {flushes}"
    for name in ("fio", "ioping"):
        yield f"micro    {name} {micro[name]['version'] or 'missing: ' + micro[name]['missing']}"
