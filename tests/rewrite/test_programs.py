"""Programs and libraries compiled here, rewritten and executed; what is refused."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.rewrite import rewrite, tools
from harness.rewrite.assembled import apply
from harness.rewrite.rules import RULES, Rule, read_rule
from harness.rewrite.tools import run

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
def test_a_rewritten_program_does_the_same_with_other_flushes(tmp_path, options):
    program = compiled(tmp_path, *options)
    done = rewrite(program, tmp_path / "new")
    assert executed(tmp_path / "new", "7") == executed(program, "7") == (7, "8\n")
    by_function = {site.function: (site.old, site.new, site.fence) for site in done.sites}
    assert by_function == {
        "fenced": ("clflush", "clwb", "follows"),
        "alone": ("clflush", "clwb", "added"),
        "unordered": ("clflushopt", "clwb", "none"),
    }
    assert done.before == {"clflush": 2, "clflushopt": 1, "mfence": 1, "sfence": 1}
    assert done.after == {"clwb": 3, "mfence": 1, "sfence": 2}


def test_a_rewritten_library_is_used_as_the_old_one(tmp_path):
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


#: Flushes of the same length in several encodings; the lines are far apart.
SAME_LENGTH = """
static char area[4096] __attribute__((aligned(64)));
int main(void)
{
    register char *first __asm__("r12") = area;
    register long line __asm__("rcx") = 8;
    __asm__ volatile("clflushopt (%0)" :: "r"(area) : "memory");
    __asm__ volatile("clflushopt 64(%0,%1,4)" :: "r"(first), "r"(line) : "memory");
    __asm__ volatile("clflushopt %0\\n\\tsfence" : "+m"(area[2048]));
    return 3;
}
"""


@pytest.mark.parametrize("options", [(), ("-static",)])
def test_flushes_of_the_same_length_are_changed_in_place(tmp_path, options):
    program = compiled(tmp_path, *options, source=SAME_LENGTH)
    done = rewrite(program, tmp_path / "new")
    assert (done.way, len(done.sites)) == ("in place", 3)
    assert executed(tmp_path / "new") == (3, "")
    old, new = program.read_bytes(), (tmp_path / "new").read_bytes()
    assert sum(a != b for a, b in zip(old, new, strict=True)) == 3
    back = rewrite(tmp_path / "new", tmp_path / "back", [Rule("clwb", "clflushopt")])
    assert (back.way, (tmp_path / "back").read_bytes()) == ("in place", old)


def dynamic(program: Path) -> list[tuple[str, str]]:
    """Return the loader's instructions: libraries, paths, names, flags."""
    listing = subprocess.check_output(["readelf", "-W", "-d", program], text=True)
    return re.findall(r"\((NEEDED|SONAME|RUNPATH|RPATH|FLAGS|FLAGS_1|BIND_NOW)\)\s+(.*)", listing)


@pytest.mark.parametrize("options", [(), ("-Wl,-z,now",), ("-Wl,-z,lazy", "-no-pie")])
def test_the_loader_is_to_do_the_same(tmp_path, options):
    """Also with a library that has no name of its own."""
    folder = tmp_path / "library"
    folder.mkdir()
    made = compiled(folder, "-shared", "-fPIC", source="int seven(void) { return 7; }")
    made.rename(folder / "libseven.so")
    library = (f"-L{folder}", "-l:libseven.so", f"-Wl,-rpath,{folder}", *options)
    source = """
    int seven(void);
    static char area[64];
    int main(void) { __asm__ volatile("clflush %0" : "+m"(area[0])); return seven(); }
    """
    (tmp_path / "program.c").write_text(source)
    program = tmp_path / "program"
    subprocess.run(["gcc", tmp_path / "program.c", *library, "-o", program], check=True)
    assert rewrite(program, tmp_path / "new").way == "assembled"
    assert dynamic(tmp_path / "new") == dynamic(program)
    assert executed(tmp_path / "new")[0] == 7


VERSIONED = """int flush(char *at) { __asm__ volatile("clflush %0" : "+m"(*at)); return 7; }"""


def versioned(folder: Path) -> Path:
    (folder / "map").write_text("V1 { global: flush; local: *; };\n")
    script = f"-Wl,--version-script={folder}/map"
    return compiled(folder, "-shared", "-fPIC", "-Wl,-soname,libnew.so", script, source=VERSIONED)


@pytest.mark.parametrize(
    ("options", "source"),
    [((), "int main(void) { return 0; }"), (("-static",), SOURCE), (("-c",), SOURCE)],
    ids=["no flush", "static", "not linked"],
)
def test_what_is_not_rewritten_leaves_nothing(tmp_path, monkeypatch, options, source):
    monkeypatch.delenv("E9PATCH_HOME", raising=False)
    program = compiled(tmp_path, *options, source=source)
    there = sorted(tmp_path.iterdir())
    with pytest.raises(UsageError):
        rewrite(program, tmp_path / "new")
    assert sorted(tmp_path.iterdir()) == there


