"""Parameters of the user's own queries."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from harness.errors import UsageError, unknown
from harness.store.spec import NATIVE
from harness.workloads import parameters
from harness.workloads.parameters import (
    CacheMode,
    Outline,
    Texts,
    check_warmups,
    parameter,
)
from harness.workloads.sql.client_params import ClientParams, Digests
from harness.workloads.sql.folder import read_folder


@dataclass(frozen=True)
class _Folder:
    values = "FOLDER"

    def parse(self, name: str, value: Any) -> str:
        if not isinstance(value, str) or not value:
            raise UsageError(f"{name} {value!r}", "not a path", "name a folder such as shop/")
        return str(Path(value).absolute())


@dataclass(frozen=True)
class _Queries(Texts):
    def parse(self, name: str, value: Any) -> tuple[str, ...]:
        names = super().parse(name, value)
        if not names or len({*names}) < len(names):
            raise UsageError(f"{name} {value!r}", self.wrong, self.hint)
        return tuple(one.removesuffix(".sql") for one in names)


@dataclass(frozen=True, kw_only=True)
class SqlParams(ClientParams):
    """Your own queries or scripts over your own data."""

    workload = "sql"
    smaller = "fewer rows in load/"
    drivers: ClassVar[Mapping[str, str]] = {
        NATIVE: "the harness itself: the queries of a folder",
        "pgbench": "scripts of PostgreSQL's client, on data of a folder",
        "sysbench": "scripts in Lua, on data of a folder or of the script's own prepare",
    }

    folder: str = parameter(
        _Folder(),
        default_text="none: required",
        option=True,
        help="Folder with tables.sql, load/ and queries/ (docs/your-own-workload.md).",
    )
    queries: tuple[str, ...] = parameter(
        _Queries(
            "names of files in queries/, each once",
            ".+",
            "not a list of queries, each once",
            "name them: top,by_day",
        ),
        default_text="all",
        option=True,
        help="Queries to run, in this order: top,by_day.",
        omit_unset=True,
    )
    cache: CacheMode = parameters.cache(default="cold-per-query")
    query_timeout_s: float | None = parameters.query_timeout()
    plans: bool = parameters.plans(default=True)
    warmups: int = parameters.warmups()
    content: str = parameter(
        Digests(2),
        derive=lambda params: read_folder(Path(params.folder)).content if params.folder else None,
        default_text="computed",
        help="Digests of the folder's data, and of its queries, answers and check.",
    )

    def resolve(self) -> SqlParams:
        self.check_scripts()
        if not self.folder and not self.script:
            raise UsageError(
                "run sql",
                "no folder is named",
                "add --folder shop/; `harness workload init shop/` writes an example",
            )
        check_warmups(self.cache, self.warmups)
        return self

    @property
    def data_digest(self) -> str:
        """The part of ``content`` that loaded data depend on."""
        return self.content.partition("-")[0]

    def without_effect(self) -> Collection[str]:
        """A script is what is run, whatever queries the folder has."""
        names = ("queries", "cache", "query_timeout_s", "plans", "warmups")
        return names if self.script else ()

    def outline(self) -> Outline:
        return self.client_outline() if self.script else Outline(cache=self.cache)

    def chosen(self, known: dict[str, str]) -> dict[str, str]:
        """Return the queries to run, of those of the folder; UsageError for an unknown one."""
        for name in self.queries or ():
            if name not in known:
                raise unknown(f"query {name!r}", "no such file in queries/", name, list(known))
        return {name: known[name] for name in self.queries or known}


PARAMS = SqlParams
