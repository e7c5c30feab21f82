"""Selection of the DuckDB to run: the harness's own package, or another release in a folder.

A folder is what ``pip install --target FOLDER duckdb==RELEASE`` makes. The worker imports its
package in place of the harness's own; the harness itself never does.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from engines._installation import first_fitting
from harness import jsonfile
from harness.engine import EngineOptions, EngineVersion
from harness.errors import UsageError
from harness.install import installed
from harness.supervise import programs
from harness.supervise.credentials import refuse_exchangeable

#: The oldest release that was tried.
_OLDEST = (0, 6)
_TIMEOUT_S = 60
#: Prints what the imported package is, and its error on a configuration.
_PROBE = """
import json, os, sys
if "PYTHONPATH" in os.environ:
    import duckdb
else:  # the extension alone, as in worker.py
    import _duckdb as duckdb
connection = duckdb.connect()
release, revision = connection.execute(
    "SELECT library_version, source_id FROM pragma_version()").fetchone()
names = connection.execute("SELECT name FROM duckdb_settings()").fetchall()
error = ""
try:
    if config := json.loads(sys.argv[1]):
        duckdb.connect(":memory:", config=config).close()
except Exception as raised:
    error = str(raised)
print(json.dumps({"release": release, "revision": revision, "names": [n for (n,) in names],
                  "error": error, "file": duckdb.__file__}))
"""
_KEY = re.compile(r"alter table (\w+) add primary key \((.*)\)", re.IGNORECASE)
_KIB = re.compile(r"(\d+)KiB")


@dataclass(frozen=True)
class Installation(EngineVersion):
    """``folder``: of another release's package; None: the harness's own. ``settings``: names."""

    product = "DuckDB"
    folder: Path | None
    settings: frozenset[str]

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables of a process that imports this release."""
        return {"PYTHONPATH": str(self.folder)} if self.folder else {}

    @property
    def has_storage_version(self) -> bool:
        """Return whether databases have a storage version (tags)."""
        return self.version_tuple >= (0, 10)

    @property
    def has_plans(self) -> bool:
        """Return whether EXPLAIN ANALYZE reports the document that explain.py translates."""
        return self.version_tuple >= (2,)

    def spelled(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Settings as this release reads them: before 0.10 there is no KiB."""
        if self.version_tuple >= (0, 10):
            return dict(settings)
        return {
            name: f"{int(match[1]) * 1024}B" if (match := _KIB.fullmatch(value)) else value
            for name, value in settings.items()
        }

    def key_of(self, statement: str) -> str:
        """The statement; before 1.2, a primary key that it adds is a unique index."""
        if self.version_tuple >= (1, 2):
            return statement
        return _KEY.sub(r"create unique index \1_key on \1 (\2)", statement)

    def error_of(self, settings: Mapping[str, str]) -> str:
        """What this release says against a configuration; empty: nothing."""
        return str(_probe(self.folder, json.dumps(dict(settings), sort_keys=True))["error"])


def choose(options: EngineOptions, engines_prefix: Path) -> Installation:
    """The installation that the engine options select; UsageError if there is none.

    Order: ``prefix``; the harness's own package; the private prefix. With ``version`` (a part of a
    release or all of it), the first in that order that matches.
    """
    chosen = first_fitting(
        "DuckDB",
        _of_harness(),
        _private(engines_prefix),
        options,
        install="run `harness engines install duckdb`",
        of_prefix=_of_prefix,
    )
    if chosen.version_tuple < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise UsageError(
            chosen.title, f"the harness runs DuckDB from {oldest} on", "name a later release"
        )
    return chosen


def _of_harness() -> Iterator[Installation]:
    if installation := _inspect(None, "PyPI duckdb {}"):
        yield installation


def _private(engines_prefix: Path) -> Iterator[Installation]:
    for package in installed("duckdb", engines_prefix):
        if installation := _inspect(package.folder, package.source):
            yield installation


def _of_prefix(prefix: Path) -> Installation:
    refuse_exchangeable(prefix, "DuckDB", "HARNESS_ENGINES")
    if any(prefix.glob("duckdb*")) and (installation := _inspect(prefix, str(prefix))):
        return installation
    raise UsageError(
        f"DuckDB under {prefix}",
        "no package duckdb that this Python can import",
        f"{sys.executable} -m pip install --target {prefix} duckdb==RELEASE",
    )


def _inspect(folder: Path | None, source: str) -> Installation | None:
    facts = _probe(folder)
    # Where the folder's package cannot be imported, Python takes the harness's own.
    if not facts or (folder and not Path(facts["file"]).resolve().is_relative_to(folder.resolve())):
        return None
    release = str(facts["release"]).removeprefix("v")
    build = f"{release} {facts['revision']}"
    names = frozenset(map(str, facts["names"]))
    return Installation("duckdb", release, build, source.format(release), folder, names)


@lru_cache(maxsize=64)
def _probe(folder: Path | None, config: str = "{}") -> Mapping[str, Any]:
    """What the package is, and its error on a configuration; empty if it cannot be imported."""
    command = [sys.executable, "-c", _PROBE, config]
    env = {"PYTHONPATH": str(folder)} if folder else {}
    try:
        done = programs.run(command, timeout_s=_TIMEOUT_S, env=env)
        facts: Mapping[str, Any] = jsonfile.parse(done.stdout) if done.returncode == 0 else {}
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return {}
    return facts
