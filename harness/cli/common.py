"""Options and output that commands share."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from harness import paths, registry
from harness.errors import UsageError
from harness.metrics import parameters, workload_info
from harness.models.tier import model_requests
from harness.store.run_store import Store
from harness.store.runs import StoredRun
from harness.store.spec import JsonObject, RunSpec, canonical_json

if TYPE_CHECKING:
    from harness.workloads.parameters import Parameters

#: The experiment of runs without a name.
UNNAMED = "command-line"

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON only.")]
ResultsOption = Annotated[
    Path | None,
    typer.Option(
        "--results", metavar="DIR", help="Results directory [$HARNESS_RESULTS, else ./results]."
    ),
]
HostOption = Annotated[
    Path | None,
    typer.Option("--host", help="Host file of the tiers [found, else discovered]."),
]
RetriesOption = Annotated[
    int, typer.Option(min=0, max=100, help="Further attempts at a failed run.")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Check everything and print the runs; run nothing.")
]
SelectorArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SELECTOR]",
        help="Runs: engine=postgres placement=ssd-both, an id, an experiment; `or` adds [all].",
    ),
]
OutOption = Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Output folder.")]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="Print every parameter, defaults too.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
EmulateOption = Annotated[
    list[str] | None,
    typer.Option(
        "--emulate",
        metavar="NAME[=PATH]",
        help="Emulate a tier by a tmpfs directory [on /dev/shm]; results are marked.",
    ),
]


ObserveOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="OBSERVER",
        help="Observe a second, untimed execution: vtune:hotspots …; may repeat.",
    ),
]
ModelOption = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="NAME=MODEL",
        help="Model a device as a tier (`harness model list`); results are marked.",
    ),
]


def store(results: Path | None) -> Store:
    """Return the store of --results; UsageError if it is in or at a file."""
    root = paths.results_root(results)
    with suppress(PermissionError):  # found when it is used
        there = next(folder for folder in (root, *root.parents) if folder.exists())
        if not there.is_dir():
            problem = f"results in {root}"
            raise UsageError(problem, f"{there} is no directory", "name one: --results DIR")
    where = Store(root)
    where.refuse_foreign()
    return where


def print_json(document: Any) -> None:
    """One JSON document on stdout."""
    json.dump(document, sys.stdout, indent=1, ensure_ascii=False, default=str)
    print()


def stand_ins(emulate: Sequence[str] | None, model: Sequence[str] | None) -> list[str]:
    """Return the tiers that --emulate and --model request, in one form."""
    return [*(emulate or ()), *model_requests(key_values(model, "--model"))]


def given(results: Path | None) -> str:
    """The option ``--results`` as a command has it, to be appended to another one."""
    return f" --results {shlex.quote(str(results))}" if results else ""


def default_params(spec: RunSpec) -> JsonObject:
    """A workload's parameters where nothing is set but those that others follow from."""
    leaders = [name for name, info in parameters().items() if info.implies]
    led = {name: spec.params[name] for name in leaders if spec.params.get(name) is not None}
    with suppress(UsageError):  # an extension that is not installed here
        return registry.parameters(spec.workload).from_mapping(led).to_json()
    return {}


def set_params(spec: RunSpec) -> JsonObject:
    """The parameters of a run that say something: those a number needs, and those that were set."""
    usual, needed = default_params(spec), workload_info(spec.workload).essential
    return {
        name: value
        for name, value in spec.params.items()
        if name in needed or canonical_json(value) != canonical_json(usual.get(name))
    }


def usual_facts(spec: RunSpec) -> dict[str, str]:
    """Return a run's facts without settings, as reports have them."""
    from reports.run_configuration import facts_of_spec

    usual = RunSpec(spec.workload, "", None, default_params(spec))
    return facts_of_spec(usual, "Default")


def short_phases(parameters: type[Parameters], given: Mapping[str, str]) -> dict[str, str]:
    """Defaults of the phases for commands that make many runs, and those that are given.

    A number of operations bounds the window instead. While 10 warehouses are read into the caches,
    the device of the log waits for the reads: its latencies then are not those of the window.
    """
    if "operations" in given:
        return dict(given)
    defaults = {"ramp_up": "7s", "duration": "6s"}
    declared = parameters.declared()
    return {**{n: text for n, text in defaults.items() if n in declared}, **given}


def key_values(items: Sequence[str] | None, option: str) -> dict[str, str]:
    """``["a=1"]`` → ``{"a": "1"}``; UsageError for anything else or a key twice."""
    pairs: dict[str, str] = {}
    for item in items or []:
        key, equals, value = item.partition("=")
        if not equals or not key or key in pairs:
            problem = "the key is given twice" if key in pairs else "not of the form key=value"
            raise UsageError(f"{option} {item}", problem, f"write {option} key=value")
        pairs[key] = value
    return pairs


def names(given: Sequence[str] | None) -> list[str]:
    """The values of an option that may repeat, each once."""
    return list(dict.fromkeys(given or ()))


def confirm(what: str, yes: bool) -> None:
    """Prompt before a destructive step unless ``yes``; UsageError without a terminal."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(what, "this removes data; no terminal to confirm it", "add --yes")
    if not typer.confirm(f"{what}. Continue?", err=True):
        raise typer.Abort()


T = TypeVar("T")


def available(find: Callable[[], T]) -> tuple[T | None, str | None]:
    """Return the result of ``find``, or the reason why there is none."""
    try:
        return find(), None
    except UsageError as error:
        return None, f"{error.context}; {error.hint}"


def chosen_runs(
    where: Store, words: Sequence[str] | None, among: Sequence[StoredRun] | None = None
) -> list[StoredRun]:
    """The finished runs that a selector means (by conditions: ``among`` these); all without one."""
    from reports.select import select

    if not words:
        return list(where.runs() if among is None else among)
    return select(where, *words, among=among)


def finished_runs(where: Store, selectors: list[str] | None, problem: str) -> list[StoredRun]:
    """Return the selected runs; UsageError where there is none."""
    chosen = chosen_runs(where, selectors)
    if not chosen:
        raise UsageError(problem, f"no finished run in {where.root}", "run something first")
    return chosen
