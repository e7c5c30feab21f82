"""The database cluster on disk: made, secured, copied to golden data and back.

Layout, the same for every placement, so that only the devices differ::

    <data>/pgdata      the data directory; pg_wal and pg_tblspc/* are links
    <wal>/pg_wal       the write-ahead log
    <index>/tblspc     tablespace harness_index: what is built as an index
    <temp>/tblspc      tablespace harness_temp: sorts and hashes that spill

Golden data hold the same four directories under ``pgdata``, ``pg_wal``, ``index``
and ``temp``. A stopped cluster needs no more than its links rewritten to live
elsewhere: since PostgreSQL 9.2 the link *is* the tablespace's location.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from engines._server import make_folder, run_once
from engines.postgres.installation import Installation
from harness.copytree import copy_tree, make_durable, move_tree
from harness.engine import DataDirectories, EngineContext
from harness.errors import RunFailed
from harness.experiment.placement import Part
from harness.supervise.failures import log_tail
from harness.supervise.user_files import acting_as, read_text

#: The superuser that the harness itself works as.
ROLE = "harness"
#: What clients on other hosts work as: the rights of a workload on its tables, no more.
CLIENT_ROLE = "harness_client"
DATABASE = "harness"
#: initdb makes it; nothing of ours is stored there.
MAINTENANCE_DATABASE = "postgres"
INDEX_TABLESPACE = "harness_index"
TEMP_TABLESPACE = "harness_temp"
_TABLESPACES: Mapping[Part, str] = {"index": INDEX_TABLESPACE, "temp": TEMP_TABLESPACE}
_LOCATION_FILE = "harness_tablespaces"
_SCRAM_ITERATIONS = 4096
#: The state that pg_controldata tells of a cluster after a clean shutdown.
CLEAN = "shut down"


def scram_verifier(password: str) -> str:
    """What the server stores instead of ``password`` (RFC 5803): the secret stays with us."""
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _SCRAM_ITERATIONS)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    text = [base64.b64encode(value).decode() for value in (salt, stored, server)]
    return f"SCRAM-SHA-256${_SCRAM_ITERATIONS}:{text[0]}${text[1]}:{text[2]}"


class Cluster:
    """One cluster in the places of a run; nothing of it runs while these verbs work."""

    def __init__(
        self, installation: Installation, context: EngineContext, places: DataDirectories
    ) -> None:
        self._installation = installation
        self._context = context
        self.data = places["data"] / "pgdata"
        self.wal = places["wal"] / "pg_wal"
        self.tablespaces: dict[Part, Path] = {
            part: places[part] / "tblspc" for part in _TABLESPACES
        }
        self._user = context.credentials

    def directories(self) -> list[Path]:
        """All four directories."""
        return [self.data, self.wal, *self.tablespaces.values()]

    def create(self, initdb_options: Sequence[str], password: str) -> None:
        """initdb, tablespaces, database, and the password of our role."""
        for folder in self.tablespaces.values():
            make_folder(self._context, folder)
        self._run(
            "initdb",
            "--pgdata",
            str(self.data),
            "--waldir",
            str(self.wal),
            "--username",
            ROLE,
            "--auth=reject",
            "--encoding=UTF8",
            "--no-locale",
            "--no-sync",
            "--no-instructions",
            *initdb_options,
        )
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
        """``Database cluster state`` as pg_controldata has it (``CLEAN``)."""
        log = self._context.scratch / "pg_controldata.log"
        with acting_as(self._user):
            log.unlink(missing_ok=True)
        self._run("pg_controldata", "--pgdata", str(self.data), log=log)
        for line in read_text(log, self._user).splitlines():
            if line.startswith("Database cluster state:"):
                return line.split(":", 1)[1].strip()
        raise RunFailed(f"state of {self.data}", log_tail(log, self._user))

    def assert_clean(self, asked: str) -> None:
        """RunFailed unless the cluster was shut down cleanly."""
        if (state := self.state()) != CLEAN:
            raise RunFailed(
                asked, f"the cluster in {self.data} is {state!r}, not shut down", "load it again"
            )

    def make_durable(self) -> None:
        """What was written while the server did no fsync itself is on its devices."""
        for folder in self.directories():
            make_durable(folder, self._user)

    def snapshot(self, golden: Path) -> None:
        """Move (copy across file systems) the four directories to ``golden``."""
        self.assert_clean("keep as golden data")
        for part, link in self._links().items():
            (golden / f"{_LOCATION_FILE}.{part}").write_text(link.name)
            with acting_as(self._user):
                link.unlink()
        with acting_as(self._user):
            (self.data / "pg_wal").unlink()
        for folder, name in self._golden_names().items():
            move_tree(folder, golden / name, self._user)
        make_durable(golden)

    def restore(self, golden: Path, password: str) -> None:
        """Copy the four directories into the places, link them, set a new password."""
        for folder, name in self._golden_names().items():
            copy_tree(golden / name, folder, writer=self._user)
        self._link(self.data / "pg_wal", self.wal)
        for part, folder in self.tablespaces.items():
            oid = (golden / f"{_LOCATION_FILE}.{part}").read_text().strip()
            self._link(self.data / "pg_tblspc" / oid, folder)
        self.assert_clean(f"restore {golden}")
        self._single_user(f"ALTER ROLE {ROLE} PASSWORD '{scram_verifier(password)}'")

    def verify_locations(self) -> None:
        """RunFailed unless every part really lies in its place (links resolved)."""
        found = {"wal": self.data / "pg_wal", **self._links()}
        wanted = {"wal": self.wal, **self.tablespaces}
        for part, link in found.items():
            with acting_as(self._user):
                there, place = link.resolve(), wanted[part].resolve()
            if there != place:
                raise RunFailed(f"{part} in {wanted[part]}", f"{link} leads to {there}")
        if missing := set(wanted) - set(found):
            raise RunFailed(f"parts of {self.data}", f"no link for {', '.join(sorted(missing))}")

    def _golden_names(self) -> dict[Path, str]:
        return {
            self.data: "pgdata",
            self.wal: "pg_wal",
            **{folder: part for part, folder in self.tablespaces.items()},
        }

    def _links(self) -> dict[Part, Path]:
        """The tablespace links of the data directory, by part."""
        with acting_as(self._user):
            wanted = {folder.resolve(): part for part, folder in self.tablespaces.items()}
            found = {link: link.resolve() for link in (self.data / "pg_tblspc").iterdir()}
        return {wanted[place]: link for link, place in found.items() if place in wanted}

    def _link(self, link: Path, target: Path) -> None:
        with acting_as(self._user):
            link.symlink_to(target)

    def _run(self, tool: str, *arguments: str, log: Path | None = None) -> None:
        """Run one of PostgreSQL's programs as the server's user."""
        run_once(
            self._context,
            f"{tool} of PostgreSQL {self._installation.version}",
            [str(self._installation.bin / tool), *arguments],
            log or self._context.scratch / f"{tool}.log",
        )

    def _single_user(self, *statements: str) -> None:
        """Statements in single-user mode: before anyone can connect, and without a socket."""
        run_once(
            self._context,
            "set up the PostgreSQL cluster",
            [
                str(self._installation.bin / "postgres"),
                "--single",
                "-D",
                str(self.data),
                "-c",
                "exit_on_error=on",
                "-c",
                "shared_buffers=16MB",
                "-c",
                "huge_pages=off",
                MAINTENANCE_DATABASE,
            ],
            self._context.scratch / "single-user.log",
            stdin="".join(f"{s};\n" for s in statements),
        )


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
