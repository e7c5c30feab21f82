"""A server inside a Java archive: fetched by Maven's own client.

Releases in a Maven repository never change and never go away, so such a source still
works when a distribution has moved on to a newer release.
"""

from __future__ import annotations

import shutil
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from harness.errors import RunFailed
from harness.install.clients import run_client, verify
from harness.install.pypi import unzip

_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"


@dataclass(frozen=True)
class MavenArchive:
    """``artifact``: group:name:version. ``inner``: an archive inside it that has the server.
    ``below``: the folder in it that becomes the tree. ``programs``: what is made executable.
    """

    artifact: str
    sha256: str
    inner: str = ""
    below: str = ""
    programs: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """As recorded with every run."""
        return f"Maven {self.artifact}"

    @property
    def _file(self) -> str:
        _, name, version = self.artifact.split(":")
        return f"{name}-{version}.jar"

    def fetch(self, folder: Path) -> list[str]:
        """Bring the archive into ``folder`` and compare its checksum."""
        command = [
            "mvn",
            "--batch-mode",
            "--quiet",
            f"-Dmaven.repo.local={folder / 'm2'}",
            f"{_PLUGIN}:copy",
            f"-Dartifact={self.artifact}",
            f"-DoutputDirectory={folder}",
        ]
        run_client(
            f"download {self.label}",
            command,
            folder,
            "install Maven (Debian: sudo apt install maven), check the network and Maven's "
            "settings.xml, then run it again",
        )
        verify(self.label, folder / self._file, self.sha256)
        return []

    def unpack(self, folder: Path, tree: Path) -> None:
        """What lies below ``below`` of the innermost archive."""
        whole = folder / "unpacked"
        with zipfile.ZipFile(folder / self._file) as zipped:
            if self.inner:
                inner = Path(zipped.extract(self.inner, folder))
                with tarfile.open(inner) as archive:
                    # Python before 3.11.4, which Debian 12 has, knows none; what is unpacked is
                    # the pinned archive in any case.
                    archive.extraction_filter = getattr(tarfile, "data_filter", None)
                    archive.extractall(whole)
            else:
                unzip(zipped, whole)
        source = whole / self.below
        if not source.is_dir():
            raise RunFailed(f"install {self.label}", f"there is no folder {self.below} in it")
        shutil.copytree(source, tree, symlinks=True, dirs_exist_ok=True)
        shutil.rmtree(whole)
        for program in self.programs:
            (tree / program).chmod(0o755)
