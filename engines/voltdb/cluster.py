"""The directories of one VoltDB: made, copied to a dataset and back.

Layout, the same for every placement, so that only the devices differ::

    <data>/root        the server's configuration
    <data>/snapshots   snapshots of all data, which is in memory otherwise

A server that starts restores the newest whole snapshot that it finds. A dataset consists of
the snapshots of a server that was stopped; tables, procedures and rows are in them, users and
settings are not.
"""

from __future__ import annotations

from pathlib import Path

from engines._cluster import DataFolders, run_once
from engines.voltdb.installation import Installation
from harness.engine import DataDirectories, EngineContext
from harness.supervise.user_files import acting_as, make_directory, write_text


class Cluster(DataFolders[Installation]):
    """The directories of one server."""

    def __init__(
        self, installation: Installation, context: EngineContext, places: DataDirectories
    ) -> None:
        super().__init__(installation, context)
        self.root = places["data"] / "root"
        self.snapshots = places["data"] / "snapshots"

    def directories(self) -> list[Path]:
        return [self.root, self.snapshots]

    def dataset_names(self) -> dict[Path, str]:
        return {self.snapshots: "snapshots"}

    def create(self, deployment: str) -> None:
        """Without data; ``deployment``: the text of the file."""
        for folder in self.directories():
            make_directory(folder, self._user)
        make_directory(self._temporary, self._user)
        file = self.context.scratch / "deployment.xml"
        write_text(file, deployment, self._user)
        run_once(
            self.context,
            f"initialise {self.installation.title}",
            [
                *self.installation.command(*self.java_options("initialise")),
                "initialize",
                "voltdbroot",
                str(self.root),
                "deployment",
                str(file),
                "force",
            ],
            self.context.scratch / "initialise.log",
        )
        with acting_as(self._user):
            file.unlink()
        self.clean = True

    def configure(self, deployment: str) -> None:
        """Replace the file that the server reads at its start."""
        file = self.root / "voltdbroot" / "config" / "deployment.xml"
        write_text(file, deployment, self._user)

    def java_options(self, log: str) -> list[str]:
        """Options of Java that keep every file of its own in the scratch directory."""
        scratch = self.context.scratch
        return [
            f"-Djava.io.tmpdir={self._temporary}",
            f"-Djna.tmpdir={self._temporary}",
            f"-XX:ErrorFile={scratch}/{log}-crash.log",
            "-Djava.awt.headless=true",
            f"-Dlog4j.configuration=file:{scratch}/log4j.properties",
        ]

    def keep_only(self, nonce: str) -> None:
        """Remove every snapshot but this one."""
        with acting_as(self._user):
            for file in self.snapshots.iterdir():
                if not file.name.startswith(nonce) and not file.is_dir():
                    file.unlink()

    def restore(self, dataset: Path, deployment: str) -> None:
        """Copy the snapshots into the directories of a new server."""
        self.create(deployment)
        self._copy(dataset)

    @property
    def _temporary(self) -> Path:
        return self.context.scratch / "tmp"
