"""Pinned installations, from registries made here, by pip and apt themselves."""

import fcntl
import hashlib
import json
import os
import platform
import re
import stat
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from scratch import open_directory

from harness import install
from harness.errors import RunFailed, UsageError
from harness.install import debs
from harness.install.archives import Jars, Wheel
from harness.progress import SilentProgress
from harness.supervise.credentials import unprivileged

PLATFORM = f"manylinux_2_28_{platform.machine()}"
WHEEL = f"tinyserver-1.0-cp311-cp311-{PLATFORM}.whl"


@pytest.fixture
def tmp_path():
    """Open to the user as whom a program is tried; pytest's own directories are closed to it."""
    with open_directory() as folder:
        yield folder


Build = dict[str, Any]


def build(version: str, keep: list[str], program: str, source: Build, archive: Build) -> Build:
    here = {**source, "archives": {platform.machine(): archive}}
    return {"version": version, "keep": keep, "program": program, "sources": [here]}


def pinned(folder: Path, *builds: Build) -> Path:
    path = folder / "versions.yml"
    path.write_text(json.dumps({"schema": 1, "engine": "tiny", "builds": builds}))
    return path


@pytest.fixture
def versions(tmp_path, monkeypatch):
    """versions.yml for a wheel in a folder that pip takes for its index."""
    index = tmp_path / "index"
    index.mkdir()
    with zipfile.ZipFile(index / WHEEL, "w") as wheel:
        program = zipfile.ZipInfo("tiny/bin/server")
        program.external_attr = 0o100755 << 16
        wheel.writestr(program, "#!/bin/sh\necho tiny\n")
        wheel.writestr("tiny/lib/libtiny.so", "no library")
        wheel.writestr("other/junk", "not wanted")
        wheel.writestr("tinyserver-1.0.dist-info/METADATA",
                       "Metadata-Version: 2.1\nName: tinyserver\nVersion: 1.0\n")  # fmt: skip
        wheel.writestr("tinyserver-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\n")
        wheel.writestr("tinyserver-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    digest = hashlib.sha256((index / WHEEL).read_bytes()).hexdigest()
    archive = {"platform": PLATFORM, "file": WHEEL, "sha256": digest}
    pypi = {"kind": "pypi", "package": "tinyserver", "version": "1.0"}
    python = {"python": "3.11", "abi": "cp311"}
    return pinned(tmp_path, build("9.9", ["tiny/"], "tiny/bin/server", pypi | python, archive))


def names_in(prefix):
    """Return the content of an installation's prefix, without its lock."""
    return sorted(path.name for path in prefix.iterdir() if path.name != ".lock")


def test_what_is_kept_is_unpacked_for_every_user(versions, tmp_path):
    prefix = tmp_path / "engines"
    folder = install.install("tiny", prefix, SilentProgress(), versions)
    assert folder == prefix / "tiny-9.9"
    assert (folder / "tiny/bin/server").stat().st_mode & 0o777 == 0o755
    assert folder.stat().st_mode & 0o055 == 0o055
    assert names_in(prefix) == ["tiny-9.9"]
    assert not (folder / "other").exists()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (r'"sha256": "\w+"', f'"sha256": "{"0" * 64}"', r"SHA-256 .* pinned is 0000"),
        ('"tinyserver"', '"absent"', r"download PyPI absent 1\.0"),
        (r'\["tiny/"\]', '["other/"]', r"tiny/bin/server of PyPI tinyserver .* does not run"),
        (
            '"tiny/bin/server"',
            f'{{"{platform.machine()}": "tiny/lib/libtiny.so", "vax": "none"}}',
            r"libtiny\.so of PyPI .* does not run here: OSError: .*file too short",
        ),
    ],
    ids=["checksum", "download", "program", "library"],
)
def test_a_build_that_fails_leaves_nothing(versions, tmp_path, old, new, words):
    versions.write_text(re.sub(old, new, versions.read_text()))
    with pytest.raises(RunFailed, match=words):
        install.install("tiny", tmp_path / "engines", SilentProgress(), versions)
    assert names_in(tmp_path / "engines") == []


