"""``harness rewrite``: its JSON, its table, and its exit statuses."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

SOURCE = """
static char area[128] __attribute__((aligned(64)));
void flush(char *at) { __asm__ volatile("clflush %0" : "+m"(*at)); }
int main(void) { flush(area); __asm__ volatile("clflush %0; mfence" : "+m"(area[64])); return 3; }
"""


@pytest.fixture
def program(harness: Any) -> Path:
    program = Path(harness.root) / "program"
    command = ["gcc", "-O0", "-x", "c", "-", "-o", str(program)]
    subprocess.run(command, input=SOURCE, text=True, check=True)
    return program


def test_json_names_each_site_and_the_counts(harness: Any, program: Path) -> None:
    output = program.with_name("new")
    rewritten = harness("rewrite", program, "-o", output, "--json").document
    sites = [
        (site["function"], site["old"], site["new"], site["fence"]) for site in rewritten["sites"]
    ]
    assert sites == [("flush", "clflush", "clwb", "added"), ("main", "clflush", "clwb", "follows")]
    assert (rewritten["program"], rewritten["output"]) == (str(program), str(output))
    assert (rewritten["way"], rewritten["before"]) == ("assembled", {"clflush": 2, "mfence": 1})
    assert rewritten["after"] == {"clwb": 2, "sfence": 1, "mfence": 1}
    assert subprocess.run([output], check=False).returncode == 3


@pytest.mark.parametrize(
    "arguments",
    [("-o", "program"), ("-o", "new", "--from", "clflush", "--to", "clwb")],
    ids=["itself", "loses order"],
)
def test_what_is_refused_leaves_nothing(harness, program, arguments):
    content = program.read_bytes()
    done = harness("rewrite", program, *arguments, "--json")
    assert done.code == 2, done.out + done.err
    assert program.read_bytes() == content and not program.with_name("new").exists()
