"""The standard stable law for alpha within 0.01 of 1, at 1 too, in the parametrisation S0.

There tan(pi alpha/2) is huge or infinite, and S1 and Zolotarev's integral in it lose digits. With
a = alpha - 1, S0 is smooth in a through 0, and every quotient by a below is a smooth function of a:

    log phi(t) = -t^alpha - i beta tan(pi alpha/2) (t - t^alpha)          t > 0
    tan(pi alpha/2) (t - t^alpha) = (a / tan(pi a/2)) t (t^a - 1) / a  ->  (2/pi) t log t

Three integrals share the line.

|x| >= FAR            the contour turned to t = -i r, where e^(-itx) is real:
                      f(x) = 1/pi int e^(-rx + Re log phi) sin((1+beta) cos(pi a/2) r^alpha) dr
|x| < FAR, |beta| <= HALF   the contour turned by ANGLE or half of it; values there are far from 0
|x| < FAR, |beta| > HALF    Zolotarev's integral about zeta, which sees the thin tail:

    log g = alpha/a log(1 + kappa x) + u(theta),            kappa = -tan(pi a/2) / beta
    u = -alpha/a log(1 + a q) + log((cos(a theta) - sin(a theta) / kappa) / cos(theta))
    a q = cos(a theta) - 1 + kappa sin(a theta) + tan(theta) (kappa cos(a theta) - sin(a theta))

which is Nolan's V with y^(alpha/(alpha-1)) and cos(alpha theta_0) taken into it, and at a = 0 his
formula for alpha = 1. It is used for beta < 0; the other sign is the reflection.

Reference: Nolan (1997), Stochastic Models 13, Theorem 1 and Section 3.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpgd.stable.integral import Array, Geometry, Integral, interpolated

Complex = NDArray[np.complex128]

FAR = 20.0
HALF = 0.5
ANGLE = 0.4  # of the turned contour
RANGE = 40.0  # e^-40 is below rounding
CHUNK = 100_000  # entries of the largest temporary array


class _Middle(NamedTuple):
    """The nodes of one law with beta < 0, and P(X > zeta) or P(X < zeta), whichever is left out."""

    integral: Integral
    rest: float


def log_near_one(x: Array, alpha: float, beta: float) -> Array:
    """Return log P(X > x), log P(X < x) and log f(x) in S0.

    Args:
        x: one-dimensional, NaN allowed.
        alpha: stability index in [0.99, 1.01].
        beta: skewness in [-1, 1].

    Returns:
        An array (function, x).

    Examples:
        >>> values = np.exp(log_near_one(np.array([0.0, 30.0]), 1.0, 0.0))
        >>> bool(np.allclose(values[0], 0.5 - np.arctan([0.0, 30.0]) / np.pi, rtol=1e-13))
        True
    """
    out = np.full((3, x.size), np.nan)
    near = np.abs(x) < FAR
    out[:, x >= FAR] = _far(x[x >= FAR], alpha, beta)
    out[:, x <= -FAR] = _far(-x[x <= -FAR], alpha, -beta)[[1, 0, 2]]
    if abs(beta) <= HALF:
        out[:, near] = _turned(x[near], alpha, beta)
    elif beta < 0.0:
        out[:, near] = _skewed(x[near], alpha, beta)
    else:
        out[:, near] = _skewed(-x[near], alpha, -beta)[[1, 0, 2]]
    return out


def _quotient(a: float) -> float:
    """Return tan(pi a/2) / a."""
    return 0.5 * math.pi if a == 0.0 else math.tan(0.5 * math.pi * a) / a


def _far(x: Array, alpha: float, beta: float) -> Array:
    """Return the three logarithms at x >= FAR, by equal steps in log r."""
    a, step = alpha - 1.0, 0.25
    log_rho = step * np.arange(-np.ceil(RANGE / step), np.ceil(math.log(RANGE) / step))
    sums = np.empty((2, x.size))
    rows = max(1, CHUNK // log_rho.size)
    for start in range(0, x.size, rows):
        some = np.minimum(x[start : start + rows], 1e300)
        log_r = log_rho - np.log(some)[:, None]
        r, power = np.exp(log_r), np.exp(alpha * log_r)
        growth = np.expm1(a * log_r) / a if a else log_r
        real = power * math.sin(0.5 * math.pi * a)
        real += beta * power * math.tan(0.25 * math.pi * a) * math.cos(0.5 * math.pi * a)
        real -= beta / _quotient(a) * r * growth
        value = np.exp(real - np.exp(log_rho)) * np.sin(
            (1.0 + beta) * math.cos(0.5 * math.pi * a) * power
        )
        sums[0, start : start + rows] = step / np.pi * value.sum(axis=1)
        sums[1, start : start + rows] = step / np.pi * (value * np.exp(log_rho)).sum(axis=1)
    tail, density = np.maximum(sums, 0.0)  # a thin tail is rounding here
    lost = np.log(np.maximum(x, 1e300) / 1e300)
    with np.errstate(divide="ignore"):
        log_tail, log_density = np.log(tail) - alpha * lost, np.log(density) - np.log(x)
    return np.stack([log_tail, np.log1p(-np.exp(log_tail)), log_density - alpha * lost])


def _turned(x: Array, alpha: float, beta: float) -> Array:
    """Return the three logarithms at |x| < FAR for a law without a thin tail."""
    out, negative = np.empty((3, x.size)), np.signbit(x)
    out[:, ~negative] = _turned_side(x[~negative], alpha, beta)
    out[:, negative] = _turned_side(-x[negative], alpha, -beta)[[1, 0, 2]]
    return out


def _turned_side(x: Array, alpha: float, beta: float) -> Array:
    """Return `_turned` at x >= 0; in s = arcsinh x the functions are smooth on one scale."""

    def functions(s: Array) -> Array:
        return np.log(_contour(np.sinh(s), alpha, beta))

    tail, density = interpolated(functions, np.arcsinh(x), 0.0, math.asinh(FAR))
    return np.stack([tail, np.log1p(-np.exp(tail)), density])


def _contour(x: Array, alpha: float, beta: float) -> Array:
    """Return P(X > x) and f(x), x >= 0, along t = r e^(-i angle)."""
    # For beta < 0 the term t log t grows along the turned contour, so that it is turned less.
    angle = ANGLE if beta >= 0.0 else 0.5 * ANGLE
    t, weights = _contour_nodes(alpha, beta, angle)
    tail, density = np.empty_like(x), np.empty_like(x)
    rows = max(1, CHUNK // t.size)
    for start in range(0, x.size, rows):
        some = x[start : start + rows, None]
        size, phase = np.exp(some * t.imag), -some * t.real  # of e^(-itx); complex exp is slow
        real, imag = size * np.cos(phase), size * np.sin(phase)
        turned = weights * t
        tail[start : start + rows] = 0.5 - angle / np.pi + real @ weights.imag + imag @ weights.real
        density[start : start + rows] = real @ turned.real - imag @ turned.imag
    return np.stack([tail, density])


@lru_cache(maxsize=64)
def _contour_nodes(alpha: float, beta: float, angle: float) -> tuple[Complex, Complex]:
    """Return the points t and phi(t) times the step over pi, in equal steps of log r."""
    a, step = alpha - 1.0, 2.0 * math.pi * angle / RANGE
    log_t = step * np.arange(-np.ceil(RANGE / step), np.ceil(5.0 / step)) - 1j * angle
    t = np.exp(log_t)
    growth = np.expm1(a * log_t) / a if a else log_t
    exponent = -np.exp(alpha * log_t) - 1j * beta / _quotient(a) * t * growth
    keep = exponent.real > -2.0 * RANGE
    return t[keep], step / np.pi * np.exp(exponent[keep])


def _skewed(x: Array, alpha: float, beta: float) -> Array:
    """Return the three logarithms at |x| < FAR for beta < -HALF."""
    a = alpha - 1.0
    middle, kappa = _middle(alpha, beta), -_quotient(a) / beta  # kappa is divided by a
    z = kappa * x
    xi = alpha * (np.log1p(a * z) / a if a else z)
    first, second, density = middle.integral.log_sums(xi)
    density = density + math.log(alpha * kappa) - np.log1p(a * z)
    rest = np.log(middle.rest) if middle.rest > 0.0 else -np.inf
    if a > 0.0:
        second = np.logaddexp(second, rest)
    else:
        first = np.logaddexp(first, rest)
    return np.stack([first, second, density])


@lru_cache(maxsize=64)
def _middle(alpha: float, beta: float) -> _Middle:
    """Solve for the nodes in log odds of theta between its ends, from the upper end down."""
    a, b = alpha - 1.0, -beta
    T = math.tan(0.5 * math.pi * abs(a))
    # Both ends are +-pi/2, but the one that belongs to zeta is nearer to 0 by this much.
    gap = math.atan(T * (1.0 - b) / (b + T * T)) / alpha
    gap_low = math.atan(T * (1.0 + b) / (b - T * T)) / alpha
    shift, width = (0.0, math.pi - gap_low) if a >= 0.0 else (gap, math.pi - gap)
    floor = -np.inf if b < 1.0 else _middle_floor(a)

    def geometry(w: Array) -> tuple[Array, Array, Array, Array]:
        return _middle_geometry(w, alpha, beta, shift, width)

    ends = _edge(geometry, -1), _edge(geometry, 1)
    return _Middle(Integral(geometry, ends, floor, width), 1.0 - width / math.pi)


def _middle_floor(a: float) -> float:
    """Return u at theta = pi/2 for beta = -1."""
    half = 0.5 * math.pi * a
    q = math.tan(half) * math.sin(half) + math.cos(half) - 1.0 + a / math.cos(half)
    if a == 0.0:
        return -1.0 + math.log(2.0 / math.pi)
    return -(1.0 + a) / a * math.log1p(q) + math.log(a / math.sin(half))


def _middle_geometry(
    w: Array, alpha: float, beta: float, shift: float, width: float
) -> tuple[Array, Array, Array, Array]:
    """Return u, du/dw, delta and d delta/dw at theta = pi/2 - shift - delta."""
    a, eta = alpha - 1.0, 1.0 + beta
    Q, half = _quotient(a), 0.5 * math.pi * a
    kappa = -Q / beta
    delta, phi = width / (1.0 + np.exp(-w)), width / (1.0 + np.exp(w))
    upper = shift + delta  # pi/2 - theta
    lower = math.pi - shift - width + phi  # pi/2 + theta
    theta = 0.5 * np.pi - upper
    cosine, sine = np.where(upper < lower, np.sin(upper), np.sin(lower)), np.sin(theta)
    c, s = np.cos(a * theta), theta * np.sinc(a * theta / np.pi)  # s = sin(a theta) / a
    s_upper = upper * np.sinc(a * upper / np.pi)
    # kappa c - s and c - s / kappa, without cancellation at theta = pi/2 and beta = -1
    slant = s_upper / math.cos(half) + Q * eta / -beta * c
    last = s_upper / (Q * math.cos(half)) + eta * s / Q
    square = -0.5 * a * (theta * np.sinc(0.5 * a * theta / np.pi)) ** 2  # (c - 1) / a
    q = square + a * kappa * s + sine / cosine * slant
    z = a * q
    with np.errstate(invalid="ignore", divide="ignore"):
        u = -alpha * (np.log1p(z) / a if a else q) + np.log(last / cosine)
        dq = -a * s + a * kappa * c + slant / cosine**2 - sine / cosine * (c + a * a * kappa * s)
        d_last = -a * a * s - c / kappa
        slope = alpha * dq / (1.0 + z) - d_last / last - sine / cosine
    d_delta = delta * phi / width
    return u, np.maximum(slope, 0.0) * d_delta, delta, d_delta


def _edge(geometry: Geometry, sign: int) -> float:
    """Return the last w at which u is finite and its size is below 500."""
    w = sign * np.arange(0.0, 60.0, 0.05)
    with np.errstate(over="ignore"):
        u = geometry(w)[0]
    good = np.isfinite(u) & (np.abs(u) < 500.0)
    return float(w[np.argmin(good) - 1] if not good.all() else w[-1])
