"""The card of a device: what it says follows from the figures, and from nothing else."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from figures import figures_of
from micro_runs import DRAM, GB, KINDS, OPTANE, card_run, duration, micro_run, operations, rate
from narrowed import present
from report_runs import Case, write
from typer.testing import CliRunner

from harness import hdr
from harness.cli.app import app
from harness.errors import UsageError
from harness.micro.chains import chain_text, parse_chain
from harness.micro.fio import histogram
from harness.micro.perma_result import perma_devices
from harness.store.runs import StoredRun
from reports.micro.best_practices import card_trials, practices
from reports.micro.card_lines import Finding
from reports.micro.devices import MEAN, OPERATIONS, RATE, Device, device_of_metrics, devices
from reports.micro.knees import curves
from reports.micro.measurements import measurements, percentile
from reports.micro.preferences import findings
from reports.micro.prices import COLUMNS, HASH_UPDATE, price_table
from reports.micro.report import card_of, write_cards
from reports.price_list import read_prices

_GIB = float(1 << 30)


@pytest.mark.parametrize(("model", "outcome"), [(OPTANE, "confirmed"), (DRAM, "refuted")])
def test_practices_are_confirmed_where_fast20_found_them(tmp_path, model, outcome):
    """And refuted where nothing is gained by them."""
    (device,) = devices([card_run(tmp_path, model)])
    assert [practice.outcome for practice in practices(device)] == [outcome] * 4


def test_large_transfers_of_several_threads_are_tried_too(tmp_path: Path) -> None:
    """As FAST'20's Figure 12 has them."""
    metrics = [
        rate("persist_size", value, 11, **KINDS[kind], pattern="sequential",
             access_size_bytes=size, threads=6)
        for kind, value in (("ntstore", 8), ("clwb", 4), ("store", 2)) for size in (4096, 65536)
    ]  # fmt: skip
    (device,) = devices([micro_run(tmp_path, metrics)])
    assert practices(device)[1].outcome == "confirmed"
    whats = [tried.what for tried in practices(device)[1].trials]
    assert "ntstore+sfence against store+clwb+sfence, 4 KiB of 6 threads" in whats
    card = write_cards([micro_run(tmp_path, metrics)], tmp_path / "card")
    assert "Sequential writes of 6 threads" in card.html.read_text(encoding="utf-8")


def test_six_repeats_would_do_for_one_verdict_and_not_for_a_whole_card(tmp_path: Path) -> None:
    (device,) = devices([card_run(tmp_path, repeats=6)])
    guide = practices(device)
    assert [practice.outcome for practice in guide] == ["not testable here"] * 4
    chosen, tried = guide[2].trials[0], guide[1].trials[0]
    chosen_ratio, tried_ratio = present(chosen.tested), present(tried.tested)
    # Of four thread counts, one was chosen as the best of fewer.
    assert chosen_ratio.p == 4 * tried_ratio.p
    assert tried_ratio.p <= 0.05
    assert present(tried_ratio.decision).adjusted_p > 0.05
    assert (tried.why, tried.repeats_needed) == ("too-few-repeats", 10)


def test_a_knee_in_the_noise_is_not_shown(tmp_path: Path) -> None:
    run = card_run(tmp_path)
    for metric in run.document["metrics"]:
        labels = metric["labels"]
        if (labels["measurement"], labels.get("operation")) == ("access_size", "load"):
            middle = metric["samples"][5]
            # 256 B hover about nine tenths of 4 KiB.
            ends = (0.87, 0.97) if labels["access_size_bytes"] == 256 else (1.0, 1.0)
            metric["samples"] = [middle * ends[k % 2] for k in range(11)]
    del vars(run)["result"]  # it is made of the document again
    (device,) = devices([run])
    rows = {finding.question: finding.rows for finding in findings(device)}
    assert rows["Access size, random load"][0].shown is False


def test_repeats_of_different_runs_are_no_pairs(tmp_path: Path) -> None:
    place: dict[str, Any] = {"pattern": "sequential", "threads": 1, "access_size_bytes": 4096}
    first = micro_run(tmp_path, [rate("persist_size", 9.0, 11, **KINDS["ntstore"], **place)])
    second = micro_run(
        tmp_path, [rate("persist_size", 3.0, 7, **KINDS["clwb"], **place)], suite="mine"
    )
    (device,) = devices([first, second])
    tried = practices(device)[1].trials[0]
    assert (present(tried.tested).pairing, tried.outcome) == ("unpaired", "holds")


def test_a_chases_histogram_is_said_to_be_of_means(tmp_path: Path) -> None:
    means = duration("chase", {"90": 99, "400": 1}, operation="chase", range_bytes=1 << 30)
    means |= {"name": "mean_latency_of_256_loads_ns", "better": "none"}
    (device,) = devices([micro_run(tmp_path, [means])])
    (table,) = measurements(device, "d")
    assert 256 in figures_of(table.title)
    assert "p99.99 of means over 256" in table.head


def test_a_repeat_without_any_work_makes_no_ratio(tmp_path: Path) -> None:
    run = card_run(tmp_path / "a")
    metrics = [
        metric | {"samples": [0.0] * len(metric["samples"])} if "samples" in metric else metric
        for metric in run.document["metrics"]
    ]
    (device,) = devices([micro_run(tmp_path / "b", metrics)])
    assert {p.outcome for p in practices(device)[:2]} == {"not testable here"}
    assert {trial.why for trial in practices(device)[0].trials} == {"nothing-done"}


def test_a_ratio_whose_interval_holds_the_bound_decides_nothing(tmp_path: Path) -> None:
    model = replace(OPTANE, far=8.0 / 1.1)
    run = card_run(tmp_path, model=model)
    for metric in run.document["metrics"]:
        if metric["labels"]["measurement"] == "mix" and "numa" in metric["labels"]:
            swung = enumerate(metric["samples"])
            metric["samples"] = [s * (0.9 if k % 2 else 1.1) for k, s in swung]
    del vars(run)["result"]  # it is made of the document again
    fourth = practices(devices([run])[0])[3]
    assert (fourth.outcome, fourth.trials[0].why) == ("not testable here", "bound-in-interval")


# What it likes ------------------------------------------------------------------


def test_what_a_card_says_of_a_device(tmp_path: Path) -> None:
    """Knees are where nine tenths are reached, latency under load lies at its own bandwidth."""
    (device,) = all_devices = devices([card_run(tmp_path)])
    rows = {finding.question: finding.rows for finding in findings(device)}
    (size,) = rows["Access size, random ntstore+sfence"]
    assert (size.top["access_size_bytes"], size.near["access_size_bytes"]) == ("4096", "256")
    # 64 B reach a quarter of the best, 256 B 98 %: both clear in every repeat.
    assert size.shown and rows["Latency during load of 3 threads"][0].shown
    (threads,) = rows["Thread count, ntstore+sfence, 256 B"]
    assert (threads.name, threads.top["threads"]) == ("sequential", "4")
    assert [point["threads"] for point in threads.ends] == ["1", "4", "16"]
    (curve,) = curves(device)
    assert present(curve.idle).median == 300
    points = [(round(p.rate / GB), p.latency) for p in curve.points]
    assert points == [(2, 310), (4, 500), (8, 900), (12, 2000)]
    assert present(curve.knee).latency == 500
    card = card_of(device)
    assert card.verdicts == len(card_trials(device).shown) == card.shown == 18
    table = present(price_table(all_devices, None))
    assert table.rows[0][2] == "9.21" and "price_per_gb" in table.source


def test_only_what_persists_is_called_a_persist_instruction(tmp_path: Path) -> None:
    (device,) = devices([card_run(tmp_path, model=DRAM)])
    rows = {finding.question: finding.rows for finding in findings(device)}
    (row,) = (row for row in rows["Persist instruction, sequential writes"] if row.name == "4 KiB")
    assert row.alike == ("ntstore+sfence", "store+clwb+sfence")  # 32 and 32 GB/s
    assert len(row.unsafe) == 1 and row.unsafe[0] > row.safe[0][1]  # 33 GB/s, not persistent


# Prices -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "tier", "per_gb", "kind", "gib_per_s", "printed"),
    [
        # Bandwidths from the text of Sections 4.2.1 and 4.2.3, results from Table 2.
        ("apache128", "pmem", "9.22", "ntstore", 12, 0.78),
        ("apache256", "pmem", "10.74", "ntstore", 17, 0.64),
        ("barlow256", "pmem", "12.77", "ntstore", 21.6, 0.60),
        ("barlow256", "pmem", "12.77", "load", 58, 0.22),
        ("apache256", "pmem", "10.74", "load", 42, 0.25),
        ("apache512", "pmem", "16.60", "load", 29, 0.56),
        ("barlow256", "dram", "59.38", "load", 157, 0.38),
    ],
)
def test_prices_are_those_of_table_2(tmp_path, host, tier, per_gb, kind, gib_per_s, printed):
    size, column = (4096, 0) if kind == "load" else (512, 2)
    metrics = [rate("sequential", gib_per_s, 1, _GIB, pattern="sequential", threads=16,
                    access_size_bytes=size, **KINDS[kind])]  # fmt: skip
    all_devices = devices([micro_run(tmp_path, metrics, tier=tier, host=host)])
    listed = read_prices(Path("profiles/prices/perma-bench-2022.yml"))
    table = present(price_table(all_devices, listed))
    assert table.rows[0][2] == per_gb and table.source.startswith("dell.de")
    # The text rounds its bandwidths to whole GB/s or "around".
    assert float(table.rows[0][3 + column]) == pytest.approx(printed, abs=0.02)


def test_latency_multiplies_and_operations_divide(tmp_path: Path) -> None:
    metrics = [
        duration("random_read_latency", {"500": 100}, threads=16, chain="rp_256", mode="dependent"),
        operations("hash_index_update", 23.6e6, threads=16, chain=HASH_UPDATE),
        operations("hash_index_update", 2e6, threads=1, chain=HASH_UPDATE),
    ]
    by_name = _columns(micro_run(tmp_path, metrics), 9.21)
    assert by_name["100 ns latency"] == pytest.approx(46.05, rel=0.002)  # 9.21 × 5 steps
    assert by_name["M hash index updates/s"] == pytest.approx(0.39, abs=0.001)
    assert by_name["M tree index lookups/s"] is None


# Several servers ----------------------------------------------------------------


def test_a_tier_that_was_made_anew_is_another_device(tmp_path: Path) -> None:
    plain = card_run(tmp_path)
    facts = plain.manifest_document["tiers"][0]
    nodax = facts | {"facts": facts["facts"] | {"dax": False}}
    other = card_run(tmp_path, manifest_changes={"tiers": [nodax]})
    names = {device.name for device in devices([plain, other])}
    assert names == {"pmem (dax false)", "pmem (dax true)"}


def test_several_suites_of_one_device_make_one_card(tmp_path: Path) -> None:
    fio = rate("random_read", 0.5, 2, operation="read", queue_depth=8, access_size_bytes=4096)
    (device,) = devices([card_run(tmp_path), micro_run(tmp_path, [fio], suite="block-io")])
    assert {"Queue depth, random read, 4 KiB"} < {finding.question for finding in findings(device)}


def test_a_planner_s_costs_are_a_random_page_over_one_of_a_scan_at_its_best_depth(
    tmp_path: Path,
) -> None:
    labels: dict[str, Any] = {"operation": "read", "queue_depth": 1}
    page = rate("random_page", 1, 3, **labels, pattern="random", access_size_bytes=8192)
    page |= {"name": MEAN, "unit": "ns", "better": "lower", "samples": [80_000.0] * 3}
    scans = [
        rate("sequential_read", 1, 3, **labels | {"queue_depth": depth}, pattern="sequential",
             access_size_bytes=131072) | {"samples": [8192 * 1e9 / page_ns] * 3}
        for depth, page_ns in ((1, 20_000), (8, 4_000), (32, 5_000))
    ]  # fmt: skip
    (device,) = devices([micro_run(tmp_path, [page, *scans], suite="block-io")])
    finding = _finding(device, "Planner costs, PostgreSQL")
    assert finding.rows == pytest.approx((80_000, 4_000))
    assert finding.answer == "random_page_cost 20"
    assert "queue depth 8" in finding.figures


# Files --------------------------------------------------------------------------


def test_a_report_puts_the_card_beside_the_engines(tmp_path: Path) -> None:
    write(tmp_path, Case())
    card_run(tmp_path)
    argv = ["report", "--out", str(tmp_path / "report"), "--json", "--results", str(tmp_path)]
    done = CliRunner().invoke(app, argv)
    assert done.exit_code == 0, done.stderr
    printed = json.loads(done.stdout)
    assert printed["report"]["runs"] == 1
    assert Path(printed["card"]["html"]).parent == Path(printed["report"]["html"]).parent


def _columns(run: StoredRun, per_gb: float = 10.0) -> dict[str, float | None]:
    (device,) = devices([run])
    return {column.per: column.value(device, per_gb) for column in COLUMNS}


def _chain(text: str) -> str:
    return chain_text(parse_chain(text, "test"))


def test_index_operations_are_the_papers_512_byte_ones(tmp_path: Path) -> None:
    """PVLDB 15(11), Section 4.4.1; the shipped workloads have smaller nodes beside them."""
    chains = [
        ("hash_index_update", "r_128,w_64_cache_64,w_64_cache_-64", 50e6),
        ("hash_index_update", "r_512,w_64_cache_128,w_64_cache_-128", 20e6),
        ("tree_index_lookup", "r_256,r_256,r_256", 40e6),
        ("tree_index_lookup", "r_512,r_512,r_512", 10e6),
    ]
    metrics = [
        operations(name, per_s, threads=16, chain=_chain(text)) for name, text, per_s in chains
    ]
    by_name = _columns(micro_run(tmp_path, metrics, suite="perma-bench/operations"))
    assert by_name["M hash index updates/s"] == pytest.approx(0.5)
    assert by_name["M tree index lookups/s"] == pytest.approx(1.0)


def test_latency_is_that_of_the_papers_suite_as_well(tmp_path: Path) -> None:
    """PVLDB 15(11), Section 4.3.1: dependent reads of 256 bytes, 16 threads."""
    chains = [("r_256", 16, "500"), ("r_256", 32, "900"), ("r_256,w_256_cache", 16, "700")]
    metrics = [
        duration("operation_latency", {mean: 100}, threads=n, mode="dependent", chain=_chain(text))
        for text, n, mean in chains
    ]
    by_name = _columns(micro_run(tmp_path, metrics, suite="perma-bench/raw"))
    assert by_name["100 ns latency"] == pytest.approx(50.0, rel=0.002)


# Percentiles of few operations -------------------------------------------------

_TAIL = "Tail of overwrites around a buffer"


def _overwrites(root: Path, counts: dict[int, int]) -> Device:
    """So many of 90 ns and one of 9 µs, for each range in bytes."""
    metrics = [
        duration("overwrite_tail", {"90": count - 1, "9000": 1}, pattern="sequential",
                 range_bytes=size)
        for size, count in counts.items()
    ]  # fmt: skip
    (device,) = devices([micro_run(root, metrics)])
    return device


def _finding(device: Device, question: str) -> Finding:
    (finding,) = [finding for finding in findings(device) if finding.question == question]
    return finding


@pytest.mark.parametrize(
    ("percent", "count"), [(50.0, 1), (99.0, 100), (99.9, 1_000), (99.99, 10_000)]
)
def test_a_percentile_takes_as_many_operations_as_have_one_beyond_it(percent, count):
    assert hdr.fewest(percent) == count
    assert percentile(histogram({"90": count}), percent) == 90
    assert percentile(histogram({"90": count - 1}), percent) is None


@pytest.mark.parametrize(
    ("counts", "worst", "too_few"),
    [
        ({4096: 2_000, 65536: 2_000}, "too few operations for p99.99", True),
        ({4096: 10_000, 65536: 2_000}, "at 4 KiB (too few operations at 1 other size)", True),
        ({4096: 10_000}, "at 4 KiB", False),
    ],
)
def test_the_worst_tail_is_of_those_with_operations_enough(tmp_path, counts, worst, too_few):
    finding = _finding(_overwrites(tmp_path, counts), _TAIL)
    assert finding.answer.rstrip(")").endswith(worst.rstrip(")"))
    assert ("p99.99 takes 10,000" in finding.figures) == too_few
    assert "p99.9 takes" not in finding.figures


def test_latencies_of_few_operations_have_no_tail_either(tmp_path: Path) -> None:
    loads = duration("latency", {"90": 99, "9000": 1}, **KINDS["load"], pattern="random",
                     access_size_bytes=64)  # fmt: skip
    (device,) = devices([micro_run(tmp_path, [loads])])
    (row,) = _finding(device, "Latency, load, 64 B").rows
    assert (row.name, row.at(50), row.at(99), row.at(99.99)) == ("random", 90, 90, None)


# PerMA-Bench's result files -------------------------------------------------------


_CONFIG = {
    "memory_range": 10737418240, "memory_type": "pmem", "min_io_chunk_size": 67108864,
    "numa_pattern": "near", "number_partitions": 1, "number_threads": 16, "prefault_file": True,
}  # fmt: skip
_WRITES = _CONFIG | {
    "access_size": 256, "exec_mode": "random", "number_operations": 100000000,
    "operation": "write", "persist_instruction": "cache", "random_distribution": "uniform",
}  # fmt: skip
_UPDATE = "rp_512,wp_64_cache_128,wp_64_cache_-128"
_CHAINS = _CONFIG | {"custom_operations": _UPDATE, "exec_mode": "custom"}


def benchmark(name: str, config: dict[str, Any], results: dict[str, Any]) -> dict[str, Any]:
    return {
        "bm_name": name, "bm_type": "single", "matrix_args": ["number_threads"],
        "benchmarks": [{"config": config, "results": results}],
    }  # fmt: skip


def parallel(config: dict[str, Any]) -> dict[str, Any]:
    of_jobs = {"log": {"results": {"bandwidth": 1.5}}, "scan": {"results": {"bandwidth": 6.0}}}
    return {
        "bm_name": "log_and_scan", "bm_type": "parallel", "sub_bm_names": ["log", "scan"],
        "matrix_args": {"log": ["number_threads"], "scan": []},
        "benchmarks": [{"config": {"log": config, "scan": config}, "results": of_jobs}],
    }  # fmt: skip


def read(path: Path) -> Device:
    (device,) = perma_devices(path)
    return device_of_metrics(path.stem, device.memory, device.mark, device.source, device.metrics)


@pytest.fixture
def published(tmp_path: Path) -> Path:
    path = tmp_path / "barlow-256.json"
    chained = {"ops_per_second": 2e6, "latency": {"avg": 830.5, "median": 800}}
    document = [
        benchmark("random_writes", _WRITES, {"bandwidth": 2.0}),
        benchmark("hash_index_update", _CHAINS, chained),
        parallel(_WRITES),
    ]
    path.write_text(json.dumps(document))
    return path


def test_a_device_has_the_rates_of_the_file_by_the_labels_of_our_own_runs(published: Path) -> None:
    device = read(published)
    writes, log, scan = device.select(RATE)
    assert writes.median == 2.0 * (1 << 30)
    labels = [writes[name] for name in ("operation", "flush", "fence", "threads")]
    assert labels == ["store", "clwb", "sfence", "16"]
    jobs = [(point["job"], point.median / (1 << 30)) for point in (log, scan)]
    assert jobs == [("log", 1.5), ("scan", 6.0)]
    (updates,), (latency,) = device.select(OPERATIONS, chain=_UPDATE), device.select(MEAN)
    assert (updates.median, latency.median) == (2e6, 830.5)


def test_the_card_shows_it_with_its_source_next_to_our_device(tmp_path, published):
    files = write_cards([card_run(tmp_path, DRAM)], tmp_path / "card", others=[read(published)])
    ours, theirs = files.devices
    assert "barlow-256.json" not in ours
    assert theirs.startswith("barlow-256: pmem (") and "barlow-256.json" in theirs
    assert "random writes: bandwidth" in files.markdown.read_text("utf-8")


@pytest.mark.parametrize(
    "content",
    ["", "{}", "[1]", '[{"bm_name": "x"}]', json.dumps([benchmark("x", {"no_key": 1}, {})])],
)
def test_another_file_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(UsageError):
        perma_devices(tmp_path / "x.json")
