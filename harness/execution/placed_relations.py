"""Single tables and indexes of a placement: whether the database has them, and their size."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from harness.engine import StoredRelation
from harness.errors import UsageError, unknown
from harness.execution.engine_run import EngineRun
from harness.experiment.placement import Placement, Relation
from harness.store.datasets import Dataset


def sizes_of(stored: Iterable[StoredRelation]) -> dict[str, int]:
    """Return the bytes of all relations, by their names in placements.

    Of a partitioned table, those of its partitions.
    """
    sizes = dict[str, int]()
    for each in stored:
        whole = Relation("table", each.table) if each.relation.kind == "table" else each.relation
        for relation in {each.relation, whole}:
            sizes[f"{relation}"] = sizes.get(f"{relation}", 0) + each.size_bytes
    return sizes


def relation_bytes(run: EngineRun, dataset: Dataset) -> int:
    """Return the size of the placement's relations; UsageError for one that the dataset lacks."""
    placement, sizes = run.spec.placement, dataset.record.relations or {}
    relations = placement.placed_relations if placement is not None else ()
    for relation in relations:
        if f"{relation}" not in sizes:
            of_kind = (name.split(":", 1) for name in sizes)
            names = [name for kind, name in of_kind if kind == relation.kind]
            raise _missing(relation, names)
    return run.instances * sum(sizes[f"{relation}"] for relation in relations)


def check_tables(placement: Placement, tables: Collection[str]) -> None:
    """UsageError for a table of the placement that is not among these; none if they are unknown."""
    for relation in placement.placed_relations if tables else ():
        name = relation.name.rpartition(".")[2].lower()
        if relation.kind == "table" and name not in tables:
            raise _missing(relation, tables)


def _missing(relation: Relation, names: Iterable[str]) -> UsageError:
    return unknown(
        f"place {relation}",
        f"the database has no {relation.kind} {relation.name!r}",
        relation.name,
        sorted(names),
        "it has: {}",
    )
