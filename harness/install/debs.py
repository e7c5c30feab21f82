"""A server and its libraries out of Debian's packages, unpacked and never installed.

The packages come through apt from the mirror that this machine's own apt uses, with lists
and cache of our own: nothing of the machine's package database is read or changed, and no
package's script is run, nor what the machine's apt is set up to run after an update. Unpacked
together with Debian's C library and dynamic linker, they run on any release.

A release of Debian moves on, and pinned versions go from its mirrors. Of the server's own
package that is the end of the pin. Of a library, the version that took the pinned one's
place has the same interface (or another name), and apt has checked its signature: it is
taken, and told.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import RunFailed
from harness.install.clients import run_client, verify

_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_TARGETS = "$(REPO_URI) $(CREATED_BY) $(ORIGIN) $(LABEL)"
#: Read after the machine's own configuration, of which the rest stays: proxies, passwords …
_NO_HOOKS = "#clear APT::Update;\n#clear Binary::apt-get::APT::Update;\n#clear AptCli::Hooks;\n"
_DO = "check the network and apt's sources, then run it again"


@dataclass(frozen=True)
class Package:
    """One pinned package."""

    name: str
    version: str
    sha256: str


@dataclass(frozen=True)
class Debs:
    """``suites``: those of Debian to take ``packages`` from; the first one is the server's."""

    suites: tuple[str, ...]
    packages: tuple[Package, ...]

    @property
    def label(self) -> str:
        """As recorded with every run."""
        first = self.packages[0]
        return f"Debian {self.suites[0]} {first.name} {first.version}"

    def fetch(self, folder: Path) -> list[str]:
        """Bring the packages into ``folder``; returns those that are not the pinned ones."""
        apt = Apt(folder, self.suites, self.label)
        offered = apt.versions([package.name for package in self.packages])
        moved_on: list[str] = []
        wanted: list[str] = []
        for package in self.packages:
            versions = offered.get(package.name, [])
            if package.version in versions:
                wanted.append(f"{package.name}={package.version}")
            elif package is self.packages[0] or not versions:
                raise RunFailed(
                    f"download {self.label}",
                    f"{package.name} {package.version} is pinned, the mirror has "
                    f"{', '.join(versions) or 'none'}",
                    "the release has moved on; use another version or source",
                )
            else:
                wanted.append(f"{package.name}={versions[0]}")
                moved_on.append(f"{package.name} {versions[0]}")
        apt.download(wanted)
        for package in self.packages:
            if f"{package.name}={package.version}" in wanted:
                verify(package.name, _file(folder, package.name), package.sha256)
        return moved_on

    def unpack(self, folder: Path, tree: Path) -> None:
        """Every package's files, the old top-level folders merged into usr."""
        root = folder / "root"
        root.mkdir()
        for package in self.packages:
            command = ["dpkg-deb", "--extract", str(_file(folder, package.name)), str(root)]
            run_client(f"unpack {package.name}", command, folder, "install dpkg")
        for name in ("bin", "sbin", "lib", "lib64"):
            if (root / name).is_dir():
                _merge(root / name, root / "usr" / name)
        _merge(root, tree)


def _merge(source: Path, target: Path) -> None:
    """Move the files of ``source`` into ``target``, which may have some of its folders."""
    target.mkdir(parents=True, exist_ok=True)
    for path in source.iterdir():
        if path.is_dir() and not path.is_symlink():
            _merge(path, target / path.name)
        else:
            path.rename(target / path.name)
    source.rmdir()


def _file(folder: Path, name: str) -> Path:
    return next(folder.glob(f"{name}_*.deb"))


class Apt:
    """apt with lists, cache and status of its own, below a folder that goes away."""

    def __init__(self, folder: Path, suites: tuple[str, ...], label: str) -> None:
        self._folder = folder
        self._what = f"download {label}"
        state = folder / "apt"
        for name in ("lists/partial", "cache/archives/partial"):
            (state / name).mkdir(parents=True)
        (state / "status").touch()
        (state / "sources.list").write_text("".join(_sources(suites, self._what)))
        (state / "no-hooks.conf").write_text(_NO_HOOKS)
        options: Mapping[str, str] = {
            "Dir::State": str(state),
            "Dir::State::lists": str(state / "lists"),
            "Dir::State::status": str(state / "status"),
            "Dir::Cache": str(state / "cache"),
            "Dir::Etc::sourcelist": str(state / "sources.list"),
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::Etc::preferencesparts": "/dev/null",
            "Dir::Etc::preferences": "/dev/null",
            "APT::Sandbox::User": "root",  # root's alone: the folder is closed to apt's own user
            "APT::Get::AllowUnauthenticated": "false",
            "Acquire::AllowInsecureRepositories": "false",
            "Acquire::Languages": "none",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
            "Acquire::IndexTargets::deb::CNF::DefaultEnabled": "false",
        }
        self._options = ["-c", str(state / "no-hooks.conf")]
        for name, value in options.items():
            self._options += ["-o", f"{name}={value}"]
        run_client(self._what, ["apt-get", *self._options, "update", "--error-on=any"], folder, _DO)

    def versions(self, names: list[str]) -> dict[str, list[str]]:
        """What the mirror has of each package, newest first."""
        command = ["apt-cache", *self._options, "madison", *names]
        found: dict[str, list[str]] = {}
        for line in run_client(self._what, command, self._folder, _DO).splitlines():
            name, version, *_ = (word.strip() for word in line.split("|"))
            found.setdefault(name, []).append(version)
        return found

    def download(self, packages: list[str]) -> None:
        """Into the folder, with apt's own check of the mirror's signed checksums."""
        run_client(
            self._what, ["apt-get", *self._options, "download", *packages], self._folder, _DO
        )


def _sources(suites: tuple[str, ...], what: str) -> Iterator[str]:
    signed = f"[signed-by={_KEYRING}] " if _KEYRING.exists() else ""
    for suite in suites:
        label = "Debian-Security" if suite.endswith("-security") else "Debian"
        yield f"deb {signed}{_mirror(label, what)} {suite} main\n"


def _mirror(label: str, what: str) -> str:
    """Address of the archive with that label that this machine's apt uses."""
    for address, kind, *origin in _targets(what):
        if kind == "Packages" and origin == ["Debian", label]:
            return address
    # Before the first `apt update` apt knows no labels: the archive is told by its folder.
    for address, kind, *_ in _targets(what, "--no-release-info"):
        if kind == "Packages" and address.rstrip("/").endswith(f"/{label.lower()}"):
            return address
    raise RunFailed(
        what, f"this machine's apt has no source of {label}", "use another version or source"
    )


def _targets(what: str, *options: str) -> list[list[str]]:
    """The index files of this machine's apt: address, kind, origin, label."""
    if shutil.which("apt-get") is None:
        raise RunFailed(what, "there is no apt on this machine", "use another source")
    done = subprocess.run(
        ["apt-get", "indextargets", *options, "--format", _TARGETS],
        capture_output=True,
        text=True,
        check=False,
    )
    return [line.split() for line in done.stdout.splitlines()]
