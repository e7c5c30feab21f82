"""The card of a device: what it says follows from the figures, and from nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from micro_runs import (
    DRAM,
    GB,
    KINDS,
    OPTANE,
    Model,
    card_run,
    duration,
    micro_run,
    operations,
    rate,
)
from narrowed import present
from report_runs import Case, write
from typer.testing import CliRunner, Result

from harness.cli.app import app
from reports.micro.card_words import KneeFinding, LoadedFinding, PlannerFinding
from reports.micro.figures import measurements
from reports.micro.findings import findings
from reports.micro.points import MEAN, devices
from reports.micro.practices import card_trials, practices
from reports.micro.prices import COLUMNS, HASH_UPDATE, price_table
from reports.micro.report import card_of, write_cards
from reports.micro.saturation import curves
from reports.prices import read_prices

_GIB = float(1 << 30)


@pytest.mark.parametrize(("model", "outcome"), [(OPTANE, "confirmed"), (DRAM, "refuted")])
def test_practices_are_confirmed_where_fast20_found_them(
    tmp_path: Path, model: Model, outcome: str
) -> None:
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
    found = practices(device)
    assert [one.outcome for one in found] == ["not testable here"] * 4
    chosen, tried = found[2].trials[0], found[1].trials[0]
    one, other = present(chosen.known), present(tried.known)
    # Of four thread counts, one was chosen as the best of fewer.
    assert one.p == 4 * other.p
    assert other.p <= 0.05
    assert present(other.decision).adjusted_p > 0.05
    assert tried.why == "too-few-repeats"
    assert tried.repeats_needed == 10


def test_a_knee_is_shown_where_it_and_the_step_before_it_are(tmp_path: Path) -> None:
    (device,) = devices([card_run(tmp_path)])
    shown = {one.question: [row.shown for row in one.rows] for one in findings(device)
             if isinstance(one, KneeFinding | LoadedFinding)}  # fmt: skip
    # 64 B reach a quarter of the best, 256 B 98 %: both clear in every repeat.
    assert shown["Access size, random ntstore+sfence"] == [True]
    assert shown["Latency during load of 3 threads"] == [True]


def test_a_knee_in_the_noise_is_not_shown(tmp_path: Path) -> None:
    run = card_run(tmp_path)
    for metric in run.document["metrics"]:
        labels = metric["labels"]
        if (labels["measurement"], labels.get("operation")) == ("access_size", "load"):
            middle = metric["samples"][5]
            # 256 B hover about nine tenths of 4 KiB.
            near = 0.92 if labels["access_size_bytes"] == "256" else 1.0
            swing = 0.05 if labels["access_size_bytes"] == "256" else 0.0
            metric["samples"] = [middle * near * (1 + (swing if k % 2 else -swing))
                                 for k in range(11)]  # fmt: skip
    (device,) = devices([run])
    rows = {one.question: one.rows for one in findings(device)}
    assert rows["Access size, random load"][0].shown is False


def test_repeats_of_different_runs_are_no_pairs(tmp_path: Path) -> None:
    place: dict[str, Any] = {"pattern": "sequential", "threads": 1, "access_size_bytes": 4096}
    one = micro_run(tmp_path, [rate("persist_size", 9.0, 11, **KINDS["ntstore"], **place)])
    other = micro_run(
        tmp_path, [rate("persist_size", 3.0, 7, **KINDS["clwb"], **place)], suite="mine"
    )
    (device,) = devices([one, other])
    tried = practices(device)[1].trials[0]
    assert present(tried.known).pairing == "unpaired"
    assert tried.outcome == "holds"


def test_a_chases_histogram_is_said_to_be_of_means(tmp_path: Path) -> None:
    means = duration("chase", {"90": 99, "400": 1}, operation="chase", range_bytes=1 << 30)
    means |= {"name": "mean_latency_of_256_loads_ns", "better": "none"}
    (device,) = devices([micro_run(tmp_path, [means])])
    (table,) = measurements(device, "d")
    assert "means over 256 dependent loads each, not single loads" in table.title
    assert "p99.99 of means over 256" in table.head


def test_the_card_says_how_many_verdicts_it_has(tmp_path: Path) -> None:
    run = card_run(tmp_path)
    (device,) = devices([run])
    card = card_of(device)
    assert card.verdicts == len(card_trials(device).shown) == card.shown == 18


def test_a_repeat_without_any_work_makes_no_ratio(tmp_path: Path) -> None:
    run = card_run(tmp_path / "a")
    metrics = [
        metric | {"samples": [0.0] * len(metric["samples"])} if "samples" in metric else metric
        for metric in run.document["metrics"]
    ]
    (device,) = devices([micro_run(tmp_path / "b", metrics)])
    assert {p.outcome for p in practices(device)[:2]} == {"not testable here"}
    assert {one.why for one in practices(device)[0].trials} == {"nothing-done"}


def test_a_ratio_whose_interval_holds_the_bound_decides_nothing(tmp_path: Path) -> None:
    model = replace(OPTANE, far=8.0 / 1.1)
    run = card_run(tmp_path, model=model)
    for metric in run.document["metrics"]:
        if metric["labels"]["measurement"] == "mix" and "numa" in metric["labels"]:
            metric["samples"] = [s * (0.9 if k % 2 else 1.1) for k, s in
                                 enumerate(metric["samples"])]  # fmt: skip
    (device,) = devices([run])
    fourth = practices(device)[3]
    assert (fourth.outcome, fourth.trials[0].why) == (
        "not testable here", "bound-in-interval",
    )  # fmt: skip


# What it likes ------------------------------------------------------------------


def test_the_knee_is_where_nine_tenths_are_reached(tmp_path: Path) -> None:
    (device,) = devices([card_run(tmp_path)])
    rows = {one.question: one.rows for one in findings(device)}
    (size,) = rows["Access size, random ntstore+sfence"]
    assert (size.top["access_size_bytes"], size.near["access_size_bytes"]) == (
        "4096", "256",
    )  # fmt: skip
    (threads,) = rows["Thread count, ntstore+sfence, 256 B"]
    assert (threads.name, threads.top["threads"]) == ("sequential", "4")
    assert [point["threads"] for point in threads.ends] == ["1", "4", "16"]


def test_only_what_persists_is_called_a_persist_instruction(tmp_path: Path) -> None:
    (device,) = devices([card_run(tmp_path, model=DRAM)])
    rows = {one.question: one.rows for one in findings(device)}
    (row,) = (one for one in rows["Persist instruction, sequential writes"] if one.name == "4 KiB")
    assert row.alike == ("ntstore+sfence", "store+clwb+sfence")  # 32 and 32 GB/s
    assert len(row.unsafe) == 1 and row.unsafe[0] > row.safe[0][1]  # 33 GB/s, not persistent


def test_latency_under_load_is_taken_with_its_own_bandwidth(tmp_path: Path) -> None:
    (device,) = devices([card_run(tmp_path)])
    (curve,) = curves(device)
    assert present(curve.idle).median == 300
    assert [(round(p.rate / GB), p.latency) for p in curve.points] == [
        (2, 310), (4, 500), (8, 900), (12, 2000),
    ]  # fmt: skip
    assert curve.knee is not None and curve.knee.latency == 500


# Prices -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "tier", "per_gb", "gib_per_s", "column", "printed"),
    [
        # Bandwidths from the text of Sections 4.2.1 and 4.2.3, results from Table 2.
        ("apache128", "pmem", "9.22", {"write": 12}, 2, 0.78),
        ("apache256", "pmem", "10.74", {"write": 17}, 2, 0.64),
        ("barlow256", "pmem", "12.77", {"write": 21.6}, 2, 0.60),
        ("barlow256", "pmem", "12.77", {"read": 58}, 0, 0.22),
        ("apache256", "pmem", "10.74", {"read": 42}, 0, 0.25),
        ("apache512", "pmem", "16.60", {"read": 29}, 0, 0.56),
        ("barlow256", "dram", "59.38", {"read": 157}, 0, 0.38),
    ],
)
def test_price_performance_is_that_of_perma_bench_table_2(
    tmp_path: Path, host: str, tier: str, per_gb: str,
    gib_per_s: dict[str, float], column: int, printed: float,
) -> None:  # fmt: skip
    metrics = []
    for what, value in gib_per_s.items():
        kind, size = {"read": ("load", 4096), "write": ("ntstore", 512)}[what]
        metrics.append(rate("sequential", value, 1, _GIB, pattern="sequential", threads=16,
                            access_size_bytes=size, **KINDS[kind]))  # fmt: skip
    found = devices([micro_run(tmp_path, metrics, tier=tier, host=host)])
    listed = read_prices(Path("profiles/prices/perma-bench-2022.yml"))
    table = present(price_table(found, listed))
    assert table.rows[0][2] == per_gb
    # The text rounds its bandwidths to whole GB/s or "around".
    assert float(table.rows[0][3 + column]) == pytest.approx(printed, abs=0.02)
    assert table.source.startswith("dell.de")


def test_latency_multiplies_and_operations_divide(tmp_path: Path) -> None:
    metrics = [
        duration("random_read_latency", {"500": 100}, threads=16, chain="rp_256", mode="dependent"),
        operations("hash_index_update", 23.6e6, threads=16, chain=HASH_UPDATE),
        operations("hash_index_update", 2e6, threads=1, chain=HASH_UPDATE),
    ]
    (device,) = devices([micro_run(tmp_path, metrics)])
    by_name = {column.per: column.value(device, 9.21) for column in COLUMNS}
    assert by_name["100 ns latency"] == pytest.approx(46.05, rel=0.002)  # 9.21 × 5 steps
    assert by_name["M hash index updates/s"] == pytest.approx(0.39, abs=0.001)
    assert by_name["M tree index lookups/s"] is None


def test_the_host_files_price_is_taken_without_a_list(tmp_path: Path) -> None:
    found = devices([card_run(tmp_path)])
    table = price_table(found, None)
    assert table is not None and table.rows[0][2] == "9.21"
    assert table.source == "price_per_gb of the host file"


# Several servers ----------------------------------------------------------------


def test_a_tier_that_was_made_anew_is_another_device(tmp_path: Path) -> None:
    plain = card_run(tmp_path)
    facts = plain.manifest_document["tiers"][0]
    nodax = facts | {"facts": facts["facts"] | {"dax": False}}
    other = card_run(tmp_path, manifest_changes={"tiers": [nodax]})
    assert sorted(device.name for device in devices([plain, other])) == [
        "pmem (dax false)", "pmem (dax true)",
    ]  # fmt: skip


def test_several_suites_of_one_device_make_one_card(tmp_path: Path) -> None:
    fio = rate("random_read", 0.5, 2, operation="read", queue_depth=8, access_size_bytes=4096)
    runs = [card_run(tmp_path), micro_run(tmp_path, [fio], suite="block-io")]
    (device,) = devices(runs)
    assert {"Queue depth, random read, 4 KiB"} < {one.question for one in findings(device)}


def test_a_planner_s_costs_are_a_random_page_over_one_of_a_scan(tmp_path: Path) -> None:
    labels: dict[str, Any] = {"operation": "read", "queue_depth": 1}
    page = rate("random_page", 1, 3, **labels, pattern="random", access_size_bytes=8192)
    page |= {"name": MEAN, "unit": "ns", "better": "lower", "samples": [80_000.0] * 3}
    scan = rate("sequential_read", 1, 3, **labels, pattern="sequential", access_size_bytes=131072)
    scan |= {"samples": [8192 / 20e-6] * 3}
    (device,) = devices([micro_run(tmp_path, [page, scan], suite="block-io")])
    (found,) = (one for one in findings(device) if isinstance(one, PlannerFinding))
    assert found.rows == pytest.approx((80_000, 20_000))
    assert found.answer == "random_page_cost 4"


# Files --------------------------------------------------------------------------


def _harness(root: Path, *argv: str) -> Result:
    return CliRunner().invoke(app, [*argv, "--results", str(root)])


def test_a_report_puts_the_card_beside_the_engines(tmp_path: Path) -> None:
    write(tmp_path, Case())
    card_run(tmp_path)
    done = _harness(tmp_path, "report", "--out", str(tmp_path / "report"), "--json")
    assert done.exit_code == 0, done.stderr
    printed = json.loads(done.stdout)
    assert printed["report"]["runs"] == 1
    assert Path(printed["card"]["html"]).parent == Path(printed["report"]["html"]).parent
