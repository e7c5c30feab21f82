"""Runs in sets that agree in every fact: what may be pooled into one median, and nothing else.

Two runs of ``ssd-both`` on different file systems, kernels or engine builds are not
repeats of one another. Where the facts differ within an arm, a fact that all arms have
(the kernel) makes panels of its own, one that belongs to the arm (its tier) splits the arm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness.store.runs import StoredRun
from reports.labels import (
    by_relevance,
    differing,
    distinguishing,
    in_words,
    readable,
    value_name,
)
from reports.run_configuration import Dimension, Facts, other_facts, spec_facts
from reports.sequences import grouped

Known = Mapping[Path, Facts]


@dataclass(frozen=True)
class Context:
    """The runs of one panel. ``own``: its facts that distinguish it from the others.

    ``apart``: facts in which runs of one arm differed, so that they were kept apart.
    """

    runs: tuple[StoredRun, ...]
    own: Mapping[str, str]
    apart: tuple[str, ...] = ()


def contexts(runs: Sequence[StoredRun], dim: Dimension, known: Known) -> list[Context]:
    """Runs by everything decided beforehand but the dimension, then by what differs in arms."""
    found = grouped((other_facts(spec_facts(run), [dim]), run) for run in runs)
    made: list[Context] = []
    for key, held in found.items():
        mixed = _mixed_within_arms(held, dim, known)
        shared = [fact for fact in mixed if not dim.covers(fact, None, None)]
        sets = _split(held, partial(_only, shared, known))
        for index, part in enumerate(sets):
            own = dict(sorted(key)) | {f: _first(part, f, known) for f in shared}
            made.append(Context(tuple(part), own, tuple(mixed.values()) if index == 0 else ()))
    return made


def arms(
    runs: Sequence[StoredRun], dim: Dimension, known: Known
) -> list[tuple[str, str, list[StoredRun]]]:
    """Each arm's name, its value of the dimension and its runs, which agree in every fact."""
    by_value = grouped((known[run.directory].get(dim.fact), run) for run in runs)
    found = []
    for held in by_value.values():
        sets = _split(held, lambda run: known[run.directory])
        found += [(_called(part, dim), part) for part in sets]
    values = [value for value, _ in found]
    made: list[tuple[str, str, list[StoredRun]]] = []
    for value, part in found:
        peers = [_facts_of(p, known) for v, p in found if v == value]
        name = value if values.count(value) == 1 else _name_apart(value, part, peers, known)
        while name in [other for other, _, _ in made]:
            name += " (again)"
        made.append((name, value, part))
    return made


def _called(runs: Sequence[StoredRun], dim: Dimension) -> str:
    """Named by a run that has a manifest, where there is one: it knows what was enforced."""
    return value_name(next((run for run in runs if run.manifest), runs[0]), dim)


def _name_apart(value: str, runs: Sequence[StoredRun], peers: Sequence[Facts], known: Known) -> str:
    own = _facts_of(runs, known)
    words = (in_words(fact, own.get(fact)) for fact in distinguishing(peers))
    return ", ".join([value, *filter(None, words)])


def _mixed_within_arms(runs: Sequence[StoredRun], dim: Dimension, known: Known) -> dict[str, str]:
    """Facts that differ among the usable runs of one value of the dimension, in words."""
    usable = (known[run.directory] for run in runs if run.run["status"] != "failed")
    by_value = grouped((own.get(dim.fact), own) for own in usable)
    values: dict[str, dict[str, None]] = {}
    for sets in by_value.values():
        for name in differing(sets):
            values.setdefault(name, {}).update((readable(one.get(name)), None) for one in sets)
    return {name: f"{name}: {' and '.join(values[name])}" for name in by_relevance([*values])}


def _split(
    runs: Sequence[StoredRun], key: Callable[[StoredRun], Mapping[str, str]]
) -> list[list[StoredRun]]:
    """Usable runs by key; a failed one, which may lack facts, goes where it contradicts least."""
    failed = [run for run in runs if run.run["status"] == "failed"]
    usable = (run for run in runs if run.run["status"] != "failed")
    sets = grouped((frozenset(key(run).items()), run) for run in usable)
    if not sets:
        return [list(runs)]
    for run in failed:
        own = key(run)
        home = min(sets, key=lambda one: sum(own.get(f, v) != v for f, v in one))
        sets[home].append(run)
    return list(sets.values())


def _only(names: Sequence[str], known: Known, run: StoredRun) -> Facts:
    return {fact: value for fact, value in known[run.directory].items() if fact in names}


def _facts_of(runs: Sequence[StoredRun], known: Known) -> Facts:
    usable = next((run for run in runs if run.run["status"] != "failed"), runs[0])
    return known[usable.directory]


def _first(runs: Sequence[StoredRun], fact: str, known: Known) -> str:
    return _facts_of(runs, known).get(fact, "(absent)")
