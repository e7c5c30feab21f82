"""The directories of one VoltDB: made, copied to golden data and back.

Layout, the same for every placement, so that only the devices differ::

    <data>/root        what the server keeps beside its data: its configuration
    <data>/snapshots   snapshots of all data, which is in memory otherwise

A server that starts restores the newest whole snapshot that it finds. Golden data are the
snapshots of a server that was stopped; tables, procedures and rows are in them, users and
settings are not.
"""

from __future__ import annotations

from pathlib import Path

from engines._server import make_folder, run_once
from engines.voltdb.installation import Installation
from harness.copytree import copy_tree, make_durable, move_tree
from harness.engine import DataDirectories, EngineContext
from harness.errors import RunFailed
from harness.supervise.user_files import acting_as, write_text


class Cluster:
    """Nothing of it runs while these verbs work."""

    def __init__(
        self, installation: Installation, context: EngineContext, places: DataDirectories
    ) -> None:
        self._installation = installation
        self._context = context
        self._user = context.credentials
        self.root = places["data"] / "root"
        self.snapshots = places["data"] / "snapshots"
        #: Whether the server on it ended by a clean shutdown the last time.
        self.clean = False

    def directories(self) -> list[Path]:
        """Both directories."""
        return [self.root, self.snapshots]

    def create(self, deployment: str) -> None:
        """Without data; ``deployment``: the text of the file."""
        for folder in self.directories():
            make_folder(self._context, folder)
        make_folder(self._context, self._temporary)
        file = self._context.scratch / "deployment.xml"
        write_text(file, deployment, self._user)
        run_once(
            self._context,
            f"initialise {self._installation.title}",
            [
                *self._installation.command(*self.java_options("initialise")),
                "initialize",
                "voltdbroot",
                str(self.root),
                "deployment",
                str(file),
                "force",
            ],
            self._context.scratch / "initialise.log",
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
        scratch = self._context.scratch
        return [
            f"-Djava.io.tmpdir={self._temporary}",
            f"-Djna.tmpdir={self._temporary}",
            f"-XX:ErrorFile={scratch}/{log}-crash.log",
            "-Djava.awt.headless=true",
            f"-Dlog4j.configuration=file:{scratch}/log4j.properties",
        ]

    def make_durable(self) -> None:
        """What was written is on its devices."""
        make_durable(self.snapshots, self._user)

    def keep_only(self, nonce: str) -> None:
        """Remove every snapshot but this one."""
        with acting_as(self._user):
            for file in self.snapshots.iterdir():
                if not file.name.startswith(nonce) and not file.is_dir():
                    file.unlink()

    def snapshot(self, golden: Path) -> None:
        """Move (copy across file systems) the snapshots to ``golden``."""
        if not self.clean:
            raise RunFailed(
                "keep as a dataset",
                f"the server on {self.root} was not shut down cleanly",
                "load it again",
            )
        move_tree(self.snapshots, golden / "snapshots", self._user)
        make_durable(golden)

    def restore(self, golden: Path, deployment: str) -> None:
        """Copy the snapshots into the directories of a new server."""
        self.create(deployment)
        copy_tree(golden / "snapshots", self.snapshots, writer=self._user)

    @property
    def _temporary(self) -> Path:
        return self._context.scratch / "tmp"
