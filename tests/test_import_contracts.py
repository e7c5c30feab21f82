"""The import contract ``acyclic``: a circle is refused wherever its imports stand."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CONFIGURATION = """
[tool.importlinter]
root_packages = ["circular"]
contract_types = ["acyclic: scripts.import_contracts.AcyclicContract"]

[[tool.importlinter.contracts]]
name = "No circle"
type = "acyclic"
"""


@pytest.mark.parametrize(
    ("last", "refused"),
    [
        ("", False),
        ("import circular.first", True),
        ("def late():\n    from circular import first", True),
        ("import typing\nif typing.TYPE_CHECKING:\n    from circular.first import Name", True),
    ],
)
def test_a_circle_is_refused_wherever_its_imports_stand(tmp_path, last, refused):
    package = tmp_path / "circular"
    package.mkdir()
    for name, text in {
        "__init__": "",
        "first": "import circular.second",
        "second": "from circular import third",
        "third": last,
    }.items():
        (package / f"{name}.py").write_text(f"{text}\n")
    (tmp_path / "pyproject.toml").write_text(CONFIGURATION)
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == int(refused), done.stdout
    assert ("circular.third imports circular.first" in done.stdout) == refused
