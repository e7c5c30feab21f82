"""How well `harness explain` predicts engines from baselines of tiers (docs/prediction.md).

    sudo .venv/bin/python benchmarks/correlation.py --results /var/tmp/correlation

Four tiers: the disk; ext4 on a loop device over a tmpfs; ext4 on a loop device on the disk,
throttled to 200 MB/s of reads and 100 MB/s of writes (blkio of cgroup v1); a tmpfs. The suite
`baseline` is run once on each of them, and each case once on all of them in turn. An interrupted
benchmark resumes with the same command; --tier and --case choose a part of it. Printed: a row of
each independent comparison, and the fit over all rows. The bar: at least 24 rows, ρ of at least
0.9, a median error of at most 15 %, none above 40 % without a mark.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from models import HARNESS, HostTier, command, device
from smoke import SMOKE, parsed

TIERS = ("ssd", "loop", "slow", "ram")
_KINDS = {"ram": "tmpfs"}
_BASELINE = "baseline"
_RATES = {"read": 2e9, "write": 1e9}
_TPCC = "--warehouses 2 --ramp-up 4s --duration 8s"
_MYSQL = "--engine mysql --set innodb_use_native_aio=OFF"
_ROCKSDB = (
    "--engine rocksdb --records 100000 --threads 4 --set sync=true --ramp-up 2s --duration 8s"
)
_CASES: Mapping[str, str] = {
    **{f"tpcc-postgres-{n}": f"tpcc --engine postgres --users {n} {_TPCC}" for n in (1, 4, 16)},
    **{f"tpcc-mysql-{n}": f"tpcc {_MYSQL} --users {n} {_TPCC}" for n in (1, 4, 16)},
    **{f"ycsb-rocksdb-{w}": f"ycsb --workload {w} {_ROCKSDB}" for w in ("a", "f")},
    "tpch-scans": "tpch --engine postgres --scale 0.2 --queries 1,6,12 --no-plans",
    "tpch-lookups": f"tpch {_MYSQL} --scale 0.1 --queries 2,4,5 --no-plans",
}
_SMALL: Mapping[str, str] = {
    "ycsb": "ycsb --engine rocksdb --workload a --records 1000 --threads 1 --set sync=true "
    "--ramp-up 0s --duration 1s"
}
_SUITE = "micro --suite baseline --warm-up 30ms -p only=page_*,scan*,log_*"
_SIZE = "--threads 16 --repeats 2 --duration 200ms -p range=128MiB"
_SMALL_SIZE = "--threads 1 --repeats 1 --duration 10ms -p range=16MiB"


@contextmanager
def tier(name: str, disk: Path) -> Iterator[HostTier | str]:
    """A tier, or why it cannot be made here."""
    if name != "ram":
        with device(name, disk, _RATES) as made:
            yield made
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="correlation-") as folder:
        Path(folder).chmod(0o755)
        yield HostTier(name, Path(folder))


class Campaign:
    """The tiers of this host, and what has been measured on them."""

    def __init__(self, results: Path, tiers: Sequence[HostTier]) -> None:
        self._done = results / "done.json"
        self.done: list[list[str]] = (
            json.loads(self._done.read_text()) if self._done.exists() else []
        )
        self._cgroup = next((tier.cgroup for tier in tiers if tier.cgroup), None)
        host = results / "host.yml"
        lines = [
            f"  {tier.name}: {{kind: {_KINDS.get(tier.name, 'block')}, path: {tier.path}}}\n"
            for tier in tiers
        ]
        host.write_text(f"schema: 1\ntiers:\n{''.join(lines)}")
        self._where = ("--host", str(host), "--results", str(results))

    def measure(self, case: str, words: str, option: str, names: Mapping[str, str]) -> None:
        """Run a case on the tiers where it has not been; ``names``: tier → what the option has."""
        missing = [name for name in names if [case, name] not in self.done]
        if not missing:
            return
        chosen = [word for name in missing for word in (option, names[name])]
        begun = time.monotonic()
        try:
            command(
                HARNESS, "run", *words.split(), *chosen, *self._where, "-q", cgroup=self._cgroup
            )
        except SystemExit as error:
            print(f"not measured: {case}: {str(error.code)[-800:]}", flush=True)
            return
        self.done += [[case, name] for name in missing]
        self._done.write_text(json.dumps(self.done))
        print(f"{case} on {', '.join(missing)}: {time.monotonic() - begun:.0f} s", flush=True)


def main() -> None:
    """Measure what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    cases = _SMALL if SMOKE else _CASES
    parser.add_argument("--tier", action="append", choices=TIERS, help="may repeat")
    parser.add_argument("--case", action="append", choices=cases, help="may repeat")
    parser.add_argument("--results", type=Path, help="a folder that is kept")
    options = parsed(parser, tier=["ssd", "ram"])
    with ExitStack() as stack:
        if options.results is None:
            options.results = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp")))
        options.results.mkdir(parents=True, exist_ok=True)
        documents = json.loads(command(HARNESS, "doctor", "--json"))["tiers"]
        disk = Path(next(document["place"] for document in documents if document["name"] == "ssd"))
        disk.mkdir(parents=True, exist_ok=True)
        tiers: list[HostTier] = []
        for name in options.tier or TIERS:
            made = stack.enter_context(tier(name, disk))
            if isinstance(made, str):
                print(f"not measured: {name}: {made}")
            else:
                tiers.append(made)
        campaign = Campaign(options.results, tiers)
        names = {tier.name: tier.name for tier in tiers}
        suite = f"{_SUITE} {_SMALL_SIZE if options.smoke else _SIZE}"
        campaign.measure(_BASELINE, suite, "--tier", names)
        placements = {name: f"{name}-both" for name in names}
        for case in options.case or cases:
            campaign.measure(case, cases[case], "--placement", placements)
        explain = (HARNESS, "explain", "--results", str(options.results), "--json")
        document = json.loads(command(*explain, may_fail=True))
        if "error" in document:
            raise SystemExit(document["error"]["context"])
        report(document)


def report(document: Mapping[str, Any]) -> None:
    """Print the table of BENCHMARKS.md."""
    print("| engine and workload | compared | predicted | measured | residual | mechanism |")
    print("|---|---|---|---|---|---|")
    for row in document["comparisons"]:
        predicted, measured, residual = row["predicted"], row["measured"], row["residual"]
        cells = [
            row["where"],
            f"{row['b']} / {row['a']}",
            _times(predicted),
            _times(measured),
            "" if residual is None else f"{residual:+.0%}",
            *([""] if row.get("mark") is None else [row["mark"]["text"]]),
        ]
        print(f"| {' | '.join(cells)} |")
    print(json.dumps(document["correlation"]))


def _times(value: Mapping[str, Any]) -> str:
    """A ratio with its interval, or why there is none."""
    if value["value"] is None:
        return str(value["why"])
    interval = "" if value["low"] is None else f" [{value['low']:.2f}, {value['high']:.2f}]"
    return f"{value['value']:.2f}×{interval}"


if __name__ == "__main__":
    main()
