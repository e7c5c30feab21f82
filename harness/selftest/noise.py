"""Reports' statistics on made-up noise: no difference, and how often one is shown all the same.

A family has several comparisons of two arms that differ in nothing, run as an experiment runs them:
in blocks, every second of which is reversed. Its decisions are made by the code of the reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from harness.selftest import Case, expect
from reports.ranks import FloatArray, Pairing
from reports.statistics import ALPHA, decide, ratio_of

FAMILIES = 2000
#: Comparisons of a family, and repeats of each arm: a difference can be shown.
MEMBERS, REPEATS = 4, 8
#: Of the noise, as a share.
_SPREAD = 0.05
#: Families in which B is slower by a factor of two.
_PLANTED_SHARE = 0.05
#: Noise of all executions in the order in which they are made, as factors. Shape: arms × 2.
_Noise = Callable[[np.random.Generator, int], FloatArray]


def _log_normal(rng: np.random.Generator, count: int) -> FloatArray:
    return np.exp(rng.normal(0, _SPREAD, count))


def _bimodal(rng: np.random.Generator, count: int) -> FloatArray:
    """One of two states, such as a turbo clock that is there or not."""
    return _log_normal(rng, count) * np.where(rng.random(count) < 0.3, 1.3, 1.0)


def _drifting(rng: np.random.Generator, count: int) -> FloatArray:
    """A trend of 1 % per execution, and a random walk."""
    walk = np.cumsum(rng.normal(0, _SPREAD, count))
    drift: FloatArray = np.exp(walk + 0.01 * np.arange(count) + rng.normal(0, _SPREAD, count))
    return drift


def _outliers(rng: np.random.Generator, count: int) -> FloatArray:
    """One execution of twenty takes up to ten times as long."""
    slow = np.where(rng.random(count) < 0.05, 1 + 9 * rng.random(count), 1.0)
    return _log_normal(rng, count) * slow


_NOISE: dict[str, _Noise] = {
    "log-normal": _log_normal,
    "bimodal": _bimodal,
    "drifting": _drifting,
    "outliers": _outliers,
}


def cases(families: int = FAMILIES) -> Iterator[Case]:
    """Each kind of noise in pairs; and without pairs, unless it drifts, which pairs are for."""
    for seed, (name, noise) in enumerate(_NOISE.items()):
        pairings: tuple[Pairing, ...] = (
            ("paired",) if name == "drifting" else ("paired", "unpaired")
        )
        for pairing in pairings:
            check = partial(_check, noise, pairing, families, seed)
            yield Case(f"statistics: {name} noise, {pairing}", check)


def _check(noise: _Noise, pairing: Pairing, families: int, seed: int) -> str:
    rng = np.random.default_rng(seed)
    false = sum(_shown(rng, noise, pairing, 1.0) > 0 for _ in range(families))
    planted = max(1, round(families * _PLANTED_SHARE))
    share = sum(_shown(rng, noise, pairing, 2.0) for _ in range(planted)) / planted / MEMBERS
    detail = (
        f"a difference is shown in {false} of {families:,} families without one "
        f"({false / families:.1%}), a factor of 2 in {share:.0%}"
    )
    return expect(false <= ALPHA * families and share >= 0.5, detail)


def _shown(rng: np.random.Generator, noise: _Noise, pairing: Pairing, factor: float) -> int:
    """Number of comparisons of one family in which a difference is shown."""
    family = []
    for _ in range(MEMBERS):
        blocks = noise(rng, 2 * REPEATS).reshape(REPEATS, 2)
        blocks[1::2] = blocks[1::2, ::-1]  # B runs first
        family.append(ratio_of(blocks[:, 0], factor * blocks[:, 1], pairing))
    return sum(decision.shown for decision in decide(family))
