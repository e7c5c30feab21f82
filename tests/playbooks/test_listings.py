"""What ndctl, daxctl, blkid and ipmctl print is understood, on recordings."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from recorded import Answers, optane, recording, state_of
from tierbench import ipmctl
from tierbench.changes import plan_changes
from tierbench.desired_state import DesiredState
from tierbench.linux import Kernel, resource_table
from tierbench.namespace_users import namespace_users, parse_blkid, probe
from tierbench.ndctl import Namespace, parse_ndctl
from tierbench.record import Record

from harness.host.dimms import parse_memory_resources


def test_blank_label_areas_show_as_regions_without_labels() -> None:
    found = parse_ndctl(recording("blank-labels"))
    assert [(r.name, r.labelled, r.dimms) for r in found.regions] == [
        (f"region{n}", False, (f"nmem{n}",)) for n in (0, 1)
    ]
    assert [(n.name, n.region, n.mode, n.uuid) for n in found.namespaces] == [
        (f"namespace{n}.0", f"region{n}", "raw", None) for n in (0, 1)
    ]


def test_written_labels_show_as_labelled_regions_with_room() -> None:
    found = parse_ndctl(recording("fresh-labels"))
    shown = [(r.labelled, r.extent_bytes, r.align_bytes) for r in found.regions]
    assert shown == [(True, 2013265920, 16 << 20)] * 2
    assert found.namespaces == ()


def test_one_object_of_arrays_has_namespaces_in_their_regions_and_no_seeds() -> None:
    found = parse_ndctl(recording("everything"))
    assert set(found.dimms) == {"nmem0", "nmem1"}
    assert [(n.name, n.region, n.mode) for n in found.namespaces] == [
        ("namespace0.0", "region0", "devdax"),
        ("namespace1.0", "region1", "fsdax"),
        ("namespace1.3", "region1", "fsdax"),
    ]
    devdax = found.namespaces[0]
    assert (devdax.chardev, devdax.chardev_mode, devdax.block) == ("dax0.0", "devdax", None)


def test_nothing_at_all_is_no_inventory() -> None:
    assert parse_ndctl("").regions == ()
    with pytest.raises(ValueError):
        parse_ndctl("Error: something else")


@pytest.mark.parametrize(
    ("answer", "known", "kind"),
    [
        (Answers(2), True, None),
        (Answers(0, "DEVNAME=/dev/pmem0\nLABEL=a\\ b\nUUID=1-2\nTYPE=ext4\n"), True, "ext4"),
        (Answers(0, "PTUUID=12\nPTTYPE=gpt\n"), True, "gpt"),
        (Answers(8, "", "ambivalent result"), False, None),
        (Answers(2, "", "error: /dev/pmem0: Input/output error"), False, None),
        (Answers(127, "", "blkid: not installed"), False, None),
        (Answers(0, "USAGE=other\n"), False, None),
    ],
)  # fmt: skip
def test_what_blkid_cannot_tell_is_not_taken_for_nothing(answer, known, kind):
    content = probe("/dev/pmem0", answer)
    assert (content.known, content.type) == (known, kind)
    assert content.known or content.why
    assert parse_blkid("LABEL=a\\ b\n") == {"LABEL": "a b"}


# ipmctl ----------------------------------------------------------------------------


def test_capacities_of_modules_in_app_direct_and_in_memory_mode() -> None:
    app_direct = resource_table(optane("resources-app-direct"))
    memory = resource_table(optane("resources-memory-mode"))
    assert app_direct and memory
    assert app_direct["AppDirect"] == (0, 3024 << 30)
    assert app_direct["Volatile"] == (round(381.5 * (1 << 30)), 0)
    assert memory["Volatile"] == (0, 2024 << 30)
    assert memory["Cache"] == (512 << 30, 0)


def test_types_of_regions_and_a_pending_goal() -> None:
    assert ipmctl.parse_regions(optane("regions-interleaved")) == ("AppDirect", "AppDirect")
    assert set(ipmctl.parse_regions(optane("regions-not-interleaved"))) == {GOAL}
    assert ipmctl.parse_regions(optane("regions-none")) == ()
    assert ipmctl.is_pending(optane("goal-pending"))
    assert not ipmctl.is_pending(optane("goal-none"))
    goals = ipmctl.read_goals(Answers(0, "something of a version to come"))
    assert goals.error and "cannot parse" in goals.error  # not taken for no capacity


GOAL = "AppDirectNotInterleaved"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("504.000 GiB", 504 << 30), ("0,5 GiB", 1 << 29), ("1,512.0 GiB", 1512 << 30),
        ("541165879296 B", 541165879296), ("-", 0), ("", 0),
        ("N/A", None), ("1,512 GiB", None), ("1.2.3 GiB", None), ("5 XB", None), ("-1 GiB", None),
    ],
)  # fmt: skip
def test_a_capacity_that_cannot_be_read_is_not_taken_for_none(text: str, size: int | None) -> None:
    table = f"MemoryType | DDR | PMemModule\nVolatile | {text} | 1 GiB\nInaccessible | N/A | ?\n"
    goals = ipmctl.read_goals(Answers(0, table))
    if size is None:
        assert goals.error and "is no capacity" in goals.error
        assert parse_memory_resources(table) is None
    else:
        assert (goals.error, goals.dram_bytes) == (None, size or 0)


# What is not sound ---------------------------------------------------------------------


def listing(**changes: dict[str, Any]) -> str:
    """The recorded listing with a module, region or namespace changed, by its name."""
    document = json.loads(recording("everything"))
    pending = [document]
    while pending:
        node = pending.pop()
        pending += node.values() if isinstance(node, dict) else node
        if isinstance(node, dict):
            node |= changes.get(str(node.get("dev")).replace(".", "_"), {})
        pending = [each for each in pending if isinstance(each, dict | list)]
    return json.dumps(document)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"nmem0": {"security": "locked"}}, "nmem0 is locked"),
        ({"nmem0": {"state": "disabled"}}, "nmem0 is disabled"),
        ({"nmem0": {"flag_failed_arm": True}}, "nmem0: flag_failed_arm"),
        ({"nmem0": {"health": {"health_state": "fatal"}}}, "the health of nmem0 is fatal"),
        ({"region0": {"badblock_count": 3}}, "it has 3 bad blocks"),
        ({"namespace0_0": {"badblock_count": 3}}, "it has 3 bad blocks"),
        ({"region0": {"size": 0}}, "its size is 0"),
        ({"nmem0": {"security": "unlocked", "health": {"health_state": "ok"}}}, None),
        ({"nmem0": {"security": None, "health": None, "flag_failed_map": False}}, None),
    ],
)
def test_a_region_with_a_fault_is_refused(changes: dict[str, Any], fault: str | None) -> None:
    inventory = parse_ndctl(listing(**changes))
    assert [r.faults for r in inventory.regions] == [(fault,) if fault else (), ()]
    state = replace(state_of("everything"), inventory=inventory)
    refused = plan_changes(state, DesiredState("appdirect")).refusals
    assert {each.object: each.why for each in refused}.get("region0") == fault


def test_every_dax_device_of_a_namespace_is_seen() -> None:
    devices = [{"chardev": "dax0.0", "mode": "devdax"}, {"chardev": "dax0.1"}]
    text = listing(namespace0_0={"daxregion": {"devices": devices}})
    inventory = parse_ndctl(text)
    first = inventory.namespaces[0]
    assert first.devices == ("dax0.0", "dax0.1")
    record = Record(namespaces={str(first.uuid): {"mode": "devdax"}})
    state = replace(state_of("everything"), inventory=inventory, record=record)
    for mode in ("appdirect", "devdax", "teardown"):
        refusals = plan_changes(state, DesiredState(mode)).refusals
        assert "namespace0.0" in [each.object for each in refusals if "dax0.1" in each.why]


# Who holds a namespace ---------------------------------------------------------


def test_a_loop_device_over_a_namespace_is_seen(tmp_path: Path) -> None:
    """Nothing else tells of it: it leaves the namespace's device open to others."""
    loop = tmp_path / "sys/block/loop3/loop"
    loop.mkdir(parents=True)
    (loop / "backing_file").write_text("/dev/pmem7\n")
    spaces = tuple(
        Namespace(f"namespace{n}.0", f"region{n}", "raw", 1 << 30, 1 << 30, None, block=f"pmem{n}")
        for n in (7, 8)
    )
    found = namespace_users(spaces, Answers(2), Kernel(tmp_path))
    assert found["namespace7.0"].others == ("/dev/loop3 loops over it",)
    assert found["namespace8.0"].others == ()
