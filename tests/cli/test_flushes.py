"""``harness flushes``: its JSON and its exit statuses."""

import subprocess
from pathlib import Path

SOURCE = """
static char area[64];
int main(int count, char **words)
{
    for (int i = 0; i < count * 10; i++)
        __asm__ volatile("clflush %0; mfence" : "+m"(area[0]));
    return 3;
}
"""


def test_json_has_what_was_executed(harness):
    program = Path(harness.root) / "program"
    command = ["gcc", "-O0", "-x", "c", "-", "-o", str(program)]
    subprocess.run(command, input=SOURCE, text=True, check=True)
    document = harness("flushes", program, "--json", "--", "a", "--b").document
    assert (document["program"], document["status"]) == (str(program), 3)
    sites = [site for site in document["sites"] if site["file"] == str(program)]
    assert {(s["function"], s["name"], s["count"]) for s in sites} == {
        ("main", "clflush", 30),
        ("main", "mfence", 30),
    }
    assert document["executed"]["clflush"] == 30


def test_what_is_no_program_is_refused(harness):
    assert harness("flushes", "/nonexistent", "--json").code == 2
    assert harness("flushes", "/etc/passwd", "--json").code == 2
