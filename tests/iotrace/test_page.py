"""The page as untrusted input: the servers' user can write anything into it."""

import os
import random
import threading

import pytest

from harness.iotrace.page import FILES_AT, HEADS_AT, PAGE_BYTES, CounterCell, Delay, Page, PageError

HEADER_BYTES, HEAD_BYTES = 4096, 4864


DATA_READ = CounterCell("data", "read", "foreground")


@pytest.fixture
def page():
    trace_page = Page()
    yield trace_page
    trace_page.close()


def used(page, slots):
    os.pwrite(page.descriptor, slots.to_bytes(4, "little"), 28)


def test_its_size_cannot_be_changed(page):
    for size in (0, PAGE_BYTES - 1, PAGE_BYTES + 1):
        with pytest.raises(PermissionError):
            os.ftruncate(page.descriptor, size)


@pytest.mark.parametrize("field", range(0, 40, 4))
def test_every_field_of_the_header_is_checked(page, field):
    os.pwrite(page.descriptor, b"\xfe\xff\xff\xff", field)
    with pytest.raises(PageError):
        page.read()


@pytest.mark.parametrize(
    "offset",
    [
        40,
        48,
        HEADS_AT + 64,
        HEADS_AT + 64 + 160 * 15,
        HEADS_AT + 1023 * HEAD_BYTES + 64,
    ],
    ids=["lost calls", "mappings", "first counter", "background", "last slot"],
)
def test_impossible_numbers_are_refused(page, offset):
    used(page, 1024)
    os.pwrite(page.descriptor, (1 << 63).to_bytes(8, "little"), offset)
    with pytest.raises(PageError):
        page.read()


def test_files_may_be_added_while_it_is_read(page):
    """NumPy fails where an array changes while its non-zero elements are looked for."""
    keys, ended = os.urandom(8 * 2048), threading.Event()

    def add():
        while not ended.is_set():
            os.pwrite(page.descriptor, keys, FILES_AT)
            os.pwrite(page.descriptor, bytes(len(keys)), FILES_AT)

    adding = threading.Thread(target=add)
    adding.start()
    try:
        assert sum(len(page.read().files) for _ in range(1000))
    finally:
        ended.set()
        adding.join()


def test_a_counter_that_went_back_is_refused(page):
    used(page, 1)
    os.pwrite(page.descriptor, (5).to_bytes(8, "little"), HEADS_AT + 64)
    before = page.read()
    os.pwrite(page.descriptor, (4).to_bytes(8, "little"), HEADS_AT + 64)
    with pytest.raises(PageError):
        page.read() - before


def test_changed_delays_are_noticed(page):
    page.plant([DATA_READ], Delay(200_000))
    page.check_delays()
    os.pwrite(page.descriptor, b"\x01", 256 + 16 * 23)
    with pytest.raises(PageError):
        page.check_delays()


def test_any_bytes_give_bounded_numbers_or_a_page_error(page):
    chance = random.Random(1)
    read = 0
    for _ in range(300):
        used(page, chance.randrange(1025))
        for _ in range(chance.randrange(4)):
            at = chance.choice([chance.randrange(4096), chance.randrange(PAGE_BYTES - 64)])
            os.pwrite(page.descriptor, chance.randbytes(chance.choice([1, 4, 8, 64])), at)
        try:
            reading = page.read()
        except PageError:
            os.pwrite(page.descriptor, bytes(1 << 22), HEADS_AT)
            pristine = Page()
            os.pwrite(page.descriptor, os.pread(pristine.descriptor, HEADER_BYTES, 0), 0)
            pristine.close()
            continue
        read += 1
        assert reading.cells.min() >= 0 and reading.total("read", "ns") >= 0
        assert all(counts.min() >= 0 for counts in reading.details["durations"].values())
    assert 0 < read < 300
