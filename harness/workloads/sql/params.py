"""Parameters of the user's own queries, and of scripts that pgbench or sysbench runs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from msgspec import Meta

from harness.drivers.client_program import Script
from harness.drivers.sysbench import files_of
from harness.errors import UsageError, unknown
from harness.store.spec import NATIVE
from harness.supervise.user_files import read_text
from harness.units import NS_PER_S
from harness.workloads import parameters
from harness.workloads.kinds import Duration, Texts
from harness.workloads.parameters import (
    STATISTICS,
    CacheMode,
    Outline,
    Parameters,
    check_warmups,
    parameter,
)
from harness.workloads.sql.folder import read_folder

Text = TypeVar("Text")
_USERS_PER_THREAD, _MOST_THREADS = 16, 8
#: Scripts that pgbench has by these names, for tables that it makes itself.
BUILTIN = ("tpcb-like", "simple-update", "select-only")
#: A file of the user's, or a script of pgbench's own, with its weight.
_PATH = rf"(?P<builtin>{'|'.join(BUILTIN)})|.+\.(?:sql|lua|pgbench)"
_FILE = rf"(?P<path>{_PATH})(?:@(?P<weight>\d{{1,9}}))?"
_DIGEST = "[0-9a-f]{16}"


@dataclass(frozen=True)
class _Scripts(Texts):
    def parse(self, name: str, value: Any) -> tuple[str, ...]:
        """Give each file its whole path, and each but sysbench's bundled scripts its weight."""
        parsed = []
        for word in super().parse(name, value):
            if match := re.fullmatch(_FILE, word):
                path = match["builtin"] or Path(match["path"]).absolute()
                parsed.append(f"{path}@{int(match['weight'] or 1)}")
            else:
                parsed.append(word)
        return tuple(parsed)


