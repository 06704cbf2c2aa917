"""One side of the standard stable law (S1), by Zolotarev's integral, for alpha away from 1.

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

V grows with delta. See `nodes` for the quadrature.

References: Zolotarev (1986), One-dimensional Stable Distributions, Theorems 2.2.3 and 2.3.2;
Nolan (1997), Stochastic Models 13, Theorem 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from mpgd.stable.nodes import CELL, DEPTH, PAGE, Array, Integral

FLAT = 1e-4  # its fourth power is below rounding
LOG_DIGITS = 42.0  # e^-42 is far below rounding: two terms of a series that differ so much


class Side(NamedTuple):
    """The side y > 0 of a law: g = exp(power log y + offset) V; smallest and largest log y."""

    power: float
    offset: float
    log_ends: tuple[float, float]
    integral: Integral


def angles(alpha: float, beta: float) -> tuple[float, float]:
    """Return epsilon and pi - epsilon, both without cancellation.

    Args:
        alpha: stability index in (0, 2], not 1.
        beta: skewness in [-1, 1].

    Returns:
        Two angles with the sum pi. The second one is 0 if the law has no mass on y > 0.

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
        rows: which of the three.

    Returns:
        An array (row, y).

    Examples:
        >>> tail, inside, density = np.exp(log_side(np.array([0.0, 1.0]), 1.5, 0.0))
        >>> round(float(tail[1]), 6), round(float(tail[1] + inside[1]), 12)
        (0.243658, 0.5)
        >>> round(float(density[1]), 6)
        0.202038
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
    ends_w = (_leftmost(A, epsilon, omega, highest), 60.0)
    integral = Integral(lambda w: _geometry(w, A, epsilon, omega), ends_w, floor, width)
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
        flat = delta < FLAT
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
