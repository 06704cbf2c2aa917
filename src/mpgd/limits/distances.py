"""Distances in law between two samples, with bootstrap intervals.

With F and G the distribution functions of two samples of real numbers:

    ks           sup |F - G|                      unchanged by monotone transformations
    wasserstein  int |F - G| dx                   infinite between laws without a mean
    energy       sqrt(2 int (F - G)^2 dx)         the same as for vectors, below

The energy distance of samples of vectors is sqrt(2 E|X - Y| - E|X - X'| - E|Y - Y'|) with Euclidean
distances. For vectors, ``ks`` and ``wasserstein`` are the largest over coordinates; ``energy`` sees
the joint law, in time and memory of the squared sample size.

Both samples are resampled, and the interval is the basic one: with q the quantiles of the
resampled distances it runs from 2 value - q_high to 2 value - q_low, cut at 0. A resampled distance
is too large by about as much as the sample's own, and this takes it off again, so the interval
may lie below the value where the value is mostly sampling noise.

Reference: Szekely & Rizzo (2013) for the energy distance; Davison & Hinkley (1997), Section 5.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mpgd.limits._paths import checked_path
from mpgd.parameters import check_integer, check_real, check_seed

Array = NDArray[np.float64]
Weigh = Callable[[Array, Array], dict[str, float]]  # distances of two weighted samples

NAMES: Final = ("ks", "wasserstein", "energy")
_BATCH: Final = 1 << 22  # entries of a block of pairwise distances


@dataclass(frozen=True)
class Distance:
    """A distance and the ends of its bootstrap interval."""

    value: float
    low: float
    high: float

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

    Example:
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
    weigh = _on_the_line(one[:, 0], two[:, 0]) if one.shape[1] == 1 else _in_space(one, two)
    value = weigh(np.full(len(one), 1 / len(one)), np.full(len(two), 1 / len(two)))
    rng = np.random.default_rng(check_seed(seed))
    again = [weigh(_weights(rng, len(one)), _weights(rng, len(two))) for _ in range(resamples)]
    return {name: _interval(value[name], [a[name] for a in again], level) for name in NAMES}


def _weights(rng: np.random.Generator, n: int) -> Array:
    """Return how often each of n points is drawn in n draws with replacement, over n."""
    return np.bincount(rng.integers(n, size=n), minlength=n) / n


def _interval(value: float, again: list[float], level: float) -> Distance:
    if not again:
        return Distance(value, np.nan, np.nan)
    low, high = np.quantile(again, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return Distance(value, max(0.0, 2.0 * value - high), max(0.0, 2.0 * value - low))


def _on_the_line(x: Array, y: Array) -> Weigh:
    """Return the three distances as a function of weights; the points are sorted only once."""
    pooled = np.concatenate((x, y))
    order = np.argsort(pooled, kind="stable")
    gaps = np.diff(pooled[order])
    distinct = gaps > 0.0  # F - G is looked at between different points only

    def weigh(p: Array, q: Array) -> dict[str, float]:
        difference = np.cumsum(np.concatenate((p, -q))[order])[:-1][distinct]
        size, width = np.abs(difference), gaps[distinct]
        return {
            "ks": float(size.max(initial=0.0)),
            "wasserstein": float(size @ width),
            "energy": float(np.sqrt(2.0 * (size**2 @ width))),
        }

    return weigh


def _in_space(x: Array, y: Array) -> Weigh:
    """Return the same for vectors."""
    marginals = [_on_the_line(x[:, k], y[:, k]) for k in range(x.shape[1])]
    points = np.concatenate((x, y))
    pairs = _pairwise(points)

    def weigh(p: Array, q: Array) -> dict[str, float]:
        each = [marginal(p, q) for marginal in marginals]
        signed = np.concatenate((p, -q))
        found = {name: max(one[name] for one in each) for name in ("ks", "wasserstein")}
        squared = -float(signed @ (pairs @ signed))
        return found | {"energy": max(0.0, squared) ** 0.5}

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
