"""The standard stable law: every function of x, for one alpha and beta.

Its coordinate z is S0 within BAND of alpha = 1 (`near_one`) and S1 elsewhere; `location` shifts one
into the other. Cauchy's (alpha = 1, beta = 0) and Levy's law (1/2, +-1) have closed forms.

For alpha > 1 and y > 0, with tau = tan(pi (2 - alpha) / 2), A = alpha, a = A - 1 and the angle

    epsilon = arctan(tau) + arctan(beta tau)         0 only if the tail y > 0 is thin
    Lambda  = (pi - epsilon) / A                     P(X > 0) = Lambda / pi

Zolotarev's integral in the distance delta to its upper end (Nolan's pi/2 - theta) is

    P(X > y) = 1/pi                      int_0^Lambda  e^(-g) d delta
    f(y)     = alpha / ((alpha-1) pi y)  int_0^Lambda  g e^(-g) d delta
    g = y^(alpha/(alpha-1)) (cos(alpha theta_0))^(1/(alpha-1)) V(delta)
    V = (sin(delta) / sin(epsilon + A delta))^(1/a) sin(epsilon + a delta) / sin(epsilon + A delta)

For alpha < 1 it is the same V with A = 1/alpha and epsilon = pi/2 - theta_0 (Zolotarev's duality),
and with delta = alpha (theta + theta_0)

    P(0 < X < y) = 1/(alpha pi)          int_0^Lambda  e^(-g) d delta
    f(y)         = 1/((1-alpha) pi y)    int_0^Lambda  g e^(-g) d delta

V grows with delta. z < 0 is the same side of -beta.

References: Zolotarev (1986), One-dimensional Stable Distributions, Theorems 2.2.3 and 2.3.2;
Nolan (1997), Stochastic Models 13, Theorem 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from mpgd.stable.integral import CELL, DEPTH, PAGE, Array, Integral
from mpgd.stable.near_one import log_near_one

BAND = 0.01  # |alpha - 1| below which S0 is the coordinate
SUBTRACT_FROM = 1.2  # there P(X < 0) is at least 1/6
LEVY_FAR = 25.0  # beyond, erfc is its asymptotic series
SIDE_POINTS, FAR_POINTS = 40, 12  # of the table of quantiles, on either side of 0
NEWTON_STEPS = 80
FLAT = 1e-4  # its fourth power is below rounding
LEFT_END = -690.0  # w at which e^w, times the squared width of the integral, underflows
LOG_DIGITS = 42.0  # e^-42 is far below rounding: two terms of a series that differ so much


def skew_shift(alpha: float, beta: float) -> float:
    """Return beta tan(pi alpha/2), by which S1 is to the right of S0; alpha is not 1.

    Examples:
        >>> skew_shift(2.0, 1.0), round(skew_shift(1.5, 1.0), 12)
        (-0.0, -1.0)
    """
    if alpha > 1.0:
        return -beta * math.tan(0.5 * math.pi * (2.0 - alpha))
    return beta * math.tan(0.5 * math.pi * alpha)


def location(alpha: float, beta: float, loc: float, scale: float, parametrization: str) -> float:
    """Return the m with X = m + scale Z, where Z is the standard law in its own coordinate.

    Examples:
        >>> location(1.5, 1.0, 2.0, 3.0, "S1"), round(location(1.5, 1.0, 2.0, 3.0, "S0"), 12)
        (2.0, 5.0)
        >>> round(location(1.0, 1.0, 0.0, math.e, "S1"), 12) == round(2.0 * math.e / math.pi, 12)
        True
    """
    natural = "S0" if abs(alpha - 1.0) < BAND else "S1"
    if parametrization == natural or beta == 0.0:
        return loc
    if alpha == 1.0:
        return loc + 2.0 / math.pi * beta * scale * math.log(scale)
    sign = 1.0 if natural == "S0" else -1.0
    return loc + sign * scale * skew_shift(alpha, beta)


def log_functions(z: Array, alpha: float, beta: float, rows: Sequence[int] = (0, 1, 2)) -> Array:
    """Return log P(X > z), log P(X < z) and log f(z), each computed in its own tail.

    Args:
        z: one-dimensional, NaN allowed.
        alpha: stability index in (0, 2].
        beta: skewness in [-1, 1].
        rows: which of the three; the result has shape (row, z).

    Examples:
        >>> np.round(np.exp(log_functions(np.array([0.0]), 2.0, 0.0)), 6).ravel().tolist()
        [0.5, 0.5, 0.282095]
    """
    with np.errstate(divide="ignore", over="ignore", under="ignore", invalid="ignore"):
        if alpha == 1.0 and beta == 0.0:
            return _cauchy(z)[list(rows)]
        if alpha == 0.5 and abs(beta) == 1.0:
            return (_levy(z) if beta > 0.0 else _levy(-z)[[1, 0, 2]])[list(rows)]
        if abs(alpha - 1.0) < BAND:
            return log_near_one(z, alpha, beta)[list(rows)]
        return _two_sides(z, alpha, beta, rows)


def _two_sides(z: Array, alpha: float, beta: float, rows: Sequence[int]) -> Array:
    """Join the sides z >= 0 and z < 0, the second one by the reflection X(beta) ~ -X(-beta)."""
    out = np.empty((len(rows), z.size))
    negative = np.signbit(z)
    for side, skew in ((~negative, beta), (negative, -beta)):
        if not side.any():
            continue
        order = [1 - row if row < 2 and side is negative else row for row in rows]
        # Far from 1 both sides of 0 have mass, and 1 - P(X > |z|) loses nothing.
        subtract = alpha > SUBTRACT_FROM
        asked = [0 if row == 1 and subtract else row for row in order]
        values = log_side(np.abs(z[side]), alpha, skew, asked)
        if 1 in order:
            inside = values[order.index(1)]
            other = _mass_above(alpha, -skew)
            if subtract:
                inside[:] = np.log1p(-np.exp(inside))
            elif other > 0.0:  # P(X < |z|) is P(0 < X < |z|) and P(X < 0)
                inside[:] = np.logaddexp(inside, np.log(other))
            inside[np.isinf(z[side])] = 0.0
        out[:, side] = values
    return out


def _mass_above(alpha: float, beta: float) -> float:
    """Return P(X > 0) in S1, alpha not 1."""
    return angles(alpha, beta)[1] / math.pi / max(alpha, 1.0)


def _cauchy(z: Array) -> Array:
    """Cauchy's law: P(X > z) = arctan(1/z) / pi for z > 0."""
    size = np.abs(z)
    tail = np.log(np.arctan2(1.0, size) / np.pi)
    rest = np.log1p(-np.exp(tail))
    # 1 + z^2 overflows where its logarithm does not.
    density = -math.log(math.pi) - np.logaddexp(0.0, 2.0 * np.log(size))
    right = z >= 0.0
    return np.stack([np.where(right, tail, rest), np.where(right, rest, tail), density])


