"""Derivatives of the log density and of the distribution function, in x and all four parameters.

At fixed w (see `integral`), with log g = xi + u, and E the mean under the weight g e^(-g) d delta,

    d/dp log int g e^(-g) d delta = E[(1 - g) (xi_p + u_p)] + (log Lambda)_p
    d/dp     int   e^(-g) d delta = -E[xi_p + u_p] int g e^(-g) d delta + (log Lambda)_p int e^(-g)

where p is y, alpha or beta; u depends on them through A and epsilon (`standard`). Three places need
more. At y -> 0 the derivative in y is a difference of equal terms, and the power series of f takes
over. Within NEAR of alpha = 1 each derivative is the polynomial of degree 5 in alpha through the
values at six laws outside. At alpha = 2 and |beta| = 1, where a heavy tail begins or ends, the
derivatives in alpha and beta are taken INSIDE their ranges.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from mpgd.stable.integral import Array
from mpgd.stable.law import grouped_laws
from mpgd.stable.standard import (
    BAND,
    angles,
    location,
    log_functions,
    log_side,
    side_of,
    skew_shift,
)

INSIDE = 1e-7  # distance to the end of a range at which a one-sided derivative is taken
SERIES_UP_TO = 1e-3  # of y in units of the radius in which the series is geometric
TERMS = 7
NEAR = 0.005  # |alpha - 1| below which derivatives are interpolated; 1/(alpha - 1)^2 loses digits
STENCIL = NEAR * np.array([-2.0, -1.5, -1.0, 1.0, 1.5, 2.0])


def gradient(function: str, arguments: Sequence[ArrayLike], parametrization: str = "S1") -> Array:
    """Return the derivatives of ``logpdf`` or ``cdf`` in x, alpha, beta, loc and scale.

    Args:
        function: ``"logpdf"`` or ``"cdf"``.
        arguments: x, alpha, beta, loc and scale, which broadcast.
        parametrization: ``"S1"`` or ``"S0"``. In S1 a law with beta != 0 jumps at alpha = 1; the
            derivative in alpha at 1 is that of S0.

    Returns:
        An array (argument, ...). Where the density is 0 the derivatives are 0.

    Examples:
        >>> rows = gradient("logpdf", (np.array([0.5, 3.0]), 2.0, 0.0, 0.0, 1.0))
        >>> np.round(rows[0], 12).tolist()  # of -x^2 / 4
        [-0.25, -1.5]
    """
    x, *parameters = np.broadcast_arrays(*(np.asarray(v, np.float64) for v in arguments))
    out = np.zeros((5, *x.shape))
    for where, law in grouped_laws(parameters):
        rows = _value_and_slopes(function, x[where].ravel(), law, parametrization)[1:]
        for k, row in enumerate(rows):
            out[k, where] = row.reshape(x[where].shape)
    return out


def log_density_and_scores(x: Array, theta: Array) -> tuple[Array, Array]:
    """Return the log density of one law in S0 and its derivatives in the four parameters.

    Both come from one pass over the integral.

    Args:
        x: one-dimensional.
        theta: alpha, beta, loc and scale.

    Examples:
        >>> value, scores = log_density_and_scores(np.zeros(3), np.array([1.5, 0.0, 0.0, 1.0]))
        >>> value.shape, scores.shape, bool((scores[3] == -1.0).all())
        ((3,), (4, 3), True)
    """
    alpha, beta, loc, scale = map(float, theta)
    rows = _value_and_slopes("logpdf", x, (alpha, beta, loc, scale), "S0")
    return rows[0], rows[2:]


def _value_and_slopes(
    function: str, x: Array, law: tuple[float, ...], parametrization: str
) -> Array:
    """Return the function, if it is the log density, and its derivatives in all five arguments."""
    alpha, beta, loc, scale = law
    with np.errstate(all="ignore"):
        z = (x - location(alpha, beta, loc, scale, parametrization)) / scale
        value, of_z, of_alpha, of_beta = _standard(function, z, alpha, beta)
        moved = _location_slopes(alpha, beta, scale, parametrization)
        of_x = of_z / scale
        rows = [
            value - math.log(scale),
            of_x,
            of_alpha - of_x * moved[0],
            of_beta - of_x * moved[1],
            -of_x,
            -of_x * (z + moved[2]) - (1.0 / scale if function == "logpdf" else 0.0),
        ]
    return np.array(rows)


def _location_slopes(alpha: float, beta: float, c: float, parametrization: str) -> Array:
    """Return the derivatives of `standard.location` in alpha, beta and scale."""
    natural = "S0" if abs(alpha - 1.0) < BAND else "S1"
    if parametrization == natural:
        return np.zeros(3)
    if alpha == 1.0:
        log_c = math.log(c)
        return 2.0 / math.pi * np.array([0.0, c * log_c, beta * (log_c + 1.0)])
    sign, tangent = (1.0 if natural == "S0" else -1.0), skew_shift(alpha, 1.0)
    slope = 0.5 * math.pi * (1.0 + tangent**2)
    return sign * np.array([c * beta * slope, c * tangent, beta * tangent])


def _standard(function: str, z: Array, alpha: float, beta: float) -> Array:
    """Return the value and derivatives in z, alpha and beta, in the law's own coordinate."""
    distance = abs(alpha - 1.0)
    if distance >= BAND:
        return _away_from_one(function, z, alpha, beta)
    if distance >= NEAR:
        out = _in_s0(function, z, alpha, beta)
    else:
        out = np.zeros((4, z.size))
        for a in STENCIL:
            others = STENCIL[a != STENCIL]
            weight = float(np.prod((alpha - 1.0 - others) / (a - others)))
            out += weight * _in_s0(function, z, 1.0 + float(a), beta)
    out[0] = log_functions(z, alpha, beta, [2])[0]
    return out


