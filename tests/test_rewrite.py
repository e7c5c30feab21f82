"""Programs and libraries compiled here, rewritten and executed; what is refused."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.rewrite import RULES, Rule, apply, read_rule, rewrite

#: As its own check the program prints the sum of what it stored. Three flushes need a rule: one
#: with a fence that follows at once, one in a loop, and one that was never ordered.
SOURCE = """
#include <stdio.h>
#include <stdlib.h>
static char area[4096] __attribute__((aligned(64)));
__attribute__((noinline)) void fenced(char *at)
{
    __asm__ volatile("clflush %0\\n\\tmfence" : "+m"(*at));
}
__attribute__((noinline)) void alone(char *at, int lines)
{
    for (int i = 0; i < lines; i++) {
        at[i * 64]++;
        __asm__ volatile("clflush %0" : "+m"(at[i * 64]));
    }
}
__attribute__((noinline)) void unordered(char *at)
{
    __asm__ volatile("clflushopt %0\\n\\tsfence" : "+m"(*at));
}
int main(int count, char **words)
{
    unsigned sum = 0;
    fenced(area);
    alone(area, 8);
    unordered(area + 128);
    for (int i = 0; i < 4096; i++)
        sum += (unsigned char)area[i];
    printf("%u\\n", sum);
    return count > 1 ? atoi(words[1]) : 0;
}
"""


def compiled(folder: Path, *options: str, source: str = SOURCE) -> Path:
    text, program = folder / "program.c", folder / "program"
    text.write_text(source)
    subprocess.run(["gcc", "-O2", *options, str(text), "-o", str(program)], check=True)
    return program


def executed(program: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize("options", [(), ("-no-pie",), ("-rdynamic",)])
def test_a_rewritten_program_does_the_same_with_other_flushes(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    program = compiled(tmp_path, *options)
    done = rewrite(program, tmp_path / "new")
    assert executed(tmp_path / "new", "7") == executed(program, "7") == (7, "8\n")
    by_function = {one.function: (one.old, one.new, one.fence) for one in done.sites}
    assert by_function == {
        "fenced": ("clflush", "clwb", "follows"),
        "alone": ("clflush", "clwb", "added"),
        "unordered": ("clflushopt", "clwb", "none"),
    }
    assert done.before == {"clflush": 2, "clflushopt": 1, "mfence": 1, "sfence": 1}
    assert done.after == {"clwb": 3, "mfence": 1, "sfence": 2}


def test_a_rewritten_library_is_used_as_the_old_one(tmp_path: Path) -> None:
    library = compiled(tmp_path, "-shared", "-fPIC", "-Wl,-soname,libpm.so")
    done = rewrite(library, tmp_path / "libpm.so", [Rule("clflush", "clflushopt", "sfence")])
    assert len(done.sites) == 2
    user = tmp_path / "user"
    user.mkdir()
    main = """
    void alone(char *, int);
    char area[512];
    int main(void) { alone(area, 8); return area[64]; }
    """
    used = compiled(user, str(tmp_path / "libpm.so"), f"-Wl,-rpath,{tmp_path}", source=main)
    assert executed(used)[0] == 1


@pytest.mark.parametrize(
    ("options", "source"),
    [
        ((), "int main(void) { return 0; }"),
        (("-static",), SOURCE),
    ],
    ids=["no flush", "static"],
)
def test_what_is_not_rewritten_leaves_nothing(
    tmp_path: Path, options: tuple[str, ...], source: str
) -> None:
    program = compiled(tmp_path, *options, source=source)
    there = sorted(tmp_path.iterdir())
    with pytest.raises(UsageError):
        rewrite(program, tmp_path / "new")
    assert sorted(tmp_path.iterdir()) == there


def test_a_text_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("clflush\n")
    with pytest.raises(UsageError):
        rewrite(tmp_path / "text", tmp_path / "new")


def test_a_fence_after_a_label_follows_at_once() -> None:
    lines = ["\tclflush (%rdi)", ".L_1:", ".cfi_endproc", "\tsfence ", "\tclflush 8(%rdi)", "\tret"]
    new, used, added = apply(lines, RULES)
    assert new == [
        "\tclwb (%rdi)", ".L_1:", ".cfi_endproc", "\tsfence ", "\tclwb 8(%rdi)", "\tsfence", "\tret"
    ]  # fmt: skip
    assert (used, added) == ([RULES[0]] * 2, [False, True])


@pytest.mark.parametrize(
    ("old", "new"),
    [("clflush", "clwb"), ("clflush", "clflush+sfence"), ("sfence", "clwb"), ("clwb", "movnti")],
)
def test_a_rule_that_would_lose_data_is_refused(old: str, new: str) -> None:
    with pytest.raises(UsageError):
        read_rule(old, new)
