"""The data directory on disk: made, secured, copied to golden data and back.

Layout, the same for every placement, so that only the devices differ::

    <data>/data     the data directory: tables with their indexes, undo, doublewrite
    <wal>/redo      InnoDB's redo log
    <wal>/binlog    the binary log, where a run has one: golden data never do
    <temp>/tmp      tmpdir: sorts that spill, internal temporary tables
    <temp>/innodb   InnoDB's temporary tablespaces, empty whenever the server is stopped

Nothing in these files says where they lie (every location is an option of the server's
start), so golden data are the first two directories as they are, and a copy of them runs
anywhere. InnoDB keeps the indexes of a table inside the table's own file: they cannot be
placed apart.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engines._innodb.installation import Installation
from engines._server import make_folder, run_once
from harness.copytree import copy_tree, make_durable, move_tree
from harness.engine import DataDirectories, EngineContext
from harness.errors import RunFailed, UsageError
from harness.experiment.placement import Part
from harness.supervise.user_files import acting_as

#: What the harness itself works as.
ROLE = "harness"
#: What clients on other hosts work as, which come through a tunnel: rights on our database alone.
TUNNEL_ROLE = "harness_client"
DATABASE = "harness"
#: A server's identity and keys, and which pages it happened to hold: no copy shares them.
_NOT_KEPT = ("auto.cnf", "mysqld-auto.cnf", "*.pem", "*.pid", "ib_buffer_pool")
#: What mariadb-install-db runs, without help texts, GIS and the sys schema; renamed in 11.
_SYSTEM_TABLES = ("system_tables", "performance_tables", "system_tables_data")


class Cluster:
    """One data directory in the places of a run; nothing of it runs while these verbs work."""

    def __init__(
        self,
        installation: Installation,
        context: EngineContext,
        places: DataDirectories,
        doublewrite: Part = "data",
    ) -> None:
        self._installation = installation
        self._context = context
        self._user = context.credentials
        self.data = places["data"] / "data"
        self.redo = places["wal"] / "redo"
        self.binary_log = places["wal"] / "binlog"
        self.tmp = places["temp"] / "tmp"
        self.temporary_tablespaces = places["temp"] / "innodb"
        self.doublewrite = self.redo if doublewrite == "wal" else self.data
        self.title = installation.title
        #: Whether the server on it ended by a clean shutdown the last time.
        self.clean = False

    def directories(self) -> list[Path]:
        """All five directories."""
        return [self.data, self.redo, self.binary_log, self.tmp, self.temporary_tablespaces]

    def locations(self, knows: Callable[[str], bool]) -> dict[str, str]:
        """The options that put every part into its place, of those that this release knows."""
        found = {
            "datadir": self.data,
            "innodb_data_home_dir": "",
            "innodb_data_file_path": f"{self.data}/ibdata1:12M:autoextend",
            "innodb_undo_directory": self.data,
            "innodb_log_group_home_dir": self.redo,
            "innodb_doublewrite_dir": self.doublewrite,
            "tmpdir": self.tmp,
            "innodb_temp_data_file_path": (f"{self.temporary_tablespaces}/ibtmp1:12M:autoextend"),
            "innodb_temp_tablespaces_dir": self.temporary_tablespaces,
            "aria_log_dir_path": self.data,
        }
        return {name: str(value) for name, value in found.items() if knows(name)}

    def binary_log_options(self) -> dict[str, str]:
        """The options that turn the binary log on, in its place."""
        base = self.binary_log / "binlog"
        return {"log_bin": str(base), "log_bin_index": f"{base}.index"}

    def create(self, configuration: Path) -> None:
        """The system tables of an empty server, with the option file's settings."""
        for folder in self.directories():
            make_folder(self._context, folder)
        if self._installation.flavour == "mysql":
            self._run("initialise", configuration, "--initialize-insecure")
        else:
            self._run("initialise", configuration, "--bootstrap", statements=self._system_tables())
        self.clean = True

    def make_durable(self) -> None:
        """What was written while the server did no fsync itself is on its devices."""
        for folder in self.directories():
            make_durable(folder, self._user)

    def assert_clean(self, asked: str) -> None:
        """RunFailed unless the server on it was shut down cleanly."""
        if not self.clean:
            raise RunFailed(
                asked, f"the server on {self.data} was not shut down cleanly", "load it again"
            )

    def snapshot(self, golden: Path) -> None:
        """Move (copy across file systems) data and redo log to ``golden``."""
        self.assert_clean("keep as golden data")
        with acting_as(self._user):
            for pattern in _NOT_KEPT:
                for path in self.data.glob(pattern):
                    path.unlink()
        for folder, name in self._golden_names().items():
            move_tree(folder, golden / name, self._user)
        make_durable(golden)

    def restore(self, golden: Path) -> None:
        """Copy data and redo log into the places; temporary parts begin empty."""
        for folder, name in self._golden_names().items():
            copy_tree(golden / name, folder, writer=self._user)
        for folder in (self.binary_log, self.tmp, self.temporary_tablespaces):
            make_folder(self._context, folder)
        self.clean = True

    def _golden_names(self) -> dict[Path, str]:
        return {self.data: "data", self.redo: "redo"}

    def _system_tables(self) -> str:
        """The statements that make MariaDB's own tables; each begins on a line of its own."""
        scripts = ["CREATE DATABASE mysql;", "USE mysql;", "SET @auth_root_socket=NULL;"]
        for name in _SYSTEM_TABLES:
            candidates = (f"mariadb_{name}.sql", f"mysql_{name}.sql")
            path = next(filter(None, map(self._installation.share, candidates)), None)
            if path is None:
                raise UsageError(
                    f"initialise {self._installation.title}",
                    f"{' or '.join(candidates)} is not under {self._installation.base}/share",
                    "install the whole server package (Debian: mariadb-server-core), or name "
                    "another installation with the engine option 'prefix'",
                )
            scripts.append(path.read_text(encoding="utf-8"))
        # The scripts make a root without a password for every name of this machine.
        scripts.append("DELETE FROM mysql.global_priv WHERE Host <> 'localhost';")
        scripts.append("DELETE FROM mysql.proxies_priv WHERE Host <> 'localhost';\n")
        return "\n".join(scripts)

    def _run(self, what: str, configuration: Path, *arguments: str, statements: str = "") -> None:
        """Run the server once, as its own user, until it ends; ``statements`` go to its stdin."""
        run_once(
            self._context,
            f"{what} {self._installation.title}",
            [*self._installation.command, f"--defaults-file={configuration}", *arguments],
            self._context.scratch / f"{what}.log",
            stdin=statements,
        )
