"""Stable variates by the formula of Chambers, Mallows and Stuck.

References: Chambers, Mallows & Stuck (1976), with the correction of Weron (1996).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mpgd.stable.integral import angles
from mpgd.stable.nodes import Array
from mpgd.stable.standard import BAND
from mpgd.stable.table import draw_quantiles, quantile_rows


def draw(count: int, alpha: float, beta: float, rng: np.random.Generator) -> Array:
    """Return draws of the standard law in its own coordinate.

    Examples:
        >>> draw(3, 1.0, 0.5, np.random.default_rng(0)).shape
        (3,)
    """
    if abs(alpha - 1.0) < BAND:  # the formula loses digits in S0; the table does not
        bits = rng.integers(0, 2**64, count, dtype=np.uint64)
        return draw_quantiles(quantile_rows(alpha, beta), bits)
    angle = math.pi * (rng.random(count) - 0.5)
    return chambers_mallows_stuck(angle, rng.standard_exponential(count), alpha, beta)


def chambers_mallows_stuck(
    angle: ArrayLike, exponential: ArrayLike, alpha: float, beta: float
) -> Array:
    """Map a uniform angle and an exponential variable to a standard stable variable.

    With theta_0 = arctan(beta tan(pi alpha/2)) / alpha, U = ``angle`` and W = ``exponential``:

        X = sin(alpha (theta_0 + U)) / (cos(alpha theta_0) cos U)^(1/alpha)
            (cos(alpha theta_0 + (alpha - 1) U) / W)^((1 - alpha)/alpha)

    computed in the distance of |U| to pi/2, where the cosines vanish. At alpha = 1

        X = 2/pi ((pi/2 + beta U) tan U - beta log((pi/2) W cos U / (pi/2 + beta U)))

    Args:
        angle: uniform on (-pi/2, pi/2).
        exponential: independent of ``angle``, exponential of mean 1; same shape.
        alpha: stability index in (0, 2].
        beta: skewness in [-1, 1].

    Returns:
        An array of the common shape, of scale 1 and location 0 (S1).

    Raises:
        ValueError: if an argument lies outside its range.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> angle, exponential = np.pi * (rng.random(4) - 0.5), rng.standard_exponential(4)
        >>> x = chambers_mallows_stuck(angle, exponential, 2.0, 0.0)
        >>> bool(np.allclose(x, 2.0 * np.sin(angle) * np.sqrt(exponential)))
        True
    """
    if not (0.0 < alpha <= 2.0 and -1.0 <= beta <= 1.0):
        raise ValueError(f"alpha must lie in (0, 2] and beta in [-1, 1], got {alpha!r}, {beta!r}")
    U, W = np.asarray(angle, np.float64), np.asarray(exponential, np.float64)
    if not (np.abs(U) < 0.5 * np.pi).all():
        raise ValueError("angle must lie in (-pi/2, pi/2)")
    if not (W >= 0.0).all():
        raise ValueError("exponential must be non-negative")
    delta = 0.5 * np.pi - np.abs(U)
    with np.errstate(divide="ignore", over="ignore"):
        if alpha == 1.0:
            tilt = 0.5 * np.pi + beta * U
            wave = tilt * np.sign(U) / np.tan(delta)
            return 2.0 / np.pi * (wave - beta * np.log(0.5 * np.pi * W * np.sin(delta) / tilt))
        # At U < 0 the formula is that of -X at beta -> -beta; see `integral` for epsilon.
        sine, middle = _sines(U < 0.0, delta, alpha, beta)
        tangent = beta * math.tan(0.5 * math.pi * min(alpha, 2.0 - alpha))
        cosine = 1.0 / math.hypot(1.0, tangent)
        size = sine / (cosine * np.sin(delta)) ** (1.0 / alpha)
        spread = (W / middle) ** ((alpha - 1.0) / alpha)
        return np.asarray(np.where(U < 0.0, -1.0, 1.0) * size * spread)[()]


def reparametrized(
    xp: Any, sign: Any, delta: Any, exponential: Any, alpha: Any, beta: Any, parametrization: str
) -> Any:
    """Return the same formula in numpy, torch or jax.numpy, smooth in alpha and beta through 1.

    With a = alpha - 1, T = tan(pi a/2), |U| = pi/2 - delta and s the sign of U:

        D = cos(a U) + beta sin(a U) / T = sin(a delta) / sin(pi a/2) + (1 + s beta) sin(a |U|) / T
        L = log(W sin(delta) / D)
        X (S0) = s (D cot(delta) + sin(a |U|)) e^(a L / alpha)
                 + beta ((1 - cos(a U)) - cos(a U) (e^(a L / alpha) - 1)) / T

    in which every quotient is a smooth function of a. It is used for |a| < 0.1.

    Args:
        xp: the module of the functions.
        sign: of the angle, 1 or -1.
        delta: its distance to the nearer end, uniform on (0, pi/2).
        exponential: exponential variables of mean 1.
        alpha: stability index in (0, 2].
        beta: skewness in [-1, 1].
        parametrization: ``"S0"`` or ``"S1"``; at alpha = 1 both are S0.

    Returns:
        Draws of the standard law, of the common shape.

    Examples:
        >>> delta, W, alpha = np.array([0.3]), np.array([1.7]), np.array([1.5])
        >>> x = reparametrized(np, 1.0, delta, W, alpha, 0.5, "S1")
        >>> bool(np.allclose(x, chambers_mallows_stuck(0.5 * np.pi - delta, W, 1.5, 0.5)))
        True
    """
    near = abs(alpha - 1.0) < 0.1
    # Each form has arguments of its own range, since a derivative sees the form not taken too.
    close = _smooth_at_one(xp, sign, delta, exponential, xp.where(near, alpha, 1.0), beta)
    away = xp.where(near, 1.5, alpha)
    small = xp.where(away > 1.0, 2.0 - away, away)
    tangent = xp.where(away > 1.0, -1.0, 1.0) * xp.tan(0.5 * math.pi * small)
    theta, U = xp.arctan(beta * tangent), sign * (0.5 * math.pi - delta)
    size = xp.sin(away * U + theta) / (xp.cos(theta) * xp.sin(delta))
    middle = xp.cos(theta + (away - 1.0) * U) / xp.cos(theta)
    # At |beta| = 1 and the end of the angle it is 0 to rounding.
    middle = xp.where(middle > 1e-30, middle, 1e-30)
    ratio = (away - 1.0) / away
    far = size * xp.exp(ratio * xp.log(exponential * xp.sin(delta) / middle))
    exactly = alpha == 1.0
    shift = beta * xp.where(exactly, 0.0, xp.tan(0.5 * math.pi * xp.where(exactly, 0.5, alpha)))
    if parametrization == "S1":
        return xp.where(near, close + shift, far)
    return xp.where(near, close, far - beta * tangent)


def _smooth_at_one(xp: Any, sign: Any, delta: Any, W: Any, alpha: Any, beta: Any) -> Any:
    """Return `reparametrized` in S0 for alpha near 1."""
    a, size = alpha - 1.0, 0.5 * math.pi - delta
    sine = 0.5 * math.pi * xp.sinc(0.5 * a)  # sin(pi a/2) / a; 1/T is over_T / a
    over_T = xp.cos(0.5 * math.pi * a) / sine
    sine_U = size * xp.sinc(a * size / math.pi)  # sin(a |U|) / a
    D = delta * xp.sinc(a * delta / math.pi) / sine + (1.0 + sign * beta) * sine_U * over_T
    L = xp.log(W * xp.sin(delta) / D) / alpha
    growth = xp.exp(a * L)
    tiny = abs(a * L) < 1e-4
    safe = xp.where(tiny, 1.0, a * L)
    quotient = xp.where(tiny, 1.0 + 0.5 * a * L + (a * L) ** 2 / 6.0, xp.expm1(safe) / safe)
    fall = 0.5 * a * (size * xp.sinc(0.5 * a * size / math.pi)) ** 2  # (1 - cos(a U)) / a
    wave = sign * (D * xp.cos(delta) / xp.sin(delta) + a * sine_U) * growth
    return wave + beta * over_T * (fall - xp.cos(a * size) * L * quotient)


def _sines(
    negative: NDArray[np.bool_], delta: Array, alpha: float, beta: float
) -> tuple[Array, Array]:
    """Return sin(alpha (theta_0 + U)) and cos(alpha theta_0 + (alpha - 1) U)."""
    here, there = angles(alpha, beta), angles(alpha, -beta)
    if alpha > 1.0:
        epsilon = np.where(negative, there[0], here[0])
        return np.sin(epsilon + alpha * delta), np.sin(epsilon + (alpha - 1.0) * delta)
    width = np.where(negative, there[1], here[1])
    return np.sin(alpha * (width - delta)), np.sin(alpha * width + (1.0 - alpha) * delta)
