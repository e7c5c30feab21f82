"""Closed networks of stations: throughput by the number of customers, and its bounds.

A station is a service centre whose speed depends on the number of customers there: processors, a
device that serves several calls at the same time, a log whose sync serves all that wait. With one
class of customers the product form is solved exactly by convolution (Buzen, CACM 16, 1973), which
gives the figures of mean value analysis of load-dependent centres (Reiser and Lavenberg, JACM 27,
1980) without its subtractions. Bounds: Lazowska et al., Quantitative System Performance (1984),
chapter 5. Times are in ns of an operation, throughput in operations per ns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reports.ranks import FloatArray


@dataclass(frozen=True)
class Station:
    """A service centre. ``demand_ns``: of an operation that is there alone.

    ``speeds``: with 1, 2, … customers there, as a multiple of the speed with one; the last is that
    of any more.
    """

    name: str
    demand_ns: float
    speeds: tuple[float, ...] = (1.0,)

    def speed(self, customers: int) -> float:
        return self.speeds[min(customers, len(self.speeds)) - 1]

    def fastest(self, customers: int) -> float:
        """The highest speed that so many customers can bring about."""
        return max(self.speeds[:customers])


def servers(name: str, demand_ns: float, count: int) -> Station:
    """Return a station of equal servers with one queue."""
    return Station(name, demand_ns, tuple(float(n) for n in range(1, count + 1)))


def processors(demand_ns: float, count: int, others: float, customers: int) -> Station:
    """Return processors that the customers share with other programs.

    ``others``: the number of these that always compute. Everybody who computes has the same share,
    as Linux's scheduler has it, and at most a processor.
    """
    speeds = [min(n, count * n / (n + others)) for n in range(1, customers + 1)]
    return Station("processors", demand_ns / speeds[0], tuple(s / speeds[0] for s in speeds))


def batch(name: str, demand_ns: float, customers: int) -> Station:
    """Return a server that serves all customers that wait at once, as group commit does.

    Of n customers that return at once, those that come during a service wait for the next, so that
    two services serve all n: n / 2 each. Its time does not depend on their number.
    """
    return Station(name, demand_ns, tuple(max(1.0, n / 2) for n in range(1, customers + 1)))


@dataclass(frozen=True)
class Solution:
    """A solved network. ``present``: by station, the probability of 0, 1, … customers there."""

    throughput: float
    present: tuple[tuple[float, ...], ...]

    def queue(self, station: int) -> float:
        """The mean number of customers at a station, those in service included."""
        return sum(n * p for n, p in enumerate(self.present[station]))


@dataclass(frozen=True)
class Bounds:
    """The asymptotic bounds of the throughput."""

    low: float
    high: float


def solve(stations: Sequence[Station], customers: int, think_ns: float = 0.0) -> Solution:
    """Solve a network with a number of customers, which also think where there is no queue."""
    weights = [_weights(station, customers) for station in stations]
    thinking = np.full(customers + 1, -math.inf)
    thinking[0] = 0.0
    if think_ns:
        n = np.arange(customers + 1)
        thinking = n * math.log(think_ns) - np.array([math.lgamma(i + 1.0) for i in n])
    total = thinking
    for weight in weights:
        total = _convolved(total, weight)
    present = []
    for station in range(len(weights)):
        others = thinking
        for other, weight in enumerate(weights):
            others = others if other == station else _convolved(others, weight)
        shares = np.exp(weights[station] + others[::-1] - total[customers])
        present.append(tuple(float(share) for share in shares))
    return Solution(math.exp(total[customers - 1] - total[customers]), tuple(present))


def bounds(stations: Sequence[Station], customers: int, think_ns: float = 0.0) -> Bounds:
    """Return the throughput if all customers always queue for each other, and if none ever does."""
    demand_ns = sum(station.demand_ns for station in stations)
    saturated = (
        station.fastest(customers) / station.demand_ns for station in stations if station.demand_ns
    )
    low = customers / (customers * demand_ns + think_ns)
    return Bounds(low, min(customers / (demand_ns + think_ns), *saturated))


def _weights(station: Station, customers: int) -> FloatArray:
    """Logarithms of the product-form factors of 0, 1, … customers there."""
    weights = np.full(customers + 1, -math.inf)
    weights[0] = 0.0
    if station.demand_ns > 0:
        speeds = [station.speed(n) for n in range(1, customers + 1)]
        weights[1:] = np.cumsum(math.log(station.demand_ns) - np.log(speeds))
    return weights


def _convolved(a: FloatArray, b: FloatArray) -> FloatArray:
    """Convolve two sequences that are given as logarithms; the first ones are finite."""
    return np.array([_sum_of(a[: n + 1] + b[n::-1]) for n in range(len(a))])


def _sum_of(terms: FloatArray) -> float:
    largest = float(terms.max())
    if largest == -math.inf:
        return largest
    return largest + math.log(float(np.exp(terms - largest).sum()))
