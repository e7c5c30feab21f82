"""The pages' examples in Python are parts of toys that tests run, or pass mypy by themselves."""

import re
import subprocess
import sys
from pathlib import Path
from textwrap import indent

import pytest

ROOT = Path(__file__).parents[1]
TOYS = {
    "adding-a-workload": "tests/toy_workloads/counting",
    "adding-a-monitor": "tests/toy_monitors",
}


def examples(page: str) -> list[str]:
    text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", TOYS)
def test_an_example_is_a_part_of_a_toy(page: str) -> None:
    toys = [path.read_text(encoding="utf-8") for path in (ROOT / TOYS[page]).glob("*.py")]
    for example in examples(page):
        method = indent(example, "    ")
        assert any(example in toy or method in toy for toy in toys), example


def test_other_examples_have_types(tmp_path: Path) -> None:
    paths = []
    for page in sorted((ROOT / "docs").glob("*.md")):
        if page.stem not in TOYS:
            for number, example in enumerate(examples(page.stem)):
                path = tmp_path / f"{page.stem.replace('-', '_')}_{number}.py"
                path.write_text(example, encoding="utf-8")
                paths.append(path)
    assert paths
    command = [sys.executable, "-m", "mypy", "--strict", *map(str, paths)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
