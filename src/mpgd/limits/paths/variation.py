"""The p-variation of a path, exactly and in nearly linear time.

For a path u_0, ..., u_(n-1) in R^d, p >= 1 and the Euclidean norm,

    |u|_p = ( sup over 0 = i_0 < ... < i_k = n-1 of  sum_j |u(i_j) - u(i_(j-1))|^p )^(1/p)

The step path through these points, and the path that joins them by segments, both have this
p-variation: for p >= 1 a point inside a segment never helps.

The definition is the recursion V(0) = 0, V(j) = max over i < j of V(i) + |u_j - u_i|^p, which asks
for n^2 / 2 pairs. V never decreases, so no point of a block i in [a, b) improves on a value r that
has been found already if V(b-1) + (largest distance from u_j to the block's bounding box)^p <= r.
Going backwards from j over dyadic blocks, larger after each block refused and smaller after each
one that is not, leaves a few dozen tests per point on the paths of stable processes. Nothing is
approximated; a path made to defeat the bounds still costs n^2.

Reference: Lim, Wan & Simsekli (2022), Appendix B.1.1. The idea of
skipping is known: Butkus & Norvaisa (2018) for real paths, Korepanov & Lyons (2018) in metric
spaces.
"""

import math
from typing import Final, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mpgd.limits.paths import path_kernels
from mpgd.limits.paths.checks import Array, binary_exponent, checked_path
from mpgd.parameters import check_flag

__all__ = ["p_variation"]

Indices = NDArray[np.int64]

LARGE: Final = 2.0**900  # a sum beyond it, or below its inverse, may have lost digits
HALVINGS: Final = 60  # of an interval of a few units: more would not change it
BEYOND: Final = 2.0**50  # a larger p changes nothing: n^(1/p) is 1 to the last digits


@overload
def p_variation(path: ArrayLike, p: float, partition: Literal[False] = False) -> float: ...
@overload
def p_variation(path: ArrayLike, p: float, partition: Literal[True]) -> tuple[float, Indices]: ...
def p_variation(
    path: ArrayLike, p: float, partition: bool = False
) -> float | tuple[float, Indices]:
    """Return the p-variation of a path, the supremum over all partitions of its points.

    Args:
        path: real numbers of axes (time,) or (time, coordinate).
        p: the exponent, finite and at least 1. For p = 1 this is the total variation.
        partition: return a partition that attains the supremum as well.

    Returns:
        ``(sup sum |increments|^p)^(1/p)``, up to rounding; 0 for a single point. With
        ``partition``, a pair of that and the indices of its points, from 0 to the last.

    Raises:
        ValueError: p below 1 or not finite; a path that is empty, not finite or of a wrong shape.

    Examples:
        >>> from mpgd.limits.paths.variation import p_variation
        >>> p_variation([0.0, 3.0, 2.0, 4.0], p=1)
        6.0
        >>> p_variation([0.0, 3.0, 2.0, 4.0], p=2)  # one step of 4 beats 3, 1 and 2
        4.0
        >>> p_variation([0.0, 3.0, 2.0, 4.0], p=2, partition=True)[1].tolist()
        [0, 3]
    """
    check_flag("partition", partition)
    if not 1.0 <= p < np.inf:  # written so that NaN fails too
        raise ValueError(f"p must be a finite number >= 1, got {p!r}")
    u, exponent = _scaled_to_unit_range(checked_path(path, "path"))
    kept = _turning_points(u) if u.shape[1] == 1 else np.arange(len(u))
    u = u[kept]
    if p == 1:
        total = float(np.sqrt((np.diff(u, axis=0) ** 2).sum(axis=1)).sum())
        chosen = np.arange(len(u))
    else:
        before = np.zeros(len(u), dtype=np.int64)
        total = _root_of_largest_sum(u, min(p, BEYOND), before) if (u != u[0]).any() else 0.0
        chosen = _walked_back(before)
    value = float(np.ldexp(total, exponent))
    return (value, kept[chosen]) if partition else value


def _root_of_largest_sum(u: Array, p: float, before: Indices) -> float:
    """Return V(n-1)^(1/p) of a path whose points are at most sqrt(d) apart, and 1/2 somewhere.

    For large p these powers vanish or overflow: 0.9^8000 is no double. Only a scale near the
    largest increment D will do. V is too small if the scale is above D and too large if it is
    below, so the scale is found by halving.
    """
    largest_sum = path_kernels.chosen(path_kernels.largest_sum, _largest_sum)
    low, high, e = -1.0, 0.5 * math.log2(u.shape[1]), 0.0  # of log2 D
    for _ in range(HALVINGS):
        scaled = u * 2.0**-e
        V = largest_sum(scaled, *_bounding_boxes(scaled), before, p / 2.0, LARGE)
        if 1.0 / LARGE < V < LARGE:
            return float(V ** (1.0 / p) * 2.0**e)
        low, high = (low, e) if V < 1.0 else (e, high)
        e = (low + high) / 2.0
    return float(2.0**e)


