"""Distances in law between two samples, with bootstrap intervals.

With F and G the distribution functions of two samples of real numbers:

    ks           sup |F - G|                      unchanged by monotone transformations
    wasserstein  int |F - G| dx                   infinite between laws without a mean
    energy       sqrt(2 int (F - G)^2 dx)         the same as for vectors, below

The energy distance of samples of vectors is sqrt(2 E|X - Y| - E|X - X'| - E|Y - Y'|) with Euclidean
distances. For vectors, ``ks`` and ``wasserstein`` are the largest over coordinates; ``energy`` sees
the joint law, in time and memory of the squared sample size.

Both samples are resampled, and the interval is the basic one: with q the quantiles of the
resampled distances it runs from 2 value - q_high to 2 value - q_low, less what resampling adds.
That fails where the laws are equal, so samples of both sizes are also drawn from the pooled one:
their distance is sampling noise alone, and a value within it has an interval that begins at 0.

Reference: Szekely & Rizzo (2013) for the energy distance; Davison & Hinkley (1997), Section 5.2.
"""

from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mpgd.limits.paths.checks import binary_exponent, checked_path
from mpgd.parameters import check_integer, check_real, check_seed

Array = NDArray[np.float64]
Weigh = Callable[[Array], dict[str, Array]]  # distances, for rows of signed weights of all points

NAMES: Final = ("ks", "wasserstein", "energy")
_BATCH: Final = 1 << 18  # entries worked on at a time, so that they stay in the cache


@dataclass(frozen=True)
class Distance:
    """A distance between two samples.

    Attributes:
        value: the distance.
        low: where its bootstrap interval begins.
        high: where it ends.
        noise: the distance that two samples of one law exceed with probability 1 - level.
    """

    value: float
    low: float
    high: float
    noise: float

    def __str__(self) -> str:
        return f"{self.value:.4f} [{self.low:.4f}, {self.high:.4f}]"


def distances_in_law(
    x: ArrayLike, y: ArrayLike, resamples: int = 200, level: float = 0.95, seed: int = 0
) -> dict[str, Distance]:
    """Return the distances ``ks``, ``wasserstein`` and ``energy`` between two samples.

    Args:
        x: a sample, (n,) or (n, d).
        y: another one, of the same d; its size may differ.
        resamples: of the bootstrap, the same ones for all three distances; 0 gives NaN intervals.
        level: of the intervals, in (0, 1).
        seed: of the resampling.

    Raises:
        ValueError: a sample that is empty, not finite, or of another dimension; a bad level.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> found = distances_in_law(rng.normal(size=1000), rng.normal(1.0, size=1000))
        >>> found["wasserstein"].low < 1.0 < found["wasserstein"].high  # a shift by 1
        True
    """
    one, two = checked_path(x, "x"), checked_path(y, "y")
    if one.shape[1] != two.shape[1]:
        raise ValueError(
            f"x and y must have the same dimension, got {one.shape[1]} and {two.shape[1]}"
        )
    resamples = check_integer("resamples", resamples, 0)
    level = check_real("level", level, "(0, 1)", 0.0, 1.0, "()")
    half = binary_exponent(one, two) // 2  # so that no square of a huge or tiny number is taken
    one, two = np.ldexp(one, -2 * half), np.ldexp(two, -2 * half)
    weigh = _on_the_line(one[:, 0], two[:, 0]) if one.shape[1] == 1 else _in_space(one, two)
    n, k = len(one), len(two)
    value = weigh(np.repeat([[1.0 / n, -1.0 / k]], [n, k], axis=1))
    rng = np.random.default_rng(check_seed(seed))

    def again() -> Array:
        return np.concatenate((_drawn(rng, n, n), -_drawn(rng, k, k)))

    def pooled() -> Array:
        return _drawn(rng, n, n + k) - _drawn(rng, k, n + k)

    resampled, null = (_repeated(weigh, draw, resamples, n + k) for draw in (again, pooled))
    distances = {
        name: _interval(float(value[name][0]), resampled[name], null[name], level) for name in NAMES
    }
    return {
        name: _scaled(distances[name], {"wasserstein": 2 * half, "energy": half}.get(name, 0))
        for name in NAMES
    }


def _repeated(weigh: Weigh, draw: Callable[[], Array], count: int, points: int) -> dict[str, Array]:
    """Return the distances for ``count`` draws of weights, a few draws at a time."""
    rows = max(1, _BATCH // points)
    parts = [
        weigh(np.stack([draw() for _ in range(min(rows, count - first))]))
        for first in range(0, count, rows)
    ]
    return {name: np.concatenate([np.empty(0), *(part[name] for part in parts)]) for name in NAMES}


def _drawn(rng: np.random.Generator, draws: int, points: int) -> Array:
    """Return how often each of the points is drawn, with replacement, over the number of draws."""
    counts = np.bincount(rng.integers(points, size=draws), minlength=points)
    return np.asarray(counts / draws)


def _interval(value: float, again: Array, pooled: Array, level: float) -> Distance:
    if not again.size:
        return Distance(value, np.nan, np.nan, np.nan)
    q_low, q_high = np.quantile(again, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    noise = float(np.quantile(pooled, level))
    low = min(value, max(0.0, 2.0 * value - float(q_high))) if value > noise else 0.0
    return Distance(value, low, max(value, 2.0 * value - float(q_low)), noise)


def _scaled(distance: Distance, exponent: int) -> Distance:
    """Return a distance times 2^exponent."""
    return Distance(*(float(np.ldexp(x, exponent)) for x in astuple(distance)))


def _on_the_line(x: Array, y: Array) -> Weigh:
    """Return the three distances as a function of weights; the points are sorted only once."""
    pooled = np.concatenate((x, y))
    order = np.argsort(pooled, kind="stable")
    width = np.diff(pooled[order])
    ties = np.flatnonzero(width == 0.0)  # F - G counts between different points only

    def weigh(W: Array) -> dict[str, Array]:
        size = np.take(W, order, axis=1)
        np.abs(np.cumsum(size, axis=1, out=size), out=size)
        size = size[:, :-1]
        size[:, ties] = 0.0
        return {
            "ks": size.max(axis=1, initial=0.0),
            "wasserstein": size @ width,
            "energy": np.sqrt(2.0 * (size**2 @ width)),
        }

    return weigh


def _in_space(x: Array, y: Array) -> Weigh:
    """Return the same for vectors."""
    marginals = [_on_the_line(x[:, k], y[:, k]) for k in range(x.shape[1])]
    pairs = _pairwise(np.concatenate((x, y)))

    def weigh(W: Array) -> dict[str, Array]:
        each = [marginal(W) for marginal in marginals]
        distances = {name: np.max([one[name] for one in each], axis=0) for name in NAMES[:2]}
        squared = -((W @ pairs) * W).sum(axis=1)
        return distances | {"energy": np.sqrt(np.maximum(squared, 0.0))}

    return weigh


def _pairwise(points: Array) -> Array:
    """Return the Euclidean distances of all pairs."""
    n = len(points)
    out = np.empty((n, n))
    rows = max(1, _BATCH // points.size)
    for first in range(0, n, rows):
        apart = points[first : first + rows, None] - points[None]
        out[first : first + rows] = np.sqrt(np.einsum("ijk,ijk->ij", apart, apart))
    return out
