"""Selectors of runs: ``placement=ssd-both engine=postgres or RUN`` (docs/results.md)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from pathlib import Path

from harness.errors import UsageError, nearest
from harness.experiment.placement import ends_in_list, starts_part
from harness.paper.pair_query import Having, meets
from harness.store.run_row import KEYS
from harness.store.run_store import Store
from harness.store.runs import StoredRun
from harness.units import parse_size
from reports.run_configuration import fact_named, spec_facts

#: What a run was given by the names of its workload and engine.
_GIVEN = ("params.", "settings.", "env.")


def select(store: Store, *words: str, among: Sequence[StoredRun] | None = None) -> list[StoredRun]:
    """The finished runs that a selector means, oldest first.

    Conditions ``key=value`` (``run_row.KEYS``, ``params.<name>``, ``settings.<name>`` and
    ``env.<name>``; values are patterns of harness.paper.pair_query) restrict: a run meets all of
    them. Names (a run's id, its unique beginning or end, or its path; an experiment, ``name`` or
    ``name@hash``) list: a run has one of them. The word ``or`` begins another selector. Runs with
    planted delays only by their id or ``plant=…``. ``among``: the runs that conditions without a
    name select from (all).
    UsageError where nothing matches, with what there is.
    """
    by_id: dict[str, StoredRun] = {}
    for selector in _alternatives(store, words):
        by_id |= {run.run_id: run for run in _matching(store, selector, among)}
    return [by_id[run_id] for run_id in sorted(by_id)]


def _alternatives(store: Store, words: Sequence[str]) -> list[list[str]]:
    """The names and conditions of each selector; blanks and commas in a word separate them, too."""
    selectors: list[list[str]] = [[]]
    for word in words:
        for piece in [word] if _is_run(store, word) else _pieces(word):
            if piece == "or":
                selectors.append([])
            else:
                selectors[-1].append(piece)
    if not all(selectors):
        raise UsageError(
            f"runs {' '.join(words)!r}",
            "a selector is missing",
            "name runs or experiments, or give conditions such as engine=postgres, around each or",
        )
    return selectors


def _pieces(word: str) -> list[str]:
    """Split a word at blanks and commas, but not the tiers of a memory policy."""
    pieces: list[str] = []
    for chunk in word.split():
        pieces.append("")
        for item in chunk.split(","):
            if "=" not in item and ends_in_list(pieces[-1].removeprefix("placement=")):
                pieces[-1] += f",{item}"
            else:
                pieces.append(item)
    return [piece for piece in pieces if piece]


def _is_run(store: Store, text: str) -> bool:
    return store.has(text) or (Path(text) / "run.json").exists()


def _matching(
    store: Store, pieces: Sequence[str], among: Sequence[StoredRun] | None
) -> list[StoredRun]:
    names = [piece for piece in pieces if _is_run(store, piece) or "=" not in piece]
    conditions = ",".join(piece for piece in pieces if piece not in names)
    runs = store.runs()
    if names:
        named: dict[str, StoredRun] = {}
        for name in names:
            matches = [] if _is_run(store, name) else _of_experiment(runs, name)
            named |= {run.run_id: run for run in matches or [store.run(name)]}
        return _by_fields(list(named.values()), conditions, named=True)
    return _by_fields(list(runs if among is None else among), conditions)


def experiment(store: Store, text: str) -> list[StoredRun]:
    """The finished runs of an experiment, ``name`` or ``name@hash``; UsageError without any."""
    runs = store.runs()
    if of_experiment := _of_experiment(runs, text):
        return of_experiment
    experiments = sorted({str(run.head.experiment.name) for run in unplanted(runs)})
    raise UsageError(
        f"experiment {text!r}",
        f"it has no finished run in {store.root}{nearest(text, experiments)}",
        f"there is {', '.join(experiments)}" if experiments else "no run is finished",
    )


def _of_experiment(runs: Iterable[StoredRun], text: str) -> list[StoredRun]:
    name, _, version = text.partition("@")
    return [
        run
        for run in unplanted(runs)
        if run.head.experiment.name == name and run.head.experiment.hash.startswith(version)
    ]


def unplanted(runs: Iterable[StoredRun]) -> list[StoredRun]:
    """Return the runs without planted delays, which slow a device on purpose."""
    return [run for run in runs if not run.spec.plant]


def having(runs: Iterable[StoredRun], conditions: Having) -> list[StoredRun]:
    """Return the runs that meet conditions, by the keys of selectors."""
    return [run for run in runs if meets(partial(_field, run), conditions)]


def _by_fields(runs: list[StoredRun], text: str, named: bool = False) -> list[StoredRun]:
    """The runs that meet all conditions; those with planted delays if they are ``named``."""
    if not text:
        return runs
    facts = {f for run in runs for f in spec_facts(run) if f.startswith(_GIVEN)}
    pairs = _pairs(text, facts)
    runs = every = runs if named or "plant" in pairs else unplanted(runs)
    for key, value in pairs.items():
        present = sorted({_field(run, key) for run in runs})
        runs = having(runs, {key: value})
        if not runs:
            raise UsageError(
                f"runs with {text!r}",
                f"no finished run has {key}={value}{_same_name(every, key, value, present)}",
                f"there is {key}={', '.join(present[:8])}" if present else "no run is finished",
            )
    return runs


def _same_name(runs: Iterable[StoredRun], key: str, value: str, present: Iterable[str]) -> str:
    """A parameter that is called as the field is and has that value, or else the nearest value."""
    longer = f"params.{key}"
    if any(spec_facts(run).get(longer) == value for run in runs):
        return f" (did you mean '{longer}={value}'?)"
    return nearest(value, list(present))


def _pairs(text: str, facts: Collection[str]) -> dict[str, str]:
    """``key=value`` items; a placement's own commas (``data=ssd,wal=pmem``) stay its own.

    ``facts``: the parameters and settings that runs have; they need no ``params.``.
    """
    pairs: dict[str, str] = {}
    for item in text.split(","):
        key, separator, value = (piece.strip() for piece in item.partition("="))
        if separator and starts_part(key) and "placement" in pairs:
            pairs["placement"] += f",{item.strip()}"
            continue
        key = key if key in KEYS else fact_named(key, facts)
        is_field = key in KEYS or key.startswith(_GIVEN)
        if not is_field and "placement" in pairs and ends_in_list(pairs["placement"]):
            pairs["placement"] += f",{item.strip()}"
            continue
        if not separator or not is_field:
            names = [*KEYS, *sorted(fact.partition(".")[2] for fact in facts)]
            raise UsageError(
                f"runs with {text!r}",
                f"{key!r} is not a field{nearest(key, names)}",
                f"fields: {', '.join(KEYS)}, and each parameter, setting and variable by its name",
            )
        if pairs.get(key, value) != value:
            raise UsageError(
                f"runs with {text!r}",
                f"no run has both {key}={pairs[key]} and {key}={value}",
                f"for the runs with either: {key}={pairs[key]} or {key}={value}",
            )
        pairs[key] = value
    if "memory_limit" in pairs and pairs["memory_limit"] != "none":
        sizes = map(parse_size, pairs["memory_limit"].split("|"))
        pairs["memory_limit"] = "|".join(map(str, sizes))
    return pairs


def _field(run: StoredRun, key: str) -> str:
    if key in KEYS:
        return KEYS[key].text(run)
    return spec_facts(run).get(key, "none")
