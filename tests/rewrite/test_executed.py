"""Flushes and fences that programs compiled here execute."""

import subprocess
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.rewrite.executed import count_executed

#: Flushes of four threads and of a child, each address form, and one that is never executed.
SOURCE = """
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static char area[8192] __attribute__((aligned(64)));
__attribute__((noinline)) void flush(char *at)
{
    __asm__ volatile("clflush %0" : "+m"(*at));
}
__attribute__((noinline)) void away(char *at, long index)
{
    __asm__ volatile("clflush 64(%0)" ::"r"(at));
    __asm__ volatile("clflush 4096(%0,%1,8)\\n\\tsfence" ::"r"(at), "r"(index));
}
static void *work(void *unused)
{
    for (int i = 0; i < 50; i++)
        flush(area + i * 64);
    return unused;
}
int main(int count, char **words)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    away(area, 1);
    away(area, 2);
    if (fork() == 0) {
        flush(area);
        _exit(0);
    }
    wait(NULL);
    if (count > 2)
        __asm__ volatile("mfence");
    return count > 1 ? atoi(words[1]) : 0;
}
"""


def compiled(folder: Path, *options: str) -> Path:
    text, program = folder / "program.c", folder / "program"
    text.write_text(SOURCE)
    command = ["gcc", "-O2", "-pthread", *options, str(text), "-o", str(program)]
    subprocess.run(command, check=True)
    return program


@pytest.mark.parametrize(
    "options", [(), ("-no-pie",), ("-static",)], ids=["pie", "fixed", "static"]
)
def test_each_executed_flush_is_counted(tmp_path, options):
    program = compiled(tmp_path, *options)
    status, sites = count_executed(program, ["3"])
    mine = [site for site in sites if Path(site.file) == program]
    assert status == 3
    assert {(s.function, s.name): s.count for s in mine if s.function == "flush"} == {
        ("flush", "clflush"): 4 * 50 + 1
    }
    assert sorted((s.name, s.count) for s in mine if s.function == "away") == [
        ("clflush", 2),
        ("clflush", 2),
        ("sfence", 2),
    ]
    assert not [s for s in mine if s.function == "main"]
    assert ("main", "mfence", 1) in {
        (s.function, s.name, s.count) for s in count_executed(program, ["0", "more"])[1]
    }


def test_what_cannot_be_traced_is_refused(tmp_path):
    text = tmp_path / "text"
    text.write_text("no program")
    with pytest.raises(UsageError):
        count_executed(text)
    with pytest.raises(UsageError):
        count_executed(compiled(tmp_path, "-shared", "-fPIC"))
