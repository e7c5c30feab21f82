"""Sizes and durations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from repeatable import repeatable

from harness.errors import UsageError
from harness.units import format_bytes, format_ns, parse_duration_ns, parse_size


def test_gb_is_decimal_and_gib_is_binary():
    assert parse_size("4GB") == 4 * 10**9
    assert parse_size("4GiB") == 4 * 2**30
    assert parse_size("1.5 MiB") == 1572864
    assert parse_size(8192) == 8192


@pytest.mark.parametrize("text", ["4G", "lots", "-1GiB", "", "4 Gib b", "9" * 400 + "GiB"])
def test_an_ambiguous_or_wrong_size_is_refused(text):
    with pytest.raises(UsageError):
        parse_size(text)


def test_durations():
    assert parse_duration_ns("3m") == 180 * 10**9
    assert parse_duration_ns("250ms") == 250 * 10**6


@pytest.mark.parametrize("thousandths", [128_575, 129_599, 4_350, 1])
def test_decimals_are_not_cut_off(thousandths):
    assert parse_duration_ns(f"{thousandths / 1000:.3f}us") == thousandths
    assert parse_size(f"{thousandths / 1000:.3f}KB") == thousandths


@pytest.mark.parametrize("text", ["30", "s", "-1s", "9" * 400 + "s"])
def test_a_wrong_duration_is_refused(text):
    with pytest.raises(UsageError):
        parse_duration_ns(text)


def test_formats_keep_three_significant_figures():
    assert format_bytes(1536) == "1.5 KiB"
    assert format_ns(1_234_567_890) == "1.23 s"
    assert format_ns(45_600_000) == "45.6 ms"
    assert format_ns(789) == "789 ns"


@repeatable
@given(st.integers(min_value=0, max_value=10**18))
def test_a_plain_number_of_bytes_comes_back_as_it_is(size):
    assert parse_size(str(size)) == pytest.approx(size, rel=1e-15)
