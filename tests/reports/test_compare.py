"""Comparisons: which are made, which are refused, and with what text."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from figures import figures_of
from narrowed import of_kind, present
from report_runs import (
    PLACES,
    Case,
    demo,
    histogram,
    interleaved,
    metric,
    printed,
    tables,
    tier_document,
    write,
    write_unfinished,
)

from harness.errors import UsageError
from harness.store.run_store import Store
from harness.store.runs import StoredRun
from reports.compare import Comparison, compare
from reports.compare_output import to_json
from reports.compared_rows import Row
from reports.sections import Paragraph, Table, plain
from reports.select import experiment, select
from reports.series import panels
from reports.tables import PanelTables

FEW = (1, 6)
SMALL: dict[str, Any] = {"queries": FEW, "plans": False}
TAIL: dict[str, Any] = {"transaction": "payment", "percentile": "95"}


def sides(
    root: Path, n: int = 7, a: dict[str, Any] | None = None, b: dict[str, Any] | None = None
) -> tuple[list[StoredRun], list[StoredRun]]:
    """n interleaved blocks of ssd-both and pmem-both, with changes to either side."""
    made: tuple[list[StoredRun], list[StoredRun]] = ([], [])
    for block in range(n):
        for runs, placement, changes in zip(made, PLACES, (a, b), strict=True):
            case = SMALL | {"placement": placement, "block": block} | (changes or {})
            runs.append(write(root, Case(**case)))
    return made


def row(comparison: Comparison, metric: str, group: int = 0, **labels: str) -> Row:
    rows = {(r.quantity.name, *r.quantity.labels): r for r in comparison.groups[group].rows}
    return rows[metric, *labels.items()]


def test_the_speed_up_of_a_placement(tmp_path: Path) -> None:
    ssd, pmem = sides(tmp_path)
    comparison = compare(ssd, pmem)
    assert comparison.over == ("placement",)
    assert comparison.groups[0].pairing == "paired"
    sixth = row(comparison, "query_duration_ns", query="6")
    assert 3 < sixth.ratio < 4  # the builder's gain on query 6 is 3.4
    assert sixth.shown and sixth.verdict == "faster"
    back = row(compare(pmem, ssd), "query_duration_ns", query="6")
    assert back.ratio == pytest.approx(1 / sixth.ratio) and back.verdict == "slower"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"spec_changes": {"seed": 3}}, "seed: 0 against 3"),
        ({"manifest_changes": {"host.host_id": "other"}}, "host.host_id: a1b2c3d4 against other"),
        ({"manifest_changes": {"host.kernel.release": "6.9"}}, "6.1.0-25-amd64 against 6.9"),
        ({"manifest_changes": {"engine.version": "17.9"}}, "engine.version: 18.4 against 17.9"),
        ({"manifest_changes": {"restore_method": "reflink"}}, "copy against reflink"),
        ({"manifest_changes": {"run_state.huge_pages": "9 MiB"}}, "huge_pages: none against 9 MiB"),
        ({"manifest_changes": {"run_state.async_io": "aio"}}, "async_io: none against aio"),
        ({"manifest_changes": {"engine.effective_config.fsync": "off"}}, "fsync: on against off"),
        ({"manifest_changes": {"dataset.fingerprint": {"lineitem": 7}}}, "6001215 against 7"),
        ({"manifest_changes": {"harness.version": "9"}}, "harness.version: 0.1.0 against 9"),
        ({"manifest_changes": {"memory_cap.method": "none"}}, "cgroup-v2 against none"),
        ({"run_changes": {"host_mode": "Memory"}}, "host_mode: Default against Memory"),
        ({"memory_bytes": 9 << 30}, "memory_bytes: 4 GiB against 9 GiB"),
    ],
)
def test_other_differences_than_the_placement_are_refused_by_name(tmp_path, change, named):
    a, b = sides(tmp_path, 2, b=change)
    with pytest.raises(UsageError) as refusal:
        compare(a, b)
    assert named in refusal.value.context
    assert "--anyway" in refusal.value.hint
    forced = compare(a, b, ["placement"], force=True)
    assert any(named in str(difference) for difference in forced.differences)
    assert "also differs: " in printed(forced)


def _nodes(*nodes: tuple[int, str]) -> dict[str, Any]:
    """Manifest changes: memory in GiB and processors of each node."""
    documents = [
        {"node": number, "memory_bytes": gib << 30, "cpus": cpus, "distances": []}
        for number, (gib, cpus) in enumerate(nodes)
    ]
    return {"manifest_changes": {"host.numa_nodes": documents}}


def test_the_memory_of_a_single_node_is_the_host_s(tmp_path: Path) -> None:
    """A hypervisor moves what Linux reports of the node, not the host's."""
    compared = compare(*sides(tmp_path, 2, _nodes((7, "0-3")), _nodes((9, "0-3"))))
    assert compared.over == ("placement",) and not compared.differences


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([(128, "")], [(256, "")]),
        ([(128, "")], [(128, "4-7")]),
        ([], [(0, "4-7")]),
        ([], [(128, "")]),
    ],
)
def test_several_nodes_have_sizes_and_processors(tmp_path, a, b):
    of_a, of_b = (_nodes((96, "0-3"), *others) for others in (a, b))
    compared = compare(*sides(tmp_path, 2, of_a, of_b), ["placement"], force=True)
    assert any("host.numa_nodes.1" in str(difference) for difference in compared.differences)