def _in_s0(function: str, z: Array, alpha: float, beta: float) -> Array:
    """Return the value and derivatives in S0, of which z is the coordinate."""
    tangent = skew_shift(alpha, 1.0)
    rows = _away_from_one(function, z + beta * tangent, alpha, beta)
    rows[2] += rows[1] * beta * 0.5 * math.pi * (1.0 + tangent**2)
    rows[3] += rows[1] * tangent
    return rows


def _away_from_one(function: str, z: Array, alpha: float, beta: float) -> Array:
    """Return the value and derivatives in S1."""
    out = _two_sides(function, z, alpha, beta)
    if alpha == 2.0:
        out[2] = _two_sides(function, z, 2.0 - INSIDE, beta)[2]
        out[3] = 0.0
    elif abs(beta) == 1.0:
        inner = _two_sides(function, z, alpha, math.copysign(1.0 - INSIDE, beta))[3]
        empty = (z < 0.0) if beta > 0.0 else (z > 0.0)  # below alpha = 1 the density is 0 there
        out[3] = np.where(empty & (alpha < 1.0) & (function == "logpdf"), 0.0, inner)
    return out


def _two_sides(function: str, z: Array, alpha: float, beta: float) -> Array:
    out, negative = np.zeros((4, z.size)), np.signbit(z)
    out[0] = -np.inf
    for side, sign in ((~negative, 1.0), (negative, -1.0)):
        if side.any() and angles(alpha, sign * beta)[1] > 0.0:
            rows = (_density_slopes if function == "logpdf" else _tail_slopes)(
                np.abs(z[side]), alpha, sign * beta
            )
            # f(z; beta) = f(-z; -beta), and P(X <= z) is 1 - P(X > y) or P(X' > y)
            signs = [1.0, sign, 1.0, sign] if function == "logpdf" else [1.0, 1.0, -sign, -1.0]
            out[:, side] = np.array(signs)[:, None] * rows
    out[1:, np.isinf(z)] = 0.0
    return out


def _density_slopes(y: Array, alpha: float, beta: float) -> Array:
    """Return log f(y), y >= 0, and its derivatives in y, alpha and beta."""
    side, log_y = side_of(alpha, beta), np.log(y)
    inside = np.clip(log_y, *side.log_ends)
    beyond = np.maximum(log_y - side.log_ends[1], 0.0)
    xi, constants = side.power * inside + side.offset, _Constants(alpha, beta)
    total, _, means = side.integral.means(xi, lambda w: _u_slopes(w, alpha, beta), 3)
    means = np.where(np.isnan(means) & ~np.isnan(y), 0.0, means)  # f(y) is 0 beyond underflow
    value = total + math.log(max(alpha, 1.0) / abs(alpha - 1.0)) - inside - (alpha + 1.0) * beyond
    of_y = (side.power * means[0] - 1.0) / y
    of_y = np.where(beyond > 0.0, -(alpha + 1.0) / y, of_y)
    coefficients, radius = _series(alpha, beta)
    near, powers = y < SERIES_UP_TO * radius, np.vander(np.minimum(y, radius), TERMS, True)
    k = np.arange(1, TERMS)
    of_y = np.where(near, powers[:, :-1] @ (k * coefficients[1:]) / (powers @ coefficients), of_y)
    rows = constants.combine(inside, *means)
    rows[0] += (1.0 / alpha if alpha > 1.0 else 0.0) - 1.0 / (alpha - 1.0) - beyond
    return np.stack([value, of_y, *(rows + constants.log_width[:, None])])


