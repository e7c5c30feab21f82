"""The search for the most load within a latency target, on service curves that are known."""

import math
import random
from collections.abc import Callable

import pytest
from narrowed import present

from harness.load_search import MOST_WINDOWS, PRECISION, LoadPoint, LoadWindow, Search

P99 = math.log(100)


def searched(
    latency: Callable[[float], float],
    limit: float,
    start: float,
    noise: float = 0.0,
    *,
    least: float = 0.0,
    most: float = math.inf,
    whole: bool = False,
    client: bool = False,
    seed: int = 7,
    stated: float = 1.0,
) -> Search:
    """Search with windows that measure ``latency`` with this noise; it is infinite past the peak.

    The closed loop that gives ``start`` is the first window. ``stated``: the noise by the windows'
    own intervals, as a share of what it is.
    """
    draw, windows = random.Random(seed), list[LoadWindow]()
    while len(windows) < MOST_WINDOWS - 1:
        search = Search(windows, limit, start, least or start / 32, most, whole)
        if (load := search.next_load()) is None:
            break
        rate_met = math.isfinite(latency(load))
        value = (latency(load) if rate_met else 100 * limit) * math.exp(draw.gauss(0, noise))
        half = math.exp(1.96 * noise * stated)
        windows.append(
            LoadWindow(load, value, value / half, value * half, rate_met, client and not rate_met)
        )
    return Search(windows, limit, start, least or start / 32, most, whole)


def queue(per_s: float) -> Callable[[float], float]:
    """The 99th percentile of a queue with exponential service times and one server, in seconds."""
    return lambda load: P99 / (per_s - load) if load < per_s else math.inf


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.05])
@pytest.mark.parametrize("share", [0.5, 0.7, 0.9, 0.97])
@pytest.mark.parametrize("peak", [0.6, 0.8, 1.0])
@pytest.mark.parametrize("per_s", [73.0, 1_000.0, 81_000.0])
def test_a_planted_capacity_is_found_within_five_per_cent(noise, share, peak, per_s):
    """``share``: of the service rate; ``peak``: what the closed loop does of it."""
    limit = P99 / (per_s * (1 - share))
    search = searched(queue(per_s), limit, per_s * peak / 2, noise)
    assert search.outcome == "measured"
    assert len(search.windows) < MOST_WINDOWS
    assert search.load == pytest.approx(share * per_s, rel=0.05)
    assert present(search.low).load <= present(search.load) <= present(search.high).load


@pytest.mark.parametrize("stated", [1.0, 0.3, 0.1])
@pytest.mark.parametrize("noise", [0.03, 0.10, 0.20])
def test_the_interval_contains_the_capacity_however_noisy_windows_are(noise, stated):
    """Windows vary from run to run, of which each one's own interval says little."""
    contained: list[bool] = []
    for share in (0.5, 0.7, 0.9, 0.97):
        for seed in range(60):
            search = searched(
                queue(1000), P99 / (1000 * (1 - share)), 400, noise, seed=seed, stated=stated
            )
            low = search.low.load if search.low else 0.0
            high = search.high.load if search.high else math.inf
            contained.append(low <= share * 1000 <= high)
    assert sum(contained) / len(contained) >= 0.94


def test_a_server_of_constant_time_carries_what_it_can():
    """Latency jumps at the capacity: it says nothing but on which side a load is."""
    search = searched(lambda load: 1.0 if load <= 640 else math.inf, 2.0, 400)
    assert search.load == pytest.approx(640, rel=PRECISION)
    assert present(search.high).load / present(search.low).load <= 1 + PRECISION


def test_a_strict_target_is_found_far_below_the_peak():
    search = searched(queue(1000), P99 / 900, 500)
    assert search.load == pytest.approx(100, rel=0.05)


def test_a_number_of_users_is_whole_and_doubles_from_one():
    search = searched(lambda users: 1.0 * users, 41.5, 1, least=1, most=1000, whole=True)
    assert (present(search.low).load, present(search.high).load, search.load) == (41, 43, 41)
    assert [window.load for window in search.windows[:7]] == [1, 2, 4, 8, 16, 32, 64]


def test_a_load_on_no_side_is_repeated_before_others_are_tried():
    undecided = LoadWindow(100, 1.0, 0.9, 1.1)
    search = Search([undecided], 1.0, 100)
    assert search.points[0].side(1.0) == "undecided"
    assert search.next_load() == 100
    assert Search([undecided, undecided], 1.0, 100).next_load() == 110


def test_windows_at_a_load_narrow_its_interval_unless_they_scatter():
    window = LoadWindow(100, 1.0, 0.9, 1.1)
    (alike,) = Search([window, window], 1.0, 100).points
    (apart,) = Search([window, LoadWindow(100, 2.0, 1.8, 2.2)], 1.0, 100).points
    assert window.low_ns < alike.low_ns < alike.high_ns < window.high_ns
    assert apart.low_ns < 1.0
    assert apart.high_ns > 2.0


def test_loads_that_contradict_one_another_widen_all_intervals():
    windows = [
        LoadWindow(load, value, value * 0.8, value * 1.2)
        for load, value in ((80, 0.5), (90, 2.0), (100, 0.5), (200, 2.0))
    ]
    sides = [Search([window], 1.0, 80).points[0].side(1.0) for window in windows]
    assert sides == ["within", "missed", "within", "missed"]
    search = Search(windows, 1.0, 80)
    assert (search.low, search.high, search.load) == (None, None, None)
    assert {point.side(1.0) for point in search.points} == {"undecided"}
    assert search.next_load() == 80


def test_a_rate_that_is_not_kept_misses_the_target_whatever_its_latency():
    assert LoadPoint((LoadWindow(100, 1, 1, 1, rate_met=False),)).side(9) == "missed"


def test_a_target_that_the_smallest_load_misses_has_no_load():
    search = searched(lambda load: 5.0, 1.0, 64)
    assert (search.outcome, search.load) == ("missed", None)
    assert [window.load for window in search.windows] == [64, 16, 2]


def test_a_target_that_no_load_misses_has_a_lower_end_alone():
    search = searched(lambda load: 0.5, 1.0, 1, least=1, most=100, whole=True)
    assert (search.outcome, search.load, search.high) == ("at least", 100, None)


def test_a_client_that_is_saturated_is_no_answer_about_the_engine():
    search = searched(queue(1000), 1000.0, 400, client=True)
    assert search.outcome == "client"
    assert search.load == present(search.low).load
