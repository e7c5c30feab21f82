"""The native client on RocksDB against a bare C loop over the same calls, against the official
client, and against db_bench.

    .venv/bin/python benchmarks/ycsb.py --threads 1 --threads 2 --pairs 7 --official
    .venv/bin/python benchmarks/ycsb.py --prefix /usr --db-bench

Workload C (reads alone) with everything in the block cache: what is measured is the client.
All arms open a copy of the same database with the same library and options, one after the
other, in turn. Throughput is that of an arm by itself; the medians of one operation come
from arms that read the clock once an operation. The bars: 0.9 of the loop's throughput (and
of db_bench's readrandom, on its own records of the same size), 1 µs more at the median,
twice the official client's throughput, which gets ten seconds to be compiled in. Beside that
stands what the loop reaches of it, which is the most that any client could: the longer RocksDB
itself works on a read, the less (``--set row_cache=1G`` makes a read short).

db_bench has records of its own; the client is then run with uniformly drawn keys, as it is.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from smoke import parsed

from harness import hdr
from harness.drivers.loadgen import processes
from harness.drivers.loadgen.driver import calls
from harness.drivers.loadgen.spec import LoadgenSpec, LoopMode
from harness.drivers.result import WindowCallbacks
from harness.engine import DataDirectories, EngineContext
from harness.execution.environment import Environment, open_environment
from harness.experiment.placement import DIRECTORY_PARTS
from harness.native_programs import loadgen_program
from harness.paths import engines_prefix
from harness.progress import SilentProgress
from harness.registry import engine as engine_factory
from harness.units import NS_PER_S
from harness.workload import Clients, Loading, Session
from harness.workloads.kinds import Duration
from harness.workloads.ycsb.official_client import Official
from harness.workloads.ycsb.params import YcsbParams
from harness.workloads.ycsb.workload import YcsbLoadgen
from reports.statistics import ratio_of

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = {
    "block_cache": "4G", "compression": "kNoCompression", "max_open_files": "-1",
    "filter_policy": "bloomfilter:10:false",
}  # fmt: skip
KEYS_DRAWN = 1_000_000
COMPILED_IN = Duration(10 * NS_PER_S)
LEAST_SHARE, MOST_ADDED_NS, LEAST_OF_OFFICIAL = 0.9, 1000, 2


@dataclass(frozen=True)
class MeasuredWindow:
    """One window of one arm."""

    operations_per_second: float
    cpu_ns: float
    median_ns: float = 0.0


@dataclass
class LoadedDatabase:
    """A loaded database and the programs that read it."""

    engine: Any
    clients: Clients
    params: YcsbParams
    programs: Path
    keys: Path
    warm_up_s: float
    seconds: float

    def native(self, threads: int) -> MeasuredWindow:
        """Our client."""
        spec = LoadgenSpec(
            self.engine.native_backend,
            self.connection,
            "ycsb",
            self.params.native_json(),
            statements=calls(self.engine, "ycsb", self.params.to_json(), ["read"]),
            threads=threads,
            connections=threads,
            mode=LoopMode(),
            ramp_up_ns=int(self.warm_up_s * 1e9),
            duration_ns=int(self.seconds * 1e9),
            seed=1,
        )
        result = processes.drive([spec], self.clients)
        read = result.operations["read"]
        assert read.count and read.latency_hdr
        return MeasuredWindow(
            read.count / result.measured_ns * 1e9,
            result.client_cpu_ns / read.count,
            float(hdr.decode(read.latency_hdr).percentile(50)),
        )

    def loop(self, threads: int, timed: bool = False) -> MeasuredWindow:
        """The bare loop."""
        request = {
            "connection": self.connection, "threads": threads, "timed": timed,
            "warm_up_s": self.warm_up_s, "seconds": self.seconds,
        }  # fmt: skip
        with self.keys.open() as keys:
            done = subprocess.run(
                [self.programs / "rocksdb_loop", json.dumps(request)],
                stdin=keys, capture_output=True, text=True, check=True,
            )  # fmt: skip
        result = json.loads(done.stdout)
        rate = result["operations"] / result["seconds"]
        return MeasuredWindow(rate, result["cpu_ns"] / result["operations"], result["median_ns"])

    def official(self, threads: int) -> MeasuredWindow:
        """The official client, in Java, on the same library."""
        params = replace(
            self.params,
            threads=threads,
            ramp_up=COMPILED_IN,
            duration=Duration(max(1, round(self.seconds)) * NS_PER_S),
        )
        session = Session(
            self.engine, SilentProgress(), None, drop_caches=False, client_starter=self.clients
        )
        seen = Official(params).drive(session, WindowCallbacks(_nothing, _nothing))
        done = seen.done_count or 0
        return MeasuredWindow(done / seen.window_ns * 1e9, (seen.client_cpu_ns or 0) / done)

    @property
    def connection(self) -> dict[str, Any]:
        """As the client takes it."""
        return dict(self.engine.native_connection())


def _nothing() -> None:
    pass


def build(folder: Path) -> None:
    """The loop, and the program that draws the workload's keys."""
    loop = [
        ROOT / "benchmarks/rocksdb_loop.c",
        *(ROOT / "engines/rocksdb" / f"loadgen_{part}.c" for part in
          ("library", "merge", "counters")),
        ROOT / "loadgen/record.c",
        ROOT / "native/support.c",
    ]  # fmt: skip
    folders = [f"-I{ROOT / name}" for name in ("loadgen", "native", "engines/rocksdb")]
    flags = ["-std=c11", "-O2", "-D_GNU_SOURCE", *folders]
    libraries = ["-ljansson", "-ldl", "-lpthread"]
    program = folder / "rocksdb_loop"
    subprocess.run(["gcc", *flags, *map(str, loop), "-o", program, *libraries], check=True)
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DNATIVE_TESTS=ON"]
    for command in (
        ["cmake", "-S", str(ROOT / "loadgen"), "-B", str(folder), *options],
        ["cmake", "--build", str(folder), "--target", "ycsb_keys"],
    ):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    for path in (folder, program, folder / "ycsb_keys"):
        path.chmod(0o755)


