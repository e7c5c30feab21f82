"""Histogram logs that HdrHistogram itself has written, in the client's release of it."""

from __future__ import annotations

import base64
import struct
import zlib

import pytest

from harness import hdr
from harness.drivers.ycsb.output_parser import STORED, length_ms, read_logs, stored
from harness.errors import RunFailed


@pytest.fixture
def logs(java, tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    lines = java("Histograms", {}, folder / "READ.hdr")
    return folder, lines


def test_intervals_and_percentiles_are_those_that_were_written(logs):
    folder, (total, *percentiles) = logs
    intervals = read_logs(folder)["READ"]
    assert [one.count for one in intervals] == [5000, 0, 3]
    assert [(one.begin_ms, one.end_ms) for one in intervals] == [
        (1_000_000, 1_001_000), (1_001_000, 1_002_500), (1_002_500, 1_003_000),
    ]  # fmt: skip
    assert length_ms([intervals[:2], intervals[2:]]) == 2500
    found = hdr.decode(stored(intervals))
    assert found.layout == STORED
    assert found.total == int(total) == 5003
    for line in percentiles:
        percentile, us = map(float, line.split())
        # What is told as n microseconds was cut off, and lies between n and n + 1.
        assert us * 1000 <= found.percentile(percentile) <= (us + 1) * 1000 * 1.002, line
    assert found.max == pytest.approx(60e9, rel=2e-3)


def test_a_highest_value_of_before_the_last_growth_does_not_matter(logs):
    """As two threads leave it behind that let a histogram grow at once."""
    folder, _ = logs
    before = read_logs(folder)["READ"]
    log = folder / "READ.hdr"
    lines = log.read_text().splitlines()
    *told, encoded = lines[-1].split(",")
    envelope, deflated = base64.b64decode(encoded)[:4], base64.b64decode(encoded)[8:]
    plain = bytearray(zlib.decompress(deflated))
    assert struct.unpack_from(">Q", plain, 24)[0] >= 60_000_000
    struct.pack_into(">Q", plain, 24, 4095)
    deflated = zlib.compress(bytes(plain))
    changed = base64.b64encode(envelope + struct.pack(">I", len(deflated)) + deflated).decode()
    log.write_text("\n".join([*lines[:-1], ",".join([*told, changed])]) + "\n")
    after = read_logs(folder)["READ"]
    assert [one.count for one in after] == [5000, 0, 3]
    assert stored(after) == stored(before)


def test_a_log_that_was_cut_off_fails_the_run(logs):
    folder, _ = logs
    log = folder / "READ.hdr"
    text = log.read_text()
    log.write_text(text[: len(text) - 40])
    with pytest.raises(RunFailed, match=r"READ\.hdr:"):
        read_logs(folder)


def test_nothing_measured_is_an_empty_histogram():
    assert hdr.decode(stored([])).total == 0
    assert length_ms([]) == 0