def test_what_a_killed_install_left_is_swept_and_what_is_under_way_is_not(versions, tmp_path):
    prefix = tmp_path / "engines"
    left, busy = prefix / ".tiny-9.9.abc", prefix / ".tiny-9.9.def"
    for folder in (left, busy):
        (folder / "tree").mkdir(parents=True)
    handle = os.open(busy, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        install.install("tiny", prefix, SilentProgress(), versions)
    finally:
        os.close(handle)
    assert names_in(prefix) == [busy.name, "tiny-9.9"]


@pytest.mark.skipif(os.geteuid() != 0, reason="concerns root only")
def test_a_program_is_not_tried_as_root(versions, tmp_path):
    index = tmp_path / "index" / WHEEL
    text = versions.read_text()
    digest = hashlib.sha256(index.read_bytes()).hexdigest()
    made = zipfile.ZipInfo("tiny/bin/unprivileged")
    made.external_attr = 0o100755 << 16
    with zipfile.ZipFile(index, "a") as wheel:
        wheel.writestr(made, '#!/bin/sh\n[ "$(id -u)" != 0 ]\n')
    changed = hashlib.sha256(index.read_bytes()).hexdigest()
    versions.write_text(text.replace(digest, changed).replace("bin/server", "bin/unprivileged"))
    install.install("tiny", tmp_path / "engines", SilentProgress(), versions)


@pytest.mark.skipif(os.geteuid() != 0, reason="concerns root only")
def test_the_servers_user_can_write_nothing_on_the_way(versions, tmp_path, monkeypatch):
    """So a hostile process of that user has no name there to plant anything at."""
    user, prefix = unprivileged(), tmp_path / "engines"
    assert user is not None
    steps: list[str] = []

    def writable(path: Path) -> bool:
        facts = path.lstat()
        by_group = facts.st_mode & stat.S_IWGRP and facts.st_gid == user.gid
        by_others = facts.st_mode & stat.S_IWOTH and not facts.st_mode & stat.S_ISVTX
        return bool(facts.st_uid == user.uid or by_group or by_others)

    def checked(name: str, step: Callable[..., Any]) -> Callable[..., Any]:
        def check_and_go_on(*arguments):
            there = [*prefix.parents, prefix, *prefix.rglob("*")]
            assert [path for path in there if not path.is_symlink() and writable(path)] == []
            steps.append(name)
            return step(*arguments)

        return check_and_go_on

    parts: tuple[tuple[Any, str], ...] = (
        (Wheel, "fetch"),
        (Wheel, "unpack"),
        (install, "_prune"),
        (install, "_try"),
        (install, "publish"),
    )
    for part in parts:
        monkeypatch.setattr(*part, checked(part[1], getattr(*part)))
    install.install("tiny", prefix, SilentProgress(), versions)
    checked("end", lambda: None)()
    assert steps == ["fetch", "unpack", "_prune", "_try", "publish", "end"]


@pytest.mark.skipif(os.geteuid() != 0, reason="concerns root only")
def test_a_prefix_that_another_user_can_write_is_refused(versions, tmp_path):
    prefix = tmp_path / "engines"
    prefix.mkdir()
    os.chown(prefix, 65534, 65534)
    with pytest.raises(UsageError):
        install.install("tiny", prefix, SilentProgress(), versions)
    with pytest.raises(UsageError):
        install.installed("tiny", prefix)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("tiny/bin/server", lambda file: file.write_bytes(b"")),
        ("tiny/lib/libtiny.so", Path.unlink),
        ("installed.json", lambda file: file.write_bytes(b"")),
    ],
)
def test_a_damaged_installation_is_made_again(versions, tmp_path, name, damage):
    prefix, said = tmp_path / "engines", Said()
    folder = install.install("tiny", prefix, said, versions)
    whole = (folder / name).read_bytes()
    damage(folder / name)
    assert install.installed("tiny", prefix) == []
    assert install.install("tiny", prefix, said, versions) == folder
    assert (folder / name).read_bytes() == whole
    assert [line for line in said.lines if f"{folder}: " in line and name in line]
    assert names_in(prefix) == [folder.name]


def test_files_are_on_the_device_before_the_tree_has_its_name(versions, tmp_path, monkeypatch):
    done: list[str] = []
    sync, rename = os.fsync, Path.rename

    def synced(handle: int) -> None:
        done.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        sync(handle)

    def renamed(path: Path, target: Path) -> Path:
        done.append(f"rename to {target.name}")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "rename", renamed)
    install.install("tiny", tmp_path / "engines", SilentProgress(), versions)
    named = done.index("rename to tiny-9.9")
    assert {"server", "libtiny.so", "bin", "lib", "tree", "installed.json"} <= set(done[:named])
    assert done[named + 1 :] == ["engines"]


# Debian packages, from a repository made here, by apt itself -------------------


