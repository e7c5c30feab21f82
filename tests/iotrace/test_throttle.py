"""When a throttle lets requests pass, by slices of 100 ms, on a clock of the test."""

import pytest
from modelled_tier import OPEN_TABLE, constant, use

from harness.models import durations
from harness.models.device import DeviceModel, SizePoint

#: 10 MB/s: four requests of 250 kB in each slice.
BYTES = DeviceModel(
    *("slow", "", "published", False, 64, constant(read=1)),
    bandwidth={"read": 10**7},
    burst_bytes={"read": 10**6},
)
#: 40 requests a second: four of any size in each slice.
REQUESTS = DeviceModel(
    *("few", "", "published", False, 64),
    points={
        "read": tuple(
            SizePoint(size_bytes, durations.constant(1000), rate=40 * size_bytes)
            for size_bytes in (4096, 250_000)
        )
    },
    bandwidth={"read": 2 * 10**7},
    burst_bytes={"read": 2 * 10**6},
)


@pytest.fixture
def passed(trace, run, virtual_time):
    """Make reads one after the other: after how many milliseconds each has passed.

    ``pauses_ms``: before reads, by their number.
    """

    def passed(model, reads, pauses_ms, size_bytes):
        use(trace, model)
        virtual_time()
        printed = run(
            OPEN_TABLE + f"import time; os.truncate(fd, {size_bytes})\n"
            "start = time.monotonic_ns()\n"
            f"for number in range({reads}):\n"
            f"    until = time.monotonic_ns() + {pauses_ms}.get(number, 0) * 10**6\n"
            "    while time.monotonic_ns() < until: pass\n"
            f"    os.pread(fd, {size_bytes}, 0)\n"
            "    print(round((time.monotonic_ns() - start) / 1e6))"
        )
        return [int(line) for line in printed.splitlines()]

    return passed


@pytest.mark.parametrize(
    ("model", "size_bytes"), [(BYTES, 250_000), (REQUESTS, 250_000), (REQUESTS, 4096)]
)
@pytest.mark.parametrize(
    ("pauses_ms", "expected"),
    [
        ({}, [0] * 4 + [100] * 4 + [200] * 4),
        # All that the second slice has left passes in the third.
        ({4: 230}, [0] * 4 + [230] * 8),
        ({4: 130, 5: 100}, [0] * 4 + [130] + [230] * 7),
        # What a slice leaves is lost with the next one: 230 ms, six of the eight, then 300 ms.
        ({1: 230}, [0] + [230] * 8 + [300] * 3),
        # After a pause of three slices, the next begins with the request.
        ({4: 450}, [0] * 4 + [450] * 4 + [550] * 4),
    ],
)
def test_a_throttle_lets_pass_what_a_slice_allows(passed, model, size_bytes, pauses_ms, expected):
    assert passed(model, 12, pauses_ms, size_bytes) == expected


def test_a_request_larger_than_a_slice_passes_in_the_slice_of_its_end(passed):
    """2.5 MB take 250 ms of the limit: two more slices after the first one."""
    assert passed(BYTES, 2, {}, 2_500_000) == [200, 400]