def test_runs_of_one_side_must_agree_too(tmp_path: Path) -> None:
    a, b = sides(tmp_path, 2)
    late = {"host.kernel.release": "6.9"}
    a.append(write(tmp_path, Case(block=2, manifest_changes=late, **SMALL)))
    with pytest.raises(UsageError, match=r"host\.kernel\.release.*6\.1.*6\.9"):
        compare(a, b)


@pytest.mark.parametrize(
    ("over", "a", "b"),
    [
        ("tuning", {}, {"spec_changes": {"tuning": "paper"},
                        "manifest_changes": {"engine.settings": {"shared_buffers": "16GB"}}}),
        ("memory_limit", {}, {"spec_changes": {"memory_limit_bytes": 1 << 30},
                              "memory_bytes": 1 << 30,
                              "manifest_changes": {"memory_cap.limit_bytes": 1 << 30}}),
        ("engine", {"engine": "duckdb"}, {"engine": "postgres"}),
    ],
)  # fmt: skip
def test_what_follows_from_the_compared_dimension_is_no_difference(tmp_path, over, a, b):
    comparison = compare(*sides(tmp_path, 2, a, b | {"placement": "ssd-both"}))
    assert comparison.over == (over,) and not comparison.differences


def test_the_same_tier_name_on_another_namespace_is_found(tmp_path: Path) -> None:
    a = [write(tmp_path, Case(**SMALL))]
    xfs = tier_document("ssd")
    xfs["facts"]["filesystem"] = "xfs"
    b = [write(tmp_path, Case(manifest_changes={"tiers": [xfs]}, **SMALL))]
    with pytest.raises(UsageError, match=r"tier\.ssd\.filesystem.*ext4.*xfs"):
        compare(a, b)


def test_several_engines_are_matched_with_their_own(tmp_path: Path) -> None:
    demo(tmp_path, blocks=2, queries=FEW, plans=False)
    store = Store(tmp_path)
    comparison = compare(select(store, "placement=ssd-both"), select(store, "placement=pmem-both"))
    assert sorted(group.context["engine"] for group in comparison.groups) == ["duckdb", "postgres"]
    assert not comparison.unmatched
    document = to_json(comparison)
    json.dumps(document, allow_nan=False)
    assert document["groups"][0]["b"]["emulated"] == ["pmem by tmpfs"]
    assert "pmem-both (EMULATED)" in printed(comparison)


def test_a_block_without_its_pair_is_left_out_by_name(tmp_path: Path) -> None:
    a, b = sides(tmp_path, 4)
    group = compare(a, b[:3]).groups[0]
    assert group.pairing == "paired" and group.left_out == (a[3].run_id,)
    assert {r.estimate.n_a for r in group.rows if r.estimate} == {3}


def test_failed_runs_never_enter_and_unknown_ones_are_marked(tmp_path: Path) -> None:
    a, b = sides(tmp_path, 3)
    failed, unknown = (
        write(tmp_path, Case(placement="pmem-both", block=k, status=status, **SMALL))
        for k, status in ((3, "failed"), (4, "unknown"))
    )
    a.append(write(tmp_path, Case(block=4, **SMALL)))
    comparison = compare(a, [*b, failed, unknown])
    assert "server died" in comparison.excluded[failed.run_id]
    assert comparison.groups[0].b.unknown == (unknown.run_id,)
    assert "†" in printed(comparison)
    with pytest.raises(UsageError, match=failed.run_id):
        compare(a, [failed])


def test_a_counter_has_a_ratio_and_no_verdict(tmp_path: Path) -> None:
    made = demo(tmp_path, engines=("postgres",), blocks=6, queries=FEW)
    (panel,) = panels(made, "placement", None)
    of_panel = PanelTables(panel)
    assert not any("verdict" in table.head for table in tables(of_panel.counters).values())
    assert all("verdict" in table.head for table in tables(of_panel.results).values())
    (group,) = panel.groups
    counted = [row for row in group.rows if row.info.role == "counter"]
    assert any(row.estimate for row in counted) and not any(row.has_verdict for row in counted)


