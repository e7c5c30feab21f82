"""References: the right answers of queries, from these places in this order.

1. *Shipped*: ``answers/sf1.json`` and its like, for the validation parameters. Made by
   scripts/establish_tpch_answers.py from a run whose every value agreed with the
   TPC's own answers; those for data after RF1, which the TPC has none for, from what
   independent engines agreed on.
2. *Kept*: answers computed before for the same scale, generator and statement.
3. *Computed*: by DuckDB in this process from the generated files themselves (views;
   nothing is loaded), which is independent of the engine under test and of its load.

DuckDB cannot vouch for itself: for the engine of that name a kept answer counts only
once another engine's own answer has agreed with it.

Refresh functions change the data, and each of them changes the answers: a *state* of the
data is how many of RF1(1), RF2(1), RF1(2) … have been applied to what was loaded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import _duckdb as duckdb  # the package around it takes three times as long to import

from harness import jsonfile
from harness.errors import RunFailed
from harness.paths import answers_root
from harness.store.documents import write_json_atomically
from harness.store.spec import content_hash
from harness.supervise import workdirs
from harness.supervise.own_files import make_passable
from harness.supervise.supervisor import Supervisor
from harness.warnings import RunWarning, warn
from harness.workloads.tpch.answers import SHAPES, CanonicalAnswer
from harness.workloads.tpch.data import GeneratedFiles, generator, read_source
from harness.workloads.tpch.qgen import parameters
from harness.workloads.tpch.refresh_data import RefreshData
from harness.workloads.tpch.source_database import LOADED, SourceDatabase, rows_of
from harness.workloads.tpch.statements import TpchStatement, query_sql

#: Name of the engine that computes references.
REFERENCE_ENGINE = "duckdb"
_SHIPPED = Path(__file__).parent / "answers"
#: States of the data that answers are shipped for, and how their files' names end.
_SHIPPED_STATES = {LOADED: "", 1: "-rf1"}


class NoReference(Exception):
    """No independent answer to compare with; the message says what would help."""


@dataclass(frozen=True)
class Reference:
    """An answer and where it comes from."""

    answer: CanonicalAnswer
    origin: str
    agreed: tuple[str, ...] = ()


def shipped_file(scale: float, state: int = LOADED) -> Path:
    """Return the path of the shipped answers of a scale and state, if there are any."""
    return _SHIPPED / f"sf{scale!r}{_SHIPPED_STATES[state]}.json"


def shipped(scale: float, state: int = LOADED) -> dict[int, CanonicalAnswer]:
    """The shipped answers to the validation parameters at ``scale``; empty where there are none."""
    if state not in _SHIPPED_STATES or not (file := shipped_file(scale, state)).exists():
        return {}
    document = jsonfile.read(file)
    return {int(q): CanonicalAnswer.from_json(entry) for q, entry in document["answers"].items()}


def kept_file(scale: float, name: str) -> Path:
    """Return the path of a document that was computed of the data of a scale."""
    return answers_root() / f"tpch-sf{scale!r}-{generator()}" / name


def keep(file: Path, document: Mapping[str, Any]) -> None:
    """Keep what was computed; a full place costs computing it again, nothing else."""
    with suppress(OSError, RunFailed):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_json_atomically(file, document)


def _roomy_folder() -> Path:
    """Return a folder on the data's device, which has room for a copy of the source."""
    folder = answers_root()
    with suppress(OSError):
        make_passable(folder)
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    return workdirs.disk_base()


_Kept = TypeVar("_Kept")


def read_kept(file: Path, take: Callable[[Any], _Kept]) -> _Kept | None:
    """Read what :func:`keep` has stored; None, with a warning, for another document."""
    try:
        return take(jsonfile.read(file))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, ArithmeticError, LookupError, TypeError, AttributeError) as error:
        warn(
            RunWarning(
                "answer-unreadable",
                "a stored answer is left out",
                f"{file}: {error!r}",
                "remove it: it is computed again",
            )
        )
        return None


