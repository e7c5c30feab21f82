"""The data directory on disk: creation, passwords, copies to and from a dataset.

Layout, the same for every placement, so that only the devices differ::

    <data>/data     the data directory: tables with their indexes, undo, doublewrite
    <wal>/redo      InnoDB's redo log
    <wal>/binlog    the binary log, if the run has one; a dataset never has
    <temp>/tmp      tmpdir: sorts that spill, internal temporary tables
    <temp>/innodb   InnoDB's temporary tablespaces, empty whenever the server is stopped
    <relations>/harness  tables that a placement names (relations.py)

These files contain no locations (every location is an option of the server's start), so a dataset
consists of the first two directories, unchanged, and a copy of them runs anywhere. InnoDB stores
a table and its indexes in one file: indexes cannot be placed separately.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engines._innodb.installation import Installation
from engines._innodb.relations import move_tables
from engines._managed import DataFolders
from engines._programs import run_once
from harness.engine import DataDirectories, EngineContext
from harness.errors import UsageError
from harness.experiment.placement import Part
from harness.supervise.user_files import acting_as, make_directory

#: The user that the harness uses.
ROLE = "harness"
#: The user of clients on other hosts, which has only a workload's rights on its tables.
CLIENT_ROLE = "harness_client"
DATABASE = "harness"
#: A server's identity and keys, and the list of pages in its memory: not part of a dataset.
_NOT_KEPT = ("auto.cnf", "mysqld-auto.cnf", "*.pem", "*.pid", "ib_buffer_pool")
#: Scripts of mariadb-install-db, without help texts, GIS and the sys schema; renamed in 11.
_SYSTEM_TABLES = ("system_tables", "performance_tables", "system_tables_data")


class Cluster(DataFolders[Installation]):
    """One data directory of a run; its server is stopped while these methods run."""

    def __init__(
        self,
        installation: Installation,
        context: EngineContext,
        directories: DataDirectories,
        doublewrite: Part = "data",
    ) -> None:
        super().__init__(installation, context)
        self.data = directories["data"] / "data"
        self.redo = directories["wal"] / "redo"
        self.binary_log = directories["wal"] / "binlog"
        self.tmp = directories["temp"] / "tmp"
        self.temporary_tablespaces = directories["temp"] / "innodb"
        self.doublewrite = self.redo if doublewrite == "wal" else self.data
        self.title = installation.title
        self._relations = directories.relations
        self._apart = [directories["relations"]] if directories.relations else []

    def directories(self) -> list[Path]:
        temporary = [self.tmp, self.temporary_tablespaces]
        return [self.data, self.redo, self.binary_log, *temporary, *self._apart]

    def table_folders(self) -> list[Path]:
        """Return the directories with tables of the database."""
        return [folder / DATABASE for folder in (self.data, *self._apart)]

    def locations(self, knows: Callable[[str], bool]) -> dict[str, str]:
        """The options for the location of every part; ``knows``: whether the release has one."""
        versions = {
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
        if self._apart:
            versions["innodb_directories"] = self._apart[0]
        return {name: str(value) for name, value in versions.items() if knows(name)}

    def binary_log_options(self) -> dict[str, str]:
        """The options that turn the binary log on."""
        base = self.binary_log / "binlog"
        return {"log_bin": str(base), "log_bin_index": f"{base}.index"}

    def create(self, configuration: Path) -> None:
        """Make the system tables of an empty server, with the option file's settings."""
        for folder in self.directories():
            make_directory(folder, self._user)
        mariadb = self.installation.flavour == "mariadb"
        option = "--bootstrap" if mariadb else "--initialize-insecure"
        run_once(
            self.context,
            f"initialise {self.title}",
            [*self.installation.command, f"--defaults-file={configuration}", option],
            self.context.scratch / "initialise.log",
            stdin=self._system_tables() if mariadb else "",
        )
        self.clean = True

    def restore(self, dataset: Path) -> None:
        """Copy data and redo log; the other directories start empty."""
        self._copy(dataset)
        for folder in (self.binary_log, self.tmp, self.temporary_tablespaces):
            make_directory(folder, self._user)
        if self._apart:
            data, folder = self.table_folders()
            make_directory(folder, self._user)
            links = self.installation.flavour == "mariadb"
            move_tables(data, folder, self._relations, links, self._user)
        self.clean = True

    def dataset_names(self) -> dict[Path, str]:
        return {self.data: "data", self.redo: "redo"}

    def _strip(self, dataset: Path) -> None:
        with acting_as(self._user):
            for pattern in _NOT_KEPT:
                for path in self.data.glob(pattern):
                    path.unlink()

    def _system_tables(self) -> str:
        """The statements that make MariaDB's system tables, each on a new line."""
        scripts = ["CREATE DATABASE mysql;", "USE mysql;", "SET @auth_root_socket=NULL;"]
        for name in _SYSTEM_TABLES:
            candidates = (f"mariadb_{name}.sql", f"mysql_{name}.sql")
            path = next(filter(None, map(self.installation.share, candidates)), None)
            if path is None:
                raise UsageError(
                    f"initialise {self.installation.title}",
                    f"{' or '.join(candidates)} is not under {self.installation.base}/share",
                    "install the complete server package (Debian: mariadb-server-core), or select "
                    "another installation with the engine option 'prefix'",
                )
            scripts.append(path.read_text(encoding="utf-8"))
        # The scripts make a root user without a password for every name of this machine.
        scripts.append("DELETE FROM mysql.global_priv WHERE Host <> 'localhost';")
        scripts.append("DELETE FROM mysql.proxies_priv WHERE Host <> 'localhost';\n")
        return "\n".join(scripts)