def test_zero_has_no_ratio_and_samples_count_once(tmp_path: Path) -> None:
    def metrics(read: int) -> list[dict[str, Any]]:
        base = {"better": "lower", "labels": {}}
        return [
            base | {"name": "read_bytes", "unit": "bytes", "value": read},
            base | {"name": "latency_ns", "unit": "ns", "samples": [1, 2, 900]},
        ]

    comparison = compare(*sides(tmp_path, 2, {"metrics": metrics(5)}, {"metrics": metrics(0)}))
    assert row(comparison, "read_bytes").why == "not-positive"
    latency = row(comparison, "latency_ns")
    assert (present(latency.a).n, present(latency.a).median) == (2, 2.0)
    assert (latency.why, figures_of(latency.note)) == ("", [3])  # samples


def payments(durations_ms: list[float]) -> dict[str, Any]:
    text = histogram([1e6 * ms for ms in durations_ms])
    return metric("transaction_duration_ns", text, "lower", transaction="payment")


def test_a_percentile_is_the_median_of_the_repeats_percentiles(tmp_path: Path) -> None:
    """One disturbed repeat of three has most of the durations, and does not decide the median."""
    quick, slow = [1.0] * 900 + [8.0] * 100, [50.0] * 9000
    ssd, pmem = interleaved(tmp_path, lambda _, k: [payments(slow if k == 1 else quick)], 3)
    comparison = compare(ssd, pmem)
    tail = row(comparison, "transaction_duration_ns", **TAIL)
    a = present(tail.a)
    assert (a.n, a.median, a.low, a.high) == pytest.approx((3, 8e6, 8e6, 50e6), rel=1e-3)
    arms = panels([*ssd, *pmem], "placement", None)[0].arms
    assert arms[0].points[tail.quantity].summary == tail.a


def test_pairs_of_which_none_has_both_values_are_not_compared(tmp_path: Path) -> None:
    """Blocks 0 to 5 have the value on one side, blocks 6 to 11 on the other."""
    sides = interleaved(
        tmp_path, lambda place, k: [payments([5.0])] if (k < 6) == (place == PLACES[0]) else [], 12
    )
    comparison = compare(*sides)
    assert comparison.groups[0].pairing == "paired"
    payment_row = row(comparison, "transaction_duration_ns", transaction="payment", percentile="50")
    assert payment_row.estimate is None and payment_row.decision is None
    assert (
        payment_row.a is not None
        and payment_row.b is not None
        and (payment_row.a.n, payment_row.b.n) == (6, 6)
    )


def _durations(root: Path, place: str, block: int, n: int, last: float) -> StoredRun:
    """A run of ``n`` durations, the two longest of which took ``last`` ms."""
    metrics = [payments([1.0] * (n - 2) + [last] * 2)]
    return write(root, Case(placement=place, block=block, metrics=metrics))


def test_an_arm_has_a_percentile_if_each_of_its_runs_has_it(tmp_path: Path) -> None:
    """One run of three has 1,000 durations: its p99.9 is below the p99 of all three."""
    ssd = [_durations(tmp_path, "ssd-both", block, n, last)
           for block, (n, last) in enumerate([(1000, 9), (200, 90), (200, 90)])]  # fmt: skip
    pmem = [_durations(tmp_path, "pmem-both", block, 1000, 5) for block in range(3)]
    group = compare(ssd, pmem).groups[0]
    rows = {row.quantity.label("percentile"): row for row in group.rows}
    tail = rows["99.9"]
    assert tail.estimate is None and tail.a is None
    assert present(rows["99"].a).n == present(tail.b).n == 3
    assert (tail.why, figures_of(tail.note)) == ("one-sided", [99.9, 1000, 200])
    arms = panels([*ssd, *pmem], "placement", None)[0].arms
    assert arms[0].point(tail.quantity) is None
    assert arms[1].points[tail.quantity].summary == tail.b


def test_medians_are_of_all_runs_of_a_side_in_a_report_as_well(tmp_path: Path) -> None:
    """The fourth run has no pair: the ratio is of three pairs, A's median of four runs."""
    ssd = [_durations(tmp_path, "ssd-both", block, 100, 9) for block in range(4)]
    pmem = [_durations(tmp_path, "pmem-both", block, 100, 5) for block in range(3)]
    compared_row = row(compare(ssd, pmem), "transaction_duration_ns", **TAIL)
    assert (present(compared_row.estimate).n_a, present(compared_row.a).n) == (3, 4)
    arms = panels([*ssd, *pmem], "placement", None)[0].arms
    assert arms[0].points[compared_row.quantity].summary == compared_row.a


