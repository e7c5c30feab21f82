"""Comparisons: what decides them, and which runs are pairs."""

from pathlib import Path
from typing import Any

import pytest
from figures import figures_of
from narrowed import present
from report_runs import PLACES, Case, driven, interleaved, lognormal, metric, tier_document, write

from harness.cli.results import _chosen
from harness.store.run_store import Store
from harness.store.runs import StoredRun
from reports.compare import Group, compare
from reports.compare_output import to_json
from reports.headline import keeps_rate
from reports.report import Report
from reports.series import panels

WINDOW_S = 60
#: What a client of core workload a asks for, and of b.
A = {"readproportion": 0.5, "updateproportion": 0.5, "rate": 50}
B = {"readproportion": 0.95, "updateproportion": 0.05, "rate": 50}


def ycsb(update_ms: float, read_ms: float = 1.0, done: int = 3000, seed: int = 0) -> list[Any]:
    """3,000 operations offered in a minute."""
    times = {"read": lognormal(read_ms * 1e6, seed), "update": lognormal(update_ms * 1e6, seed)}
    counts = {"read": done // 2, "update": done - done // 2}
    return [
        metric("operations_per_second", done / WINDOW_S, "higher"),
        metric("offered_operations_per_second", 50.0),
        *(metric("operation_duration_ns", text, "lower", operation=o) for o, text in times.items()),
        *(metric("operation_count", count, operation=o) for o, count in counts.items()),
        metric("window_duration_ns", WINDOW_S * 10**9),
    ]


def tpcc(new_order_ms: float, per_s: float = 10.0, seed: int = 0) -> list[Any]:
    """With what was offered only where a test adds it."""
    times = lognormal(new_order_ms * 1e6, seed, count=int(per_s * WINDOW_S))
    return [
        metric("new_orders_per_minute", 27 * per_s, "higher"),
        metric("transaction_duration_ns", times, "lower", transaction="new_order"),
        metric("transaction_count", per_s * WINDOW_S - 3, transaction="new_order"),
        metric("transaction_rolled_back_count", 3, transaction="new_order"),
        metric("window_duration_ns", WINDOW_S * 10**9),
    ]


def compared(a: list[StoredRun], b: list[StoredRun]) -> tuple[Group, dict[str, Any]]:
    comparison = compare(a, b)
    (document,) = to_json(comparison)["groups"]
    return comparison.groups[0], document


def ycsb_sides(root: Path, params: dict[str, Any], fast: dict[str, Any], n: int = 6) -> Any:
    """A: updates of 5 ms, reads of 1 ms; B: the same with ``fast``."""
    kinds = dict(zip(PLACES, ({}, fast), strict=True))
    return interleaved(
        root,
        lambda place, k: ycsb(**({"update_ms": 5.0} | kinds[place]), seed=k),
        n,
        spec_changes=driven("ycsb", **params),
    )


def test_with_a_rate_the_headline_is_a_latency_of_the_main_operation(tmp_path: Path) -> None:
    group, document = compared(*ycsb_sides(tmp_path, A, {"update_ms": 0.2}))
    update = {"operation": "update", "percentile": "50"}
    assert document["headline"] == {"metric": "operation_duration_ns", "labels": update}
    assert document["second"]["labels"] == update | {"percentile": "99"}
    assert document["verdict"] == "faster"
    assert document["set_rate"]["by"] == "option" and document["set_rate"]["not_kept"] == []
    row = present(group.row(group.headline.quantity))
    assert present(row.estimate).value == pytest.approx(25, rel=0.01)
    second = present(group.row(group.headline.second))
    assert present(second.decision).outcome == "shown"  # after the first, at the same level


@pytest.mark.parametrize(
    ("params", "fast", "n", "operation", "verdict", "missed"),
    [
        (B, {"update_ms": 0.2}, 6, "read", "no difference", 0),  # reads have the largest share
        (A, {"update_ms": 50.0}, 5, "update", "not resolvable", 0),
        (A, {"update_ms": 50.0}, 6, "update", "slower", 0),
        (A, {"update_ms": 0.2, "done": 2900}, 6, "update", "rate not kept", 6),
        # Operations that were due in the ramp-up were done in the window.
        (A, {"update_ms": 0.2, "done": 3100}, 6, "update", "rate not kept", 6),
    ],
)
def test_verdict_under_a_rate(tmp_path, params, fast, n, operation, verdict, missed):
    _, document = compared(*ycsb_sides(tmp_path, params, fast, n))
    assert document["headline"]["labels"]["operation"] == operation
    assert document["verdict"] == verdict
    rate = document["set_rate"]
    assert (rate["not_kept"], rate["b"]["missed"]) == (["b"] if missed else [], missed)
    assert rate["a"]["kept"]


def test_a_driver_without_counts_keeps_the_rate_by_the_rate_it_reports(tmp_path: Path) -> None:
    def rates_only(place: str, _: int) -> list[Any]:
        made = ycsb(update_ms=1.0, done=2900 if place == PLACES[0] else 3000)
        return [m for m in made if not m["name"].endswith("_count")]

    _, document = compared(*interleaved(tmp_path, rates_only, spec_changes=driven("ycsb", **A)))
    assert document["verdict"] == "rate not kept" and document["set_rate"]["not_kept"] == ["a"]


@pytest.mark.parametrize(("done", "is_kept"), [(92, True), (60, False)])
def test_the_number_of_operations_of_a_client_that_draws_arrivals_varies(tmp_path, done, is_kept):
    """pgbench counts none that are outstanding; 80 are due."""
    metrics = [metric("operation_count", done, operation="tpcb-like"),
               metric("window_duration_ns", 8e9)]  # fmt: skip
    params = driven("sql", script="tpcb-like", rate=10.0)
    case = Case(queries=(), metrics=metrics, spec_changes={**params, "driver": "pgbench"})
    assert keeps_rate(write(tmp_path, case)) == is_kept


def test_one_repeat_that_missed_the_rate_does_not_decide(tmp_path: Path) -> None:
    def metrics(place: str, k: int) -> list[Any]:
        late = {"update_ms": 0.2, "done": 2000 if k == 5 else 3000}
        return ycsb(**(late if place == PLACES[1] else {"update_ms": 5.0}), seed=k)

    _, document = compared(*interleaved(tmp_path, metrics, spec_changes=driven("ycsb", **A)))
    assert document["verdict"] == "faster" and document["set_rate"]["b"]["missed"] == 1


@pytest.mark.parametrize(
    ("begin", "end", "is_kept"),
    [
        (60, 60, True),  # answers take six seconds, at both ends of the window
        (60, 70, True),  # by chance
        (0, 60, False),  # one in ten is missing
        (60, 0, False),  # what was due in the ramp-up was done in the window
    ],
)
def test_a_rate_is_kept_if_no_more_is_outstanding_at_the_end(tmp_path, begin, end, is_kept):
    """Ten a second for a minute, of which 540 are counted: as many as there are users in flight."""
    spec = driven("tpcc", users=60, think_time=False, rate=10)
    ends = [metric("outstanding_count", n, at=at) for at, n in (("begin", begin), ("end", end))]
    sides = interleaved(tmp_path, lambda _, k: [*tpcc(5.0, 9.0, k), *ends], spec_changes=spec)
    _, document = compared(*sides)
    assert document["set_rate"]["not_kept"] == ([] if is_kept else ["a", "b"])


@pytest.mark.parametrize(
    ("params", "per_s", "by"),
    [
        ({"users": 4, "think_time": False, "rate": None}, 12.0, None),
        # Transactions that are rolled back count as done.
        ({"users": 4, "think_time": False, "rate": 10}, 10.0, "option"),
        # Ten transactions a second of 5 ms keep one user waiting for 5 % of the time.
        ({"users": 200, "think_time": True, "rate": None}, 10.0, "think time"),
        ({"users": 1, "think_time": True, "rate": None}, 12.0, None),
    ],
)
def test_new_orders_decide_unless_a_rate_is_set(tmp_path, params, per_s, by):
    of = dict(zip(PLACES, ((5.0, 10.0), (1.0, per_s)), strict=True))
    sides = interleaved(
        tmp_path, lambda place, k: tpcc(*of[place], k), spec_changes=driven("tpcc", **params)
    )
    _, document = compared(*sides)
    assert document["verdict"] == "faster"
    assert (document["set_rate"] or {}).get("by") == by
    median = {"transaction": "new_order", "percentile": "50"}
    name, labels = ("transaction_duration_ns", median) if by else ("new_orders_per_minute", {})
    assert document["headline"] == {"metric": name, "labels": labels}
    if by == "option":
        assert document["set_rate"]["a"]["done_per_s"] == 10.0


def conclusions(runs: list[StoredRun], users: int) -> list[tuple[str, float]]:
    """Verdict and p of the panels with this number of users."""
    return [
        (group.verdict, row.decision.adjusted_p)
        for panel in panels(runs, "placement", None)
        if panel.runs[0].document["spec"]["params"]["users"] == users
        for group in panel.groups
        if (row := group.row(group.headline.quantity)) and row.decision
    ]


def test_a_family_is_the_comparisons_of_one_experiment(tmp_path: Path) -> None:
    def runs(folder: str, *names: str) -> list[StoredRun]:
        made: list[StoredRun] = []
        for users, name in zip((4, 8), names, strict=False):
            spec = driven("tpcc", warehouses=1, think_time=False, rate=None, users=users)
            slow, fast = interleaved(
                tmp_path / folder,
                lambda place, k: tpcc(5.0, 10.0 if place == PLACES[0] else 12.0 + k, k),
                spec_changes=spec,
                experiment=name,
            )
            made += [*slow, *fast]
        return made

    assert conclusions(runs("one", "x"), 4) == [("faster", 2 / 2**6)]
    assert conclusions(runs("apart", "x", "y"), 4) == [("faster", 2 / 2**6)]
    assert conclusions(runs("together", "x", "x"), 4) == [("not resolvable", 4 / 2**6)]


def test_every_two_arms_are_compared_without_changing_what_the_baseline_shows(tmp_path):
    spec = driven("tpcc", warehouses=1, users=4, think_time=False, rate=None)
    rates = {"ssd-both": 10.0, "ssd-data-pmem-wal": 12.0, "pmem-both": 15.0}
    arms = interleaved(
        tmp_path, lambda p, k: tpcc(5.0, rates[p] + 0.1 * k, k), 7, [*rates], spec_changes=spec
    )
    (panel,) = panels([run for arm in arms for run in arm], "placement", "ssd-both")
    (other,) = panel.others
    assert {other.a.name, other.b.name} == {"ssd-data-pmem-wal", "pmem-both"}
    assert other.verdict == ("faster" if other.b.name == "pmem-both" else "slower")
    row = present(other.row(other.headline.quantity))
    assert present(row.decision).family == 1
    assert [r.decision.family for g in panel.groups
            if (r := g.row(g.headline.quantity)) and r.decision] == [2, 2]  # fmt: skip


def test_a_worsening_that_is_shown_goes_before_a_larger_one_that_is_not(tmp_path: Path) -> None:
    of = dict(zip(PLACES, ((5.0, 1.0, 1.0), (5.5, 0.8, 9.0)), strict=True))

    def metrics(place: str, k: int) -> list[Any]:
        update, read, up = of[place]
        return ycsb(update, read * (1 if k % 2 else up), seed=k)

    _, document = compared(*interleaved(tmp_path, metrics, 12, spec_changes=driven("ycsb", **A)))
    assert document["verdict"] == "slower"
    assert document["worsening"]["labels"]["operation"] == "update"
    assert document["worsening"]["outcome"] == "shown"


# Which repeats ran side by side ---------------------------------------------------


MINUTE = 60 * 10**9
DAY = 1440 * MINUTE


def at(root: Path, start_ns: int, placement: str = "ssd-both", **changes: Any) -> StoredRun:
    """A run of 90 s that started so long after the epoch."""
    more = changes.pop("run_changes", {})
    case: dict[str, Any] = {"queries": (1,), "plans": False, "placement": placement} | changes
    started = {"started_unix_ns": start_ns}
    return write(root, Case(**case, run_changes=started | more))


def version(letter: str) -> dict[str, Any]:
    return {"experiment": {"name": "grow", "hash": letter * 16}}


def test_a_block_resumed_days_later_is_no_pair(tmp_path: Path) -> None:
    old = [at(tmp_path, 0), at(tmp_path, 10 * MINUTE, block=1)]
    new = [at(tmp_path, 2 * MINUTE, "pmem-both"), at(tmp_path, 3 * DAY, "pmem-both", block=1)]
    group = compare(old, new).groups[0]
    assert group.pairing == "unpaired"
    # One of two blocks, block 1, 3 days where 19 minutes would do.
    assert figures_of(group.why_unpaired) == [1, 2, 1, 3, 19]
    assert compare(old[:1], new[:1]).groups[0].pairing == "paired"


def test_a_run_whose_counterpart_is_missing_is_left_out_with_a_warning(tmp_path: Path) -> None:
    alone = at(tmp_path, 10 * MINUTE, block=1)
    runs = [at(tmp_path, 0), at(tmp_path, MINUTE, "pmem-both"), alone]
    contexts = {warning.code: warning.context for warning in Report(runs).warnings}
    assert alone.run_id in contexts["runs-without-a-pair"]


@pytest.mark.parametrize("plans", ["aa", "ab"])
def test_two_batches_one_after_the_other_are_no_pairs(tmp_path: Path, plans: str) -> None:
    """Two ``harness run`` of six repeats each: their names and block numbers agree."""
    a, b = (
        [
            at(tmp_path, (6 * batch + k) * MINUTE, place, block=k,
               run_changes={"experiment": {"name": "command-line", "hash": letter * 16}})
            for k in range(6)
        ]
        for batch, (place, letter) in enumerate(zip(("ssd-both", "pmem-both"), plans, strict=True))
    )  # fmt: skip
    group = compare(a, b).groups[0]
    assert group.pairing == "unpaired"
    assert {(r.estimate.n_a, r.estimate.n_b) for r in group.rows if r.estimate} == {(6, 6)}


def test_a_plan_that_was_executed_twice_has_twice_as_many_pairs(tmp_path: Path) -> None:
    a, b = (
        [
            at(tmp_path, (10 * execution + 2 * k + side) * MINUTE, place, block=k)
            for execution in range(2)
            for k in range(3)
        ]
        for side, place in enumerate(("ssd-both", "pmem-both"))
    )
    group = compare(a, b).groups[0]
    assert group.pairing == "paired"
    assert group.a.runs == tuple(a)
    assert group.b.runs == tuple(b)


def test_runs_of_hosts_that_run_one_plan_at_the_same_time_are_paired_by_host(
    tmp_path: Path,
) -> None:
    def side(start: int, place: str) -> list[StoredRun]:
        """On the second host half a minute later: nearer in time to the other side's run."""
        return [
            at(tmp_path, (2 * k + start) * MINUTE + delay, place, block=k,
               manifest_changes={"host.hostname": host, "host.host_id": host})
            for k in range(3) for host, delay in (("a", 0), ("b", MINUTE // 2))
        ]  # fmt: skip

    group = compare(side(0, "ssd-both"), side(1, "pmem-both"), force=True).groups[0]
    assert group.pairing == "paired"
    pairs = zip(group.a.runs, group.b.runs, strict=True)
    assert {(present(a.head.host).host_id, present(b.head.host).host_id) for a, b in pairs} == {
        ("a", "a"),
        ("b", "b"),
    }
    across = compare(group.a.runs[::2], group.b.runs[1::2], force=True).groups[0]
    assert across.pairing == "unpaired"


@pytest.mark.parametrize(("later", "pairing"), [(5 * MINUTE, "paired"), (3 * DAY, "unpaired")])
def test_a_run_resumed_days_later_is_no_pair(tmp_path: Path, later: int, pairing: str) -> None:
    cut = {"cut_off_run_id": "x", "kept_steps": 1, "after_step": "q1"}
    resumed = {"resumed": [cut | {"unix_ns": later}]}
    for slow, fast in ((resumed, {}), ({}, resumed), (resumed, resumed)):
        a = [at(tmp_path, 0, run_changes=slow)]
        b = [at(tmp_path, 2 * MINUTE, "pmem-both", run_changes=fast)]
        group = compare(a, b).groups[0]
        assert group.pairing == pairing
        assert (3 in figures_of(group.why_unpaired)) == (pairing == "unpaired")  # days


def test_a_long_block_of_many_runs_is_still_one_block(tmp_path: Path) -> None:
    a, b = [at(tmp_path, 0)], [at(tmp_path, 60 * MINUTE, "pmem-both")]
    between = [
        at(tmp_path, (10 + 8 * k) * MINUTE, engine="duckdb", spec_changes={"seed": k},
           run_changes={"duration_ns": 8 * MINUTE})
        for k in range(3)
    ]  # fmt: skip
    assert compare(a, b).groups[0].pairing == "unpaired"
    assert compare(a, b, neighbours=between).groups[0].pairing == "paired"
    elsewhere = [at(tmp_path, MINUTE, experiment="other", run_changes={"duration_ns": DAY})]
    assert compare(a, b, neighbours=elsewhere).groups[0].pairing == "unpaired"


def test_an_experiment_that_grew_keeps_its_runs(tmp_path, capsys):
    places = ("ssd-both", "pmem-both")
    first = [at(tmp_path, k * MINUTE, p, run_changes=version("a")) for k, p in enumerate(places)]
    gone = at(tmp_path, 3 * MINUTE, "ssd-data-pmem-wal", run_changes=version("a"))
    later = [at(tmp_path, DAY + k * MINUTE, p, block=1, run_changes=version("b"))
             for k, p in enumerate(places)]  # fmt: skip
    store = Store(tmp_path)
    chosen = _chosen(store, [], "grow")
    assert {run.run_id for run in chosen} == {run.run_id for run in (*first, *later)}
    assert "1 of 5 runs" in capsys.readouterr().err
    of_a = {run.run_id for run in _chosen(store, [], "grow@" + "a" * 16)}
    assert of_a == {run.run_id for run in (*first, gone)}
    a, b = (
        [run for run in chosen if run.document["spec"]["placement"]["name"] == p] for p in places
    )
    group = compare(a, b).groups[0]
    assert group.pairing == "paired" and len(group.a.runs) == 2 and not group.left_out


# What is never pooled into one median ------------------------------------------

MIB = 1 << 20


def few(root: Path, n: int = 2, **changes: Any) -> list[StoredRun]:
    """n blocks of one small run."""
    case: dict[str, Any] = {"queries": (1, 6), "plans": False} | changes
    return [write(root, Case(**(case | {"block": block}))) for block in range(n)]


def test_one_placement_on_two_file_systems_has_two_medians(tmp_path: Path) -> None:
    on_tmpfs = tier_document("ssd") | {"kind": "tmpfs"}
    on_tmpfs["facts"]["filesystem"] = "tmpfs"
    runs = [*few(tmp_path, 1), *few(tmp_path, 1, manifest_changes={"tiers": [on_tmpfs]})]
    runs += few(tmp_path, 1, placement="pmem-both")
    (panel,) = panels(runs, "placement", None)
    assert [(arm.name, len(arm.runs)) for arm in panel.arms] == [
        ("ssd-both, tier.ssd.filesystem ext4", 1),
        ("ssd-both, tier.ssd.filesystem tmpfs", 1),
        ("pmem-both", 1),
    ]
    assert [group.b.name for group in panel.groups] == ["pmem-both"]
    assert list(present(panel.refused)) == [panel.arms[1].name]
    # Only what differs within an arm: pmem-both has no ssd, and that is no condition of it.
    assert "tier.ssd.filesystem: ext4 and tmpfs" in panel.apart
    warnings = {warning.code: warning.context for warning in Report(runs).warnings}
    assert "tier.ssd.filesystem: ext4 and tmpfs" in warnings["runs-differ"]
    assert "tier.ssd.filesystem tmpfs" in str(warnings) and "not-compared" in warnings
    forced = {(group.a.name, group.b.name) for _, group in Report(runs, force=True).answers}
    assert (
        tuple(f"ssd-both, tier.ssd.filesystem {filesystem}" for filesystem in ("ext4", "tmpfs"))
        in forced
    )


@pytest.mark.parametrize(
    ("change", "title"),
    [
        ({"host.kernel.release": "6.9"}, "host.kernel.release 6.9"),
        ({"engine.version": "17.9", "engine.build": "other"}, "postgres 17.9"),
        ({"engine.build": "another compiler"}, "engine.build another compiler"),
        ({"host.host_id": "ffff"}, "host lab1 (ffff)"),
        ({"dataset.fingerprint": {"lineitem": 7}}, "dataset.fingerprint.lineitem 7"),
    ],
)
def test_what_no_placement_explains_makes_a_panel_of_its_own(tmp_path, change, title):
    runs = [
        run
        for place in ("ssd-both", "pmem-both")
        for run in (*few(tmp_path, placement=place),
                    *few(tmp_path, placement=place, manifest_changes=change))
    ]  # fmt: skip
    made = panels(runs, "placement", None)
    assert len(made) == 2 and len({panel.title for panel in made}) == 2
    assert any(title in panel.title for panel in made)
    for panel in made:
        assert [len(arm.runs) for arm in panel.arms] == [2, 2]
        assert [group.pairing for group in panel.groups] == ["paired"]


def test_a_failed_run_without_a_manifest_stays_with_its_arm(tmp_path: Path) -> None:
    good = few(tmp_path)
    (failed,) = few(tmp_path, 1, status="failed")
    (failed.directory / "manifest.json").unlink()
    (panel,) = panels([*good, StoredRun(failed.directory)], "placement", None)
    (arm,) = panel.arms
    assert (len(arm.runs), len(arm.usable)) == (3, 2) and panel.apart == ()


def limit(size: int | None, method: str = "cgroup-v2") -> dict[str, Any]:
    changes = {"memory_cap.limit_bytes": size if method != "none" else None,
               "memory_cap.method": method}  # fmt: skip
    return {"spec_changes": {"memory_limit_bytes": size}, "manifest_changes": changes}


def test_a_limit_that_nothing_enforced_is_called_so(tmp_path: Path) -> None:
    """It is no repeat of one that was."""
    loose, none = few(tmp_path, **limit(128 * MIB, "none")), few(tmp_path, **limit(None, "none"))
    (group,) = to_json(compare(loose, none))["groups"]
    assert group["a"]["name"] == "128 MiB (not enforced)" and group["b"]["name"] == "no limit"
    assert [warning["code"] for warning in group["warnings"]] == ["memory-limit-not-enforced"]
    (panel,) = panels([*few(tmp_path, **limit(128 * MIB)), *loose], "memory_limit", None)
    assert [arm.name for arm in panel.arms] == ["128 MiB", "128 MiB (not enforced)"]
