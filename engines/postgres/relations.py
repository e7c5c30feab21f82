"""Tables and indexes of the database: their files, and moving them to a tablespace of their own.

A table's files are those of its rows and of its TOAST table, with the forks of both (free space,
visibility) and every segment of 1 GiB. Of a partitioned table or index, the partitions have files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from engines.postgres.cluster import RELATIONS_TABLESPACE
from harness.engine import Credentials, StoredRelation
from harness.errors import RunFailed
from harness.experiment.placement import Relation, RelationKind
from harness.sequences import grouped
from harness.supervise.user_files import walk

_KINDS = {"r": "table", "m": "table", "p": "table", "i": "index", "I": "index"}
#: Name (with its schema, unless a session finds it without), kind, table or root of a partitioned
#: table, and files of each relation of the user; without those of TOAST alone.
_RELATIONS = """
WITH named AS (
  SELECT c.oid, c.relkind, c.relname, n.nspname, c.reltoastrelid, c.relispartition,
         CASE WHEN pg_table_is_visible(c.oid) THEN c.relname ELSE n.nspname || '.' || c.relname
         END AS name
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE c.relkind IN ('r', 'm', 'p', 'i', 'I') AND c.relpersistence <> 't'
    AND n.nspname !~ '^(pg_|information_schema$)')
SELECT named.oid::bigint, named.name, named.relkind, coalesce(root.name, named.name),
       array_remove(ARRAY[pg_relation_filepath(named.oid),
                          pg_relation_filepath(nullif(named.reltoastrelid, 0))]
         || ARRAY(SELECT pg_relation_filepath(indexrelid) FROM pg_index
                  WHERE indrelid = nullif(named.reltoastrelid, 0)), NULL)
FROM named
LEFT JOIN pg_index ON pg_index.indexrelid = named.oid
LEFT JOIN named root ON root.oid = CASE
  WHEN pg_index.indrelid IS NOT NULL THEN pg_index.indrelid
  WHEN named.relispartition THEN pg_partition_root(named.oid)::oid
  ELSE named.oid END
ORDER BY named.name"""
_LEAVES = """
SELECT quote_ident(nspname) || '.' || quote_ident(relname)
FROM pg_partition_tree(%s::oid::regclass) tree JOIN pg_class c ON c.oid = tree.relid
JOIN pg_namespace n ON n.oid = c.relnamespace WHERE isleaf"""
_QUALIFIED = """
SELECT quote_ident(nspname) || '.' || quote_ident(relname)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %s"""
#: A file of a relation: a fork, a segment.
_FILE = re.compile(r"(\d+)(?:_(?:fsm|vm|init))?(?:\.\d+)?")


def move_relations(connection: psycopg.Connection[Any], relations: Sequence[Relation]) -> None:
    """Move the files of relations to their tablespace."""
    every = {
        Relation(_kind(relkind), name): (oid, relkind)
        for oid, name, relkind, *_ in connection.execute(_RELATIONS).fetchall()
    }
    for relation in relations:
        oid, relkind = every[relation]
        query = _LEAVES if relkind in ("p", "I") else _QUALIFIED
        verb = "ALTER TABLE" if relation.kind == "table" else "ALTER INDEX"
        for (name,) in connection.execute(query, [oid]).fetchall():
            try:
                connection.execute(
                    sql.SQL(f"{verb} {{}} SET TABLESPACE {RELATIONS_TABLESPACE}").format(
                        sql.SQL(name)
                    )
                )
            except psycopg.Error as error:
                context = error.diag.message_primary or str(error).strip()
                raise RunFailed(f"place {relation}", context) from error


def stored_relations(
    connection: psycopg.Connection[Any], data: Path, user: Credentials | None
) -> list[StoredRelation]:
    """Return the relations with their files, looked up as ``user``."""
    rows = connection.execute(_RELATIONS).fetchall()
    folders = {(data / path).parent for *_, paths in rows for path in paths}
    by_base = grouped(
        (file.parent / match[1], (file, facts))
        for file, facts in walk(folders, user)
        if (match := _FILE.fullmatch(file.name))
    )
    return [
        StoredRelation(
            Relation(_kind(relkind), name),
            table,
            dict(file for path in paths for file in by_base.get(data / path, ())),
        )
        for _, name, relkind, table, paths in rows
    ]


def _kind(relkind: str) -> RelationKind:
    return "table" if _KINDS[relkind] == "table" else "index"
