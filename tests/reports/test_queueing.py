"""Closed networks against closed forms, mean value analysis and a simulation."""

import heapq
import math
import random
from collections.abc import Sequence

import pytest

from reports.explain.queueing import Station, batch, bounds, processors, servers, solve

NETWORKS = [
    ([Station("disk", 3.0)], 0.0),
    ([Station("disk", 3.0), Station("log", 1.0)], 5.0),
    ([servers("processors", 4.0, 2), Station("disk", 1.0), batch("log", 6.0, 64)], 0.0),
    ([processors(4.0, 4, 2.5, 64), batch("log", 6.0, 64)], 2.0),
    ([servers("processors", 2.0, 8), Station("reads", 9.0, (1.0, 1.9, 2.7, 2.7, 3.1))], 1.0),
]


def by_mean_values(stations: Sequence[Station], customers: int, think_ns: float) -> float:
    """Throughput by the recursion of Reiser and Lavenberg, of load-dependent stations."""
    present = [[1.0] for _ in stations]
    throughput = 0.0
    for n in range(1, customers + 1):
        residence = [
            station.demand_ns * sum(j / station.speed(j) * p[j - 1] for j in range(1, n + 1))
            for station, p in zip(stations, present, strict=True)
        ]
        throughput = n / (think_ns + sum(residence))
        for i, station in enumerate(stations):
            at_least = [
                throughput * station.demand_ns / station.speed(j) * present[i][j - 1]
                for j in range(1, n + 1)
            ]
            present[i] = [1 - sum(at_least), *at_least]
    return throughput


@pytest.mark.parametrize(("stations", "think_ns"), NETWORKS)
@pytest.mark.parametrize("customers", [1, 2, 4, 8])
def test_the_solution_is_that_of_mean_value_analysis(stations, think_ns, customers):
    solution = solve(stations, customers, think_ns)
    expected = by_mean_values(stations, customers, think_ns)
    assert solution.throughput == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("customers", [1, 3, 10])
@pytest.mark.parametrize("count", [1, 3])
def test_the_machine_repairman(customers, count):
    """Machines that run for 10 and are repaired by so many in 2 (M/M/c//N)."""
    weights = [1.0]
    for n in range(1, customers + 1):
        weights.append(weights[-1] * (customers - n + 1) * 2.0 / 10.0 / min(n, count))
    running = sum((customers - n) * w for n, w in enumerate(weights)) / sum(weights)
    solution = solve([servers("repair", 2.0, count)], customers, 10.0)
    assert solution.throughput == pytest.approx(running / 10.0)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_equal_stations_with_one_server_each(count):
    """N customers at K stations of the same demand: N / (N + K - 1) of a station's rate."""
    stations = [Station(str(i), 7.0) for i in range(count)]
    assert solve(stations, 6).throughput == pytest.approx(6 / (6 + count - 1) / 7.0)


def test_one_station_of_many_customers_is_an_open_queue_at_its_mean():
    """With thousands of customers, arrivals do not depend on the queue, which is that of M/M/1 at
    the same utilization."""
    solution = solve([Station("server", 1.0)], 2000, 4000.0)
    utilization = 1 - solution.present(0)[0]
    assert utilization == pytest.approx(0.5, rel=1e-3)
    assert solution.queue(0) == pytest.approx(utilization / (1 - utilization), rel=2e-3)


@pytest.mark.parametrize(("stations", "think_ns"), NETWORKS)
@pytest.mark.parametrize("customers", [1, 2, 7, 64])
def test_bounds_contain_the_solution(stations, think_ns, customers):
    throughput = solve(stations, customers, think_ns).throughput
    within = bounds(stations, customers, think_ns)
    assert within.low * (1 - 1e-9) <= throughput <= within.high * (1 + 1e-9)


@pytest.mark.parametrize(("stations", "think_ns"), NETWORKS)
def test_every_customer_is_somewhere(stations, think_ns):
    """Little's law: those at stations and those that think add up."""
    solution = solve(stations, 5, think_ns)
    there = sum(solution.queue(i) for i in range(len(stations)))
    assert there + solution.throughput * think_ns == pytest.approx(5)
    assert all(sum(solution.present(i)) == pytest.approx(1) for i in range(len(stations)))


def test_many_customers_do_not_overflow():
    stations = [servers("processors", 500_000.0, 64), batch("log", 1_000_000.0, 1500)]
    assert solve(stations, 1500).throughput == pytest.approx(64 / 500_000.0, rel=0.01)


@pytest.mark.parametrize(("customers", "count", "think_ns"), [(8, 4, 30.0), (20, 2, 10.0)])
def test_seidmanns_approximation_is_near(customers, count, think_ns):
    """Several servers as a fast one, D / c, and a delay, D (c - 1) / c (Seidmann et al., 1987)."""
    exact = solve([servers("processors", 12.0, count)], customers, think_ns).throughput
    delay_ns = think_ns + 12.0 * (count - 1) / count
    near = solve([Station("processors", 12.0 / count)], customers, delay_ns).throughput
    assert near == pytest.approx(exact, rel=0.1)


def test_other_programs_take_their_share_of_the_processors():
    station = processors(100.0, 2, 2.0, 4)
    assert station.demand_ns == pytest.approx(150.0)  # one of three on two processors
    assert station.demand_ns / station.speed(4) == pytest.approx(100.0 * 6 / 8)
    alone = processors(100.0, 2, 0.0, 4)
    assert [alone.speed(n) for n in range(1, 5)] == [1.0, 2.0, 2.0, 2.0]


def simulated(customers: int, compute_ns: float, sync_ns: float, commits: float) -> float:
    """Throughput of operations that compute on two processors, and then, with a probability, wait
    for a log whose sync serves all that wait when it begins. All times are exponential."""
    choices = random.Random(1)
    now, done, computing, waiting, syncing = 0.0, 0, 0, 0, 0
    ready = customers
    events: list[tuple[float, str]] = []
    while done < 30_000:
        while ready and computing < 2:
            ready, computing = ready - 1, computing + 1
            heapq.heappush(events, (now + choices.expovariate(1 / compute_ns), "computed"))
        if waiting and not syncing:
            waiting, syncing = 0, waiting
            heapq.heappush(events, (now + choices.expovariate(1 / sync_ns), "synced"))
        now, what = heapq.heappop(events)
        if what == "synced":
            ready, done, syncing = ready + syncing, done + syncing, 0
        else:
            computing -= 1
            if choices.random() < commits:
                waiting += 1
            else:
                ready, done = ready + 1, done + 1
    return done / now


@pytest.mark.parametrize("customers", [1, 2, 4, 16, 64])
@pytest.mark.parametrize(
    ("compute_ns", "sync_ns", "commits"), [(400, 400, 1.0), (600, 1200, 0.92), (300, 100, 0.5)]
)
def test_group_commit_is_near_a_simulation(customers, compute_ns, sync_ns, commits):
    log = batch("log", commits * sync_ns, customers)
    solution = solve([servers("processors", compute_ns, 2), log], customers)
    measured = simulated(customers, compute_ns, sync_ns, commits)
    assert solution.throughput == pytest.approx(measured, rel=0.12)


def test_a_log_alone_serves_half_of_the_customers_with_each_sync():
    """They take turns: those that come during a sync wait for the next one."""
    assert solve([batch("log", 100.0, 8)], 8).throughput == pytest.approx(4 / 100.0)
    assert solve([batch("log", 100.0, 8)], 1).throughput == pytest.approx(1 / 100.0)
    assert math.isclose(solve([batch("log", 100.0, 8)], 2).throughput, 1 / 100.0)
