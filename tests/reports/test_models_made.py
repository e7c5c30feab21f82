"""A device model that is made of a suite's run: calls, rates, what precedes a call."""

import json
from typing import Any

import pytest
from explained_runs import device_suite
from report_runs import histogram, metric

from harness.models.device import OPERATIONS, SERVICES
from harness.models.make import model_of
from harness.models.model_file import as_yaml, load_model
from harness.store.runs import StoredRun


def test_of_a_throttled_device_the_calls_count_that_did_not_wait_for_the_throttle(tmp_path):
    """12 MB/s, of which a mebibyte takes 87 ms: nineteen of twenty requests passed at once."""
    mebibyte: dict[str, Any] = {"measurement": "read", "access_size_bytes": 1 << 20}
    times = metric("operation_duration_ns", histogram([1e6] * 95 + [1700e6] * 5), **mebibyte)
    made = model_of(device_suite(tmp_path, "slow", 100, times), "made")
    assert made.burst_bytes == {"read": pytest.approx(21e6, rel=0.15)}
    assert made.points["read"][-1].durations.quantiles[-1] == pytest.approx(1e6, rel=0.01)


def test_of_a_device_that_counts_requests_each_size_has_the_rate_that_the_limit_leaves(tmp_path):
    """300 a second, of which thirty pass at once, and then one waits for 98 ms."""
    metrics = [metric("bandwidth_bytes_per_second", [300 * 2**20], "higher", measurement="scan")]
    for size_bytes in (4096, 1 << 20):
        labels: dict[str, Any] = {"measurement": "read", "access_size_bytes": size_bytes}
        times = histogram([70e3] * 290 + [98e6] * 10)
        metrics.append(metric("operation_duration_ns", times, **labels))
        bulk = labels | {"measurement": "bulk_read"}
        moved = [300.0 * size_bytes]
        metrics.append(metric("bandwidth_bytes_per_second", moved, "higher", **bulk))
    made = model_of(device_suite(tmp_path, "few", 100, *metrics), "made")
    (tmp_path / "made.yml").write_text(as_yaml(made))
    loaded = load_model(tmp_path / "made.yml")
    assert loaded.burst_bytes == {"read": pytest.approx(30 * 2**20, rel=0.05)}
    limited = {p.size_bytes: p for p in loaded.points["read"] if p.size_bytes != 16384}
    for size_bytes, point in limited.items():
        assert point.rate == pytest.approx(300 * size_bytes, rel=0.02)
        assert point.durations.quantiles[-1] == pytest.approx(70e3, rel=0.01)


def test_the_burst_of_a_slow_throttle_is_kept(tmp_path):
    """0.49 MB/s, of which 16 KiB take 33 ms: nineteen of twenty requests passed at once."""
    labels: dict[str, Any] = {"measurement": "read", "access_size_bytes": 16384}
    times = metric("operation_duration_ns", histogram([1e5] * 95 + [662e6] * 5), **labels)
    path = tmp_path / "made.yml"
    made = model_of(device_suite(tmp_path, "slow", 2500, times), "made")
    path.write_text(as_yaml(made))
    loaded = load_model(path)
    assert loaded.digest == made.digest
    assert loaded.burst_bytes == {"read": pytest.approx(20 * 16384, rel=0.15)}
    assert loaded.bandwidth["read"] == pytest.approx(1.2345e9 / 2500, rel=0.01)


@pytest.mark.parametrize(("share", "directions"), [(0.5, "shared"), (1.0, "separate")])
def test_directions_are_separate_that_lose_little_to_each_other(tmp_path, share, directions):
    run = device_suite(tmp_path, "ssd", 100, next_to_writes=share)
    assert model_of(run, "made").directions == directions


@pytest.mark.parametrize(("share", "in_order"), [(0.1, False), (0.5, True)])
def test_requests_are_in_order_where_small_syncs_wait_for_large_ones(tmp_path, share, in_order):
    run = device_suite(tmp_path, "ssd", 100, behind_checkpoints=share)
    assert model_of(run, "made").in_order is in_order


def test_a_model_keeps_the_kernel_s_time_of_small_requests(tmp_path):
    made = model_of(device_suite(tmp_path, "ssd", 100), "made")
    path = tmp_path / "made.yml"
    path.write_text(as_yaml(made))
    of_calls = load_model(path).processor_ns
    # The write before a sync is a call of its own.
    assert of_calls == {"read": 25_000, "write": 25_000, "sync": pytest.approx(20_000, rel=0.01)}


def test_a_model_keeps_what_requests_of_a_size_move_together(tmp_path):
    labels: dict[str, Any] = {"measurement": "bulk_read", "access_size_bytes": 16384}
    bulk = metric("bandwidth_bytes_per_second", [3e8, 2e8, 4e8], "higher", **labels)
    path = tmp_path / "made.yml"
    path.write_text(as_yaml(model_of(device_suite(tmp_path, "ssd", 100, bulk), "made")))
    rates = [point.rate for point in load_model(path).points["read"]]
    assert rates == [40_960_000, 300_000_000]


def test_a_model_keeps_what_work_before_a_call_adds(tmp_path):
    path = tmp_path / "made.yml"
    path.write_text(as_yaml(model_of(device_suite(tmp_path, "ssd", 100), "made")))
    after_work = load_model(path).after_work
    assert {work.processor_ns for work in after_work.values()} == {25_000}
    longer = [after_work[operation].longer_ns for operation in OPERATIONS]
    assert longer == pytest.approx([10_000] * 3, rel=0.05)