def test_the_largest_worsening_has_an_interval(tmp_path: Path) -> None:
    """A metric that one pair has, next to one that all have."""

    def metrics(place: str, block: int) -> list[dict[str, Any]]:
        took = 10.0 if place == PLACES[0] else 20.0
        every = metric("query_duration_ns", took, "lower", query="1")
        rare = metric("query_duration_ns", took**2, "lower", query="2")
        return [every, rare] if block == 0 else [every]

    worsening = compare(*interleaved(tmp_path, metrics, 3)).groups[0].worsening
    assert present(worsening).quantity.label("query") == "1"


def test_each_side_names_its_own_number_of_durations(tmp_path: Path) -> None:
    ssd = [_durations(tmp_path, "ssd-both", block, 50, 9) for block in range(2)]
    pmem = [_durations(tmp_path, "pmem-both", block, 150, 5) for block in range(2)]
    rows = {row.quantity.label("percentile"): row for row in compare(ssd, pmem).groups[0].rows}
    assert (rows["99"].why, figures_of(rows["99"].note)) == ("one-sided", [99, 100, 50])
    (panel,) = panels([*ssd, *pmem], "placement", None)
    table_of_it, missing, *_ = PanelTables(panel).results
    values = {row[0]: row[1:3] for row in of_kind(Table, table_of_it).rows}
    tail = "payment, percentile"
    assert values[f"{tail} 99"] == ["–", "5 ms"]
    text = plain(of_kind(Paragraph, missing).text)
    reasons = {
        label: figures_of(why) for label, why in re.findall(rf"({tail} \S+, \S+): ([^;]*)", text)
    }
    assert reasons == {
        f"{tail} 99, ssd-both": [99, 100, 50],
        f"{tail} 99.9, ssd-both": [99.9, 1000, 50],
        f"{tail} 99.9, pmem-both": [99.9, 1000, 150],
    }


def test_mixed_sides_and_shared_runs_are_refused_even_when_forced(tmp_path: Path) -> None:
    a, b = sides(tmp_path, 2)
    with pytest.raises(UsageError, match=a[0].run_id):
        compare(a, [*b, a[0]], force=True)
    with pytest.raises(UsageError, match="ssd-both and pmem-both"):
        compare([a[0], b[0]], [a[1], b[1]], ["placement"], force=True)


def test_selecting_runs(tmp_path: Path) -> None:
    runs = demo(tmp_path, blocks=2, queries=FEW, plans=False)
    split = write(tmp_path, Case(placement="data=ssd,wal=pmem", experiment="other", **SMALL))
    write_unfinished(tmp_path)
    store = Store(tmp_path)
    assert {r.run_id for r in select(store, "demo")} == {r.run_id for r in runs}
    assert [r.run_id for r in select(store, runs[0].run_id)] == [runs[0].run_id]
    assert [r.run_id for r in select(store, str(runs[0].directory))] == [runs[0].run_id]
    selected = select(store, "placement=data=ssd,wal=pmem,engine=postgres,memory_limit=4GiB")
    assert selected == [split]
    assert len(select(store, "engine=duckdb,cache=cold-per-query,scale=1")) == 4
    for wrong in ("placemnt=ssd-both", "engine=postgre", "nothing"):
        with pytest.raises(UsageError):
            select(store, wrong)
    assert {r.run_id for r in experiment(store, "demo")} == {r.run_id for r in runs}
    with pytest.raises(UsageError):
        experiment(store, "demmo")
    assert select(store, "engine=postgres", among=[split]) == [split]
    # Conditions restrict, names list, and `or` begins another selector.
    assert len(select(store, "engine=duckdb", "placement=ssd-both")) == 2
    assert select(store, "engine=post*|mysql", "memory_limit=4GiB|8GiB") == select(
        store, "engine=postgres", "memory_limit=4GiB"
    )
    assert len(select(store, "engine=duckdb placement=ssd-both or other")) == 3
    assert len(select(store, runs[0].run_id, runs[1].run_id)) == 2
    assert select(store, "demo", "other", "placement=data=ssd,wal=pmem") == [split]
    for none in (("engine=duckdb", "engine=postgres"), ("demo", "or")):
        with pytest.raises(UsageError):
            select(store, *none)


@pytest.mark.parametrize(
    "memory", ["weighted:dram=1,cxl=3", "interleave:dram,cxl", "tiered:dram,cxl", "preferred:dram"]
)
def test_a_memory_policy_is_selected_as_it_is_written(tmp_path: Path, memory: str) -> None:
    placement = f"data=ssd,memory={memory}"
    changes = {"run_state": {"memory_policy": memory}} if memory[0] in "wt" else {}
    run = write(tmp_path, Case(placement=placement, manifest_changes=changes, **SMALL))
    store = Store(tmp_path)
    assert select(store, f"placement={placement},engine=postgres") == [run]
    assert select(store, "engine=postgres", f"placement={placement} scale=1") == [run]