def draw_keys(programs: Path, params: YcsbParams) -> Path:
    """A file of the keys that the workload would read, in that order."""
    path = programs / "keys"
    with path.open("w") as keys:
        command = [
            str(programs / "ycsb_keys"),
            json.dumps(params.native_json()),
            str(KEYS_DRAWN),
            "1",
        ]
        subprocess.run(command, stdout=keys, check=True)
    return path


def made(
    env: Environment, stack: ExitStack, given: argparse.Namespace, params: YcsbParams
) -> LoadedDatabase:
    """Load the database, in directories that are gone afterwards."""
    options = {"prefix": given.prefix} if given.prefix else {}
    options["statistics"] = given.statistics
    scratch = stack.enter_context(env.scratch())
    root = Path(tempfile.mkdtemp(prefix="tb-ycsb-"))
    root.chmod(0o755)
    stack.callback(shutil.rmtree, root)
    context = EngineContext(
        SETTINGS | dict(given.set), options, scratch, engines_prefix(), env.supervisor,
        env.credentials, threads=max(given.threads), memory_limit_bytes=None,
    )  # fmt: skip
    engine: Any = engine_factory("rocksdb").create(context)
    places = DataDirectories(
        {part: stack.enter_context(env.directory(root / part)) for part in DIRECTORY_PARTS}
    )
    again = DataDirectories(
        {part: stack.enter_context(env.directory(root / f"r{part}")) for part in DIRECTORY_PARTS}
    )
    clients = Clients(env.supervisor, env.credentials, stack.enter_context(env.scratch()), engine)
    engine.initialise(places)
    engine.start()
    loading = Loading(engine, "loadgen", None, clients, max(given.threads), SilentProgress())
    YcsbLoadgen(params).load(loading)
    engine.stop()
    golden = root / "golden"
    golden.mkdir()
    engine.snapshot(golden)
    engine.restore(golden, again)
    programs = root / "programs"
    programs.mkdir()
    build(programs)
    keys = draw_keys(programs, params)
    return LoadedDatabase(engine, clients, params, programs, keys, given.warm_up, given.seconds)


def told(ours: Sequence[float], others: Sequence[float]) -> str:
    """The ratio of pairs with its interval, where there are enough of them for one."""
    ratio = ratio_of(ours, others)
    if ratio.low is None or ratio.high is None:
        return f"{ratio.value:.3f}"
    return f"{ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]"


def compare(database: LoadedDatabase, threads: int, pairs: int) -> None:
    """Pairs of loop and client, in turn."""
    loops: list[MeasuredWindow] = []
    natives: list[MeasuredWindow] = []
    medians: list[MeasuredWindow] = []
    for number in range(pairs):
        arms: list[Callable[[], None]] = [lambda: loops.append(database.loop(threads)),
                lambda: natives.append(database.native(threads)),
                lambda: medians.append(database.loop(threads, timed=True))]  # fmt: skip
        for arm in arms if number % 2 == 0 else reversed(arms):
            arm()
    print(f"{threads} threads, {pairs} pairs")
    for name, seen in (("loop", loops), ("client", natives), ("loop with clock", medians)):
        print(f"  {name:16} {median(sample.operations_per_second for sample in seen):12,.0f} op/s "
              f"{median(sample.cpu_ns for sample in seen):8,.0f} ns CPU/op "
              f"{median(sample.median_ns for sample in seen):8,.0f} ns at p50")  # fmt: skip
    share = told(
        [sample.operations_per_second for sample in natives],
        [sample.operations_per_second for sample in loops],
    )
    added = median(n.median_ns - t.median_ns for n, t in zip(natives, medians, strict=True))
    print(f"  {share} of the loop's throughput (bar {LEAST_SHARE}); "
          f"{added:,.0f} ns more at p50 (bar {MOST_ADDED_NS})")  # fmt: skip