def test_a_model_keeps_what_pauses_before_a_call_add(tmp_path):
    """Each of these syncs writes the inode, which is no part of what the pause adds."""
    path = tmp_path / "made.yml"
    path.write_text(as_yaml(model_of(device_suite(tmp_path, "ssd", 100), "made")))
    after_pause = load_model(path).after_pause
    assert list(after_pause) == [4_000_000, 10_000_000]
    for extras, longer_ns in zip(after_pause.values(), (40_000, 80_000), strict=True):
        longer = [extras[operation].longer_ns for operation in OPERATIONS]
        assert longer == pytest.approx([longer_ns] * 3, rel=0.05)


def test_a_model_keeps_what_writing_the_inode_adds(tmp_path):
    path = tmp_path / "made.yml"
    path.write_text(as_yaml(model_of(device_suite(tmp_path, "ssd", 100), "made")))
    inode_write = load_model(path).inode_write
    assert inode_write is not None
    assert inode_write.longer_ns == pytest.approx(30_000, rel=0.05)
    assert inode_write.processor_ns == 25_000
    assert inode_write.elsewhere_ns == pytest.approx(32_500, rel=0.05)


@pytest.mark.parametrize(
    ("journal", "inode_write", "writes"),
    [(None, 0.05, False), (None, 0.3, True), (False, 0.05, True), (True, 0.3, False)],
)
def test_with_a_journal_no_sync_writes_the_inode(tmp_path, journal, inode_write, writes):
    """Where Linux does not say, the new time of the file costs next to nothing then."""
    suite = device_suite(tmp_path, "ssd", 100, inode_write=inode_write)
    made = model_of(with_fact(suite, "journal", journal), "made")
    assert (made.inode_write is not None) is writes


def test_a_model_keeps_what_calls_take_longer_on_other_processors(tmp_path):
    """On all processors in turn, half of the calls take half as long again."""
    made = model_of(device_suite(tmp_path, "ssd", 100), "made")
    path = tmp_path / "made.yml"
    path.write_text(as_yaml(made))
    longer_ns = load_model(path).elsewhere_ns
    assert [longer_ns[name] for name in SERVICES] == pytest.approx([25_000] * 4, rel=0.03)


def test_calls_on_several_processors_may_be_shorter(tmp_path):
    """A loop device's one caller has to wake a processor."""
    path = tmp_path / "made.yml"
    path.write_text(
        as_yaml(model_of(device_suite(tmp_path, "ssd", 100, elsewhere_share=0.5), "made"))
    )
    made = load_model(path)
    assert set(made.elsewhere_ns.values()) == {0}
    shorter_ns = [made.shorter_elsewhere_ns[name] for name in SERVICES]
    assert shorter_ns == pytest.approx([25_000] * 4, rel=0.05)


def test_a_model_keeps_what_calls_use_outside_of_their_thread(tmp_path):
    path = tmp_path / "made.yml"
    path.write_text(as_yaml(model_of(device_suite(tmp_path, "ssd", 100), "made")))
    assert load_model(path).outside_ns == dict.fromkeys(SERVICES, 20_000)


def test_a_model_keeps_what_calls_use_where_processors_are_wanted(tmp_path):
    path = tmp_path / "made.yml"
    path.write_text(as_yaml(model_of(device_suite(tmp_path, "ssd", 100), "made")))
    busy = load_model(path).busy
    assert {times.outside_ns for times in busy.values()} == {10_000}
    processor_ns = [busy[operation].processor_ns for operation in OPERATIONS]
    assert processor_ns == pytest.approx([20_000, 20_000, 15_000], rel=0.01)


@pytest.mark.parametrize(("device", "waits"), [("/dev/vda", False), ("/dev/loop7", True)])
def test_calls_wait_for_the_threads_of_a_loop_device(tmp_path, device, waits):
    run = with_fact(device_suite(tmp_path, "ssd", 100), "device", device)
    path = tmp_path / "made.yml"
    path.write_text(as_yaml(model_of(run, "made")))
    assert load_model(path).outside_waits is waits


@pytest.mark.parametrize(("measurement", "way"), [("scan", "read"), ("checkpoint", "write")])
def test_bandwidth_is_that_of_the_page_cache_s_large_requests(tmp_path, measurement, way):
    labels: dict[str, Any] = {"measurement": measurement, "access_size_bytes": 1 << 24}
    times = metric("fdatasync_duration_ns", histogram([(1 << 24) / 4e9 * 1e9] * 10), **labels)
    moved = metric("bandwidth_bytes_per_second", [4e9], "higher", **labels)
    run = device_suite(tmp_path, "ssd", 100, times if way == "write" else moved)
    assert model_of(run, "made").bandwidth[way] == pytest.approx(4e9, rel=0.02)


def with_fact(run: StoredRun, name: str, fact: Any) -> StoredRun:
    """The run with another fact of its tier."""
    manifest = run.directory / "manifest.json"
    document = json.loads(manifest.read_text())
    document["tiers"][0]["facts"][name] = fact
    manifest.write_text(json.dumps(document))
    return StoredRun(run.directory)


@pytest.mark.parametrize(("waits", "stated"), [(2.8, 2.8), (0.3, 1)])
def test_a_model_keeps_how_often_a_sync_waits_for_a_processor(tmp_path, waits, stated):
    path = tmp_path / "made.yml"
    path.write_text(as_yaml(model_of(device_suite(tmp_path, "ssd", 100, sync_waits=waits), "made")))
    assert load_model(path).sync_waits == stated
