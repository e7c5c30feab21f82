"""The database cluster on disk: its creation, and copies to and from a dataset.

Layout, the same for every placement, so that only the devices differ::

    <data>/pgdata      the data directory; pg_wal and pg_tblspc/* are links
    <wal>/pg_wal       the write-ahead log
    <index>/tblspc     tablespace harness_index: indexes
    <temp>/tblspc      tablespace harness_temp: sorts and hashes that spill
    <relations>/tblspc tablespace harness_relations: tables and indexes that a placement names

A dataset contains the same four directories as ``pgdata``, ``pg_wal``, ``index`` and ``temp``.
The tablespace of single relations is made after each restore that needs it, and no dataset has it.
To move a stopped cluster, it is enough to rewrite its links: since PostgreSQL 9.2, the link *is*
the tablespace's location.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from engines._managed import DataFolders
from engines._programs import run_once
from engines.postgres.installation import Installation
from harness.engine import DataDirectories, EngineContext
from harness.errors import RunFailed
from harness.experiment.placement import Part
from harness.supervise.user_files import acting_as, make_directory, open_regular

#: The superuser that the harness uses.
ROLE = "harness"
#: The role of clients on other hosts, which has only a workload's rights on its tables.
CLIENT_ROLE = "harness_client"
DATABASE = "harness"
#: Made by initdb; the harness stores nothing in it.
MAINTENANCE_DATABASE = "postgres"
INDEX_TABLESPACE = "harness_index"
TEMP_TABLESPACE = "harness_temp"
RELATIONS_TABLESPACE = "harness_relations"
_TABLESPACES: Mapping[Part, str] = {"index": INDEX_TABLESPACE, "temp": TEMP_TABLESPACE}
_LOCATION_FILE = "harness_tablespaces"
_SCRAM_ITERATIONS = 4096
_INITDB_OPTIONS = (
    *("--auth=reject", "--encoding=UTF8", "--no-locale"),
    *("--no-sync", "--no-instructions"),
)
_SINGLE_USER_OPTIONS = ("--exit_on_error=on", "--shared_buffers=16MB", "--huge_pages=off")
#: ``DBState`` of every release, the fourth field of pg_control.
_STATES = (
    "starting up",
    "shut down",
    "shut down in recovery",
    "shutting down",
    "in crash recovery",
    "in archive recovery",
    "in production",
)
_STATE = struct.Struct("=16xI")
#: The state after a clean shutdown.
CLEAN = "shut down"


def scram_verifier(password: str) -> str:
    """The verifier that the server stores instead of ``password`` (RFC 5803)."""
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _SCRAM_ITERATIONS)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    text = [base64.b64encode(value).decode() for value in (salt, stored, server)]
    return f"SCRAM-SHA-256${_SCRAM_ITERATIONS}:{text[0]}${text[1]}:{text[2]}"


class Cluster(DataFolders[Installation]):
    """One cluster in the directories of a run; its server is stopped while these methods run."""

    def __init__(
        self, installation: Installation, context: EngineContext, directories: DataDirectories
    ) -> None:
        super().__init__(installation, context)
        self.data = directories["data"] / "pgdata"
        self.wal = directories["wal"] / "pg_wal"
        self.tablespaces = {part: directories[part] / "tblspc" for part in _TABLESPACES}
        #: By part, the tablespaces of this run alone.
        self._added: dict[Part, Path] = {}
        if directories.relations:
            self._added = {"relations": directories["relations"] / "tblspc"}

    def directories(self) -> list[Path]:
        return [self.data, self.wal, *self.tablespaces.values(), *self._added.values()]

    def create(self, initdb_options: Sequence[str], password: str) -> None:
        """Run initdb; make tablespaces, database and the password of the harness's role."""
        for folder in self.tablespaces.values():
            make_directory(folder, self._user)
        directories = (f"--pgdata={self.data}", f"--waldir={self.wal}", f"--username={ROLE}")
        self._run("initdb", *directories, *_INITDB_OPTIONS, *initdb_options)
        statements = [
            f"CREATE TABLESPACE {_TABLESPACES[part]} LOCATION '{_quoted(folder)}'"
            for part, folder in self.tablespaces.items()
        ]
        self._single_user(
            *statements,
            f"CREATE DATABASE {DATABASE}",
            f"GRANT CREATE ON TABLESPACE {TEMP_TABLESPACE} TO PUBLIC",
            f"ALTER ROLE {ROLE} PASSWORD '{scram_verifier(password)}'",
        )

    def state(self) -> str:
        """Return the cluster's state in the words of pg_controldata (``CLEAN``)."""
        file = self.data / "global" / "pg_control"
        with acting_as(self._user):
            descriptor = open_regular(file, os.O_RDONLY)
        with os.fdopen(descriptor, "rb") as control:
            content = control.read(_STATE.size)
        try:
            return _STATES[_STATE.unpack(content)[0]]
        except (struct.error, IndexError) as error:
            raise RunFailed(f"state of {self.data}", f"{file} is damaged: {error}") from error

    def assert_clean(self, problem: str) -> None:
        """RunFailed unless the cluster was shut down cleanly."""
        if (state := self.state()) != CLEAN:
            raise RunFailed(
                problem, f"the cluster in {self.data} is {state!r}, not {CLEAN!r}", "load it again"
            )

    def restore(self, dataset: Path, password: str) -> None:
        """Copy the four directories, link them, set a new password."""
        self._copy(dataset)
        self._link(self.data / "pg_wal", self.wal)
        for part, folder in self.tablespaces.items():
            oid = (dataset / f"{_LOCATION_FILE}.{part}").read_text().strip()
            self._link(self.data / "pg_tblspc" / oid, folder)
        self.assert_clean(f"restore {dataset}")
        for folder in self._added.values():
            make_directory(folder, self._user)
        self._single_user(
            f"ALTER ROLE {ROLE} PASSWORD '{scram_verifier(password)}'",
            *(
                f"CREATE TABLESPACE {RELATIONS_TABLESPACE} LOCATION '{_quoted(folder)}'"
                for folder in self._added.values()
            ),
        )

    def verify_locations(self) -> None:
        """RunFailed unless every part is in its directory (links resolved)."""
        links = {"wal": self.data / "pg_wal", **self._links()}
        expected = {"wal": self.wal, **self.tablespaces, **self._added}
        for part, link in links.items():
            with acting_as(self._user):
                target, directory = link.resolve(), expected[part].resolve()
            if target != directory:
                raise RunFailed(f"{part} in {expected[part]}", f"{link} leads to {target}")
        if missing := set(expected) - set(links):
            raise RunFailed(f"parts of {self.data}", f"no link for {', '.join(sorted(missing))}")

    def dataset_names(self) -> dict[Path, str]:
        parts = {folder: str(part) for part, folder in self.tablespaces.items()}
        return {self.data: "pgdata", self.wal: "pg_wal", **parts}

    def _strip(self, dataset: Path) -> None:
        """The links, of which those to tablespaces are written down."""
        for part, link in self._links().items():
            (dataset / f"{_LOCATION_FILE}.{part}").write_text(link.name)
            with acting_as(self._user):
                link.unlink()
        with acting_as(self._user):
            (self.data / "pg_wal").unlink()

    def _links(self) -> dict[Part, Path]:
        """The tablespace links of the data directory, by part."""
        with acting_as(self._user):
            folders = {**self.tablespaces, **self._added}
            parts = {folder.resolve(): part for part, folder in folders.items()}
            links = {link: link.resolve() for link in (self.data / "pg_tblspc").iterdir()}
        return {parts[target]: link for link, target in links.items() if target in parts}

    def _link(self, link: Path, target: Path) -> None:
        with acting_as(self._user):
            link.symlink_to(target)

    def _run(self, tool: str, *arguments: str) -> None:
        run_once(
            self.context,
            f"{tool} of {self.installation.title}",
            [str(self.installation.bin / tool), *arguments],
            self.context.scratch / f"{tool}.log",
        )

    def _single_user(self, *statements: str) -> None:
        """Run statements in single-user mode: before anyone can connect, and without a socket."""
        program = [str(self.installation.bin / "postgres"), "--single", "-D", str(self.data)]
        run_once(
            self.context,
            "set up the PostgreSQL cluster",
            [*program, *_SINGLE_USER_OPTIONS, MAINTENANCE_DATABASE],
            self.context.scratch / "single-user.log",
            stdin="".join(f"{s};\n" for s in statements),
        )


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
