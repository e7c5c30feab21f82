"""The check of variables' names: which bindings it refuses, and that finished folders pass."""

import subprocess
import sys
from pathlib import Path

import pytest

CHECK = Path(__file__).parents[1] / "scripts" / "check_names.py"


def check(*paths: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(CHECK), *map(str, paths)]
    return subprocess.run(argv, check=False, capture_output=True, text=True)


@pytest.mark.parametrize(
    "source",
    [
        "found = 1",
        "for known, _ in (): pass",
        "[one for one in ()]",
        "def f(held): pass",
        "class C:\n    kept: int",
        "try: pass\nexcept OSError as own: pass",
        "match 1:\n    case found: pass",
    ],
)
def test_bindings_of_names_that_say_nothing_are_refused(tmp_path, source):
    path = tmp_path / "module.py"
    path.write_text(source)
    done = check(path)
    assert done.returncode == 1
    assert done.stdout.startswith(f"{path}:")


@pytest.mark.parametrize("source", ["rows = 1", "match.found()", "f(known=1)", "'one'"])
def test_uses_and_other_names_pass(tmp_path, source):
    path = tmp_path / "module.py"
    path.write_text(source)
    assert check(path).returncode == 0


def test_finished_folders_pass():
    done = check()
    assert (done.returncode, done.stdout) == (0, "")
