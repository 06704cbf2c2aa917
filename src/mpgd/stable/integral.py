"""One tail of the standard stable law, by Zolotarev's integral and the trapezoidal rule.

With 1 < alpha <= 2, y > 0, tau = tan(pi (2 - alpha) / 2) and the angle

    epsilon = arctan(tau) + arctan(beta tau)         0 only if the tail y > 0 is thin
    Lambda  = (pi - epsilon) / alpha                 P(X > 0) = Lambda / pi

Zolotarev's integral in the distance delta to its upper end (Nolan's pi/2 - theta) is

    P(X > y) = 1/pi                      int_0^Lambda  e^(-g) d delta
    f(y)     = alpha / ((alpha-1) pi y)  int_0^Lambda  g e^(-g) d delta
    g = y^(alpha/(alpha-1)) V(delta)
    V = (cos(alpha theta_0) sin(delta) / sin(epsilon + alpha delta))^(1/(alpha-1))
        sin(epsilon + (alpha-1) delta) / sin(epsilon + alpha delta)

V grows with delta, so both integrals are positive and the first equals, by parts,
1/pi int g e^(-g) delta d(log V). Neither form subtracts anything, at any y.

The variable is t = log V + RATE w with w = log(delta / (Lambda - delta)): it moves where V moves,
and where V stands still (alpha near 2, beta near -1) it follows delta over its decades. In t the
integrands are analytic in a strip about the real line and vanish at both ends, so equal steps
converge geometrically: STEP = 0.28 leaves an error of a few 1e-14. The nodes t = j STEP do not
depend on y; they are found once for each (alpha, beta), and y enters only through e^(-g).

References: Zolotarev (1986), One-dimensional Stable Distributions, Theorem 2.2.3;
Nolan (1997), Stochastic Models 13, Theorem 1.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

STEP = 0.28  # halving it changes no value by more than 1e-13
RATE = 2.0
SMALLEST, LARGEST = 1e-18, 1e20  # outside, the law is its value at 0 or its leading power
LOG_OVERFLOW = 700.0  # e^(-g) is lost beyond g = e^700, even as a logarithm
DEPTH = 34.0  # -log of the relative weight below which nodes are left out
LOG_CUT = np.log(750.0)  # e^(-750) is 0 in double precision
CELL = 2.0  # values of y whose log y^(alpha/(alpha-1)) share a cell share their nodes
CHUNK = 100_000  # entries of the largest temporary array
FLAT = 1e-4  # its fourth power is below rounding
GRID = 8192  # starting points for Newton's method


class _Nodes(NamedTuple):
    """Log V, log(V d delta/dw) and the weights of both sums at t = j STEP; floor is log V(0)."""

    log_v: Array
    log_mass: Array
    weights: Array
    floor: float


def angle_offset(alpha: float, beta: float) -> float:
    """Return epsilon = arctan(tau) + arctan(beta tau), without cancellation near beta = -1.

    Args:
        alpha: stability index in (1, 2].
        beta: skewness in [-1, 1].

    Returns:
        An angle in [0, pi (2 - alpha)].

    Examples:
        >>> angle_offset(1.5, -1.0)
        0.0
        >>> round(angle_offset(1.5, 0.0) / np.pi, 12)
        0.25
    """
    tau = np.tan(0.5 * np.pi * (2.0 - alpha))
    return float(np.arctan2((1.0 + beta) * tau, 1.0 - beta * tau**2))


def log_tail(y: Array, alpha: float, beta: float) -> Array:
    """Return log P(X > y) for the standard law, at every entry of ``y`` >= 0.

    Args:
        y: one-dimensional, entries >= 0 or NaN.
        alpha: stability index in [1.01, 2].
        beta: skewness in [-1, 1].

    Returns:
        An array like ``y``.

    Examples:
        >>> float(np.round(np.exp(log_tail(np.array([0.0, 1.0]), 1.5, 0.0)), 6)[1])
        0.243658
    """
    return log_tail_and_density(y, alpha, beta)[0]


def log_density(y: Array, alpha: float, beta: float) -> Array:
    """Return the log density of the standard law at every entry of ``y`` >= 0.

    Args:
        y: one-dimensional, entries >= 0 or NaN.
        alpha: stability index in [1.01, 2].
        beta: skewness in [-1, 1].

    Returns:
        An array like ``y``.

    Examples:
        >>> float(np.round(np.exp(log_density(np.array([1.0]), 1.5, 0.0)), 6)[0])
        0.202038
    """
    return log_tail_and_density(y, alpha, beta)[1]


def log_tail_and_density(y: Array, alpha: float, beta: float) -> tuple[Array, Array]:
    """Return log P(X > y) and log f(y), which share their exponentials.

    Args:
        y: one-dimensional, entries >= 0 or NaN.
        alpha: stability index in [1.01, 2].
        beta: skewness in [-1, 1].

    Returns:
        Two arrays like ``y``.

    Examples:
        >>> tail, density = log_tail_and_density(np.array([0.0]), 2.0, 0.0)
        >>> np.round(np.exp([tail[0], density[0]]), 6).tolist()
        [0.5, 0.282095]
    """
    nodes = _nodes(alpha, beta)
    thin = np.isfinite(nodes.floor)
    inside = np.clip(y, SMALLEST, np.inf if thin else LARGEST)
    log_y = np.log(inside)
    sums = _log_sums(alpha / (alpha - 1.0) * log_y, nodes)
    # A thick tail is its leading power c y^-alpha, to the last bit, beyond LARGEST.
    beyond = np.zeros_like(y) if thin else np.log(np.maximum(y, LARGEST) / LARGEST)
    density = sums[1] + np.log(alpha / (alpha - 1.0)) - log_y
    return sums[0] - alpha * beyond, density - (alpha + 1.0) * beyond


def _log_sums(xi: Array, nodes: _Nodes) -> Array:
    """Return log(1/pi int g e^(-g) (delta du, d delta)) with log g = xi + u, shape (2, xi)."""
    sums = np.full((2, xi.size), -np.inf)
    sums[:, np.isnan(xi)] = np.nan
    for cell, members in _cells(xi, nodes.floor):
        here = _slice(nodes, cell * CELL)
        floor = np.exp(nodes.floor + cell * CELL)
        level = np.exp(here.log_v + cell * CELL)
        # V - V(0) through expm1: on a thin tail the whole integral lives where they nearly agree.
        excess = -level * np.expm1(here.floor - here.log_v)
        rows = max(1, CHUNK // here.log_v.size)
        for start in range(0, members.size, rows):
            rank = members[start : start + rows]
            growth = xi[rank] - cell * CELL
            factor = np.exp(growth)
            total = (here.weights * level) @ np.exp(-excess[:, None] * factor)
            sums[:, rank] = np.log(total) + growth - floor * factor
    return sums


def _cells(xi: Array, floor: float) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Yield each occupied cell number with the ranks of its entries."""
    ceiling = LOG_OVERFLOW - floor if np.isfinite(floor) else np.inf
    ranks = np.flatnonzero(xi < ceiling)
    cells = np.floor(xi[ranks] / CELL).astype(np.int64)
    order = np.argsort(cells, kind="stable")
    numbers, starts = np.unique(cells[order], return_index=True)
    groups = np.split(ranks[order], starts[1:]) if numbers.size else []
    yield from zip(numbers.tolist(), groups, strict=True)


