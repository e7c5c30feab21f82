"""SQL text of the 22 queries: one template each, dialects as macros.

``queries/qNN.sql.j2`` holds the query once, ``queries/dialect.sql.j2`` the macros in
standard SQL. An engine's folder ``sql/tpch/`` may hold a ``dialect.sql.j2`` that
replaces macros by name, and, where the meaning cannot be written otherwise, a whole
``qNN.sql.j2``.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from harness.workloads.tpch.answers import SHAPES
from harness.workloads.tpch.qgen import Values

_QUERIES = Path(__file__).parent / "queries"
_DIALECT = "dialect.sql.j2"


def query_sql(query: int, values: Values, folder: Path | None = None, extra_rows: int = 0) -> str:
    """The statement of ``query`` (1 … 22) with the parameters ``values``, without a semicolon.

    ``folder``: an engine's ``sql/tpch/``; None for standard SQL. ``extra_rows`` lets a
    query with a row limit (clause 2.1.2.9) return that many more.
    """
    limit = SHAPES[query].limit
    row_limit = None if limit is None else limit + extra_rows
    template = _environment(folder).get_template(f"q{query:02d}.sql.j2")
    return template.render(**values, row_limit=row_limit).strip()


def other_sql(name: str, values: Values, folder: Path | None = None) -> str:
    """Another statement, from ``queries/<name>.sql.j2``, in the engine's dialect."""
    return _environment(folder).get_template(f"{name}.sql.j2").render(**values).strip()


@cache
def _environment(folder: Path | None) -> jinja2.Environment:
    folders = [_QUERIES] if folder is None else [folder, _QUERIES]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=False,
    )
    for source in reversed(folders):
        if (source / _DIALECT).exists():
            environment.globals.update(_macros(environment, source / _DIALECT))
    return environment


def _macros(environment: jinja2.Environment, file: Path) -> dict[str, Any]:
    """The macros of a dialect; it may use those of the dialects before it."""
    module = environment.from_string(file.read_text()).module
    return {name: macro for name, macro in vars(module).items() if not name.startswith("_")}