def _levy(z: Array) -> Array:
    """Levy's law: P(X < z) = erfc(s), P(X > z) = erf(s) with s = 1 / sqrt(2 z), z > 0."""
    x = np.where(z > 0.0, z, 0.0)
    s = np.sqrt(0.5 / x)
    tail = np.array([math.log(math.erf(v)) if v > 0.0 else -math.inf for v in s])
    near = np.array([math.log(math.erfc(v)) if v < LEVY_FAR else -math.inf for v in s])
    y = 0.5 / np.maximum(s, LEVY_FAR) ** 2
    series = np.log1p(-y * (1.0 - 3.0 * y * (1.0 - 5.0 * y * (1.0 - 7.0 * y * (1.0 - 9.0 * y)))))
    far = -(s**2) - np.log(s * math.sqrt(math.pi)) + series
    with np.errstate(invalid="ignore"):
        density = -0.5 * math.log(2.0 * math.pi) - 1.5 * np.log(x) - 0.5 / x
    density = np.where(x == 0.0, -np.inf, density)
    out = np.stack([tail, np.where(s < LEVY_FAR, near, far), density])
    return np.where(np.isnan(z), np.nan, out)


# ---- one side, away from alpha = 1 ---------------------------------------------------------------


class Side(NamedTuple):
    """The side y > 0 of a law: g = exp(power log y + offset) V; smallest and largest log y."""

    power: float
    offset: float
    log_ends: tuple[float, float]
    integral: Integral


