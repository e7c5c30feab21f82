"""The data of a managed server on disk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Generic

from engines._installation import Found
from harness.copytree import copy_tree, make_durable, move_tree
from harness.engine import EngineContext
from harness.errors import RunFailed


class DataFolders(ABC, Generic[Found]):
    """The database on disk; its server is stopped while these methods run."""

    def __init__(self, installation: Found, context: EngineContext) -> None:
        self.installation = installation
        self.context = context
        self._user = context.credentials
        #: Whether the last shutdown of its server was clean.
        self.clean = False

    @abstractmethod
    def directories(self) -> list[Path]:
        """All directories that contain its data."""

    @abstractmethod
    def dataset_names(self) -> Mapping[Path, str]:
        """The directories of a dataset, with their names in it."""

    def make_durable(self) -> None:
        """Force to the devices what the server wrote without fsync."""
        for folder in self.directories():
            make_durable(folder, self._user)

    def assert_clean(self, problem: str) -> None:
        """RunFailed unless the server was shut down cleanly."""
        if not self.clean:
            where = self.directories()[0]
            raise RunFailed(
                problem, f"the server on {where} was not shut down cleanly", "load it again"
            )

    def snapshot(self, dataset: Path) -> None:
        """Move (copy across file systems) the data to the folder ``dataset``."""
        self.assert_clean("store as a dataset")
        self._strip(dataset)
        for folder, name in self.dataset_names().items():
            move_tree(folder, dataset / name, self._user)
        make_durable(dataset)

    def _copy(self, dataset: Path) -> None:
        for folder, name in self.dataset_names().items():
            copy_tree(dataset / name, folder, writer=self._user)

    def _strip(self, dataset: Path) -> None:
        """Remove what is not part of a dataset; write what it needs besides into ``dataset``."""
