"""Distances of paths in p-variation, and of paths whose jumps are filled in by path functions.

    sigma_p((X, Y)) = inf over time changes lambda of  max( |lambda - id| , |X o lambda - Y|_p )
    alpha_p((X, phi), (Y, psi))   = lim as delta -> 0 of  sigma_p(X^(phi, delta), Y^(psi, delta))
    alpha_oo((X, phi), (Y, psi))  the same with the largest distance instead of the p-variation

All three are pseudo-metrics. The p-variation does not see a constant, so two paths that differ by
one have sigma_p = 0, as the definition has it; compare the starts yourself.

alpha_oo is the Frechet distance of the graphs with their jumps filled in, under max(|time|,
|space|). It is computed to 1e-12 for the polygons through the samples of phi, which are off by at
most `PathPair.error` each. With straight segments it is the SM1 distance.

The infimum of sigma_p is over all time changes, and no algorithm for it is known to us. What is
computed is an interval that holds it. Every time change gives an upper bound: for each of some
bounds on |lambda - id| the alignment is found that minimises the sum of |increments of X - Y|^p,
by dynamic programming, and the p-variation of the difference along it is exact. Time and memory are
those of all pairs of vertices, so this is for paths of some hundred values. Below, since a
p-variation is at least the distance of two points, and by the triangle inequality,

    sigma_p >= sigma_oo of the paths moved to a common start,   sigma_p >= | |X|_p - |Y|_p | .

Reference: Lim, Wan & Simsekli (2022), Definitions B.3 and B.7, Remark B.1.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from mpgd.limits.paths.checks import binary_exponent
from mpgd.limits.paths.frechet import completed_graph, frechet_distance
from mpgd.limits.paths.path_functions import PathPair
from mpgd.limits.paths.skorokhod import skorokhod_distance
from mpgd.limits.paths.variation import p_variation
from mpgd.limits.paths.warping import Graph, align, meet

WINDOWS: Final = (0.02, 0.1, 0.3, 1.0)  # tried bounds of |lambda - id|, of the interval


@dataclass(frozen=True)
class PathDistance:
    """A distance of two paths, known to lie between two numbers.

    Attributes:
        low: it is at least this.
        high: and at most this, which some time change attains.

    Examples:
        >>> PathDistance(0.5, 1.0).error
        0.5
    """

    low: float
    high: float

    @property
    def error(self) -> float:
        """The length of the interval."""
        return self.high - self.low


def alpha_infinity(one: PathPair, two: PathPair) -> PathDistance:
    """Return alpha_oo of two admissible pairs, to within the samples of their path functions.

    Examples:
        One jump, and the same jump made in two halves a tenth apart:

        >>> whole = PathPair([0.0, 1.0, 1.0], [0.0, 0.5, 1.0])
        >>> halves = PathPair([0.0, 0.5, 1.0, 1.0], [0.0, 0.5, 0.6, 1.0])
        >>> round(alpha_infinity(whole, halves).high, 9)
        0.1
    """
    _check_pairs(one, two)
    value = _graph_distance(one.vertices, two.vertices)
    off = one.error + two.error
    return PathDistance(max(0.0, value - off), value + off)


def alpha_p_variation(one: PathPair, two: PathPair, p: float) -> PathDistance:
    """Return an interval that holds alpha_p of the polygons through two admissible pairs.

    Examples:
        >>> whole = PathPair([0.0, 1.0, 1.0], [0.0, 0.5, 1.0])
        >>> halves = PathPair([0.0, 0.5, 1.0, 1.0], [0.0, 0.5, 0.6, 1.0])
        >>> found = alpha_p_variation(whole, halves, p=1.5)
        >>> round(found.low, 9), round(found.high, 9)
        (0.1, 0.1)
    """
    _check_pairs(one, two)
    (s, x), (t, y) = one.vertices, two.vertices
    low = max(
        _graph_distance((s, x - x[0]), (t, y - y[0])), abs(p_variation(x, p) - p_variation(y, p))
    )
    return _interval(low, (s, x), (t, y), p, steps=False)


def sigma_p_variation(
    x: ArrayLike,
    y: ArrayLike,
    p: float,
    times_x: ArrayLike | None = None,
    times_y: ArrayLike | None = None,
) -> PathDistance:
    """Return an interval that holds sigma_p of two step paths, whose jumps are not filled in.

    Args:
        x: values (time,) or (time, coordinate).
        y: the other path.
        p: the exponent, at least 1.
        times_x: strictly increasing, first and last the same for both; uniform on [0, 1] without.
        times_y: the same for ``y``.

    Examples:
        >>> jump = [0.0, 1.0, 1.0]
        >>> found = sigma_p_variation(jump, jump, 1.5, [0, 0.5, 1], [0, 0.6, 1])
        >>> round(found.low, 9), round(found.high, 9)
        (0.1, 0.1)
    """
    one, two = PathPair(x, times_x, points=2), PathPair(y, times_y, points=2)
    _check_pairs(one, two)
    (s, u), (t, v) = (one.at, one.values), (two.at, two.values)
    low = max(
        skorokhod_distance(u - u[0], v - v[0], "J1", s, t),
        abs(p_variation(u, p) - p_variation(v, p)),
    )
    return _interval(low, (s, u), (t, v), p, steps=True)


def _interval(low: float, one: Graph, two: Graph, p: float, steps: bool) -> PathDistance:
    """Return low, and the best of all time changes that were tried."""
    # In one order whoever comes first: ties between alignments are then broken the same way.
    one, two = sorted((one, two), key=lambda path: (len(path[0]), *(a.tobytes() for a in path)))
    span, high = float(one[0][-1] - one[0][0]), np.inf
    for window in (low, *(part * span for part in WINDOWS)):
        high = min(high, _tried(one, two, window * (1.0 + 1e-12), p, steps))
        if high <= low * (1.0 + 1e-12):
            break
    return PathDistance(min(low, high), high)


def _tried(one: Graph, two: Graph, window: float, p: float, steps: bool) -> float:
    """Return the larger of time and p-variation along the best alignment inside the window."""
    if not steps:
        one, two = meet(one, two, window), meet(two, one, window)
    i, j, late = align(one, two, window, p, steps)
    return max(late, p_variation(one[1][i] - two[1][j], p)) if len(i) else np.inf


def _graph_distance(one: Graph, two: Graph) -> float:
    """Return the Frechet distance of two graphs with jumps filled in by polygons."""
    exponent = binary_exponent(*one, *two)
    (s, x), (t, y) = ((np.ldexp(a, -exponent), np.ldexp(b, -exponent)) for a, b in (one, two))
    P, Q = completed_graph(x, s), completed_graph(y, t)
    rows, columns = len(P) - 1, len(Q) - 1
    first, last = np.zeros(rows, dtype=np.int64), np.full(rows, columns - 1, dtype=np.int64)
    both = np.concatenate([x, y])
    upper = max(float(s[-1] - s[0]), float(np.linalg.norm(both.max(axis=0) - both.min(axis=0))))
    return float(np.ldexp(frechet_distance(P, Q, first, last, upper), exponent))


def _check_pairs(one: PathPair, two: PathPair) -> None:
    if one.values.shape[1] != two.values.shape[1]:
        raise ValueError(
            "both paths must have the same number of coordinates, got "
            f"{one.values.shape[1]} and {two.values.shape[1]}"
        )
    ends = [(float(pair.at[0]), float(pair.at[-1])) for pair in (one, two)]
    if ends[0] != ends[1]:
        raise ValueError(
            f"both paths must start and end at the same times, got {ends[0]} and {ends[1]}"
        )