def _tail_slopes(y: Array, alpha: float, beta: float) -> Array:
    """Return NaN, f(y) and the derivatives of P(X > y), y >= 0, in alpha and beta."""
    side, log_y = side_of(alpha, beta), np.log(y)
    inside = np.clip(log_y, *side.log_ends)
    xi, constants = side.power * inside + side.offset, _Constants(alpha, beta)
    _, means, _ = side.integral.means(xi, lambda w: _u_slopes(w, alpha, beta), 3)
    log_tail, log_density = log_side(y, alpha, beta, [0, 2])
    tail, density = np.exp(log_tail), np.exp(log_density)
    mass = density * y * (1.0 - 1.0 / alpha)  # minus, for alpha < 1, where 1 - e^(-g) is summed
    rows = -mass * np.nan_to_num(constants.combine(inside, *means))
    rows += np.multiply.outer(constants.log_width, tail)
    if alpha < 1.0:
        rows[0] -= tail / alpha
    rows[0] -= np.maximum(log_y - side.log_ends[1], 0.0) * tail
    return np.stack([np.full_like(y, np.nan), density, *rows])


class _Constants:
    """Derivatives of A, epsilon, the power, the offset and log Lambda in alpha and beta."""

    def __init__(self, alpha: float, beta: float) -> None:
        a, omega = alpha - 1.0, angles(alpha, beta)[1]
        tau = math.tan(0.5 * math.pi * min(alpha, 2.0 - alpha))
        tau_slope = math.copysign(0.5 * math.pi * (1.0 + tau**2), -a)
        square = 1.0 + (beta * tau) ** 2
        self.power = -1.0 / a**2
        self.A = 1.0 if a > 0.0 else -1.0 / alpha**2
        if a > 0.0:
            of_alpha = tau_slope * (1.0 / (1.0 + tau**2) + beta / square)
            self.epsilon = np.array([of_alpha, tau / square])
        else:
            of_alpha = math.atan(beta * tau) / alpha**2 - beta * tau_slope / square / alpha
            self.epsilon = np.array([of_alpha, -tau / square / alpha])
        of_alpha = 0.5 * math.log(square) / a**2 - beta**2 * tau * tau_slope / square / a
        self.offset = np.array([of_alpha, -beta * tau**2 / square / a])
        A_part = np.array([-self.A / (alpha if a > 0.0 else 1.0 / alpha), 0.0])
        self.log_width = A_part - self.epsilon / omega

    def combine(self, log_y: Array, one: Array, of_A: Array, of_epsilon: Array) -> Array:
        """Return the mean of xi_p + u_p for p = alpha and beta, given those of 1, u_A and u_eps."""
        rows: Array = np.multiply.outer(self.offset, one)
        rows += np.multiply.outer(self.epsilon, of_epsilon)
        rows[0] += self.power * log_y * one + self.A * of_A
        return rows


def _u_slopes(w: Array, alpha: float, beta: float) -> Array:
    """Return 1 and the derivatives of u = log V in A and epsilon at fixed w."""
    epsilon, omega = angles(alpha, beta)
    A = max(alpha, 1.0 / alpha)
    a, width = A - 1.0, omega / A
    delta, phi = width / (1.0 + np.exp(-w)), width / (1.0 + np.exp(w))
    end = A * phi < 0.5 * np.pi  # the same choice of arguments as in `standard`
    angle = np.where(end, A * phi, epsilon + A * delta)
    past = epsilon + a * delta > 0.5 * np.pi
    middle = np.where(past, omega - a * delta, epsilon + a * delta)
    cot_middle = np.where(past, -1.0, 1.0) / np.tan(middle)
    cot_angle = np.where(end, -1.0, 1.0) / np.tan(angle)
    cot_delta = 1.0 / np.tan(delta)
    of_A = np.log(np.sin(angle) / np.sin(delta)) / a**2
    of_A += delta / A * (cot_middle - cot_delta / a)
    of_epsilon = cot_middle * (1.0 - a * delta / omega) - delta / omega * cot_delta / a
    of_epsilon -= A / a * cot_angle * phi / width
    if epsilon == 0.0:  # u = log V(0) + A delta^2 / 2 there, and the cotangents cancel
        flat = delta < 1e-4
        of_A = np.where(flat, math.log(A) / a**2 - delta**2 / (2.0 * A), of_A)
        of_epsilon = np.where(flat, 0.0, of_epsilon)
    return np.stack([np.ones_like(w), of_A, of_epsilon])


def _series(alpha: float, beta: float) -> tuple[Array, float]:
    """Return coefficients of f(y) in powers of y, up to a factor, and a radius; 0 if f(0) is 0."""
    tangent = skew_shift(alpha, beta)
    theta, size = math.atan(tangent) / alpha, math.hypot(1.0, tangent) ** (-1.0 / alpha)
    k = np.arange(TERMS)
    first = math.lgamma(1.0 / alpha)
    logs = [math.lgamma((j + 1.0) / alpha) - math.lgamma(j + 1.0) - first for j in range(TERMS)]
    sizes = np.exp(np.array(logs) + k * math.log(size))
    coefficients = sizes * np.cos((k + 1.0) * theta - 0.5 * np.pi * k)
    if not coefficients[0] > 1e-6:
        return np.eye(1, TERMS)[0], 0.0
    ratios = (sizes[1:] / coefficients[0]) ** (1.0 / k[1:])
    return coefficients, float(1.0 / ratios.max())
