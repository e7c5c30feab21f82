"""A server and its libraries from Debian packages, unpacked and never installed.

apt downloads the packages from this machine's mirror, with separate lists and cache: the machine's
package database is neither read nor changed, and no package script or update hook runs. Unpacked
together with Debian's C library and dynamic linker, they run on any release.

Pinned versions disappear from the mirrors when a release has newer ones. For the server's own
package, that ends the pin. A newer library has the same interface (or another name), and apt has
checked its signature: it is used and reported.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import RunFailed
from harness.install.prefix import run_client, verify
from harness.sequences import grouped
from harness.supervise import programs

_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_TARGETS = "$(REPO_URI) $(CREATED_BY) $(ORIGIN) $(LABEL)"
#: Read after the machine's configuration; the rest of that (proxies, passwords …) stays in effect.
_NO_HOOKS = "#clear APT::Update;\n#clear Binary::apt-get::APT::Update;\n#clear AptCli::Hooks;\n"
_HINT = "check the network and apt's sources, then run it again"


@dataclass(frozen=True)
class Package:
    """A Debian package that is pinned."""

    name: str
    version: str
    sha256: str


@dataclass(frozen=True)
class Debs:
    """``packages`` from Debian's ``suites``; the first package is the server."""

    suites: tuple[str, ...]
    packages: tuple[Package, ...]

    @property
    def label(self) -> str:
        """As recorded with every run."""
        first = self.packages[0]
        return f"Debian {self.suites[0]} {first.name} {first.version}"

    def fetch(self, folder: Path) -> list[str]:
        """Download the packages into ``folder``; returns those that are not the pinned ones."""
        apt = Apt(folder, self.suites, self.label)
        offered = apt.versions([package.name for package in self.packages])
        newer: list[str] = []
        selected: list[str] = []
        for package in self.packages:
            versions = offered.get(package.name, [])
            if package.version in versions:
                selected.append(f"{package.name}={package.version}")
            elif package is self.packages[0] or not versions:
                raise RunFailed(
                    f"download {self.label}",
                    f"{package.name} {package.version} is pinned, the mirror has "
                    f"{', '.join(versions) or 'none'}",
                    "use another version or source",
                )
            else:
                selected.append(f"{package.name}={versions[0]}")
                newer.append(f"{package.name} {versions[0]}")
        apt.download(selected)
        for package in self.packages:
            if f"{package.name}={package.version}" in selected:
                verify(package.name, _file(folder, package.name), package.sha256)
        return newer

    def unpack(self, folder: Path, tree: Path) -> None:
        """Extract every package; the old top-level folders are merged into usr."""
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
    """Move the files of ``source`` into ``target``, some of whose folders may exist."""
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
    """apt with its own lists, cache and status, in a temporary folder."""

    def __init__(self, folder: Path, suites: tuple[str, ...], label: str) -> None:
        self._folder = folder
        self._problem = f"download {label}"
        state = folder / "apt"
        for name in ("lists/partial", "cache/archives/partial"):
            (state / name).mkdir(parents=True)
        (state / "status").touch()
        (state / "sources.list").write_text("".join(_sources(suites, self._problem)))
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
            "APT::Sandbox::User": "root",  # apt's own user cannot enter the folder
            "APT::Get::AllowUnauthenticated": "false",
            "Acquire::AllowInsecureRepositories": "false",
            "Acquire::Languages": "none",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
            "Acquire::IndexTargets::deb::CNF::DefaultEnabled": "false",
        }
        self._options = ["-c", str(state / "no-hooks.conf")]
        for name, value in options.items():
            self._options += ["-o", f"{name}={value}"]
        run_client(
            self._problem, ["apt-get", *self._options, "update", "--error-on=any"], folder, _HINT
        )

    def versions(self, names: list[str]) -> dict[str, list[str]]:
        """The mirror's versions of each package, newest first."""
        command = ["apt-cache", *self._options, "madison", *names]
        printed = run_client(self._problem, command, self._folder, _HINT).splitlines()
        rows = ([word.strip() for word in line.split("|")] for line in printed)
        return grouped((name, version) for name, version, *_ in rows)

    def download(self, packages: list[str]) -> None:
        """Download into the folder; apt verifies the mirror's signed checksums."""
        run_client(
            self._problem, ["apt-get", *self._options, "download", *packages], self._folder, _HINT
        )


def _sources(suites: tuple[str, ...], what: str) -> Iterator[str]:
    signed = f"[signed-by={_KEYRING}] " if _KEYRING.exists() else ""
    for suite in suites:
        label = "Debian-Security" if suite.endswith("-security") else "Debian"
        yield f"deb {signed}{_mirror(label, what)} {suite} main\n"


def _mirror(label: str, what: str) -> str:
    """Address of the archive with that label in this machine's apt sources."""
    for address, kind, *origin in _targets(what):
        if kind == "Packages" and origin == ["Debian", label]:
            return address
    # Before the first `apt update`, apt has no labels: the folder identifies the archive.
    for address, kind, *_ in _targets(what, "--no-release-info"):
        if kind == "Packages" and address.rstrip("/").endswith(f"/{label.lower()}"):
            return address
    raise RunFailed(
        what, f"this machine's apt has no source of {label}", "use another version or source"
    )


#: For apt, which reads its own lists.
_INDEX_TARGETS_S = 300


def _targets(what: str, *options: str) -> list[list[str]]:
    """The index files of this machine's apt: address, kind, origin, label."""
    if shutil.which("apt-get") is None:
        raise RunFailed(what, "there is no apt on this machine", "use another source")
    command = ["apt-get", "indextargets", *options, "--format", _TARGETS]
    done = programs.run(command, timeout_s=_INDEX_TARGETS_S, env=programs.network_environment())
    return [line.split() for line in done.stdout.splitlines()]