def angles(alpha: float, beta: float) -> tuple[float, float]:
    """Return epsilon and pi - epsilon, both without cancellation.

    alpha is not 1. The second one is 0 if the law has no mass on y > 0.

    Examples:
        >>> angles(1.5, -1.0)[0]
        0.0
        >>> angles(0.5, -1.0)[1]
        0.0
        >>> round(angles(1.5, 0.0)[0] / np.pi, 12)
        0.25
    """
    if alpha > 1.0:
        tau = math.tan(0.5 * math.pi * (2.0 - alpha))
        epsilon = math.atan2((1.0 + beta) * tau, 1.0 - beta * tau**2)
        return epsilon, math.pi - epsilon
    tau = math.tan(0.5 * math.pi * alpha)
    epsilon = math.atan2((1.0 - beta) * tau, 1.0 + beta * tau**2) / alpha
    return epsilon, math.atan2((1.0 + beta) * tau, 1.0 - beta * tau**2) / alpha


def log_side(y: Array, alpha: float, beta: float, rows: Sequence[int] = (0, 1, 2)) -> Array:
    """Return log P(X > y), log P(0 < X < y) and log f(y), which share their exponentials.

    Args:
        y: one-dimensional, entries >= 0 or NaN.
        alpha: stability index in (0, 0.99] or [1.01, 2].
        beta: skewness in [-1, 1].
        rows: which of the three; the result has shape (row, y).

    Examples:
        >>> tail, inside, density = np.exp(log_side(np.array([1.0]), 1.5, 0.0)).ravel()
        >>> round(float(tail), 6), round(float(tail + inside), 12), round(float(density), 6)
        (0.243658, 0.5, 0.202038)
    """
    if angles(alpha, beta)[1] == 0.0:
        nowhere = np.full((len(rows), y.size), -np.inf)
        return np.where(np.isnan(y), np.nan, nowhere)
    side = side_of(alpha, beta)
    with np.errstate(divide="ignore"):
        log_y = np.log(y)
    inside = np.clip(log_y, *side.log_ends)
    swapped = [1 - row if row < 2 and alpha < 1.0 else row for row in rows]
    sums = side.integral.log_sums(side.power * inside + side.offset, swapped)
    # Beyond the ends the functions are their leading powers, to the last bit.
    with np.errstate(invalid="ignore"):
        beyond = np.maximum(log_y - side.log_ends[1], 0.0)
        below = np.minimum(log_y - side.log_ends[0], 0.0)
    for row, values in zip(rows, sums, strict=True):
        if alpha < 1.0:
            values -= math.log(alpha)
        if row == 2:
            values += math.log(alpha / abs(alpha - 1.0)) - inside - (alpha + 1.0) * beyond
        else:
            values += below if row else -alpha * beyond
    return sums


@lru_cache(maxsize=128)
def side_of(alpha: float, beta: float) -> Side:
    """Return the nodes and constants of one side."""
    epsilon, omega = angles(alpha, beta)
    A = alpha if alpha > 1.0 else 1.0 / alpha
    tangent = beta * math.tan(0.5 * math.pi * min(alpha, 2.0 - alpha))
    offset = -math.log(math.hypot(1.0, tangent)) / (alpha - 1.0)
    power = alpha / (alpha - 1.0)
    ends = _log_ends(alpha, epsilon)
    highest = max(power * end + offset for end in ends)
    floor, width = _floor(A, epsilon), omega / A
    left, end = _leftmost(A, epsilon, omega, highest), LEFT_END - 2.0 * math.log(width)
    slow, ends_w = left < end, (max(left, end), 110.0 if left < end else 60.0)
    integral = Integral(lambda w: _geometry(w, A, epsilon, omega), ends_w, floor, width, slow)
    return Side(power, offset, ends, integral)


