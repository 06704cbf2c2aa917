"""The Frechet distance of two graphs in (time, space), which is the SM1 distance of two paths.

For curves P and Q in R x R^d and the norm max(|time|, |space|),

    F(P, Q) = inf over monotone parametrisations a, b of [0, 1] of  max_r ||P(a(r)) - Q(b(r))||

The curves are completed graphs of step paths: their segments run in time alone (a value holds) or
in space alone (a jump). Is F <= eps? Segment i of P and segment j of Q span a rectangle of pairs
of positions, and the pairs within eps of each other are a convex part of it, since balls are
convex. So what a monotone walk can reach is known from the rectangles' sides alone: from the left
side it can reach all of the free part of the top, from the bottom only what is not lower than
where it came from; likewise for the right side. Two free intervals per rectangle, in closed form,
decide the question exactly. Only rectangles that can be reached are visited.

A lower bound of F is the cheapest monotone sequence of rectangles when crossing a side costs the
smallest distance on it; it leaves out only that a walk may not turn back on one segment. It is
often F itself. If the decision refuses it, bisection finds F.

Reference: Lim, Wan & Simsekli (2022), Definition B.2. The decision is that of Alt &
Godau (1995), with another norm.
"""

import math
import sys

import numpy as np
from numpy.typing import NDArray

from mpgd.limits.paths import path_kernels
from mpgd.limits.paths.checks import Array

__all__ = ["completed_graph", "frechet_distance"]

Indices = NDArray[np.int64]
TOLERANCE = 1e-12
TINY = sys.float_info.min
Place = tuple[float, float, float, float]


def completed_graph(x: Array, s: Array) -> Array:
    """Return the vertices (time, space) of a step path's graph, its jumps filled in by segments.

    The path has at least two values ``x`` (time, coordinate) at increasing times ``s``. Even
    segments run in time, odd ones in space.

    Examples:
        >>> import numpy as np
        >>> from mpgd.limits.paths.frechet import completed_graph
        >>> completed_graph(np.array([[0.0], [5.0]]), np.array([0.0, 1.0])).tolist()
        [[0.0, 0.0], [1.0, 0.0], [1.0, 5.0]]
    """
    return np.column_stack((np.repeat(s, 2)[1:], np.repeat(x, 2, axis=0)[:-1]))


def frechet_distance(P: Array, Q: Array, first: Indices, last: Indices, upper: float) -> float:
    """Return the Frechet distance of two completed graphs under max(|time|, |space|).

    Args:
        P: vertices of one completed graph.
        Q: vertices of the other one.
        first: for every segment of ``P``, the first segment of ``Q`` to compare with.
        last: the last one. Neither may decrease. If not all are compared, the result is an
            upper bound.
        upper: a number known to be at least the result.

    Returns:
        A number at most 1e-12, relative, above the distance, up to rounding.

    Examples:
        >>> import numpy as np
        >>> from mpgd.limits.paths.frechet import completed_graph, frechet_distance
        >>> P = completed_graph(np.array([[0.0], [1.0], [1.0]]), np.array([0.0, 0.5, 1.0]))
        >>> Q = completed_graph(np.array([[0.0], [1.0], [1.0]]), np.array([0.0, 0.75, 1.0]))
        >>> frechet_distance(P, Q, np.zeros(4, int), np.full(4, 3), upper=1.0)
        0.25
    """
    lower_bound = path_kernels.chosen(path_kernels.lower_bound, _lower_bound)
    is_within = path_kernels.chosen(path_kernels.is_within, _is_within)
    starts, ends = (math.sqrt(((P[k, 1:] - Q[k, 1:]) ** 2).sum()) for k in (0, -1))
    low = max(lower_bound(P, Q, first, last, _sides(Q, starts)), ends)
    high = low * (1.0 + TOLERANCE)
    if upper <= high:
        return upper
    if is_within(P, Q, high, first, last, _sides(Q, 0.0)):
        return low if is_within(P, Q, low, first, last, _sides(Q, 0.0)) else high
    low, high = high, upper
    while high - low > TOLERANCE * high and low < 0.5 * (low + high) < high:
        middle = 0.5 * (low + high)
        if is_within(P, Q, middle, first, last, _sides(Q, 0.0)):
            high = middle
        else:
            low = middle
    return float(high)


def _sides(Q: Array, start: float) -> Array:
    """Return what is known of the sides under the first row: only the first one is reached."""
    below = np.full(len(Q) - 1, np.inf)
    below[0] = start
    return below


def _lower_bound(P: Array, Q: Array, first: Indices, last: Indices, below: Array) -> float:
    """Return the cheapest monotone sequence of rectangles, if crossing a side costs its minimum.

    ``below[j]`` is the cheapest way to the side under rectangle (i, j), ``left`` to its left side.
    """
    line = P.shape[1] == 2
    for i in range(len(P) - 1):
        left = np.inf
        for j in range(first[i], last[i] + 1):
            enter = min(left, below[j])
            place = (
                _place_on_line(
                    P[i + 1, 0], P[i + 1, 1], Q[j, 0], Q[j + 1, 0], Q[j, 1], Q[j + 1, 1], j % 2 == 0
                )
                if line
                else _place(P, i + 1, Q, j)
            )
            below[j] = max(enter, _distance(place))
            place = (
                _place_on_line(
                    Q[j + 1, 0], Q[j + 1, 1], P[i, 0], P[i + 1, 0], P[i, 1], P[i + 1, 1], i % 2 == 0
                )
                if line
                else _place(Q, j + 1, P, i)
            )
            left = max(enter, _distance(place))
    return float(below[-1])


