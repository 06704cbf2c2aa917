"""The fractal dimension of a trajectory, or of a cloud of points: by lags, spanning trees or boxes.

A stable Levy path in d dimensions has dimension min(alpha, d); that is how alpha enters Theorem 4.2
(Lim, Wan & Simsekli 2022). With n points at n times and D the dimension:

    lags  E log|x(t + k) - x(t)| = const + H log k,   D = min(1/H, d)
    mst   (mean of e^a over the n - 1 edges e of the minimal spanning tree)^(1/a) ~ n^(-1/D)
    box   number of boxes of side s that hold a point ~ s^(-D)

lags uses the order of time. Hypothesis: a self-similar path with stationary increments, such as a
stable or a (fractional) Brownian one. For these the line is exact at every lag, so that crossings
of the path, which slow the others down, do not matter. Lags are 1, 2, 4, ... up to n/64. The
interval is 95 % Student over 8 stretches of time, widened by the bend of the line towards small
lags: where a path has several regimes it is wide. `python -m benchmarks.tails dimension` measures
how often it covers: in at least 97.5 % of 200 paths of each kind there.

The edges of mst are the lifetimes of zero-dimensional persistent homology, and a < D is needed. The
default a = 0 is the limit, the geometric mean: right for every D (on a line the edges add up to the
length, so a = 1 gives 1 even for a Cantor set) and not dominated by a few long jumps. Where points
are spread unevenly it reads the information dimension; larger a leans to the box dimension.
It thins the points to every 16th, 8th, 4th, 2nd and all, over all offsets: a trajectory stays
evenly spaced in time, where random thinning mixes gaps and at n = 4096 adds 0.2 to D. box averages
over random offsets of the grid and keeps sides with between n^0.35 and n/16 boxes occupied.

mst and box have no interval. Their error is the bias of finite n, which no scatter shows. It is at
most (tests/theory/test_dimension.py):

    set                                        mst, n = 8192   box, n = 16384
    segment 1, Cantor set log 2 / log 3        0.03            0.08
    stable path in ten dimensions, alpha       0.06            0.3
    stable path in the plane, alpha 1.2, 1.5   0.15            0.3
    Brownian path in three dimensions, 2       0.15            0.4

Near alpha = d the path crosses itself and the approach is logarithmic: of a Brownian path in the
plane mst reads 1.77 at n = 16384, not 2, and of a stable one of alpha 1.8 it reads 1.67.

References: Adams et al. (2020) and Schweinhart (2021) for trees; Birdal et al. (2021).
"""

from dataclasses import dataclass
from functools import partial
from math import inf, log, nan, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mpgd.limits.paths import path_kernels
from mpgd.theory.tails.index import checked_rows, within_range

Array = NDArray[np.float64]

STRIDES = (16, 8, 4, 2, 1)
STRETCHES = 8
STUDENT = 2.3646  # 97.5 % quantile with STRETCHES - 1 degrees of freedom
LONGEST = 64  # points of the path for each step of the longest lag
FLAT = 0.1  # a slope below which increments do not grow with the lag
SHIFTS = 2
MIN_POINTS = {"lags": 512, "mst": 512, "box": 8192}


@dataclass(frozen=True)
class Dimension:
    """An estimate of a dimension, the ends of its interval (NaN if none), the estimator's name.

    Examples:
        >>> Dimension(1.5, 1.4, 1.6, "lags").high
        1.6
    """

    value: float
    low: float
    high: float
    method: str


def trajectory_dimension(
    points: ArrayLike, method: str = "lags", *, power: float = 0.0, seed: int = 0
) -> Dimension:
    """Estimate the dimension of a trajectory, in order of time, or of points in random order.

    The tree costs n^2 steps: 8192 points in the plane take 0.3 s, about ten times that where mpgd
    was installed without a C compiler. Repeated points count once there.

    Args:
        points: Shape (n,) or (time, coordinate); 512 different points, 8192 for "box".
        method: "lags" for a trajectory, evenly spaced in time: it has an interval. "mst" or "box"
            for points in any order: they have none.
        power: The a of "mst"; 0 for the geometric mean.
        seed: Seed of the grid offsets of "box".

    Examples:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> path = trajectory_dimension(rng.normal(size=(4096, 2)).cumsum(axis=0))
        >>> path.low < 2.0 <= path.high
        True
        >>> segment = np.outer(rng.random(2048), [1.0, 2.0, 3.0])
        >>> round(trajectory_dimension(segment, "mst").value, 1)
        1.0
    """
    if method not in MIN_POINTS:
        raise ValueError(f"method must be lags, mst or box, got {method!r}")
    if not 0.0 <= power < inf:
        raise ValueError(f"power must be finite and at least 0, got {power!r}")
    x, first = _checked(points, MIN_POINTS[method])
    if method == "lags":
        return Dimension(*_by_lags(x), method)
    rng = np.random.default_rng(seed)
    curve = partial(_tree_curve, power=power) if method == "mst" else partial(_box_curve, rng=rng)
    return Dimension(_reciprocal(-_slope(*curve(x[first]))), nan, nan, method)


def spanning_tree_edges(points: ArrayLike) -> Array:
    """Return the n - 1 edge lengths of the Euclidean minimal spanning tree of (n, coordinate).

    Examples:
        >>> spanning_tree_edges([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]]).tolist()
        [4.0, 3.0]
    """
    x = np.array(points, dtype=np.float64)
    if x.ndim != 2 or len(x) < 2:
        raise ValueError(f"points must have shape (n >= 2, coordinate), got {x.shape}")
    squares: Array = path_kernels.chosen(path_kernels.spanning_tree, _spanning_tree)(x)
    return np.sqrt(squares)