class References:
    """References for one run of ``engine`` over the data in ``source``.

    ``refresh``: the sets that refresh functions have worked on, where they have. ``many``:
    many answers are to be computed, so that the source is loaded once instead of read for each.
    """

    def __init__(
        self,
        scale: float,
        engine: str,
        source: Path | None,
        refresh: RefreshData | None = None,
        many: bool = False,
    ) -> None:
        self._scale = scale
        self._engine = engine
        self._source = source
        self._refresh = refresh
        self._many = many
        self._shipped = {state: shipped(scale, state) for state in _SHIPPED_STATES}
        self._database: SourceDatabase | None = None
        self._open = ExitStack()

    def __enter__(self) -> References:
        return self

    def __exit__(self, *exc: object) -> None:
        self._database = None
        self._open.close()

    def of(self, statement: TpchStatement, state: int = LOADED) -> Reference:
        """The right answer of ``statement``; NoReference where nothing can vouch for one."""
        if self._is_shipped(statement, state):
            return Reference(self._shipped[state][statement.query], "shipped reference")
        stored = self.stored(statement, state)
        if self._engine == REFERENCE_ENGINE:
            if stored is None or not stored.agreed:
                raise NoReference(
                    f"no independent reference at scale {self._scale:g} for these parameters and "
                    "data: run another engine with the same ones (its answers are checked by "
                    "DuckDB, and then serve here)"
                )
            return replace(stored, origin=f"answer of {', '.join(stored.agreed)}")
        return stored or self._compute(statement, state)

    def agreed(self, statement: TpchStatement, reference: Reference, state: int = LOADED) -> None:
        """Keep that the engine under test has given the same answer by itself."""
        engines = (*reference.agreed, REFERENCE_ENGINE)
        if self._is_shipped(statement, state) or self._engine in engines:
            return
        agreed = (*reference.agreed, self._engine)
        self._keep(statement, state, replace(reference, agreed=agreed))

    def _is_shipped(self, statement: TpchStatement, state: int) -> bool:
        validation = parameters(statement.query, None, self._scale)
        return statement.query in self._shipped.get(state, {}) and statement.values == validation

    def _file(self, statement: TpchStatement, state: int) -> Path:
        """Return the path of a reference; not below the source data, which have a format."""
        query = statement.query
        facts: list[Any] = [self._scale, generator(), query_sql(query, statement.values)]
        if state != LOADED:
            facts.append({"refresh functions": state})
        return kept_file(self._scale, f"q{query:02d}-{content_hash(facts)}.json")

    def stored(self, statement: TpchStatement, state: int) -> Reference | None:
        """The reference that was computed before, and the engines that agreed with it."""
        return read_kept(
            self._file(statement, state),
            lambda document: Reference(
                CanonicalAnswer.from_json(document["answer"]),
                str(document["origin"]),
                tuple(map(str, document["agreed"])),
            ),
        )

    def _keep(self, statement: TpchStatement, state: int, reference: Reference) -> None:
        document = {
            "scale": self._scale,
            "generator": generator(),
            "refresh_functions": state,
            "parameters": statement.values,
            "origin": reference.origin,
            "agreed": list(reference.agreed),
            "answer": reference.answer.to_json(SHAPES[statement.query]),
        }
        keep(self._file(statement, state), document)

    def _compute(self, statement: TpchStatement, state: int) -> Reference:
        if self._source is None:
            raise NoReference(
                "the source data that a reference is computed from are gone: remove the dataset "
                "too (harness data rm) and run again"
            )
        if self._database is None:
            try:
                source = read_source(self._source)
            except RunFailed as error:
                raise NoReference(f"{error}: {error.hint}") from error
            self._database = self._open_source(source)
        # One row more than the limit shows whether the answer is the only right one.
        sql = query_sql(statement.query, statement.values, extra_rows=1)
        rows = rows_of(self._database.at(state), sql)
        answer = CanonicalAnswer.of(SHAPES[statement.query], rows)
        reference = Reference(answer, f"computed by DuckDB {duckdb.__version__}")
        self._keep(statement, state, reference)
        return reference

    def _open_source(self, source: GeneratedFiles) -> SourceDatabase:
        """Open the source data; data beyond the memory spill to a directory that goes with us."""
        supervisor = self._open.enter_context(Supervisor())
        spill = supervisor.journal.register_directory(workdirs.fresh(_roomy_folder()))
        database = SourceDatabase(source, spill, self._refresh, self._many)
        self._open.callback(database.close)
        return database