def _slice(nodes: _Nodes, xi: float) -> _Nodes:
    """Keep the nodes that matter for log y^(alpha/(alpha-1)) in [xi, xi + CELL]."""
    u = nodes.log_v
    stop = int(np.searchsorted(u, np.logaddexp(LOG_CUT, nodes.floor + xi + CELL) - xi))
    centre = min(int(np.searchsorted(u, np.logaddexp(nodes.floor, -xi - CELL))), u.size - 1)
    start = int(np.searchsorted(nodes.log_mass, nodes.log_mass[centre] - DEPTH))
    keep = slice(start, stop)
    return _Nodes(u[keep], nodes.log_mass[keep], nodes.weights[:, keep], nodes.floor)


@lru_cache(maxsize=32)
def _nodes(alpha: float, beta: float) -> _Nodes:
    """Solve t(w) = j STEP for w and weigh the nodes."""
    grid = np.linspace(_leftmost(alpha, beta), 60.0, GRID)
    t = _geometry(grid, alpha, beta)[0] + RATE * grid
    target = STEP * np.arange(np.ceil(t[0] / STEP), np.floor(t[-1] / STEP))
    w = np.interp(target, t, grid)
    for _ in range(5):  # t is smooth on the scale of the grid: three steps reach rounding
        u, slope, _, _ = _geometry(w, alpha, beta)
        w = w - (u + RATE * w - target) / (slope + RATE)
    u, slope, delta, d_delta = _geometry(w, alpha, beta)
    weights = STEP / np.pi / (slope + RATE) * np.stack([delta * slope, d_delta])
    # Both increase but for rounding, which binary searches do not forgive.
    log_v, log_mass = np.maximum.accumulate(np.stack([u, u + np.log(d_delta)]), axis=1)
    return _Nodes(log_v, log_mass, weights, _floor(alpha, beta))


