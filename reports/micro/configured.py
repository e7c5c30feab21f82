"""What a configuration was in addition to its labels: equal labels do not make one point.

Labels say what was done in a measurement, but not all of it: not how long it took, on which
processors, or by a suite's rarer keys. Points that are equal in all labels are distinguished here,
by what their suites say and by the swept keys in their configurations' names.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.store import schemas
from harness.store.result import Metric
from harness.store.runs import StoredRun

#: What ``-p`` may change without changing a figure, or what a label says.
_WITHOUT_EFFECT = ("only", "range", "threads", "pages", "isa")
#: What a tier is made of, and what it makes of a job: not what was requested of it.
_OF_THE_TIER = ("pages", "persistent", "filesystem", "dax", "io_engine")
#: Keys of a suite's job that labels of its metrics report, if by their absence (``numa: near``).
LABELLED_KEYS = frozenset(
    name
    for name, key in schemas.schema("micro-keys")["properties"].items()
    if key.get("label", name)
)
Labels = Mapping[str, str]


@dataclass(frozen=True)
class Settings:
    """What a run's suite sets for a measurement in addition to what it sweeps; empty where unknown.

    ``whole``: all of it; ``unlabelled``: what no label says of a point, which alone can set the
    points of two measurements apart.
    """

    whole: str = ""
    unlabelled: str = ""


def settings_of(run: StoredRun, measurement: str) -> Settings:
    """Those of a measurement, with what ``-p`` set that no label shows: durations, counts.

    Of a run as a whole, which has no measurement, all of its suite.
    """
    kept = run.artifact("suite") or {}
    documents = kept.get("documents", {})
    if not measurement:
        text = json.dumps([documents, run.spec.params], sort_keys=True)
        return Settings(text, text)
    found = [
        body
        for document in (documents.values() if isinstance(documents, dict) else ())
        if isinstance(document, dict)
        for body in _of_document(document, measurement)
    ]
    params = run.spec.params
    chosen: Any = params.get("requested", {})
    requested = {k: v for k, v in chosen.items() if k not in _WITHOUT_EFFECT}
    if "index_library" in params:  # its digest: of a path, another build is another program
        requested["index_library"] = params["index_library"]
    if not found and not requested:
        return Settings()
    # Of several jobs side by side each has its labels, and what the others do is in none.
    unlabelled = [
        [_without(one, () if "jobs" in body else LABELLED_KEYS) for one in (body, defaults)]
        for body, defaults in found
    ]
    whole = [[_without(one, ()) for one in both] for both in found]
    whole_text, unlabelled_text = (
        json.dumps([one, requested], sort_keys=True) for one in (whole, unlabelled)
    )
    return Settings(whole_text, unlabelled_text)


def _of_document(document: Mapping[str, Any], measurement: str) -> Iterator[tuple[Any, Any]]:
    """What one file says, and of ours the defaults; of PerMA-Bench's the benchmark alone.

    fio's measurements stand in ``params``, whose other keys are their defaults; ioping has one.
    """
    block = document.get("block")
    params = [one.get("params") for one in (document, block) if isinstance(one, dict)]
    ours = [(document.get("measurements"), document.get("defaults"))]
    ours += [(one.get("measurements"), one) for one in params if isinstance(one, dict)]
    for held, defaults in ours if "schema" in document else [(document, None)]:
        if isinstance(held, dict) and isinstance(held.get(measurement), dict):
            yield held[measurement], defaults
    yield from (
        (one, None) for one in params if isinstance(one, dict) and "measurements" not in one
    )


def _without(body: Any, labelled: Collection[str]) -> Any:
    """Without matrices, lists of values, other measurements, labelled keys, and empty ones."""
    if not isinstance(body, dict):
        return body
    kept = {
        key: _without(value, labelled)
        for key, value in body.items()
        if key not in ("matrix", "measurements", *labelled) and not isinstance(value, list)
    }
    return {key: value for key, value in kept.items() if value != {}}


def comparable_metrics(run: StoredRun) -> Iterator[Metric]:
    """The metrics of a run with labels that those of another tier have, too.

    Of suites: without the labels that say what the tier is, which would set the two sides apart
    that are to be compared. The configuration's name stays.
    """
    for metric in run.result.metrics:
        if "measurement" in metric.labels and "configuration" in metric.labels:
            labels = {n: value for n, value in metric.labels.items() if n not in _OF_THE_TIER}
            yield replace(metric, labels=labels)
        else:
            yield metric


def own_labels(every: Sequence[Labels]) -> list[Labels]:
    """Of configurations that are equal in all other labels: with the swept keys that differ.

    ``threads/chunk=4KiB`` and ``threads/chunk=1MiB`` get the label ``chunk``. Those whose names
    have no such key stay as they are.
    """
    axes = [_axes(labels.get("configuration", "")) for labels in every]
    keys = dict.fromkeys(key for one in axes for key in one)
    differing = [key for key in keys if len({one.get(key) for one in axes}) > 1]
    return [
        {**labels, **{k: one[k] for k in differing if k in one and k not in labels}}
        for one, labels in zip(axes, every, strict=True)
    ]


def _axes(configuration: str) -> dict[str, str]:
    """``name/a=1,chain=r_64,w_64_none`` as its swept keys: what has no key belongs to the last."""
    found: dict[str, str] = {}
    key = ""
    for part in configuration.partition("/")[2].split(","):
        name, equals, text = part.partition("=")
        if equals:
            key = name
            found[key] = text
        elif key:
            found[key] += f",{part}"
    return found