@dataclass(frozen=True)
class Digests:
    """Digests of files, computed; ``count`` of them with a hyphen between."""

    count: int = 1
    values = "digests"

    def parse(self, name: str, value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch("-".join([_DIGEST] * self.count), value):
            raise UsageError(f"{name} {value!r}", "not digests of files", "leave it out")
        return value


@dataclass(frozen=True, kw_only=True)
class ClientParams(Parameters):
    """Parameters that take effect with a script alone."""

    script: Annotated[
        tuple[str, ...],
        _Scripts(
            "FILE[@WEIGHT], or a bundled script of the driver",
            rf"[a-z][a-z0-9_]*|{_FILE}",
            "neither a file with a weight nor a bundled script",
            f"write new_order.sql@10, my.lua, {', '.join(BUILTIN)} or oltp_read_write",
        ),
    ] = parameter(
        default_text="none",
        option=True,
        help="Script of --driver pgbench (FILE@WEIGHT, tpcb-like …) or sysbench (name, FILE.lua).",
        repeats=True,
        omit_unset=True,
    )
    define: Annotated[
        tuple[str, ...],
        Texts(
            "NAME=VALUE",
            "[A-Za-z_][A-Za-z0-9_-]*=[A-Za-z0-9_.:+-]*",
            "not a name and a plain value",
            "write tables=4",
        ),
    ] = parameter(
        default_text="none",
        option=True,
        help="Variable of pgbench's scripts, or option of sysbench's: NAME=VALUE.",
        repeats=True,
        omit_unset=True,
    )
    scale: Annotated[int, Meta(ge=1, le=1_000_000)] | None = parameter(
        derive=lambda params: 1 if params.of_pgbench and not params.folder else None,
        default_text="1; of a folder, the rows of pgbench_branches",
        option=True,
        help="Scale of the tables that pgbench makes (pgbench -i -s), and :scale of its scripts.",
        omit_unset=True,
    )
    users: Annotated[int, Meta(ge=1, le=10_000)] | None = parameter(
        derive=lambda params: 8 if params.script else None,
        default_text="8",
        option=True,
        help="Connections that run scripts, each in turn (pgbench -c).",
        omit_unset=True,
    )
    client_threads: Annotated[int, Meta(ge=1, le=1_024)] | None = parameter(
        derive=lambda params: (
            min(_MOST_THREADS, -(-params.users // _USERS_PER_THREAD)) if params.users else None
        ),
        default_text=f"1 per {_USERS_PER_THREAD} users",
        help="Threads of pgbench (-j); sysbench has one for each user.",
        omit_unset=True,
    )
    rate: Annotated[float, parameters.per_second("transactions")] | None = parameters.rate(
        "transactions", omit_unset=True
    )
    ramp_up: Duration | None = parameters.ramp_up(
        derive=lambda params: "1m" if params.script else None, default_text="1m", omit_unset=True
    )
    duration: parameters.Window | None = parameters.duration(
        derive=lambda params: "3m" if params.script else None, default_text="3m", omit_unset=True
    )
    protocol: Literal["simple", "extended", "prepared"] | None = parameter(
        derive=lambda params: params.client_protocol if params.script else None,
        default_text="the client's: simple (pgbench), prepared (sysbench)",
        option=True,
        help="How statements are sent (pgbench -M).",
        omit_unset=True,
    )
    max_tries: Annotated[int, Meta(ge=1, le=1_000_000)] | None = parameter(
        derive=lambda params: 1 if params.script else None,
        default_text="1",
        option=True,
        help="Tries of a transaction with a serialization failure or deadlock (pgbench).",
        omit_unset=True,
    )
    script_digest: Annotated[str, Digests()] | None = parameter(
        derive=lambda params: digest(scripts(params)) if params.script else None,
        default_text="computed",
        help="Digest of the scripts.",
        omit_unset=True,
    )

    @property
    def of_pgbench(self) -> bool:
        """Whether the scripts are pgbench's own, or files in its language."""
        return any(is_for_pgbench(argument) for argument in self.script or ())

    @property
    def client_protocol(self) -> Literal["simple", "prepared"]:
        """How the client sends statements by default."""
        return "simple" if self.of_pgbench else "prepared"

    def check_scripts(self) -> None:
        """UsageError for parameters that only scripts have, and for times that are not whole."""
        for name in ("ramp_up", "duration"):
            given: Duration | None = getattr(self, name)
            if given is not None and given.ns % NS_PER_S:
                raise UsageError(
                    f"{name} {given}", "pgbench and sysbench count whole seconds", "round it"
                )
        if self.script:
            return
        for name in ("users", "rate", "ramp_up", "duration", "max_tries", "define", "scale"):
            if getattr(self, name):
                raise UsageError(
                    f"{name} without a script",
                    "the harness runs each query of the folder by itself",
                    "add --driver pgbench --script FILE.sql, or leave it out",
                )

    def client_outline(self) -> Outline:
        """The facts of :meth:`outline`, with a script."""
        assert self.users and self.duration and self.ramp_up
        return Outline(
            connections=self.users, ramp_up_ns=self.ramp_up.ns, window_ns=self.duration.ns
        )


def is_for_pgbench(argument: str) -> bool:
    """Return whether a script is one of pgbench's own, or a file in its language."""
    path = argument.rpartition("@")[0]
    return path in BUILTIN or path.endswith((".sql", ".pgbench"))


def scripts(params: ClientParams) -> list[Script]:
    """Read the scripts; UsageError for one that cannot be read.

    Two files of one name are distinguished by their number.
    """
    chosen: list[Script] = []
    for argument in params.script or ():
        path, at, weight = argument.rpartition("@")
        if not at or path in BUILTIN:
            chosen.append(Script(path or argument, "", int(weight) if at else 1))
            continue
        try:
            text = read_text(Path(path), None)
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"script {path}", str(error), "name a text file") from error
        files = files_of(Path(path), text) if path.endswith(".lua") else {}
        stem = Path(path).stem
        taken = {script.name for script in chosen}
        name = stem if stem not in taken else f"{stem}-{len(chosen) + 1}"
        chosen.append(Script(name, text or "\n", int(weight), files))
    return chosen


def digest(scripts: list[Script]) -> str:
    """Return a digest of the scripts' texts, and of the files that they read."""
    texts = "\0".join(
        text
        for script in scripts
        for text in (script.text, *(part for file in sorted(script.files.items()) for part in file))
    )
    return hashlib.blake2b(texts.encode(), digest_size=8).hexdigest()


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
        return tuple(stem.removesuffix(".sql") for stem in names)


@dataclass(frozen=True, kw_only=True)
class SqlParams(ClientParams):
    """Your own queries or scripts over your own data."""

    workload = "sql"
    smaller = "fewer rows in load/"
    drivers: ClassVar[Mapping[str, str]] = {
        NATIVE: "the harness itself: the queries of a folder, or its recorded load",
        "pgbench": "scripts of PostgreSQL's client, on data of a folder",
        "sysbench": "scripts in Lua, on data of a folder or of the script's own prepare",
    }

    folder: Annotated[str, _Folder()] = parameter(
        default_text="none: required",
        option=True,
        help="Folder with tables.sql, load/ and queries/ (docs/your-own-workload.md).",
    )
    queries: Annotated[
        tuple[str, ...],
        _Queries(
            "names of files in queries/, each once",
            ".+",
            "not a list of queries, each once",
            "name them: top,by_day",
        ),
    ] = parameter(
        default_text="all",
        option=True,
        help="Queries to run, in this order: top,by_day.",
        omit_unset=True,
    )
    cache: CacheMode = parameters.cache(default="cold-per-query")
    query_timeout_s: parameters.Seconds | None = parameters.query_timeout()
    plans: bool = parameters.plans(default=True)
    keep_answers: Literal["digest", "none"] | None = parameter(
        default_text="the first 1,000 rows",
        option=True,
        help="Store of each answer a digest, or nothing, instead of rows.",
        omit_unset=True,
    )
    warmups: parameters.Warmups = parameters.warmups()
    replay: bool | None = parameter(
        default_text="false",
        option=True,
        help="Replay the folder's recorded load (harness workload capture).",
        omit_unset=True,
    )
    as_fast_as_possible: bool | None = parameter(
        default_text="false",
        option=True,
        help="Replay each session's statements without waiting for their times.",
        omit_unset=True,
    )
    speed: Annotated[float, Meta(gt=0, extra={"unit": "times the record's"})] | None = parameter(
        derive=lambda params: 1.0 if params.replay and not params.as_fast_as_possible else None,
        default_text="1",
        option=True,
        help="Speed of a replay.",
        omit_unset=True,
    )
    content: Annotated[str, Digests(2)] = parameter(
        derive=lambda params: read_folder(Path(params.folder)).content if params.folder else None,
        default_text="computed",
        help="Digests of the folder's data, and of its queries, answers and check.",
    )

    def resolve(self) -> SqlParams:
        self._check_replay()
        if not self.replay:
            self.check_scripts()
        if not self.folder and not self.script:
            raise UsageError(
                "run sql",
                "no folder is named",
                "add --folder shop/; `harness workload init shop/` writes an example",
            )
        check_warmups(self.cache, self.warmups)
        return self

    def _check_replay(self) -> None:
        if not self.replay:
            for name in ("speed", "as_fast_as_possible"):
                if getattr(self, name):
                    raise UsageError(
                        f"{name} without replay", "nothing is replayed", "add --replay"
                    )
            return
        for name in ("script", "users", "rate", "max_tries", "define"):
            if getattr(self, name):
                raise UsageError(
                    f"{name} with replay", "the record says what is sent, and when", "leave it out"
                )
        if self.as_fast_as_possible and self.speed:
            raise UsageError(
                "speed and as_fast_as_possible", "a replay has one of them", "leave one out"
            )

    @property
    def data_digest(self) -> str:
        """The part of ``content`` that loaded data depend on."""
        return self.content.partition("-")[0]

    def latency_statistics(self, driver: str) -> Collection[str]:
        """Scripts have latencies; a query is executed once."""
        return STATISTICS if self.script else ()

    def without_effect(self) -> Collection[str]:
        """A script or a record is what is run, whatever queries the folder has."""
        names = ("queries", "cache", "query_timeout_s", "plans", "warmups")
        return names if self.script or self.replay else ()

    def outline(self) -> Outline:
        if self.replay:
            ramp_up_ns, window_ns = (t.ns if t else 0 for t in (self.ramp_up, self.duration))
            return Outline(ramp_up_ns=ramp_up_ns, window_ns=window_ns)
        return self.client_outline() if self.script else Outline(cache=self.cache)

    def chosen(self, texts: dict[str, Text]) -> dict[str, Text]:
        """Return the queries to run, of those of the folder; UsageError for an unknown one."""
        for name in self.queries or ():
            if name not in texts:
                raise unknown(
                    f"query {name!r}", "queries/ has none of this name", name, list(texts)
                )
        return {name: texts[name] for name in self.queries or texts}


PARAMS = SqlParams
