"""A test whether a counted share can differ from its expectation by chance."""

from __future__ import annotations

import math

#: A probability of less than 10⁻⁹ is not chance.
_NO_CHANCE = math.log(1e9)


def describe_outlier(
    what: str, count: int, total: int, share: float, edge: int = 0, tries: int = 1
) -> str:
    """Describe a count that is too far from its share to be chance; empty if it is not.

    Chernoff's bound: the probability of ``count`` of ``total``, or of a more extreme count, is
    less than exp(-total · D), D being the divergence of the counted share from the expected one.
    ``edge``: most that may be added or missing for another reason than chance. ``tries``: number
    of counts of which this one was picked as the farthest.
    """
    limit = _NO_CHANCE + math.log(tries)
    nearest = min(max(total * share, count - edge), count + edge)
    possible = 0 <= nearest <= total
    if possible and (total == 0 or total * _divergence(nearest / total, share) <= limit):
        return ""
    return f"{what}: {count} of {total}, expected {_percent(share)}"


def _percent(share: float) -> str:
    """``43.48%``; three significant figures below 0.1 %."""
    return f"{share:.2%}" if share == 0 or share >= 0.001 else f"{100 * share:.3g}%"


def _divergence(found: float, expected: float) -> float:
    """Return Kullback and Leibler's divergence of one coin from another, in nats."""

    def part(p: float, q: float) -> float:
        if p <= 0:
            return 0.0
        return p * math.log(p / q) if q > 0 else math.inf

    return part(found, expected) + part(1 - found, 1 - expected)
