"""Our persistent indexes against their original programs, in DRAM without flushes.

    .venv/bin/python benchmarks/indexes.py --level-hashing ../Level-Hashing \
        --fast-fair ../FAST_FAIR --wort ../WORT

The arguments are checkouts of github.com/Pfzuo/Level-Hashing, DICL/FAST_FAIR and SeKwonLee/WORT,
which stay as they are: in copies, flushes, fences and the delays around them are left out, and
level hashing's keys are compared and hashed as 8 bytes, not as strings. `level hashing, 8 bytes`
has slots of 16 bytes instead of 31 (ours: 32). One thread; inserts of uniformly drawn keys into
an empty index, then a read of each; arms in random order in each pair.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from smoke import SMOKE, parsed

from reports.statistics import ratio_of

ROOT = Path(__file__).resolve().parent.parent
ARMS = ROOT / "benchmarks" / "peers" / "indexes"
LEAVE_OUT = {
    "btree.h": [
        (r"inline void mfence\(\) \{.*", "inline void mfence() {}"),
        (r"(inline void clflush\(.*\{)", r"\1 return;"),
    ],
    "woart.c": [
        (r"#define mfence\(\).*", "#define mfence()"),
        (r"(void flush_buffer\(.*\n\{)", r"\1 return;"),
        (r"static_cast<woart_leaf \*>", "(art_leaf *)"),  # its last commit does not compile
    ],
    "pflush.h": [(r"__asm__ .*", "\\\\")],
    "log.h": [(r".*pmalloc\.h.*", '#include "pmalloc.h"')],
    "level_hashing.c": [
        (r"strlen\(key\)", "8"),
        (r"strcmp\((.*?)\) == 0", r"memcmp(\1, 8) == 0"),
    ],
}
DENSE = {"log.h": [(r"KEY_LEN 16", "KEY_LEN 8"), (r"VALUE_LEN 15", "VALUE_LEN 8")]}


def copied(source: Path, to: Path, *changes: dict[str, list[tuple[str, str]]]) -> Path:
    """Write a copy of the folder's C files, without flushes."""
    to.mkdir()
    for file in source.glob("*.[ch]"):
        text = file.read_text()
        for change in changes:
            for pattern, replacement in change.get(file.name, []):
                text, count = re.subn(pattern, replacement, text)
                if not count:
                    raise SystemExit(f"{file}: {pattern!r} is not in it")
        (to / file.name).write_text(text)
    return to


def build(program: Path, *what: str | Path) -> Path:
    """Compile with the same options for all."""
    compiler = "g++" if any(str(path).endswith(".cpp") for path in what) else "gcc"
    runner = program.parent / "run.o"
    options = ["-O3", "-w", "-D_GNU_SOURCE", f"-I{ARMS}"]
    if not runner.exists():
        subprocess.run(["gcc", *options, "-c", ARMS / "run.c", "-o", runner], check=True)
    subprocess.run([compiler, *options, *what, runner, "-lm", "-o", program], check=True)
    return program


def pairs_of(given: argparse.Namespace, folder: Path) -> Iterator[tuple[str, Path, Path | None]]:
    """Name, our program, the original (None where ``--smoke`` has none)."""
    micro, ours = ROOT / "microbench", {}
    for name in ("level_hash", "fast_fair", "woart"):
        includes = (f"-I{micro}", f"-I{ROOT / 'native'}", f"-DINDEX=mb_{name}")
        source = micro / "indexes" / f"{name}.c"
        ours[name] = build(folder / name, *includes, ARMS / "ours.c", source)
    if given.smoke:
        yield from ((name, program, None) for name, program in ours.items())
        return
    for name, changes in (("level hashing", {}), ("level hashing, 8 bytes", DENSE)):
        source = given.level_hashing / "persistent_level_hashing"
        copy = copied(source, folder / f"{name} source", LEAVE_OUT, changes)
        files = [file for file in copy.glob("*.c") if file.name != "test.c"]
        original = build(folder / f"{name} original", f"-I{copy}", ARMS / "level_hash.c", *files)
        yield name, ours["level_hash"], original
    copy = copied(given.fast_fair / "single" / "src", folder / "fast_fair source", LEAVE_OUT)
    original = build(folder / "fast_fair original", f"-I{copy}", ARMS / "fast_fair.cpp")
    yield "FAST&FAIR", ours["fast_fair"], original
    copy = copied(given.wort / "src" / "woart", folder / "woart source", LEAVE_OUT)
    original = build(folder / "woart original", f"-I{copy}", ARMS / "woart.c", copy / "woart.c")
    yield "WOART", ours["woart"], original


def measured(program: Path, records: int, seed: int) -> tuple[float, float]:
    """Inserts and reads per second."""
    done = subprocess.run(
        [program, str(records), str(seed)], capture_output=True, text=True, check=True
    )
    inserts, reads = done.stdout.split()[-2:]  # level hashing prints more
    return float(inserts), float(reads)


def main() -> None:
    """Print medians, and the ratios with their intervals."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for option in ("--level-hashing", "--fast-fair", "--wort"):
        parser.add_argument(option, type=Path, required=not SMOKE)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--records", type=int, default=1_000_000)
    given = parsed(parser, pairs=2, records=2000)
    with tempfile.TemporaryDirectory() as folder:
        for name, ours, original in pairs_of(given, Path(folder)):
            if original is None:
                print(f"{name}: ours {measured(ours, given.records, 1)} per second")
                continue
            rates: dict[Path, list[tuple[float, float]]] = {ours: [], original: []}
            for seed in range(1, given.pairs + 1):
                for arm in random.sample(list(rates), 2):
                    rates[arm].append(measured(arm, given.records, seed))
            for column, what in enumerate(("insert", "read")):
                a, b = ([pair[column] for pair in rates[arm]] for arm in (ours, original))
                ratio = ratio_of(a, b)
                print(
                    f"{name}, {what}: ours {median(a):.0f}, original {median(b):.0f} per second: "
                    f"{ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]",
                    flush=True,
                )


if __name__ == "__main__":
    main()
