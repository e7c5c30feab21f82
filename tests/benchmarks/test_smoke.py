"""Run each benchmark: BENCHMARKS.md names commands that a reader can repeat."""

import os
import re
from configparser import ConfigParser
from pathlib import Path

import forked
import pytest
from scratch import open_directory

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks"
SCRIPTS = sorted(
    path.name for path in FOLDER.glob("*.py") if 'if __name__ == "__main__"' in path.read_text()
)


@pytest.fixture(scope="module")
def environment():
    """Data of its own, which servers' users can enter, and which the scripts share."""
    with open_directory() as folder:
        folders = {"HARNESS_DATA": str(folder / "data"), "HARNESS_RESULTS": str(folder / "results")}
        yield {**os.environ, **folders}


#: Those that can use databases of another time: one load serves both.
SHARING = ("tpcc_client.py", "tpcc_procedures.py")


@pytest.mark.parametrize("script", SCRIPTS)
def test_each_script_runs_small(environment, script):
    databases = Path(environment["HARNESS_DATA"]) / "databases"
    shared = ("--databases", str(databases)) if script in SHARING else ()
    code, out, err = forked.run([str(FOLDER / script), "--smoke", *shared], ROOT, environment)
    assert code == 0, out + err
    assert out


def test_the_scripts_that_claims_name_are_there():
    named = set(re.findall(r"benchmarks/(\w+\.py)", (ROOT / "BENCHMARKS.md").read_text()))
    assert named == set(SCRIPTS)


def test_the_scripts_have_the_types_of_the_product():
    """By their names: a pattern cannot name them all."""
    sections = ConfigParser(interpolation=None)
    sections.read(ROOT / "tests/mypy.ini")
    (strict,) = (name for name in sections if name.startswith("mypy-engines.*,"))
    assert {path.stem for path in FOLDER.glob("*.py")} <= set(strict.split(","))