def _checked(points: ArrayLike, needed: int) -> tuple[Array, NDArray[np.intp]]:
    """Return the points, and where each different one is first."""
    x = within_range(checked_rows(points, "points", "(time, coordinate)"))
    first = np.unique(x, axis=0, return_index=True)[1]
    if len(first) == 1:
        raise ValueError(
            f"points must differ, got {len(x)} identical ones: no dimension is defined"
        )
    if len(first) < needed:
        raise ValueError(f"points must have at least {needed} different rows, got {len(first)}")
    return x, np.sort(first)


def _by_lags(x: Array) -> tuple[float, float, float]:
    """Return min(1/H, d); the half-width of H from stretches of time, and from the line's bend."""
    lags = 2 ** np.arange((len(x) // LONGEST).bit_length())
    log_lags, d = np.log(lags), float(x.shape[1])
    sizes = _log_increments(x, lags)
    slope, few = _slope(log_lags, sizes), (len(lags) + 1) // 2
    if not slope > FLAT:
        raise ValueError(
            f"increments must grow with the lag, got a slope of {slope:.2f}: these are no points "
            "of a path in order of time; use method='mst'"
        )
    bend = abs(_slope(log_lags[:few], sizes[:few]) - slope)
    parts = np.array_split(x, STRETCHES)
    slopes = [_slope(log_lags, _log_increments(part, lags)) for part in parts]
    half = STUDENT * float(np.std(slopes, ddof=1)) / sqrt(STRETCHES) + bend
    value, low, high = (_reciprocal(h) for h in (slope, slope + half, slope - half))
    return min(value, d), min(low, d), min(high, d)


def _log_increments(x: Array, lags: NDArray[np.int_]) -> Array:
    """Return the mean log of the distances of points ``lag`` apart, for every lag.

    A path that stands still has increments of 0, which have no logarithm: they are left out.
    """
    means = []
    for lag in lags:
        squares = ((x[lag:] - x[:-lag]) ** 2).sum(axis=1)
        if not (moved := squares[squares > 0.0]).size:
            raise ValueError(f"points must move, got {len(squares)} increments of 0 at lag {lag}")
        means.append(0.5 * float(np.log(moved).mean()))
    return np.array(means)


def _slope(x: Array, y: Array) -> float:
    """Return the slope of the line of least squares."""
    centered = x - x.mean()
    return float(centered @ y / (centered @ centered))


def _reciprocal(inverse: float) -> float:
    return 1.0 / inverse if inverse > 0.0 else inf


def _tree_curve(x: Array, power: float) -> tuple[Array, Array]:
    """Return log n and the log of the mean edge at each stride, averaged over offsets."""
    log_n = [np.mean([log(len(x[o::k])) for o in range(k)]) for k in STRIDES]
    size = [np.mean([_log_mean_edge(x[o::k], power) for o in range(k)]) for k in STRIDES]
    return np.array(log_n), np.array(size)


def _log_mean_edge(x: Array, power: float) -> float:
    edges = spanning_tree_edges(x)
    if power == 0.0:
        return float(np.log(edges).mean())
    return log(float(np.mean(edges**power))) / power


def _box_curve(x: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return log counts and log sides where counts lie between n^0.35 and n / 16."""
    few, many = 0.35 * log(len(x)), log(len(x) / 16.0)
    x = x - x.min(axis=0)
    counts, sides = [], []
    # Below 2^-50 of the extent boxes are finer than rounding.
    for side in float(x.max()) * 2.0 ** (-np.arange(400) / 8.0):
        count = _log_boxes(x, float(side), rng)
        if count > many:
            break
        if count >= few:
            counts.append(count)
            sides.append(log(side))
    if len(counts) < 3:
        raise ValueError(
            f"points leave {len(counts)} box sides between too few and too many boxes, 3 are "
            "needed: give more points or use method='mst'"
        )
    return np.array(counts), np.array(sides)


def _log_boxes(x: Array, side: float, rng: np.random.Generator) -> float:
    """Return the log of the number of occupied boxes, averaged over offsets of the grid."""
    # A box is known by one 64-bit number, a random odd combination of its indices.
    key = rng.integers(2**62, size=x.shape[1], dtype=np.int64) * 2 + 1
    logs = []
    for offset in rng.random((SHIFTS, x.shape[1])):
        boxes = np.floor(x / side + offset).astype(np.int64)
        logs.append(log(len(np.unique(boxes @ key))))
    return float(np.mean(logs))


def _spanning_tree(x: Array) -> Array:
    """Return the squared edges: join the nearest outside point until none is left (Prim)."""
    x, outside = x.copy(), len(x) - 1
    nearest = np.full(outside, np.inf)
    edges = np.empty(outside)
    newest = x[outside].copy()
    while outside:
        squares = ((x[:outside] - newest) ** 2).sum(axis=1)
        nearest[:outside] = np.minimum(nearest[:outside], squares)
        j = int(np.argmin(nearest[:outside]))
        outside -= 1
        edges[outside], newest = nearest[j], x[j].copy()
        x[j], nearest[j] = x[outside], nearest[outside]
    return edges[::-1].copy()
