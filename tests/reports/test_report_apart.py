"""What is never pooled into one median, and how every compared value is called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from report_runs import Case, write

from harness.store.runs import StoredRun
from reports.compare import compare
from reports.compare_output import to_json
from reports.report import Report
from reports.series import panels

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
    forced = Report(runs, force=True).answers
    assert ("ssd-both, tier.ssd.filesystem ext4", "ssd-both, tier.ssd.filesystem tmpfs") in {
        (group.a.name, group.b.name) for _, group in forced
    }


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
    runs = [*few(tmp_path, **limit(128 * MIB, "none")), *few(tmp_path, **limit(None, "none"))]
    (group,) = to_json(compare(runs[:2], runs[2:]))["groups"]
    assert group["a"]["name"] == "128 MiB (not enforced)" and group["b"]["name"] == "no limit"
    assert [one["code"] for one in group["warnings"]] == ["memory-limit-not-enforced"]


def test_an_enforced_limit_is_no_repeat_of_one_that_was_not(tmp_path: Path) -> None:
    runs = [*few(tmp_path, **limit(128 * MIB)), *few(tmp_path, **limit(128 * MIB, "none"))]
    (panel,) = panels(runs, "memory_limit", None)
    assert [arm.name for arm in panel.arms] == ["128 MiB", "128 MiB (not enforced)"]
