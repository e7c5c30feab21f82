"""The wheel holds everything the package needs: code, SQL, schemas, profiles, answers."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).with_name("vm")))
from vm_wheels import own_wheel

ROOT = Path(__file__).parents[1]
PACKAGES = ("harness", "engines", "reports")
DATA = ("profiles", "playbooks", "inventory")
LEFT_OUT = (".c", ".cmake", ".pyc")
BACKENDS = ("postgres", "innodb", "rocksdb", "voltdb")
NATIVE = (
    *(
        "loadgen",
        "loadgen.json",
        "microbench",
        "microbench.json",
        "libiotrace.so",
        "kernel-work",
        "launch",
    ),
    *(f"loadgen_{name}.so" for name in BACKENDS),
)


def committed_files() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", *PACKAGES, *DATA], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    return [name for name in listed if (ROOT / name).exists()]


def test_the_import_path_is_the_folder_path():
    listed = subprocess.run(
        ["git", "ls-files", "-s"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert [line for line in listed if line.startswith("120000")] == []


def test_a_wheel_has_every_committed_file_of_the_package():
    wheel = own_wheel()
    assert wheel.name.startswith("tierbench-")
    inside = set(zipfile.ZipFile(wheel).namelist())
    expected = {
        name if name.startswith(PACKAGES) else f"harness/_data/{name}"
        for name in committed_files()
        if not name.endswith(LEFT_OUT)
    }
    assert len(expected) > 100
    assert expected - inside == set()
    assert {f"harness/_native/{name}" for name in NATIVE} <= inside


def test_the_command_is_installed_and_completes_for_shells():
    harness = Path(sys.executable).with_name("harness")
    version = subprocess.run([harness, "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.startswith("harness (tierbench) ")
    # What --show-completion prints, without its looking for the shell that it was called from.
    shown = subprocess.run(
        [harness],
        env={**os.environ, "_HARNESS_COMPLETE": "source_bash"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "complete -o default -F _harness_completion harness" in shown.stdout
