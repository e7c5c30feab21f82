"""Which runs a person means: a run, an experiment, or a selector such as
``placement=ssd-both,engine=postgres``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from harness.errors import UsageError, nearest
from harness.experiment.placement import PARTS
from harness.store.runs import Store, StoredRun
from harness.units import parse_size
from reports.run_configuration import placement_name, spec_facts

_Field = Callable[[StoredRun], str]

_FIELDS: dict[str, _Field] = {
    "placement": lambda run: placement_name(run.head["spec"]),
    "engine": lambda run: str(run.head["spec"]["engine"]),
    "workload": lambda run: str(run.head["spec"]["workload"]),
    "host_mode": lambda run: str(run.head["host_mode"]),
    "tuning": lambda run: str(run.head["spec"]["tuning"]),
    "memory_limit": lambda run: str(run.head["spec"]["memory_limit_bytes"] or "none"),
    "threads": lambda run: str(run.head["spec"]["threads"] or "none"),
    "cpus": lambda run: str(run.head["spec"].get("cpus") or "all"),
    "listen": lambda run: str(run.head["spec"].get("listen") or "none"),
    "arm": lambda run: str(run.head["spec"].get("label") or "none"),
    "driver": lambda run: str(run.head["spec"]["driver"]),
    "plant": lambda run: " ".join(run.head["spec"].get("plant", ())) or "none",
    "block": lambda run: str(run.head["spec"]["block"]),
    "status": lambda run: str(run.head["status"]),
    "experiment": lambda run: str(run.head["experiment"]["name"]),
    "host": lambda run: str(run.head["host"]["hostname"]) if run.head["host"] else "unknown",
}
#: Longer names of spec facts, by the short one.
_SHORT = {"cache": "params.cache", "scale": "params.scale"}


def select(store: Store, text: str, among: Sequence[StoredRun] | None = None) -> list[StoredRun]:
    """The finished runs that ``text`` means, oldest first.

    ``text``: a run (id, unique beginning or end, path), an experiment (``name`` or
    ``name@hash``), or ``key=value,…`` over the fields above, ``params.<name>`` and
    ``settings.<name>``. Runs with planted delays only by their id or ``plant=…``. ``among``: the
    runs that fields select from (all). UsageError where nothing matches, with what there is.
    """
    if store.has(text) or (Path(text) / "run.json").exists():
        return [store.run(text)]
    runs = store.runs()
    if "=" in text:
        return _by_fields(list(runs if among is None else among), text)
    return _of_experiment(runs, text) or [store.run(text)]


def experiment(store: Store, text: str) -> list[StoredRun]:
    """The finished runs of an experiment, ``name`` or ``name@hash``; UsageError without any."""
    runs = store.runs()
    if found := _of_experiment(runs, text):
        return found
    known = sorted({str(run.head["experiment"]["name"]) for run in unplanted(runs)})
    raise UsageError(
        f"experiment {text!r}",
        f"it has no finished run in {store.root}{nearest(text, known)}",
        f"there is {', '.join(known)}" if known else "no run is finished",
    )


def _of_experiment(runs: Iterable[StoredRun], text: str) -> list[StoredRun]:
    name, _, version = text.partition("@")
    return [
        run
        for run in unplanted(runs)
        if run.head["experiment"]["name"] == name
        and run.head["experiment"]["hash"].startswith(version)
    ]


def unplanted(runs: Iterable[StoredRun]) -> list[StoredRun]:
    """Those without planted delays, which slow a device on purpose."""
    return [run for run in runs if not run.head["spec"].get("plant")]


def _by_fields(runs: list[StoredRun], text: str) -> list[StoredRun]:
    facts = {fact for run in runs for fact in spec_facts(run)}
    pairs = _pairs(text, facts)
    runs = every = runs if "plant" in pairs else unplanted(runs)
    for key, value in pairs.items():
        present = sorted({_field(run, key) for run in runs})
        runs = [run for run in runs if _field(run, key) == value]
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


def _meant(key: str, facts: Iterable[str]) -> str:
    """A parameter or setting of that name, or else the field that is nearest."""
    longer = [f"{kind}.{key}" for kind in ("params", "settings") if f"{kind}.{key}" in facts]
    return f" (did you mean {longer[0]!r}?)" if longer else nearest(key, [*_FIELDS, *_SHORT])


def _pairs(text: str, facts: Iterable[str]) -> dict[str, str]:
    """``key=value`` items; a placement's own commas (``data=ssd,wal=pmem``) stay its own.

    ``facts``: those that the runs have, for who has forgotten the first half of a name.
    """
    pairs: dict[str, str] = {}
    for item in text.split(","):
        key, separator, value = (piece.strip() for piece in item.partition("="))
        if separator and key in PARTS and "placement" in pairs:
            pairs["placement"] += f",{item.strip()}"
            continue
        known = key in _FIELDS or key in _SHORT or key.startswith(("params.", "settings."))
        if not separator or not known:
            raise UsageError(
                f"runs with {text!r}",
                f"{key!r} is not a field{_meant(key, facts)}",
                f"fields: {', '.join([*_FIELDS, *_SHORT])}, params.<name>, settings.<name>",
            )
        pairs[key] = value
    if "memory_limit" in pairs and pairs["memory_limit"] != "none":
        pairs["memory_limit"] = str(parse_size(pairs["memory_limit"]))
    return pairs


def _field(run: StoredRun, key: str) -> str:
    if key in _FIELDS:
        return _FIELDS[key](run)
    return spec_facts(run).get(_SHORT.get(key, key), "none")
