"""Skorokhod's J1 and SM1 distances between two step paths.

A path has values x_0, ..., x_(n-1) at times s_0 < ... < s_(n-1) = T. It is right continuous: x_i
holds on [s_i, s_(i+1)), and the last value holds at T alone (repeat it to make it last). Both paths
live on the same interval, and a time change keeps its two ends.

J1, over the increasing bijections lambda of the interval:

    inf max( sup |lambda(s) - s| , sup |x(s) - y(lambda(s))| )

A lambda meets the pairs (x_i, y_j) in some order, from (x_0, y_0) to the last pair, where i, or j,
or both go up by one at each step. The cheapest time for that step is

    x jumps at s_i while y_j holds          distance of s_i from [t_j, t_(j+1)]
    y jumps at t_j while x_i holds          distance of t_j from [s_i, s_(i+1)]
    both jump                               |s_i - t_j|

and all these choices fit into one lambda, because clamping to ordered intervals keeps the order.
Where it is only weakly increasing it is a limit of increasing ones, which is all an infimum needs.
So the distance is the cheapest staircase of a minimax recursion over n m pairs, exactly. At T both
paths jump together, so in J1 a jump at T cannot be moved to an earlier one; in SM1 it can.

SM1: the Frechet distance, under max(|time|, |space|), of the graphs with each jump filled in by a
straight segment. Always SM1 <= J1, and a jump made in two halves a moment apart is close to the
whole jump in SM1 but not in J1; the paper's limit holds in SM1 only.

Reference: Lim, Wan & Simsekli (2022), Appendix B.1.1.
"""

import math
import operator
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mpgd.limits.paths import path_kernels
from mpgd.limits.paths.checks import Array, binary_exponent, checked_path, checked_times
from mpgd.limits.paths.frechet import completed_graph, frechet_distance

__all__ = ["skorokhod_distance"]

Indices = NDArray[np.int64]
TOPOLOGIES = ("J1", "SM1")


def skorokhod_distance(
    x: ArrayLike,
    y: ArrayLike,
    topology: Literal["J1", "SM1"] = "SM1",
    times_x: ArrayLike | None = None,
    times_y: ArrayLike | None = None,
    band: int | None = None,
) -> float:
    """Return the J1 or SM1 distance between two step paths.

    Args:
        x: values of axes (time,) or (time, coordinate); the space norm is Euclidean.
        y: values of the other path; its number of points may differ.
        topology: ``"J1"``, exact up to rounding, or ``"SM1"``, where bisection returns a number
            at most 1e-12 (relative) above the distance.
        times_x: strictly increasing times of the values, first and last the same for both paths.
            Without them, uniform on [0, 1] with both ends; one value alone is a constant path.
        times_y: the same for ``y``.
        band: compare x_i only with the values that y takes while x_i holds and the ``band`` values
            before and after those. The result is then an upper bound, at most the distance
            without time change, in time and memory proportional to ``band`` times the length. It is
            the distance itself once the band is wide enough: on a common uniform grid of step h
            this is certain when the result is below ``band * h``. None compares all.

    Raises:
        ValueError: an unknown topology, a negative band, paths that are empty, not finite or
            of different dimension, times that do not increase or do not share their ends.

    Examples:
        One jump, and the same jump made in two halves a tenth apart:

        >>> from mpgd.limits.paths.skorokhod import skorokhod_distance
        >>> whole, times = [0.0, 1.0, 1.0], [0.0, 0.5, 1.0]
        >>> halves, times_y = [0.0, 0.5, 1.0, 1.0], [0.0, 0.5, 0.6, 1.0]
        >>> skorokhod_distance(whole, halves, "J1", times, times_y)
        0.5
        >>> round(skorokhod_distance(whole, halves, "SM1", times, times_y), 9)
        0.1
    """
    if topology not in TOPOLOGIES:
        raise ValueError(f"topology must be one of {TOPOLOGIES}, got {topology!r}")
    if band is not None and operator.index(band) < 0:
        raise ValueError(f"band must be None or an integer >= 0, got {band!r}")
    x, s = _step_path(x, times_x, "x")
    y, t = _step_path(y, times_y, "y")
    _check_pair(x, s, y, t)
    exponent = binary_exponent(x, y, s, t)  # a common power of two keeps squares finite
    x, s, y, t = (np.ldexp(array, -exponent) for array in (x, s, y, t))
    distance = _j1_distance if topology == "J1" else _sm1_distance
    return float(np.ldexp(distance(x, s, y, t, band), exponent))


