"""Runs without what identifies their host and their user: ``harness runs export --public``.

Documents are walked by the types that they are declared with. A rule names each text
(:mod:`harness.publication.rules`); a text, an artifact or a file that no rule names is refused.

What identifies is replaced by a pseudonym (:mod:`harness.publication.pseudonyms`). Equal values
have equal pseudonyms in all exports of a host, so that its runs stay together and comparisons find
the same differences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from harness import registry, structs
from harness.errors import UsageError
from harness.publication.pseudonyms import Publication, key_of_host
from harness.publication.rules import (
    DECLARED_ALONE,
    LEFT_OUT,
    NAME,
    OF_SUITES,
    PARAMETERS,
    RULES,
    Rule,
    other_run_id,
    plain_name,
    refusal,
    warning_code,
)
from harness.store import artifacts, result
from harness.store.documents import write_json_atomically
from harness.store.runs import ORIGIN_FILE, StoredRun
from harness.store.spec import MICRO, RunSpec
from harness.supervise.own_files import make_own
from harness.warnings import RunWarning

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
        publication.names.add(value)
        return value
    arguments = get_args(kind)
    if isinstance(value, dict) and len(arguments) == 2:
        return {
            plain_name(publication, key): public(
                publication, member, arguments[1], f"{where}.{key}"
            )
            for key, member in value.items()
        }
    if isinstance(value, list) and arguments:
        several = Ellipsis not in arguments and len(arguments) > 1
        kinds = arguments if several else arguments[:1] * len(value)
        return [
            public(publication, member, each, where)
            for member, each in zip(value, kinds, strict=True)
        ]
    raise refusal(where)


def _of_struct(publication: Publication, value: Any, kind: Any, where: str) -> Any:
    if kind is RunWarning:
        return warning_code(publication, value, where)
    keys, rules = structs.keys_of(kind), RULES.get(kind, {})
    document = {}
    publication.names |= value.keys()
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
        elif kind in DECLARED_ALONE:
            publication.leave_out("text", member)
        else:
            raise refusal(place)
    return document


def _params(publication: Publication, workload: str, params: Any, where: str) -> dict[str, Any]:
    declared: Sequence[str] = OF_SUITES
    if workload != MICRO:
        declared = tuple(registry.parameters(workload).declared())
    document = {}
    for name, value in params.items():
        if name not in declared:
            raise refusal(f"{where}.{name}")
        publication.names.add(name)
        rule = PARAMETERS.get(name, NAME)
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
    publication = Publication(key_of_host(), names=set(_names(runs)))
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
        for metric in run.result.metrics:
            yield from (metric.name, metric.unit, *metric.labels, *metric.name.split("_"))


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
            raise refusal(str(path))
    run_id, label = documents["run"]["run_id"], run.spec.label
    if label and documents["spec"]["label"] != label and run_id == run.result.run_id:
        publication.identities[run_id] = other_run_id(publication, run_id)
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
        raise refusal(f"{where} of {run.run_id}")
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
