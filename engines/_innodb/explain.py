"""Executed plans of MySQL and MariaDB as neutral operators with exclusive wall times.

======================  =====================================================  ==============
release                 statement                                              translated in
======================  =====================================================  ==============
MySQL from 8.3          ``EXPLAIN ANALYZE FORMAT=JSON`` (second JSON version)  explain_mysql
MySQL 8.0.18 to 8.2     ``EXPLAIN ANALYZE FORMAT=TREE``                        explain_mysql
MySQL before 8.0.18     none: CannotExplain
MariaDB                 ``ANALYZE FORMAT=JSON``                                explain_mariadb
======================  =====================================================  ==============
"""

from __future__ import annotations

import re
from typing import Any

from engines._innodb import explain_mariadb, explain_mysql
from engines._innodb.connection import MySqlConnection
from harness.engine import CannotExplain, SqlConnection
from harness.query_plan import ExecutedPlan

_FIRST_WITH_ANALYZE = (8, 0, 18)
_FIRST_WITH_JSON = (8, 3)
_RELEASE = re.compile(r"\d+(?:\.\d+)+")


def explain(connection: SqlConnection, sql: str) -> ExecutedPlan:
    """Execute ``sql`` with profiling and translate its plan; CannotExplain on old releases."""
    assert isinstance(connection, MySqlConnection)
    if connection.flavour == "mariadb":
        result = connection.execute("ANALYZE FORMAT=JSON " + sql)
        return explain_mariadb.translate(str(result.rows[0][0]), result.duration_ns)
    info: Any = connection.raw.get_server_info()  # type: ignore[no-untyped-call]
    release = _release(str(info))
    if release < _FIRST_WITH_ANALYZE:
        raise CannotExplain(
            f"MySQL {'.'.join(map(str, release))} has no EXPLAIN ANALYZE: it was added in 8.0.18"
        )
    if release < _FIRST_WITH_JSON:
        result = connection.execute("EXPLAIN ANALYZE FORMAT=TREE " + sql)
        return explain_mysql.translate_tree(str(result.rows[0][0]), result.duration_ns)
    connection.run("SET SESSION explain_json_format_version = 2")
    result = connection.execute("EXPLAIN ANALYZE FORMAT=JSON " + sql)
    return explain_mysql.translate_json(str(result.rows[0][0]), result.duration_ns)


def _release(info: str) -> tuple[int, ...]:
    match = _RELEASE.search(info)
    return tuple(int(part) for part in match[0].split(".")) if match else ()
