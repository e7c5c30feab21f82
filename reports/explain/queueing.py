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
    of any more. ``tier``: whose device it is.
    """

    name: str
    demand_ns: float
    speeds: tuple[float, ...] = (1.0,)
    tier: str = ""

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
    """A solved network.

    ``factors``: of each station, logarithms for 0, 1, … customers there; ``thinking``: the same of
    customers that think; ``ways``: of the network.
    """

    factors: tuple[FloatArray, ...]
    thinking: FloatArray
    ways: FloatArray

    @property
    def throughput(self) -> float:
        return math.exp(self.ways[-2] - self.ways[-1])

    def present(self, station: int) -> tuple[float, ...]:
        """The probability of 0, 1, … customers at a station."""
        others = self.thinking
        for other, factors in enumerate(self.factors):
            others = others if other == station else _convolved(others, factors)
        shares = np.exp(self.factors[station] + others[::-1] - self.ways[-1])
        return tuple(float(share) for share in shares)

    def queue(self, station: int) -> float:
        """The mean number of customers at a station, those in service included."""
        return sum(n * p for n, p in enumerate(self.present(station)))


@dataclass(frozen=True)
class Bounds:
    """The asymptotic bounds of the throughput."""

    low: float
    high: float


def solve(stations: Sequence[Station], customers: int, think_ns: float = 0.0) -> Solution:
    """Solve a network with a number of customers, which also think where there is no queue."""
    factors = tuple(_factors(station, customers) for station in stations)
    thinking = np.full(customers + 1, -math.inf)
    thinking[0] = 0.0
    if think_ns:
        n = np.arange(customers + 1)
        thinking = n * math.log(think_ns) - np.array([math.lgamma(i + 1.0) for i in n])
    ways = thinking
    for of_station in factors:
        ways = _convolved(ways, of_station)
    return Solution(factors, thinking, ways)


def bounds(stations: Sequence[Station], customers: int, think_ns: float = 0.0) -> Bounds:
    """Return the throughput if all customers always queue for each other, and if none ever does."""
    demand_ns = sum(station.demand_ns for station in stations)
    saturated = (
        station.fastest(customers) / station.demand_ns for station in stations if station.demand_ns
    )
    low = customers / (customers * demand_ns + think_ns)
    return Bounds(low, min(customers / (demand_ns + think_ns), *saturated))


def _factors(station: Station, customers: int) -> FloatArray:
    """Logarithms of the product-form factors of 0, 1, … customers there."""
    factors = np.full(customers + 1, -math.inf)
    factors[0] = 0.0
    if station.demand_ns > 0:
        speeds = [station.speed(n) for n in range(1, customers + 1)]
        factors[1:] = np.cumsum(math.log(station.demand_ns) - np.log(speeds))
    return factors


def _convolved(a: FloatArray, b: FloatArray) -> FloatArray:
    """Convolve two sequences that are given as logarithms; their first terms are finite."""
    n = np.arange(len(a))
    others = n[:, None] - n
    terms = np.where(others >= 0, a + b[np.maximum(others, 0)], -math.inf)
    largest = terms.max(axis=1)
    largest[largest == -math.inf] = 0.0
    with np.errstate(divide="ignore"):
        result: FloatArray = largest + np.log(np.exp(terms - largest[:, None]).sum(axis=1))
    return result