#: A stand-in for E9Patch's e9tool: it checks its command line and the files that it names, and
#: copies the program with other bytes in place of the flushes. It reports as e9tool 1.0.1 does.
STAND_IN = (Path(__file__).parent / "e9tool_stand_in.sh").read_text("utf-8")


@pytest.mark.parametrize("less", [0, 1])
def test_what_does_not_assemble_is_left_to_e9patch(tmp_path, monkeypatch, less):
    program = compiled(tmp_path, "-static")
    home = tmp_path / "stand-in"
    home.mkdir()
    (home / "e9tool").write_text(STAND_IN.replace("LESS", str(less)))
    (home / "e9tool").chmod(0o755)
    monkeypatch.setenv("E9PATCH_HOME", str(home))
    if less:
        with pytest.raises(UsageError, match="num_patched"):
            rewrite(program, tmp_path / "new")
        assert not (tmp_path / "new").exists()
        return
    done = rewrite(program, tmp_path / "new")
    assert done.way == "e9patch" and (tmp_path / "new").exists()
    assert {(site.function, site.new, site.fence) for site in done.sites} >= {
        ("fenced", "clwb", "follows"), ("alone", "clwb", "added"), ("unordered", "clwb", "none")
    }  # fmt: skip


#: Loaded into the linker, it would leave a file behind.
PLUGIN = """
#include <stdio.h>
#include <stdlib.h>
__attribute__((constructor)) static void loaded(void) { fclose(fopen("%s", "w")); }
int onload(void *tv) { return tv == NULL; }
"""


@pytest.mark.parametrize(
    "options", [("-soname=",), ("-rpath=",), ("--disable-new-dtags", "-rpath=")]
)
@pytest.mark.parametrize("value", ["x,-plugin,{0}", "@{0}", "-plugin={0}", "a b", "x\n-plugin {0}"])
def test_names_in_a_hostile_program_are_no_options_of_the_linker(tmp_path, options, value):
    plugin, trace = tmp_path / "evil.so", tmp_path / "loaded"
    tmp_path.chmod(0o1777)
    compiled(tmp_path, "-shared", "-fPIC", source=PLUGIN % trace).rename(plugin)
    words = [word for option in options for word in ("-Xlinker", option)]
    words[-1] += value.format(plugin)
    library = compiled(tmp_path, "-shared", "-fPIC", *words, source=VERSIONED)
    try:
        rewrite(library, tmp_path / "new")
    except UsageError:
        assert not (tmp_path / "new").exists()
    assert not trace.exists()


def test_tools_have_limits_little_environment_and_no_rights_of_root(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET", "word")
    assert "SECRET" not in run(["env"], tmp_path)
    limits = Path("/proc/self/limits")
    lines = run(["cat", str(limits)], tmp_path).splitlines()
    for limit in ("Max cpu time", "Max address space", "Max file size", "Max core file size"):
        (line,) = (line for line in lines if line.startswith(limit))
        assert line.removeprefix(limit).split()[0] != "unlimited"
    assert int(run(["id", "-u"], tmp_path)) != 0
    monkeypatch.setattr(tools, "_TIMEOUT_S", 1)
    with pytest.raises(UsageError):
        run(["sleep", "60"], tmp_path)


def test_what_only_root_may_read_is_not_read(tmp_path):
    program = compiled(tmp_path, source=SAME_LENGTH)
    program.chmod(0)
    with pytest.raises(UsageError):
        rewrite(program, tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.skipif("E9PATCH_HOME" not in os.environ, reason="E9Patch is the user's")
def test_e9patch_itself(tmp_path):
    """A static program, and a library with versions; the loaded code has no clflush."""
    program = compiled(tmp_path, "-static")
    assert rewrite(program, tmp_path / "new").way == "e9patch"
    assert executed(tmp_path / "new", "7") == (7, "8\n")
    library = versioned(tmp_path)
    assert rewrite(library, tmp_path / "libnew.so").way == "e9patch"
    main = """
    #include <string.h>
    int flush(char *);
    char area[64];
    int main(void) { return flush(area) + !!memmem((void *)flush, 16, "\\x0f\\xae", 2); }
    """
    (tmp_path / "user.c").write_text(main)
    user = tmp_path / "user"
    subprocess.run(
        ["gcc", "-D_GNU_SOURCE", tmp_path / "user.c", f"-L{tmp_path}", "-l:libnew.so",
         f"-Wl,-rpath,{tmp_path}", "-o", user], check=True,
    )  # fmt: skip
    assert executed(user)[0] == 7


# What is replaced by what, in text ---------------------------------------------


def test_a_fence_after_a_label_follows_at_once():
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
def test_a_rule_that_would_lose_data_is_refused(old, new):
    with pytest.raises(UsageError):
        read_rule(old, new)
