"""The check of names: which bindings and classes it refuses (`make lint` runs it)."""

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
        "self._kept = 1",
        "def found(): pass",
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


@pytest.mark.parametrize(
    ("other", "status"),
    [
        ("class Cell: pass", 1),
        ("class _Cell: pass", 0),
        ("class Loader(load.Loader[int]): pass", 0),
        ("class Loader: pass", 1),
    ],
)
def test_a_public_class_has_its_name_to_itself(tmp_path, other, status):
    paths = tmp_path / "a.py", tmp_path / "b.py"
    paths[0].write_text("class Cell: pass\nclass Loader: pass")
    paths[1].write_text(other)
    assert check(*paths).returncode == status
