"""Which repeats ran side by side, and which runs belong to an experiment that grew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from report_runs import STARTED_UNIX_NS, Case, write

from harness.cli.results import _chosen
from harness.store.runs import Store, StoredRun
from reports.compare import compare
from reports.compare_output import to_json
from reports.report import Report
from reports.series import panels

MINUTE = 60 * 10**9
DAY = 1440 * MINUTE


def at(root: Path, start_ns: int, placement: str = "ssd-both", **changes: Any) -> StoredRun:
    """A run of 90 s that started so long after the first one."""
    more = changes.pop("run_changes", {})
    case: dict[str, Any] = {"queries": (1,), "plans": False, "placement": placement} | changes
    started = {"started_unix_ns": STARTED_UNIX_NS + start_ns}
    return write(root, Case(**case, run_changes=started | more))


def version(letter: str) -> dict[str, Any]:
    return {"experiment": {"name": "grow", "hash": letter * 16}}


def test_a_block_resumed_days_later_is_no_pair(tmp_path: Path) -> None:
    old = [at(tmp_path, 0), at(tmp_path, 10 * MINUTE, block=1)]
    new = [at(tmp_path, 2 * MINUTE, "pmem-both"), at(tmp_path, 3 * DAY, "pmem-both", block=1)]
    group = compare(old, new).groups[0]
    assert group.pairing == "unpaired"
    assert "in 1 of 2 blocks the two did not run side by side" in group.why_unpaired
    assert "block 1: started 3.0 days apart, at most 19.0 min would do" in group.why_unpaired
    assert compare(old[:1], new[:1]).groups[0].pairing == "paired"


def test_a_run_whose_counterpart_is_missing_is_left_out_with_a_warning(tmp_path: Path) -> None:
    alone = at(tmp_path, 10 * MINUTE, block=1)
    runs = [at(tmp_path, 0), at(tmp_path, MINUTE, "pmem-both"), alone]
    found = {warning.code: warning.context for warning in Report(runs).warnings}
    assert alone.run_id in found["runs-without-a-pair"]


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


@pytest.mark.parametrize(("later", "pairing"), [(5 * MINUTE, "paired"), (3 * DAY, "unpaired")])
def test_a_run_resumed_days_later_is_no_pair(tmp_path: Path, later: int, pairing: str) -> None:
    cut = {"cut_off_run_id": "x", "kept_steps": 1, "after_step": "q1"}
    resumed = {"resumed": [cut | {"unix_ns": STARTED_UNIX_NS + later}]}
    for slow, fast in ((resumed, {}), ({}, resumed), (resumed, resumed)):
        a = [at(tmp_path, 0, run_changes=slow)]
        b = [at(tmp_path, 2 * MINUTE, "pmem-both", run_changes=fast)]
        group = compare(a, b).groups[0]
        assert group.pairing == pairing
        assert ("started 3.0 days apart" in group.why_unpaired) == (pairing == "unpaired")


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
    kept = _chosen(store, [], "grow")
    assert {run.run_id for run in kept} == {run.run_id for run in (*first, *later)}
    assert "1 of 5 runs of grow are left out" in capsys.readouterr().err
    of_a = {run.run_id for run in _chosen(store, [], "grow@" + "a" * 16)}
    assert of_a == {run.run_id for run in (*first, gone)}
    a, b = ([run for run in kept if run.document["spec"]["placement"]["name"] == p] for p in places)
    group = compare(a, b).groups[0]
    assert group.pairing == "paired" and len(group.a.runs) == 2 and not group.left_out


# What is never pooled into one median ------------------------------------------

MIB = 1 << 20


def few(root: Path, n: int = 2, **changes: Any) -> list[StoredRun]:
    """n blocks of one small run."""
    case: dict[str, Any] = {"queries": (1, 6), "plans": False} | changes
    return [write(root, Case(**(case | {"block": block}))) for block in range(n)]


def on_tmpfs(run: StoredRun) -> StoredRun:
    """The same run, had its host file put the tier on a tmpfs."""
    path = run.directory / "manifest.json"
    manifest = json.loads(path.read_text())
    for tier in manifest["tiers"]:
        tier["kind"], tier["facts"]["filesystem"] = "tmpfs", "tmpfs"
    path.write_text(json.dumps(manifest))
    return StoredRun(run.directory)


def test_one_placement_on_two_file_systems_has_two_medians(tmp_path: Path) -> None:
    runs = [*few(tmp_path, 1), *(on_tmpfs(run) for run in few(tmp_path, 1))]
    runs += few(tmp_path, 1, placement="pmem-both")
    (panel,) = panels(runs, "placement", None)
    assert [(arm.name, len(arm.runs)) for arm in panel.arms] == [
        ("ssd-both, tier.ssd.filesystem ext4", 1),
        ("ssd-both, tier.ssd.filesystem tmpfs", 1),
        ("pmem-both", 1),
    ]
    assert [group.b.name for group in panel.groups] == ["pmem-both"]
    assert panel.refused is not None and list(panel.refused) == [panel.arms[1].name]
    # Only what differs within an arm: pmem-both has no ssd, and that is no condition of it.
    assert "tier.ssd.filesystem: ext4 and tmpfs" in panel.apart
    warnings = {one.code: one.context for one in Report(runs).warnings}
    assert "tier.ssd.filesystem: ext4 and tmpfs" in warnings["runs-differ"]
    assert "tier.ssd.filesystem tmpfs" in str(warnings) and "not-compared" in warnings
    forced = {(group.a.name, group.b.name) for _, group in Report(runs, force=True).answers}
    assert tuple(f"ssd-both, tier.ssd.filesystem {one}" for one in ("ext4", "tmpfs")) in forced


@pytest.mark.parametrize(
    ("change", "title"),
    [
        ({"host.kernel.release": "6.9"}, "host.kernel.release 6.9"),
        ({"engine.version": "17.9", "engine.build": "other"}, "postgres 17.9"),
        ({"engine.build": "another compiler"}, "engine.build another compiler"),
        ({"host.host_id": "ffff"}, "host.host_id ffff"),
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
    found = panels(runs, "placement", None)
    assert len(found) == 2 and len({panel.title for panel in found}) == 2
    assert any(title in panel.title for panel in found)
    for panel in found:
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
    assert [one["code"] for one in group["warnings"]] == ["memory-limit-not-enforced"]
    (panel,) = panels([*few(tmp_path, **limit(128 * MIB)), *loose], "memory_limit", None)
    assert [arm.name for arm in panel.arms] == ["128 MiB", "128 MiB (not enforced)"]
