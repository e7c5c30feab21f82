"""Whether a share that was counted can have come by chance."""

from __future__ import annotations

import math

#: What comes by chance less than once in 10⁹ runs is not chance.
_NO_CHANCE = math.log(1e9)


def off(what: str, count: int, total: int, share: float, edge: int = 0, tries: int = 1) -> str:
    """What is too far from its share to be chance, in words; empty where it is not.

    Chernoff's bound: so many of ``total``, or more extreme, come with a probability of less
    than exp(-total · D), D being the divergence of the share found from that expected.
    ``edge``: how many more or fewer there may be for another reason than chance. ``tries``:
    out of how many such counts this one was picked because it is the farthest.
    """
    limit = _NO_CHANCE + math.log(tries)
    nearest = min(max(total * share, count - edge), count + edge)
    possible = 0 <= nearest <= total
    if possible and (total == 0 or total * _divergence(nearest / total, share) <= limit):
        return ""
    return f"{what}: {count} of {total}, not {_percent(share)}"


def _percent(share: float) -> str:
    """``43.48%``; of what is rare as many figures as tell it from nothing."""
    return f"{share:.2%}" if share == 0 or share >= 0.001 else f"{100 * share:.3g}%"


def _divergence(found: float, expected: float) -> float:
    """Kullback and Leibler's, of one coin from another, in nats."""

    def part(p: float, q: float) -> float:
        if p <= 0:
            return 0.0
        return p * math.log(p / q) if q > 0 else math.inf

    return part(found, expected) + part(1 - found, 1 - expected)
