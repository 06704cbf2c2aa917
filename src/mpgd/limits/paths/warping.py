"""Alignments of two paths by dynamic programming, for upper bounds of distances in p-variation.

An alignment is a staircase of pairs (i, j), where i, or j, or both go up by one. Its cost is the
sum of |increment of x - increment of y|^p along it; pairs whose times are further apart than
``window`` are left out. Along the staircase both paths run linearly between pairs, so what the cost
leaves out of the p-variation is only the choice of a coarser partition.

Vertices alone would not do: half a jump must be able to meet the middle of a whole one. So `meet`
first adds to each segment the points that are nearest to vertices of the other path.
"""

import math
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mpgd.limits.paths import path_kernels
from mpgd.limits.paths.checks import Array

Indices = NDArray[np.int64]
Graph = tuple[Array, Array]  # times, values
Alignment = tuple[Indices, Indices, float]  # of x, of y, the largest time difference

MEETINGS: Final = 32  # points added to a segment at most


def meet(one: Graph, two: Graph, window: float) -> Graph:
    """Return ``one`` with the points added where vertices of ``two`` are nearest to its segments.

    The paths are compared from a common start, and only vertices within ``window`` in time count.
    """
    (s, x), (t, y) = one, (two[0], two[1] - two[1][0] + one[1][0])
    times, values = [s[:1]], [x[:1]]
    for i in range(1, len(s)):
        step = x[i] - x[i - 1]
        if step.any():
            part = _feet(x[i - 1], step, y[(t >= s[i - 1] - window) & (t <= s[i] + window)])
            values.append(x[i - 1] + part[:, None] * step)
            times.append(s[i - 1] + part * (s[i] - s[i - 1]))
        values.append(x[i : i + 1])
        times.append(s[i : i + 1])
    return np.concatenate(times), np.concatenate(values)


def _feet(origin: Array, step: Array, points: Array) -> Array:
    """Return where on a segment the points nearest to it have their feet, as parts of it."""
    foot = (points - origin) @ step / (step @ step)
    inside = (foot > 1e-9) & (foot < 1.0 - 1e-9)
    foot, points = foot[inside], points[inside]
    off = ((points - origin - foot[:, None] * step) ** 2).sum(axis=1)
    return np.unique(foot[np.argsort(off, kind="stable")[:MEETINGS]])


def align(one: Graph, two: Graph, window: float, p: float, steps: bool) -> Alignment:
    """Return the best alignment of two paths and its largest time difference.

    Empty, and an infinite difference, where no alignment stays inside the window.

    Args:
        one: times and values (time, coordinate).
        two: of the other path.
        window: the largest time difference allowed.
        p: the exponent of the cost.
        steps: whether these are step paths, whose pairs (i, j) are values that hold together; else
            they are graphs, whose pairs are vertices.
    """
    return path_kernels.chosen(path_kernels.align, _align)(*one, *two, window, p, steps)


def _align(
    s: Array, x: Array, t: Array, y: Array, window: float, p: float, steps: bool
) -> Alignment:
    n, m = len(s), len(t)
    cost, came = np.full((n, m), np.inf), np.zeros((n, m), dtype=np.int8)
    cost[0, 0] = 0.0
    for i, j, move in product(range(n), range(m), (1, 2, 3)):
        a, b = i - (move & 1), j - (move >> 1)
        if a < 0 or b < 0 or _late(s, t, i, j, move, steps) > window or cost[a, b] == np.inf:
            continue
        total = cost[a, b] + _step(x[i] - x[a] - y[j] + y[b], p)
        if total < cost[i, j]:
            cost[i, j], came[i, j] = total, move
    i, j, late = n - 1, m - 1, 0.0
    if cost[i, j] == np.inf:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.inf
    pairs = [(i, j)]
    while i > 0 or j > 0:
        move = int(came[i, j])
        late = max(late, _late(s, t, i, j, move, steps))
        i, j = i - (move & 1), j - (move >> 1)
        pairs.append((i, j))
    rows, columns = np.array(pairs[::-1]).T
    return rows, columns, late


def _late(s: Array, t: Array, i: int, j: int, move: int, steps: bool) -> float:
    """Return how far a step to the pair (i, j) moves time.

    At the end step paths jump together.
    """
    if not steps:
        return float(abs(s[i] - t[j]))
    x_ends, y_ends = i == len(s) - 1, j == len(t) - 1
    if x_ends or y_ends:
        return 0.0 if x_ends and y_ends and move == 3 else np.inf
    if move == 3:
        return float(abs(s[i] - t[j]))
    if move == 1:  # x jumps while y_j holds
        return float(max(0.0, t[j] - s[i], s[i] - t[j + 1]))
    return float(max(0.0, s[i] - t[j], t[j] - s[i + 1]))


def _step(difference: Array, p: float) -> float:
    square = float(np.cumsum(difference * difference)[-1])  # in this order, as paths.c
    return float(math.sqrt(square) ** p)