def compare_official(database: LoadedDatabase, threads: int, pairs: int) -> None:
    """The official client, ours, and the loop, in turn."""
    others: list[MeasuredWindow] = []
    natives: list[MeasuredWindow] = []
    loops: list[MeasuredWindow] = []
    for number in range(pairs):
        arms: list[Callable[[], None]] = [lambda: others.append(database.official(threads)),
                lambda: natives.append(database.native(threads)),
                lambda: loops.append(database.loop(threads))]  # fmt: skip
        for arm in arms if number % 2 == 0 else reversed(arms):
            arm()
    official, native, loop = (
        [sample.operations_per_second for sample in arm] for arm in (others, natives, loops)
    )
    print(f"{threads} threads: official client {median(official):,.0f} op/s "
          f"({median(sample.cpu_ns for sample in others):,.0f} ns CPU/op), "
          f"ours {median(native):,.0f}: "
          f"{told(native, official)} of it (bar {LEAST_OF_OFFICIAL}); "
          f"the loop {median(loop):,.0f}: {told(loop, official)} of it, "
          "more than which no client could reach")  # fmt: skip


def db_bench(database: LoadedDatabase, threads: Sequence[int], pairs: int, program: str) -> None:
    """readrandom on as many records of the same size, the client's keys drawn uniformly."""
    database.params = replace(database.params, requestdistribution="uniform")
    folder = Path(tempfile.mkdtemp(prefix="tb-db-bench-"))
    value = database.params.fieldcount * (database.params.fieldlength + 14)
    shape = [f"--num={database.params.records}", "--key_size=23", f"--value_size={value}",
             f"--db={folder}", "--compression_type=none", "--bloom_bits=10",
             f"--cache_size={4 << 30}", "--open_files=-1",
             f"--row_cache_size={database.connection['row_cache_bytes']}"]  # fmt: skip
    try:
        fill = [program, "--benchmarks=fillseq,compact", *shape]
        subprocess.run(fill, check=True, capture_output=True)
        for count in threads:
            others, natives = [], []
            for _ in range(pairs):
                others.append(_readrandom(database, [program, *shape], count))
                natives.append(database.native(count).operations_per_second)
            print(f"{count} threads: db_bench readrandom {median(others):,.0f} op/s, "
                  f"client {median(natives):,.0f}: {told(natives, others)} of it")  # fmt: skip
    finally:
        shutil.rmtree(folder)


def _readrandom(database: LoadedDatabase, command: list[str], threads: int) -> float:
    """Its operations a second, behind one run that warms it up."""
    asked = ["--use_existing_db=1", "--benchmarks=readrandom[W1]", f"--threads={threads}",
             f"--duration={int(database.seconds)}"]  # fmt: skip
    done = subprocess.run([*command, *asked], capture_output=True, text=True, check=True)
    line = next(text for text in done.stdout.splitlines() if text.startswith("readrandom"))
    return float(line.split("ops/sec")[0].split()[-1])


def main() -> None:
    """Print rates, processor time and medians of the arms, and the bars."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--threads", type=int, action="append")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--warm-up", type=float, default=1.0, help="seconds")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument(
        "--set", type=lambda text: text.split("=", 1), action="append", default=[],
        metavar="NAME=VALUE", help="another of RocksDB's options, for all arms",
    )  # fmt: skip
    parser.add_argument("--prefix", help="another RocksDB [the pinned one]")
    parser.add_argument("--statistics", default="on", choices=("on", "off"))
    parser.add_argument("--official", action="store_true", help="compare with that client, too")
    parser.add_argument("--db-bench", nargs="?", const="db_bench", help="compare with it, too")
    given = parsed(parser, records=1000, threads=[1], pairs=1, warm_up=0.1, seconds=0.2)
    given.threads = given.threads or [1, 2]
    loadgen_program("rocksdb")
    params = YcsbParams.from_mapping({"workload": "c", "records": given.records})
    with open_environment(None, [], SilentProgress()) as env, ExitStack() as stack:
        database = made(env, stack, given, params)
        print(database.engine.version().build, "statistics", given.statistics)
        for threads in given.threads:
            compare(database, threads, given.pairs)
        for threads in given.threads if given.official else ():
            compare_official(database, threads, given.pairs)
        if given.db_bench:
            db_bench(database, given.threads, given.pairs, given.db_bench)


if __name__ == "__main__":
    main()