def _log_ends(alpha: float, epsilon: float) -> tuple[float, float]:
    """Return the log y between which the sums are needed.

    Outside, the convergent and the asymptotic series in y are their first terms. A one-sided law
    or a thin tail has none: there the sums go on until they underflow.
    """
    second, first = math.lgamma(2.0 / alpha), math.lgamma(1.0 / alpha)
    low, high = -LOG_DIGITS - max(second - first, 0.0), 46.0 / min(alpha, 1.0)
    if epsilon > 0.0:
        return low, high
    return (low, 710.0) if alpha > 1.0 else (-745.0, high)


def _geometry(
    w: Array, A: float, epsilon: float, omega: float
) -> tuple[Array, Array, Array, Array]:
    """Return u = log V, du/dw, delta and d delta/dw at delta = Lambda / (1 + e^-w)."""
    a, width = A - 1.0, omega / A
    delta, phi = width / (1.0 + np.exp(-w)), width / (1.0 + np.exp(w))
    # sin(epsilon + A delta) = sin(A phi): take the form with an argument that is not near pi.
    end = A * phi < 0.5 * np.pi
    angle = np.where(end, A * phi, epsilon + A * delta)
    past = epsilon + a * delta > 0.5 * np.pi
    middle = np.where(past, omega - a * delta, epsilon + a * delta)
    u = np.log(np.sin(delta) / np.sin(angle)) / a + np.log(np.sin(middle) / np.sin(angle))
    cotangent = np.where(end, 1.0, -1.0) / np.tan(angle)
    second = np.where(past, -1.0, 1.0) / np.tan(middle)
    slope = np.maximum((1.0 / np.tan(delta) + a**2 * second + A**2 * cotangent) / a, 0.0)
    if epsilon == 0.0:  # logarithms and cotangents cancel: log V = log V(0) + A delta^2 / 2
        flat = delta * max(1.0, 0.1 * A) < FLAT
        u = np.where(flat, _floor(A, epsilon) + 0.5 * A * delta**2, u)
        slope = np.where(flat, A * delta, slope)
    d_delta = delta * phi / width
    return u, slope * d_delta, delta, d_delta


def _leftmost(A: float, epsilon: float, omega: float, highest: float) -> float:
    """Return a w below every node that a xi up to ``highest`` needs."""
    if epsilon == 0.0:
        return -60.0
    # There V ~ (delta / sin(epsilon))^(1/a), and delta / Lambda ~ e^w.
    edge = math.log(math.sin(min(epsilon, omega))) - math.log(omega / A)
    return min(-60.0, edge - (A - 1.0) * (highest + DEPTH + CELL * (PAGE + 1)) - 3.0)


def _floor(A: float, epsilon: float) -> float:
    """Return log V(0), which is finite for a thin tail only."""
    if epsilon > 0.0:
        return -math.inf
    return -math.log(A) / (A - 1.0) + math.log((A - 1.0) / A)


# ---- quantiles -----------------------------------------------------------------------------------


def quantile(p: Array, q: Array, alpha: float, beta: float) -> Array:
    """Return the z with P(X < z) = p and P(X > z) = q = 1 - p, by Newton's method in a bracket.

    Args:
        p: one-dimensional, in [0, 1] or NaN.
        q: 1 - p, given apart because it may be tiny.
        alpha: stability index in (0, 2].
        beta: skewness in [-1, 1].

    Returns:
        An array like ``p``.

    Examples:
        >>> p = np.array([0.0, 0.25, 1.0])
        >>> np.round(quantile(p, 1.0 - p, 1.0, 0.0), 12).tolist()
        [-inf, -1.0, inf]
    """
    lower = p <= q
    z = np.full_like(p, np.nan)
    with np.errstate(divide="ignore", over="ignore"):
        target = np.log(np.where(lower, p, q))
        z[lower] = _invert(target[lower], 1, alpha, beta)
        z[~lower] = _invert(target[~lower], 0, alpha, beta)
    z[np.isnan(p)] = np.nan
    z[p == 0.0], z[q == 0.0] = support(alpha, beta)
    return z