def _geometry(w: Array, alpha: float, beta: float) -> tuple[Array, Array, Array, Array]:
    """Return u = log V, du/dw, delta and d delta/dw at delta = Lambda / (1 + e^-w)."""
    epsilon, a = angle_offset(alpha, beta), alpha - 1.0
    width = (np.pi - epsilon) / alpha
    delta, phi = width / (1.0 + np.exp(-w)), width / (1.0 + np.exp(w))
    # sin(epsilon + alpha delta) = sin(alpha phi): take the form whose argument is not near pi.
    near_end = alpha * phi < 0.5 * np.pi
    angle = np.where(near_end, alpha * phi, epsilon + alpha * delta)
    ratio = _cos_alpha_theta(alpha, beta) * np.sin(delta) / np.sin(angle)
    u = np.log(ratio) / a + np.log(np.sin(epsilon + a * delta) / np.sin(angle))
    cotangent = np.where(near_end, 1.0, -1.0) / np.tan(angle)
    slope = 1.0 / np.tan(delta) + a**2 / np.tan(epsilon + a * delta) + alpha**2 * cotangent
    slope = np.maximum(slope / a, 0.0)
    if epsilon == 0.0:  # the logarithms and cotangents cancel: log V = log V(0) + alpha delta^2 / 2
        flat = delta < FLAT
        u = np.where(flat, _floor(alpha, beta) + 0.5 * alpha * delta**2, u)
        slope = np.where(flat, alpha * delta, slope)
    d_delta = delta * phi / width
    return u, slope * d_delta, delta, d_delta


def _leftmost(alpha: float, beta: float) -> float:
    """Return a w below every node that a y up to LARGEST needs."""
    epsilon = angle_offset(alpha, beta)
    if epsilon == 0.0:
        return -60.0
    # There V ~ (cos(alpha theta_0) delta / sin(epsilon))^(1/(alpha-1)).
    depth = alpha * np.log(LARGEST) + (alpha - 1.0) * (DEPTH + CELL)
    edge = np.log(np.sin(epsilon) / _cos_alpha_theta(alpha, beta))
    return float(min(-60.0, edge - depth - 3.0))


def _floor(alpha: float, beta: float) -> float:
    """Return log V(0), which is finite for a thin tail only."""
    if angle_offset(alpha, beta) > 0.0:
        return -np.inf
    ratio = _cos_alpha_theta(alpha, beta) / alpha
    return float(np.log(ratio) / (alpha - 1.0) + np.log((alpha - 1.0) / alpha))


def _cos_alpha_theta(alpha: float, beta: float) -> float:
    tau = np.tan(0.5 * np.pi * (2.0 - alpha))
    return float(1.0 / np.hypot(1.0, beta * tau))