def _step_path(path: ArrayLike, times: ArrayLike | None, name: str) -> tuple[Array, Array]:
    values = checked_path(path, name)
    if times is not None:
        return values, checked_times(times, len(values), f"times_{name}")
    if len(values) == 1:
        values = np.repeat(values, 2, axis=0)
    return values, np.linspace(0.0, 1.0, len(values))


def _check_pair(x: Array, s: Array, y: Array, t: Array) -> None:
    if x.shape[1] != y.shape[1]:
        raise ValueError(
            f"x and y must have the same number of coordinates, got {x.shape[1]} and {y.shape[1]}"
        )
    if s[0] != t[0] or s[-1] != t[-1]:
        raise ValueError(
            "x and y must start and end at the same times, got "
            f"[{s[0]:.17g}, {s[-1]:.17g}] and [{t[0]:.17g}, {t[-1]:.17g}]"
        )


def _j1_distance(x: Array, s: Array, y: Array, t: Array, band: int | None) -> float:
    first, last = _window(s, t, band)
    distance = path_kernels.chosen(path_kernels.cheapest_staircase, _cheapest_staircase)
    return distance(x, s, y, t, first, last)


def _sm1_distance(x: Array, s: Array, y: Array, t: Array, band: int | None) -> float:
    """Segment 2i of a graph is the stay at x_i, segment 2i + 1 the jump that ends it."""
    first, last = _window(s, t, band)
    ahead = np.append(last[1:], last[-1:])  # while x jumps, y may move on to the next row's window
    columns = np.repeat(2 * first, 2), np.stack((2 * last + 1, 2 * ahead + 1), axis=1).ravel()
    upper = _j1_distance(x, s, y, t, band)
    return frechet_distance(completed_graph(x, s), completed_graph(y, t), *columns, upper)


def _window(s: Array, t: Array, band: int | None) -> tuple[Indices, Indices]:
    """Return, for every x_i, the first and the last j that it is compared with."""
    rows, end = len(s) - 1, len(t) - 2
    if band is None:
        return np.zeros(rows, dtype=np.int64), np.full(rows, end, dtype=np.int64)
    during_first = np.searchsorted(t, s[:-1], side="right") - 1
    during_last = np.searchsorted(t, s[1:], side="left") - 1
    band = min(band, end + 1)
    return np.maximum(during_first - band, 0), np.minimum(during_last + band, end)


def _cheapest_staircase(
    x: Array, s: Array, y: Array, t: Array, first: Indices, last: Indices
) -> float:
    """Return J1 by the recursion; cost[j] is the cheapest way to the pair (x_i, y_j)."""
    cost = np.full(len(t) - 1, np.inf)
    diagonal = 0.0  # the cost before (x_0, y_0)
    for i in range(len(s) - 1):
        if i > 0:
            # Left of the previous row's window the array still holds older rows.
            diagonal = cost[first[i] - 1] if first[i] > first[i - 1] else np.inf
        left = np.inf
        for j in range(first[i], last[i] + 1):
            x_jumps = max(cost[j], t[j] - s[i], s[i] - t[j + 1])
            y_jumps = max(left, s[i] - t[j], t[j] - s[i + 1])
            both = max(diagonal, abs(s[i] - t[j]))
            diagonal = cost[j]
            left = max(_gap(x, i, y, j), min(x_jumps, y_jumps, both))
            cost[j] = left
    return max(float(cost[-1]), _gap(x, len(x) - 1, y, len(y) - 1))


def _gap(x: Array, i: int, y: Array, j: int) -> float:
    if x.shape[1] == 1:
        return float(abs(x[i, 0] - y[j, 0]))
    total = 0.0
    for k in range(x.shape[1]):
        total += (x[i, k] - y[j, k]) ** 2
    return math.sqrt(total)