def _is_within(P: Array, Q: Array, eps: float, first: Indices, last: Indices, below: Array) -> bool:
    """Say whether the distance is at most eps, given that the two ends are that close.

    ``below[j]`` is the lowest position a walk can reach on the side under rectangle (i, j), as a
    distance along segment j, and infinite if there is none.
    """
    start, stop, inside = 0, 0, False
    for i in range(len(P) - 1):
        start = max(start, first[i])
        start, stop, inside = _sweep(P, i, Q, eps, below, start, stop, last[i])
        if start > stop:
            break
    # The end is free and its rectangle convex: to enter that rectangle is enough.
    return inside


def _sweep(
    P: Array, i: int, Q: Array, eps: float, below: Array, start: int, stop: int, last: int
) -> tuple[int, int, bool]:
    """Move ``below`` over row i, of which it reached columns ``start`` to ``stop``.

    Return the range of columns reached above the row, and whether the last rectangle was entered.
    """
    line = P.shape[1] == 2
    reached_first, reached_last = len(Q) - 1, -1
    left = np.inf
    inside = False
    j = start
    while j <= last and (j <= stop or left < np.inf):
        inside = left < np.inf or below[j] < np.inf
        if inside:
            place = (
                _place_on_line(
                    P[i + 1, 0], P[i + 1, 1], Q[j, 0], Q[j + 1, 0], Q[j, 1], Q[j + 1, 1], j % 2 == 0
                )
                if line
                else _place(P, i + 1, Q, j)
            )
            top = _lowest(place, eps, left, below[j])
            place = (
                _place_on_line(
                    Q[j + 1, 0], Q[j + 1, 1], P[i, 0], P[i + 1, 0], P[i, 1], P[i + 1, 1], i % 2 == 0
                )
                if line
                else _place(Q, j + 1, P, i)
            )
            left = _lowest(place, eps, below[j], left)
            below[j] = top
            if top < np.inf:
                reached_first, reached_last = min(reached_first, j), j
        j += 1
    is_end = i == len(P) - 2 and j == len(Q) - 1
    return reached_first, reached_last, inside and is_end


def _lowest(place: Place, eps: float, across: float, opposite: float) -> float:
    """Return the lowest position within eps that can be reached on a side, inf if there is none.

    All of it can be reached from the side ``across`` the corner, only what is not lower than
    ``opposite`` from the opposite side.
    """
    along, length, off, other = place
    if off > eps or other > eps:
        return np.inf
    half = eps if off == 0.0 else math.sqrt((eps - off) * (eps + off))
    low, high = max(0.0, along - half), min(length, along + half)
    if across == np.inf:
        low = max(low, opposite)
    return low if low <= high else np.inf


def _distance(place: Place) -> float:
    """Return the distance of a vertex from a segment."""
    along, length, off, other = place
    beyond = max(0.0, max(-along, along - length))
    return max(other, beyond if off == 0.0 else math.sqrt(off * off + beyond * beyond))


def _place(P: Array, i: int, Q: Array, j: int) -> Place:
    """Return where vertex i of P lies as seen from segment j of Q.

    The position of its foot along the segment's line, the segment's length, the distance from the
    line (these in time or in space, as the segment is), and the distance in the other one.
    """
    ahead = P[i, 0] - Q[j, 0]
    step2, product, gap2 = 0.0, 0.0, 0.0
    for k in range(1, P.shape[1]):
        step, gap = Q[j + 1, k] - Q[j, k], P[i, k] - Q[j, k]
        step2 += step * step
        product += step * gap
        gap2 += gap * gap
    if j % 2 == 0:
        return ahead, Q[j + 1, 0] - Q[j, 0], 0.0, math.sqrt(gap2)
    # At the ends of the segment the foot is exactly 0 or 1, so that equal graphs are at distance 0.
    foot = product / step2 if step2 > TINY else 0.0
    off2 = 0.0
    for k in range(1, P.shape[1]):
        off2 += (P[i, k] - Q[j, k] - foot * (Q[j + 1, k] - Q[j, k])) ** 2
    length = math.sqrt(step2)
    return foot * length, length, math.sqrt(off2), abs(ahead)


def _place_on_line(
    time: float, value: float, start: float, stop: float, origin: float, goal: float, flat: bool
) -> Place:
    """Return the same for one coordinate: (time, value) and the segment to (stop, goal).

    Numbers instead of arrays, which is several times as fast.
    """
    if flat:
        return time - start, stop - start, 0.0, abs(value - origin)
    rise = 1.0 if goal > origin else -1.0
    return rise * (value - origin), rise * (goal - origin), 0.0, abs(time - start)