@dataclass
class Repository:
    """A flat repository of packages that hold a program and a library."""

    root: Path

    def add(self, name: str, version: str, files: dict[str, str]) -> str:
        """Build one package; returns its SHA-256."""
        tree = self.root / f"tree-{name}-{version}"
        (tree / "DEBIAN").mkdir(parents=True)
        (tree / "DEBIAN/control").write_text(
            f"Package: {name}\nVersion: {version}\nArchitecture: all\n"
            "Maintainer: Nobody <nobody@example.org>\nDescription: made by a test\n"
        )
        for path, text in files.items():
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_text(text)
            (tree / path).chmod(0o755)
        package = self.root / f"{name}_{version}_all.deb"
        subprocess.run(["dpkg-deb", "--build", "-Znone", tree, package], check=True,
                       capture_output=True)  # fmt: skip
        digest = hashlib.sha256(package.read_bytes()).hexdigest()
        with (self.root / "Packages").open("a") as index:
            index.write(
                f"Package: {name}\nVersion: {version}\nArchitecture: all\n"
                f"Filename: ./{package.name}\nSize: {package.stat().st_size}\n"
                f"SHA256: {digest}\nDescription: made by a test\n\n"
            )
        return digest


@pytest.fixture
def repository(tmp_path, monkeypatch):
    root = tmp_path / "repository"
    root.mkdir()
    line = f"deb [trusted=yes] file:{root} ./\n"
    monkeypatch.setattr(debs, "_sources", lambda suites, what: [line])
    return Repository(root)


def deb_build(version: str, packages: dict[str, tuple[str, str]]) -> Build:
    """Return version and SHA-256 of packages by name."""
    pins = [{"name": name, "version": v, "sha256": d} for name, (v, d) in packages.items()]
    debian = {"kind": "debs", "suites": ["unstable"]}
    return build(version, ["usr/"], "usr/sbin/tinyd", debian, {"packages": pins})


SERVER = {"sbin/tinyd": "#!/bin/sh\necho tiny\n", "etc/tiny.conf": "not wanted"}
LIBRARY = {"usr/lib/tiny/libtiny.so": "a library"}


def test_packages_are_unpacked_together_and_not_installed(repository, tmp_path):
    pins = {
        "tinyd": ("1.0", repository.add("tinyd", "1.0", SERVER)),
        "libtiny": ("2.0", repository.add("libtiny", "2.0", LIBRARY)),
    }
    before = Path("/var/lib/dpkg/status").read_bytes()
    versions = pinned(tmp_path, deb_build("1.0", pins))
    folder = install.install("tiny", tmp_path / "engines", SilentProgress(), versions)
    files = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
    assert files == ["installed.json", "usr/lib/tiny/libtiny.so", "usr/sbin/tinyd"]
    assert install.installed("tiny", tmp_path / "engines") == [
        install.Installed(folder, "Debian unstable tinyd 1.0")
    ]
    assert Path("/var/lib/dpkg/status").read_bytes() == before


def test_a_library_that_moved_on_is_taken_and_recorded(repository, tmp_path):
    pins = {
        "tinyd": ("1.0", repository.add("tinyd", "1.0", SERVER)),
        "libtiny": ("2.0", "0" * 64),
    }
    repository.add("libtiny", "2.1", LIBRARY)
    versions = pinned(tmp_path, deb_build("1.0", pins))
    install.install("tiny", tmp_path / "engines", SilentProgress(), versions)
    assert install.installed("tiny", tmp_path / "engines")[0].moved_on == ("libtiny 2.1",)


def test_another_package_under_a_pinned_version_is_refused(repository, tmp_path):
    repository.add("tinyd", "1.0", SERVER)
    versions = pinned(tmp_path, deb_build("1.0", {"tinyd": ("1.0", "0" * 64)}))
    with pytest.raises(RunFailed, match=r"tinyd.*SHA-256.*0000"):
        install.install("tiny", tmp_path / "engines", SilentProgress(), versions)
    assert names_in(tmp_path / "engines") == []


def test_where_a_server_moved_on_the_next_build_is_taken(repository, tmp_path):
    digest = repository.add("tinyd", "1.1", SERVER)
    versions = pinned(
        tmp_path,
        deb_build("1.0", {"tinyd": ("1.0", "0" * 64)}),
        deb_build("1.1", {"tinyd": ("1.1", digest)}),
    )
    said = Said()
    folder = install.install("tiny", tmp_path / "engines", said, versions)
    assert folder.name == "tiny-1.1"
    assert "tinyd 1.0 " in said.lines[0]
    assert "tiny 1.1 " in said.lines[0]
    with pytest.raises(RunFailed, match=r"tinyd 1\.0 is pinned"):
        install.install("tiny", tmp_path / "engines", said, versions, version="1.0")