def support(alpha: float, beta: float) -> tuple[float, float]:
    """Return the ends of the support in the law's own coordinate.

    Examples:
        >>> support(0.7, 1.0), support(1.5, 1.0)
        ((0.0, inf), (-inf, inf))
    """
    # Within BAND of 1 the coordinate is S0, so that the end is -beta tan(pi alpha/2).
    if alpha >= 1.0 or abs(beta) < 1.0:
        return -math.inf, math.inf
    end = -skew_shift(alpha, beta) if 1.0 - alpha < BAND else 0.0
    return (end, math.inf) if beta > 0.0 else (-math.inf, end)


def _invert(target: Array, which: int, alpha: float, beta: float) -> Array:
    """Return the z at which the function number ``which`` of `log_functions` is ``target``."""
    grid, values = _table(alpha, beta)[which]
    upper = np.clip(np.searchsorted(values, target), 1, grid.size - 1)
    low, high = grid[upper - 1].copy(), grid[upper].copy()
    floor = 1e-320 if alpha < 0.1 else 0.0  # as near to 0 lie quantiles there
    z = _between(low, high, floor)
    outside = (target < values[0]) & np.isfinite(target)
    z[outside] = grid[0] * np.exp((values[0] - target[outside]) / alpha)
    active = np.flatnonzero(~outside & np.isfinite(target))
    # log P(X < z) grows with z and log P(X > z) falls: the grid is sorted by growing value.
    sign = 1.0 if which == 1 else -1.0
    for _ in range(NEWTON_STEPS):
        if not active.size:
            break
        value, density = log_functions(z[active], alpha, beta, (which, 2))
        excess = value - target[active]
        low[active] = np.where(excess < 0.0, z[active], low[active])
        high[active] = np.where(excess < 0.0, high[active], z[active])
        step = -sign * excess * np.exp(value - density)
        moved = z[active] + step
        ends = np.stack([low[active], high[active]])
        between = (moved >= ends.min(axis=0)) & (moved <= ends.max(axis=0))
        z[active] = np.where(between, moved, _between(low[active], high[active], floor))
        # After a Newton step the error is its square; excess has rounding of 1e-15.
        is_near = between & (np.abs(step) <= 1e-9 * np.abs(z[active]))
        active = active[~is_near & (np.abs(excess) > 1e-15)]
    return z


def _between(low: Array, high: Array, floor: float) -> Array:
    """Return a point of each bracket: the geometric mean of ends of one sign, 0 as ``floor``."""
    a, b = (np.sqrt(np.maximum(np.abs(end), floor)) for end in (low, high))
    is_straddling = (low * high < 0.0) | (a * b == 0.0)
    return np.where(is_straddling, 0.5 * (low + high), np.sign(low + high) * a * b)


@lru_cache(maxsize=64)
def _table(alpha: float, beta: float) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Return, for P(X > z) and P(X < z), a grid of z and the logarithms, in growing order."""
    low = -42.0 - max(math.lgamma(2.0 / alpha) - math.lgamma(1.0 / alpha), 0.0)
    high = min(46.0 / min(alpha, 1.0), 700.0)
    middle = np.linspace(max(low, -8.0), min(high, 12.0), SIDE_POINTS)
    far = np.linspace(middle[-1], high, FAR_POINTS)[1:]
    side = np.exp(np.concatenate([np.linspace(low, middle[0], 4)[:-1], middle, far]))
    grid = np.concatenate([-side[::-1], [0.0], side])
    logs = log_functions(grid, alpha, beta)
    tables = []
    for which, order in ((0, slice(None, None, -1)), (1, slice(None))):
        z, values = grid[order], logs[which][order]
        first = max(int(np.searchsorted(values > -800.0, True)) - 1, 0)
        z, values = z[first:], np.maximum.accumulate(np.maximum(values[first:], -1e4))
        rising = np.concatenate([[True], np.diff(values) > 0.0])
        tables.append((z[rising], values[rising]))
    return tables[0], tables[1]
