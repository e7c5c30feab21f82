"""A question of the card is answered from one experiment, whatever other suites have stored."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from micro_runs import GB, KINDS, card_run, micro_run, rate, with_suite
from narrowed import present
from report_runs import with_artifacts

from harness.micro.host_capacity import variables_here
from harness.micro.suite import known_suites, load_suite
from harness.store.runs import StoredRun
from reports.micro.figures import card_drawing
from reports.micro.findings import findings
from reports.micro.points import Device, devices
from reports.micro.practices import access_size_knees, curves, practices
from reports.micro.prices import COLUMNS
from reports.micro.questions import access_sizes


def _mix(gb_per_s: float, **labels: Any) -> dict[str, Any]:
    named: dict[str, Any] = {"read_share": 0.5, "threads": 4, "access_size_bytes": 256}
    return rate("mix", gb_per_s, 11, operation="mixed", **named, **labels)


def test_near_and_far_are_compared_within_one_pattern(tmp_path: Path) -> None:
    fig17: dict[str, Any] = {"pattern": "sequential", "partitions": 0}
    runs = [
        micro_run(tmp_path, [_mix(9, **fig17), _mix(8, numa="far", **fig17)], suite="fig17"),
        micro_run(tmp_path, [_mix(4, pattern="random"), _mix(2, numa="far", pattern="random")]),
    ]
    trials = practices(devices(runs)[0])[3].trials
    assert {one.what: round(present(one.known).value, 3) for one in trials} == {
        "near against far, sequential, 4 threads, 50 % reads": 1.125,
        "near against far, random, 4 threads, 50 % reads": 2.0,
    }


def test_far_is_compared_with_no_other_experiments_near(tmp_path: Path) -> None:
    metrics = [_mix(9, pattern="random", partitions=0), _mix(2, pattern="random", numa="far")]
    (device,) = devices([micro_run(tmp_path, metrics)])
    fourth = practices(device)[3]
    assert (fourth.trials, fourth.missing) == ((), "no-experiment")


def _persisting(kind: str, gb_per_s: float, **labels: Any) -> list[dict[str, Any]]:
    named = {"pattern": "sequential", **KINDS[kind], **labels}
    return [rate("persist_size", gb_per_s, 11, access_size_bytes=size, **named)
            for size in (256, 4096)]  # fmt: skip


def test_persist_instructions_of_one_thread_are_not_those_of_six(tmp_path: Path) -> None:
    """FAST'20's Figure 12 has six threads on its left side."""
    six = {"threads": 6, "partitions": 0, "flush_when": "line"}
    metrics = [*_persisting("ntstore", 2, threads=1), *_persisting("clwb", 2, threads=1),
               *_persisting("ntstore", 12, **six)]  # fmt: skip
    (device,) = devices([micro_run(tmp_path, metrics)])
    (tried,) = practices(device)[1].trials
    assert present(tried.known).value == 1
    drawn = present(card_drawing(device, "card"))
    assert "11.5 GiB/s" not in drawn.alt and "1.91 GiB/s" in drawn.alt


def test_a_knee_is_of_one_experiment(tmp_path: Path) -> None:
    labels = {"pattern": "random", **KINDS["load"], "threads": 4}
    own = [rate("access_size", value, 11, **labels, range_bytes=1 << 30, access_size_bytes=size)
           for size, value in ((64, 1), (256, 4), (4096, 4.1))]  # fmt: skip
    other = [rate("access_size", 9, 3, **labels, range_bytes=4 << 30, access_size_bytes=256)]
    (device,) = devices([micro_run(tmp_path, own), micro_run(tmp_path, other, suite="fig5")])
    (knee,) = access_size_knees(device)
    assert [round(p.samples[0] / GB, 1) for p in knee.curve] == [1, 4, 4.1]


def test_a_knee_is_of_one_of_two_runs_that_no_label_tells_apart(tmp_path: Path) -> None:
    """``numa: near`` goes without saying: the best of what a suite with it and one without found
    is a figure of neither.
    """

    def accesses(repeats: int, gb_per_s: tuple[float, float], **defaults: str) -> StoredRun:
        labels = {"pattern": "random", **KINDS["load"], "threads": 4}
        metrics = [rate("access_size", one, repeats, **labels, access_size_bytes=size)
                   for size, one in zip((64, 256), gb_per_s, strict=True)]  # fmt: skip
        run = micro_run(tmp_path, metrics)
        return with_suite(run, schema=1, defaults=defaults, measurements={"access_size": {}})

    (device,) = devices([accesses(6, (9, 1), numa="near"), accesses(11, (1, 4))])
    (knee,) = access_size_knees(device)
    assert [round(p.samples[0] / GB, 1) for p in knee.curve] == [1, 4]
    assert len(access_sizes(device)) == 2


def _loaded(range_bytes: int, idle: float, loaded: Mapping[float, float]) -> list[dict[str, Any]]:
    found = []
    for gb_per_s, latency in {0.0: idle, **loaded}.items():
        named: dict[str, Any] = {"range_bytes": range_bytes,
                                 "configuration": f"pace={gb_per_s}/{range_bytes}"}  # fmt: skip
        beside: dict[str, Any] = {"load_operation": "none", "load_threads": 0}
        if gb_per_s:
            beside = {"load_operation": "load", "load_threads": 3, "job": "chase"}
            found.append(rate("loaded_latency", gb_per_s, 11, job="load", **KINDS["load"], **named))
        waits = rate("loaded_latency", latency, 11, 1.0, operation="chase", **named, **beside)
        found.append(waits | {"name": "latency_ns", "unit": "ns", "better": "lower"})
    return found


def test_loaded_latency_of_two_suites_is_no_curve(tmp_path: Path) -> None:
    own = _loaded(1 << 30, 100, {2.0: 110, 4.0: 190, 8.0: 400})
    fig6 = _loaded(2 << 30, 80, {3.0: 170, 6.0: 500})
    (device,) = devices([micro_run(tmp_path, own), micro_run(tmp_path, fig6, suite="fig6")])
    (curve,) = curves(device)
    assert present(curve.idle).samples[0] == 100
    assert [p.wait.samples[0] for p in curve.points] == [110, 190, 400]


# What the caches hold -----------------------------------------------------------


def _with_llc(run: StoredRun, mib: int) -> StoredRun:
    """What the program reports of the processor, as the runner stores it."""
    return with_artifacts(run, {"microbench": {"result": {"cpu": {"llc_bytes": mib << 20}}}})


def _reads(gb_per_s: float, mib: int) -> list[dict[str, Any]]:
    labels = {"pattern": "sequential", "access_size_bytes": 4096, **KINDS["load"]}
    return [rate("sequential", gb_per_s, threads=threads, range_bytes=mib << 20, **labels)
            for threads in (1, 2)]  # fmt: skip


def _price(device: Device) -> float | None:
    return COLUMNS[0].value(device, 1.0)


def test_a_range_that_the_cache_holds_is_no_figure_of_the_tier(tmp_path: Path) -> None:
    quick = micro_run(tmp_path, _reads(90, 16), suite="quick")
    whole = _with_llc(micro_run(tmp_path, _reads(9, 256)), 32)
    (device,) = devices([quick, whole])
    (only,) = devices([whole])
    assert _price(device) == _price(only) is not None
    (left_out,) = (one for one in findings(device) if one.question == "Left out of this card")
    assert left_out.rows == ("sequential in 16 MiB",)
    assert "last-level cache of 32 MiB" in left_out.figures


def test_a_card_of_nothing_but_the_cache_shows_no_bandwidth(tmp_path: Path) -> None:
    run = card_run(tmp_path)
    for metric in run.document["metrics"]:
        metric["labels"]["range_bytes"] = str(64 << 20)
    (device,) = devices([_with_llc(run, 32)])
    assert card_drawing(device, "card") is None
    assert [one.question for one in findings(device)] == ["Left out of this card"]
    assert {one.outcome for one in practices(device)} == {"not testable here"}
    assert practices(device)[0].missing == "no-experiment"


# Overwrites ---------------------------------------------------------------------


def test_the_cards_tail_is_measured_as_fast20s_figure_3() -> None:
    def jobs(name: str) -> set[tuple[str, str, str, int]]:
        suite = load_suite(known_suites()[name], variables_here())
        held = (job for one in suite.measurements if one.name == "overwrite_tail"
                for job in one.jobs)  # fmt: skip
        return {(job.kind, str(job.keys["pattern"]), str(job.keys["before"]), job.range_bytes)
                for job in held}  # fmt: skip

    card, fig3 = jobs("device-card"), jobs("empirical-guide/fig3")
    assert len(card) == 5 and card <= fig3
