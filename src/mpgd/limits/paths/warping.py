"""Alignments of two paths by dynamic programming, for upper bounds of distances in p-variation.

An alignment is a staircase of pairs (i, j), where i, or j, or both go up by one. Its cost is the
sum of |increment of x - increment of y|^p along it; pairs whose times are further apart than
``window`` are left out. Along the staircase both paths run linearly between pairs, so what the cost
leaves out of the p-variation is only the choice of a coarser partition.

Vertices alone would not do: half a jump must be able to meet the middle of a whole one. So `meet`
first adds to each segment the points that are nearest to vertices of the other path.
"""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mpgd.limits.paths.checks import Array

Indices = NDArray[np.int64]
Graph = tuple[Array, Array]  # times, values

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


def _graphs(
    s: Array, x: Array, t: Array, y: Array, window: float, p: float
) -> tuple[Indices, Indices, float]:
    """Return the best alignment of the vertices of two graphs and its largest time difference.

    Empty where no alignment stays inside the window.
    """
    n, m = len(s), len(t)
    cost = np.full((n, m), np.inf)
    came = np.zeros((n, m), dtype=np.int64)
    for i in range(n):
        for j in range(m):
            if abs(s[i] - t[j]) > window:
                continue
            if i == 0 and j == 0:
                cost[0, 0] = 0.0
                continue
            for move in range(1, 4):
                a, b = i - (move & 1), j - (move >> 1)
                if a >= 0 and b >= 0 and cost[a, b] < np.inf:
                    total = cost[a, b] + _step(x, a, i, y, b, j, p)
                    if total < cost[i, j]:
                        cost[i, j], came[i, j] = total, move
    return _back(cost, came, s, t)


def _steps(
    s: Array, x: Array, t: Array, y: Array, window: float, p: float
) -> tuple[Indices, Indices, float]:
    """Return the same for two step paths, whose pairs (i, j) are values that hold together."""
    n, m = len(s), len(t)
    cost = np.full((n, m), np.inf)
    came = np.zeros((n, m), dtype=np.int64)
    cost[0, 0] = 0.0
    for i in range(n):
        for j in range(m):
            for move in range(1, 4):
                a, b = i - (move & 1), j - (move >> 1)
                if a < 0 or b < 0 or _late(s, t, i, j, move) > window:
                    continue
                if cost[a, b] < np.inf:
                    total = cost[a, b] + _step(x, a, i, y, b, j, p)
                    if total < cost[i, j]:
                        cost[i, j], came[i, j] = total, move
    if not cost[n - 1, m - 1] < np.inf:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.inf
    i, j, late = n - 1, m - 1, 0.0
    rows, columns = [i], [j]
    while i > 0 or j > 0:
        move = came[i, j]
        late = max(late, _late(s, t, i, j, move))
        i, j = i - (move & 1), j - (move >> 1)
        rows.append(i)
        columns.append(j)
    return np.array(rows)[::-1], np.array(columns)[::-1], late


def _late(s: Array, t: Array, i: int, j: int, move: int) -> float:
    """Return how far a step to the pair (i, j) moves time; at the end both paths jump together."""
    x_ends, y_ends = i == len(s) - 1, j == len(t) - 1
    if x_ends or y_ends:
        return 0.0 if x_ends and y_ends and move == 3 else np.inf
    if move == 3:
        return float(abs(s[i] - t[j]))
    if move == 1:  # x jumps while y_j holds
        return float(max(0.0, t[j] - s[i], s[i] - t[j + 1]))
    return float(max(0.0, s[i] - t[j], t[j] - s[i + 1]))


def _back(cost: Array, came: Indices, s: Array, t: Array) -> tuple[Indices, Indices, float]:
    i, j, late = len(s) - 1, len(t) - 1, 0.0
    if not cost[i, j] < np.inf:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.inf
    rows, columns = [i], [j]
    while i > 0 or j > 0:
        late = max(late, abs(s[i] - t[j]))
        move = came[i, j]
        i, j = i - (move & 1), j - (move >> 1)
        rows.append(i)
        columns.append(j)
    return np.array(rows)[::-1], np.array(columns)[::-1], late


def _step(x: Array, a: int, i: int, y: Array, b: int, j: int, p: float) -> float:
    total = 0.0
    for k in range(x.shape[1]):
        total += (x[i, k] - x[a, k] - y[j, k] + y[b, k]) ** 2
    return float(math.sqrt(total) ** p)


aligned_graphs: tuple[Callable[..., Any], ...] = (_graphs, _back, _step)
aligned_steps: tuple[Callable[..., Any], ...] = (_steps, _late, _step)
