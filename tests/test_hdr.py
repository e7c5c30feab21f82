"""Histograms against the HdrHistogram library itself."""

import base64
import struct
import zlib

import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given, settings
from hypothesis import strategies as st
from repeatable import repeatable

from harness import hdr

HOUR_NS = 3_600_000_000_000
DURATIONS = (1_000, HOUR_NS, 3)
PERCENTS = (0.001, 1, 25, 50, 75, 90, 95, 99, 99.9, 99.99, 100)

slow_library = settings(repeatable, max_examples=20)

values = st.lists(
    st.one_of(st.integers(0, HOUR_NS), st.integers(0, 5_000), st.integers(0, 10**9)), max_size=300
)


def library(recorded, layout=DURATIONS):
    histogram = HdrHistogram(*layout)
    for value in recorded:
        assert histogram.record_value(value)
    return histogram


@slow_library
@given(values)
def test_what_the_library_encodes_is_decoded_alike(recorded):
    theirs = library(recorded)
    ours = hdr.decode(theirs.encode().decode())
    assert ours.total == theirs.get_total_count()
    for percent in PERCENTS:
        assert ours.percentile(percent) == theirs.get_value_at_percentile(percent), percent
    assert ours.mean == pytest.approx(theirs.get_mean_value())
    if recorded:
        assert ours.max == theirs.get_highest_equivalent_value(max(recorded))


@slow_library
@given(values)
def test_what_we_encode_is_decoded_by_the_library(recorded):
    ours = hdr.decode(library(recorded).encode().decode())
    theirs = HdrHistogram.decode(ours.encode())
    assert theirs.get_total_count() == len(recorded)
    for percent in PERCENTS:
        assert ours.percentile(percent) == theirs.get_value_at_percentile(percent), percent


@slow_library
@given(st.lists(values, min_size=1, max_size=4))
def test_merging_is_the_same_as_recording_into_one(parts):
    merged = hdr.decode(hdr.merge_encoded(library(part).encode().decode() for part in parts))
    whole = library([value for part in parts for value in part])
    assert merged.total == whole.get_total_count()
    assert merged.percentiles(PERCENTS) == [whole.get_value_at_percentile(p) for p in PERCENTS]


@pytest.mark.parametrize("layout", [(1, 1_000_000_000, 3), (1, HOUR_NS // 1000, 2), DURATIONS])
def test_other_layouts_are_read_too(layout):
    recorded = [1, 2, 3, 1000, 123_456, 999_999_999 % layout[1]]
    theirs = library(recorded, layout)
    ours = hdr.decode(theirs.encode().decode())
    assert [ours.percentile(p) for p in PERCENTS] == [
        theirs.get_value_at_percentile(p) for p in PERCENTS
    ]


def test_large_counts_survive():
    theirs = HdrHistogram(*DURATIONS)
    theirs.record_value(5_000_000, 2**40)
    theirs.record_value(7_000_000, 2**53)
    ours = hdr.decode(theirs.encode().decode())
    assert ours.total == 2**40 + 2**53
    assert HdrHistogram.decode(ours.encode()).get_total_count() == 2**40 + 2**53


def test_histograms_of_different_layouts_are_not_merged():
    a, b = (
        hdr.decode(library([5], bounds).encode().decode()) for bounds in (DURATIONS, (1, 10**9, 3))
    )
    with pytest.raises(ValueError, match="2 layouts"):
        hdr.merge([a, b])
    with pytest.raises(ValueError, match="0 layouts"):
        hdr.merge([])


whole = library([10_000] * 5).encode()


@pytest.mark.parametrize(
    "broken",
    ["", "!", "AAAA", base64.b64encode(bytes(40)).decode(), whole[: len(whole) // 2].decode()],
)
def test_what_is_no_histogram_is_refused(broken):
    with pytest.raises(ValueError, match=r"HdrHistogram|padding|base64"):
        hdr.decode(broken)


def packed(counts: bytes, digits=3, lowest=1, highest=HOUR_NS, inflated=None) -> str:
    header = struct.pack(">IIIIQQd", 0x1C849313, len(counts), 0, digits, lowest, highest, 1.0)
    deflated = zlib.compress(inflated or header + counts)
    return base64.b64encode(struct.pack(">II", 0x1C849314, len(deflated)) + deflated).decode()


@pytest.mark.parametrize(
    ("counts", "others"),
    [
        (b"\2", {"digits": 0}),
        (b"\2", {"digits": 6}),
        (b"\2", {"digits": 2**32 - 1}),
        (b"\2", {"lowest": 0}),
        (b"\2", {"lowest": 2**63}),
        (b"\2", {"highest": 1}),
        (b"\2", {"highest": 2**64 - 1}),
        (b"", {"inflated": bytes(1 << 26)}),
        (b"\2" * 10**6, {}),
        (b"\xff" * 7 + b"\x7f", {}),  # a run of 2**55 zeros
        (b"\xfe" * 7 + b"\x7f", {}),  # a count of 2**55
        (b"\xff" * 9 + b"\1", {}),
        (b"\xff", {}),
    ],
)
def test_what_exceeds_the_bounds_is_refused(counts, others):
    text = packed(counts, **others)
    with pytest.raises(ValueError):
        hdr.decode(text)


def test_the_largest_layouts_are_read():
    layout = hdr.Layout(1, 2**62, 5)
    assert hdr.decode(packed(b"\2", 5, 1, layout.highest)).counts[0] == 1
    assert layout.counters <= hdr.MOST_COUNTERS