def _scaled_to_unit_range(u: Array) -> tuple[Array, int]:
    """Return u / 2^e and e: |increment|^p then neither overflows nor vanishes as a whole."""
    size = binary_exponent(u)
    u = np.ldexp(u, -size)  # first, because the range of a finite path can overflow
    spread = binary_exponent(u.max(axis=0) - u.min(axis=0))
    return np.ldexp(u, -spread), size + spread


def _turning_points(u: Array) -> Indices:
    """Return the ends and the local extrema; a real path's best partition needs no other point."""
    moved = np.flatnonzero(np.append(True, np.diff(u[:, 0]) != 0.0))
    if len(moved) == 1:
        return np.unique([0, len(u) - 1])
    rises = np.diff(u[moved, 0]) > 0.0
    turns = moved[np.concatenate(([True], rises[1:] != rises[:-1], [True]))]
    turns[-1] = len(u) - 1  # the same value: the path does not move after its last move
    return np.asarray(turns)


def _walked_back(before: Indices) -> Indices:
    """Return the points that lead to the last one, in order."""
    chosen = [len(before) - 1]
    while chosen[-1] > 0:
        chosen.append(int(before[chosen[-1]]))
    return np.array(chosen[::-1])


def _largest_sum(
    u: Array, low: Array, high: Array, before: Indices, half: float, enough: float
) -> float:
    """Return V(n-1), with |.|^p written as (|.|^2)^half, or any V(j) beyond ``enough``.

    ``low`` and ``high`` are `_bounding_boxes`; ``before`` becomes the best i of each j.
    """
    n, size = len(u), len(low) // 2
    V = np.zeros(n)
    previous = 0
    for j in range(1, n):
        # Two good guesses, so that most blocks are refused at once.
        best = V[j - 1] + _power(_reach(u, j, low, high, size + j - 1), half)
        guess = V[previous] + _power(_reach(u, j, low, high, size + previous), half)
        if guess > best:
            best = guess
        else:
            previous = j - 1
        # A block that ends at V(b-1) matters only if its squared reach exceeds this; V falls
        # backwards, so a value from a later block stays valid and is renewed only when it fails.
        needed = _power(best - V[j - 1], 1.0 / half)
        end, level = j, 0
        while end > 0:
            reach = _reach(u, j, low, high, (size >> level) + (end >> level) - 1)
            if reach > needed:
                needed = _power(best - V[end - 1], 1.0 / half)
            if reach <= needed:
                end -= 1 << level
                if end & ((2 << level) - 1) == 0:
                    level += 1
            elif level > 0:
                level -= 1
            else:
                end -= 1
                candidate = V[end] + _power(reach, half)
                if candidate > best:
                    best, previous = candidate, end
        V[j] = best
        before[j] = previous
        if best >= enough:
            return float(best)
    return float(V[n - 1])


def _bounding_boxes(u: Array) -> tuple[Array, Array]:
    """Return the corners of all dyadic blocks, (node, coordinate).

    Block b of 2^l points is node (size >> l) + b, where size is a power of two, at least the number
    of points; the last point is repeated up to it.
    """
    n, d = u.shape
    size = 1 << max(0, n - 1).bit_length()
    low, high = np.zeros((2 * size, d)), np.zeros((2 * size, d))
    low[size:] = high[size:] = u[np.minimum(np.arange(size), n - 1)]
    while size > 1:
        children = slice(size, 2 * size, 2), slice(size + 1, 2 * size, 2)
        parents = slice(size // 2, size)
        low[parents] = np.minimum(*(low[child] for child in children))
        high[parents] = np.maximum(*(high[child] for child in children))
        size //= 2
    return low, high


def _reach(u: Array, j: int, low: Array, high: Array, node: int) -> float:
    """Return the largest squared distance from u_j to a point of the node's box."""
    side = np.maximum(u[j] - low[node], high[node] - u[j])
    return float(np.cumsum(side * side)[-1])  # in this order, as paths.c


def _power(base: float, exponent: float) -> float:
    try:
        return base if exponent == 1.0 else float(base) ** exponent
    except OverflowError:  # C's pow returns infinity
        return math.inf
