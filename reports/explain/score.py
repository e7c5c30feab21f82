"""What all comparisons say together: how device and engine go with one another, and how far each
model's predictions are off."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

import numpy as np

from reports.explain.comparisons import Explained
from reports.explain.known import Known, Missing
from reports.statistics import ALPHA, FloatArray, doubled_midranks
from reports.values import Summary, summarise

#: With fewer points there is neither a coefficient nor an average.
LEAST_POINTS = 8
_PERMUTATIONS = 20_000

Model = Literal["device ratio", "waits", "causal"]
MODELS: tuple[Model, ...] = get_args(Model)
_PREDICTION: dict[Model, Callable[[Explained], Known]] = {
    "device ratio": lambda one: one.device_ratio,
    "waits": lambda one: one.by_waits,
    "causal": lambda one: one.predicted,
}


@dataclass(frozen=True)
class Correlation:
    """Spearman's coefficient of device ratio and speed-up.

    ``rho``: None with fewer than ``LEAST_POINTS`` points, or where one of the two does not vary.
    ``chance_low``, ``chance_high``: where it lies in 95 % of random pairings; ``p``: the share of
    these in which it is as far from zero.
    """

    points: int
    rho: float | None = None
    chance_low: float | None = None
    chance_high: float | None = None
    p: float | None = None


@dataclass(frozen=True)
class Realised:
    """Realised fractions of one engine, of what moved, or of a class of queries.

    ``unresolved``: points with a device ratio that have none.
    """

    by: Literal["engine", "moved", "query class"]
    name: str
    summary: Summary | None
    unresolved: int

    @property
    def points(self) -> int:
        """With a realised fraction."""
        return self.summary.n if self.summary else 0

    @property
    def median(self) -> float | None:
        """None with too few points."""
        return self.summary.median if self.summary and self.points >= LEAST_POINTS else None


@dataclass(frozen=True)
class ModelError:
    """Predicted latency over measured latency − 1, of one point."""

    point: Explained
    error: float


@dataclass(frozen=True)
class ModelScore:
    """A model's errors. ``median``, ``largest``: of their size; None with too few points."""

    model: Model
    errors: tuple[ModelError, ...]
    median: float | None
    largest: float | None


@dataclass(frozen=True)
class Score:
    """Over all comparisons."""

    correlation: Correlation
    realised: tuple[Realised, ...]
    models: tuple[ModelScore, ...]


def score(rows: Sequence[Explained]) -> Score:
    """Points are queries, and comparisons of runs that have none."""
    found = points(rows)
    return Score(
        correlation(found),
        tuple(_realised(found)),
        tuple(_model(model, found) for model in MODELS),
    )


def points(rows: Sequence[Explained]) -> list[Explained]:
    """Without the comparisons whose queries are points themselves."""
    divided = {(one.where, one.a, one.b) for one in rows if one.query}
    return [one for one in rows if one.query or (one.where, one.a, one.b) not in divided]


def correlation(found: Sequence[Explained]) -> Correlation:
    """Of the points that have both."""
    both = [
        (one.device_ratio.value, one.measured.value)
        for one in found
        if not isinstance(one.device_ratio, Missing) and not isinstance(one.measured, Missing)
    ]
    if len(both) < LEAST_POINTS:
        return Correlation(len(both))
    return _spearman(tuple(both))


@lru_cache(maxsize=8)
def _spearman(pairs: tuple[tuple[float, float], ...]) -> Correlation:
    x, y = (_ranks(np.array(side)) for side in zip(*pairs, strict=True))
    n = len(pairs)
    scale = float(np.sqrt((x @ x) * (y @ y)))
    if scale == 0:
        return Correlation(n)
    rho = float(x @ y) / scale
    rng = np.random.default_rng(n)
    by_chance = np.array([x @ rng.permutation(y) for _ in range(_PERMUTATIONS)]) / scale
    low, high = np.quantile(by_chance, [ALPHA / 2, 1 - ALPHA / 2])
    as_far = int((np.abs(by_chance) >= abs(rho) - 1e-12).sum())
    return Correlation(n, rho, float(low), float(high), (1 + as_far) / (1 + _PERMUTATIONS))


def _ranks(values: FloatArray) -> FloatArray:
    """Centred mid-ranks."""
    ranks = doubled_midranks(values) / 2
    centred: FloatArray = ranks - ranks.mean()
    return centred


def _realised(found: Sequence[Explained]) -> Iterator[Realised]:
    with_ratio = [one for one in found if not isinstance(one.device_ratio, Missing)]
    names: dict[tuple[Literal["engine", "moved", "query class"], str], list[Explained]] = {}
    for one in with_ratio:
        names.setdefault(("engine", one.engine), []).append(one)
        names.setdefault(("moved", one.devices or ""), []).append(one)
        if one.query_class:
            names.setdefault(("query class", one.query_class), []).append(one)
    for (by, name), own in sorted(names.items(), key=lambda item: item[0]):
        values = [one.realised.value for one in own if not isinstance(one.realised, Missing)]
        yield Realised(by, name, summarise(values), len(own) - len(values))


def _model(model: Model, found: Sequence[Explained]) -> ModelScore:
    errors = []
    for one in found:
        predicted = _PREDICTION[model](one)
        if not isinstance(predicted, Missing) and not isinstance(one.measured, Missing):
            # A speed-up is latency on A over latency on B.
            errors.append(ModelError(one, one.measured.value / predicted.value - 1))
    if len(errors) < LEAST_POINTS:
        return ModelScore(model, tuple(errors), None, None)
    sizes = sorted(abs(one.error) for one in errors)
    return ModelScore(model, tuple(errors), float(np.median(sizes)), sizes[-1])
