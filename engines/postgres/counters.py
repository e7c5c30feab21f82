"""The server's cumulative statistics, as numbers with their unit in the name."""

from __future__ import annotations

from typing import Any

import psycopg

_DATABASE = """
SELECT blks_read * b.size AS blocks_read_bytes,
       blks_hit * b.size AS blocks_hit_bytes,
       temp_bytes AS temp_written_bytes,
       temp_files AS temp_files_count,
       blk_read_time * 1e6 AS block_read_ns,
       blk_write_time * 1e6 AS block_write_ns,
       xact_commit AS commits_count,
       xact_rollback AS rollbacks_count,
       deadlocks AS deadlocks_count
FROM pg_stat_database, (SELECT current_setting('block_size')::bigint AS size) b
WHERE datname = current_database()"""
_WAL = """
SELECT wal_bytes AS wal_written_bytes, wal_records AS wal_records_count,
       wal_fpi AS wal_full_page_images_count, wal_buffers_full AS wal_buffers_full_count
FROM pg_stat_wal"""
_CHECKPOINTER_17 = """
SELECT num_timed AS checkpoints_timed_count, num_requested AS checkpoints_requested_count,
       buffers_written * current_setting('block_size')::bigint AS checkpoint_written_bytes
FROM pg_stat_checkpointer"""
_CHECKPOINTER_BEFORE_17 = """
SELECT checkpoints_timed AS checkpoints_timed_count, checkpoints_req AS checkpoints_requested_count,
       buffers_checkpoint * current_setting('block_size')::bigint AS checkpoint_written_bytes,
       buffers_backend * current_setting('block_size')::bigint AS backend_written_bytes
FROM pg_stat_bgwriter"""
_IO_18 = """
SELECT sum(read_bytes) AS io_read_bytes, sum(write_bytes) AS io_written_bytes,
       sum(extend_bytes) AS io_extended_bytes, sum(fsyncs) AS io_fsyncs_count
FROM pg_stat_io WHERE object <> 'wal'"""
_IO_16 = """
SELECT sum(reads * op_bytes) AS io_read_bytes, sum(writes * op_bytes) AS io_written_bytes,
       sum(extends * op_bytes) AS io_extended_bytes, sum(fsyncs) AS io_fsyncs_count
FROM pg_stat_io"""


def read(raw: psycopg.Connection[Any]) -> dict[str, float]:
    """Counters since the statistics were last reset, names prefixed ``postgres_``.

    Times (``block_*_ns``) stay 0 unless ``track_io_timing`` is on.
    """
    version = raw.info.server_version
    queries = [_DATABASE, _CHECKPOINTER_17 if version >= 170000 else _CHECKPOINTER_BEFORE_17]
    if version >= 140000:
        queries.append(_WAL)
    if version >= 160000:
        queries.append(_IO_18 if version >= 180000 else _IO_16)
    found: dict[str, float] = {}
    for query in queries:
        with raw.cursor() as cursor:
            row = cursor.execute(query).fetchone()
            names = [column.name for column in cursor.description or ()]
        found |= {f"postgres_{n}": float(v or 0) for n, v in zip(names, row or (), strict=True)}
    return found
