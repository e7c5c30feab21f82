"""Causes that a comparison names: never more than it shows, on made-up runs of a known truth."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from explained_runs import calls, tpcc, tpcc_metrics
from report_runs import interleaved, metric, with_metrics

from harness.store.runs import StoredRun
from reports.answers import answer_blocks
from reports.compare import Comparison, Group, compare, decided
from reports.compare_output import to_json
from reports.compared_rows import compared_rows
from reports.explain.causes import Cause, explanation, waited_at_most
from reports.sections import Paragraph

#: Of a transaction, in µs: what the trace times by part and operation, and the other resources.
MEANS = {"processor": 590.0, "lock": 150.0, "wal.sync": 400.0, "data.read": 90.0}
_RESOURCES = {"wal.sync": "log sync", "data.read": "data read"}
PAIRS = 6
Times = Mapping[str, float]


class Comparisons:
    """Comparisons of a pair of stored arms, whose runs get metrics of their own."""

    def __init__(self, root: Path, pairs: int = PAIRS, set_rate: float | None = None) -> None:
        a, b = (
            [tpcc(root, placement, block, set_rate=set_rate) for block in range(pairs)]
            for placement in ("ssd-both", "pmem-both")
        )
        self._arms, self._set_rate = (a, b), set_rate
        (self._group,) = compare(a, b, ["placement"]).groups

    def group(self, *arms: Sequence[Times]) -> Group:
        """Compare A and B, whose repeats took these times, by the headline alone."""
        a, b = (
            tuple(self._run(run, times) for run, times in zip(runs, arm, strict=True))
            for runs, arm in zip(self._arms, arms, strict=True)
        )
        headline = self._group.headline.quantity
        assert headline is not None
        rows = tuple(compared_rows(a, b, "paired", [headline]))
        made = replace(
            self._group,
            a=replace(self._group.a, runs=a),
            b=replace(self._group.b, runs=b),
            rows=rows,
        )
        return decided([made])[0]

    def _run(self, stored: StoredRun, times: Times) -> StoredRun:
        timed = {}
        for name, us in times.items():
            part, dot, operation = name.partition(".")
            if dot:
                timed[part, operation] = (1000, round(us, 1))
        parts = {_RESOURCES.get(name, name): round(us, 1) for name, us in times.items()}
        rate = 1000.0 if self._set_rate else 6e7 / sum(times.values())
        metrics = tpcc_metrics(rate, parts, timed)
        return with_metrics(stored, metrics)


def noisy(rng: np.random.Generator, times: Times, spread: float = 0.03) -> list[Times]:
    """The repeats of an arm: each part of the time varies by itself."""
    return [
        {name: us * float(np.exp(rng.normal(0, spread))) for name, us in times.items()}
        for _ in range(PAIRS)
    ]


def names(causes: Sequence[Cause]) -> list[str]:
    return [cause.wait or f"{cause.part}.{cause.operation}" for cause in causes]


def test_identical_arms_have_no_cause(tmp_path):
    rng, comparisons = np.random.default_rng(1), Comparisons(tmp_path)
    false = sum(
        bool(explanation(comparisons.group(noisy(rng, MEANS), noisy(rng, MEANS))).text)
        for _ in range(400)
    )
    assert false <= 0.05 * 400


def test_what_is_alike_is_no_cause_of_a_difference(tmp_path):
    """The log differs in each comparison, and all else in none."""
    rng, comparisons = np.random.default_rng(2), Comparisons(tmp_path)
    fast = MEANS | {"wal.sync": 50.0}
    arms = [(noisy(rng, MEANS, 0.1), noisy(rng, fast, 0.1)) for _ in range(60)]
    named = [names(explanation(comparisons.group(*pair)).causes) for pair in arms]
    assert sum(set(causes) > {"wal.sync"} for causes in named) <= 3
    assert sum("wal.sync" in causes for causes in named) >= 57


def planted(rng: np.random.Generator, a: Times, b: Times) -> tuple[list[Times], list[Times]]:
    return noisy(rng, a, 0.01), noisy(rng, b, 0.01)


def test_the_operation_that_saves_time_is_named_not_the_one_that_takes_most(tmp_path):
    """Reads take most of the time on both sides; syncs take what is saved."""
    slow = MEANS | {"data.read": 5000.0, "wal.sync": 1900.0}
    arms = planted(np.random.default_rng(3), slow, slow | {"data.read": 4850.0, "wal.sync": 20.0})
    (sync,) = explanation(Comparisons(tmp_path).group(*arms)).causes
    assert (sync.part, sync.operation, sync.wait) == ("wal", "sync", None)
    assert sync.saved_ns.low is not None and sync.saved_ns.high is not None
    assert sync.saved_ns.low < 1_880_000 < sync.saved_ns.high
    assert sync.share.low is not None and sync.share.high is not None
    assert sync.share.low < 1880 / (1880 + 150) < sync.share.high
    assert f"{100 * sync.share.value:.0f} % [" in sync.text


@pytest.mark.parametrize("faster", [True, False])
def test_causes_save_time_in_the_direction_of_the_headline(tmp_path, faster):
    """If B is slower by its processor time, syncs that it saves are no cause, and vice versa."""
    changed = {"wal.sync": 20.0, "processor": 700.0 if faster else 1400.0}
    arms = planted(np.random.default_rng(4), MEANS, MEANS | changed)
    group = Comparisons(tmp_path).group(*arms)
    assert group.verdict == ("faster" if faster else "slower")
    (cause,) = explanation(group).causes
    assert names([cause]) == ["wal.sync" if faster else "processor"]
    assert (cause.saved_ns.value > 0) == faster and cause.share.value > 0


def test_with_a_set_rate_the_direction_is_that_of_the_latency(tmp_path):
    """Throughput is the same on both sides, or noise."""
    arms = planted(np.random.default_rng(5), MEANS, MEANS | {"wal.sync": 20.0})
    group = Comparisons(tmp_path, set_rate=60_000).group(*arms)
    assert group.headline.rate is not None and group.verdict == "faster"
    assert names(explanation(group).causes) == ["wal.sync"]


def test_a_part_of_the_difference_leaves_most_of_it_unexplained(tmp_path):
    """Time that no resource accounts for is no cause."""
    slow = MEANS | {"other": 2000.0}
    arms = planted(np.random.default_rng(6), slow, slow | {"other": 1000.0, "wal.sync": 20.0})
    why = explanation(Comparisons(tmp_path).group(*arms))
    assert names(why.causes) == ["wal.sync"] and why.causes[0].share.value < 0.5
    assert why.text.endswith("not explained")
    only = planted(np.random.default_rng(7), slow, slow | {"other": 1000.0})
    why = explanation(Comparisons(tmp_path).group(*only))
    assert not why.causes and why.text.endswith("is not explained")


@pytest.mark.parametrize("sessions", [1.0, 2.0, None])
def test_calls_of_parallel_sessions_count_as_a_share_of_the_query(tmp_path, sessions):
    """Two queries of 1 s and of 1,000 reads each, which two sessions divide among them."""
    draw = np.random.default_rng(10)

    def metrics(place: str, _: int) -> list[dict[str, Any]]:
        each_ms = (6 if place == "ssd-both" else 1) * float(np.exp(draw.normal(0, 0.01)))
        reads = {"part": "data", "operation": "read"}
        seconds = 2 + 2 * each_ms / (sessions or 1)
        made = [
            metric("queries_geomean_ns", seconds / 2 * 1e9, "lower"),
            metric("queries_duration_ns", seconds * 1e9, "lower"),
            metric("io_duration_ns", calls(1000 * each_ms, 2000), role="foreground", **reads),
        ]
        for query in ("1", "6"):
            made.append(metric("query_io_calls_count", 1000, query=query, **reads))
            if sessions is not None:
                made.append(metric("query_wait_sessions_count", sessions, query=query))
        return made

    (group,) = compare(*interleaved(tmp_path, metrics, PAIRS)).groups
    causes = explanation(group).causes
    assert group.verdict == "faster" and names(causes) == (["data.read"] if sessions else [])
    assert [cause.share.value for cause in causes] == pytest.approx([1.0] * len(causes), rel=0.02)


def test_where_no_difference_is_shown_lines_say_what_was_waited_for_at_most(tmp_path):
    rng = np.random.default_rng(8)
    group = Comparisons(tmp_path).group(noisy(rng, MEANS), noisy(rng, MEANS))
    assert group.verdict == "no difference"
    assert to_json(Comparison(("placement",), (group,)))["groups"][0]["why"] == []
    said = [
        str(block.text) for block in answer_blocks([("", group)]) if isinstance(block, Paragraph)
    ]
    assert not any(text.startswith("Why") for text in said)
    waits = waited_at_most(group)
    assert waits.endswith("% of its time") and any(waits[1:] in text for text in said)


def test_json_has_each_cause_with_its_fields(tmp_path):
    arms = planted(np.random.default_rng(9), MEANS, MEANS | {"wal.sync": 20.0, "lock": 30.0})
    group = Comparisons(tmp_path).group(*arms)
    sync, lock = to_json(Comparison(("placement",), (group,)))["groups"][0]["why"]
    assert (sync["part"], sync["operation"], sync["wait"]) == ("wal", "sync", None)
    assert (lock["part"], lock["operation"], lock["wait"]) == (None, None, "lock")
    for cause in (sync, lock):
        assert set(cause) == {field.name for field in fields(Cause)}
        for of in ("saved_ns", "share"):
            assert cause[of]["low"] < cause[of]["value"] < cause[of]["high"]
        assert cause["saved_ns"]["value"] == pytest.approx(cause["a_ns"] - cause["b_ns"], rel=0.05)