class Said(SilentProgress):
    """Remembers what a person would have been told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


# Archives of a Maven repository ------------------------------------------------


@pytest.fixture
def maven(tmp_path, monkeypatch):
    """An archive with a server, and an ``mvn`` that hands it out as the real one would."""
    jar = tmp_path / "tiny-3.0.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("org/tiny/linux/bin/tinyd", SERVER["sbin/tinyd"])
        archive.writestr("org/tiny/linux/share/errors", "messages")
        archive.writestr("META-INF/MANIFEST.MF", "not wanted")
    client = tmp_path / "bin/mvn"
    client.parent.mkdir()
    client.write_text(
        "#!/bin/sh\nfor word; do case $word in -DoutputDirectory=*) "
        f'mkdir -p "${{word#*=}}"; cp {jar} "${{word#*=}}/";; esac; done\n'
    )
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{client.parent}:{os.environ['PATH']}")
    digest = hashlib.sha256(jar.read_bytes()).hexdigest()
    below = {"below": "org/tiny/linux", "programs": ["bin/tinyd"], "sha256": digest}
    server = {"kind": "maven", "artifact": "org.tiny:tiny:3.0"}
    return pinned(tmp_path, build("3.0", ["bin/", "share/"], "bin/tinyd", server, below))


def test_what_lies_below_a_folder_of_an_archive_becomes_the_tree(maven, tmp_path):
    folder = install.install("tiny", tmp_path / "engines", SilentProgress(), maven)
    assert (folder / "bin/tinyd").stat().st_mode & 0o777 == 0o755
    assert (folder / "share/errors").stat().st_mode & 0o777 == 0o644
    assert install.installed("tiny", tmp_path / "engines")[0].source == "Maven org.tiny:tiny:3.0"


@pytest.fixture
def java_server(maven, tmp_path):
    """The same archive as it is, and a class of our own that is compiled against it."""
    source = tmp_path / "java/tiny/Main.java"
    source.parent.mkdir(parents=True)
    source.write_text(
        "package tiny; public class Main { public static void main(String[] a) {"
        ' System.out.println(Main.class.getResource("/org/tiny/linux/share/errors")); } }'
    )
    digest = hashlib.sha256((tmp_path / "tiny-3.0.jar").read_bytes()).hexdigest()
    archive = {"jars": [{"artifact": "org.tiny:tiny:3.0", "sha256": digest}]}
    ours = {"kind": "jars", "compile": "java"}
    program = "classes/tiny/Main.class"
    return pinned(tmp_path, build("3.0", ["lib/", "classes/"], program, ours, archive))


def test_jars_stay_whole_and_classes_of_our_own_go_before_them(java_server, tmp_path):
    folder = install.install("tiny", tmp_path / "engines", SilentProgress(), java_server)
    assert (folder / "lib/tiny-3.0.jar").stat().st_mode & 0o777 == 0o644
    assert (folder / "classes/tiny/Main.class").is_file()
    command = [*install.java_command(folder), "tiny.Main"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "tiny-3.0.jar!/org/tiny/linux/share/errors" in told


def test_a_jar_of_another_checksum_is_refused(java_server, tmp_path):
    wrong = re.sub(r'"sha256": "\w+"', f'"sha256": "{"0" * 64}"', java_server.read_text())
    java_server.write_text(wrong)
    with pytest.raises(RunFailed, match=r"SHA-256 .* pinned is 0000"):
        install.install("tiny", tmp_path / "engines", SilentProgress(), java_server)
    assert names_in(tmp_path / "engines") == []


def test_the_committed_pins_are_complete():
    assert install.pinned_engines() == sorted(
        ["duckdb", "mariadb", "mysql", "postgres", "rocksdb", "spark", "voltdb"]
    )
    assert set(install.pinned_engines()) - set(install.default_engines()) == {"duckdb"}
    for engine in install.pinned_engines():
        for pin in install.pinned(engine):
            assert pin.engine == engine
            assert pin.program.startswith(pin.keep), "it would be pruned"
            for digest in map(digests, pin.sources):
                assert digest and all(re.fullmatch(r"[0-9a-f]{64}", d) for d in digest)


def digests(source) -> list[str]:
    if isinstance(source, debs.Debs):
        return [package.sha256 for package in source.packages]
    if isinstance(source, Jars):
        return [jar.sha256 for jar in source.jars]
    return [source.sha256]
