"""Young's integral of one rough path against another, and the bound that makes it work.

For continuous x of finite p-variation, y of finite q-variation and theta = 1/p + 1/q > 1 the sums

    sum over the partition of  y(u) (x(u') - x(u))     tend to     int y dx

as the partition becomes fine, and on every interval

    | int_s^t y dx - y(s) (x(t) - x(s)) |  <=  |x|_p |y|_q / (1 - 2^(1-theta))       (Young-Loeve)
    | int y dx |_p  <=  C |x|_p (|y|_q + |y|_oo),     C = 1 / (1 - 2^(1-theta)) .

The second follows from the first on every interval of a partition, with this C.

Sampled paths are taken as polygons, whose integral is the trapezoidal sum, exactly. For functions,
trapezoidal sums on 2^k equal steps are extrapolated: while errors fall by a constant factor from
one k to the next, as a power of the step of any exponent does, Aitken's formula removes them.

Reference: Lim, Wan & Simsekli (2022), Definition B.9 and Proposition B.1; Young (1936).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from mpgd.limits.paths.checks import Array, checked_path
from mpgd.limits.paths.variation import p_variation
from mpgd.parameters import check_positive, check_real

Function = Callable[[Array], Array]

LEVELS: Final = range(6, 23)  # 2^k steps


@dataclass(frozen=True)
class Integral:
    """An integral and how far the last two extrapolations were apart.

    Examples:
        >>> Integral(1.0, 1e-12).value
        1.0
    """

    value: float
    error: float


def young_integral(y: ArrayLike, x: ArrayLike) -> Array:
    """Return the path t -> int_0^t y dx for polygons through the given points.

    Args:
        y: (time,), or (time, e, d) of matrices.
        x: (time,), or (time, d), at the same times.

    Returns:
        (time,), or (time, e); the first entry is 0.

    Raises:
        ValueError: shapes that do not fit, or values that are not finite.

    Examples:
        >>> t = np.linspace(0.0, 1.0, 1001)
        >>> round(float(young_integral(t, t**2)[-1]), 4)  # int t d(t^2) = 2/3
        0.6667
    """
    x_path, given = checked_path(x, "x"), np.asarray(y, dtype=np.float64)
    plain = given.ndim == 1 and np.ndim(x) == 1
    matrices = given[:, None, None] if plain else given
    d = x_path.shape[1]
    if matrices.ndim != 3 or len(matrices) != len(x_path) or matrices.shape[2] != d:
        raise ValueError(
            f"y must be (time,) or (time, e, d) with x's times and d, {len(x_path)} and {d}, "
            f"got shape {given.shape}"
        )
    if not np.isfinite(matrices).all():
        raise ValueError(f"y must be finite, got {float(given[~np.isfinite(given)][0])!r}")
    middle = 0.5 * (matrices[1:] + matrices[:-1])
    steps = np.einsum("tij,tj->ti", middle, np.diff(x_path, axis=0))
    path = np.vstack([np.zeros((1, steps.shape[1])), np.cumsum(steps, axis=0)])
    return path[:, 0] if plain else path


def young_integral_of(
    y: Function, x: Function, start: float = 0.0, stop: float = 1.0, tolerance: float = 1e-10
) -> Integral:
    """Return the integral of y dx from ``start`` to ``stop`` for two real functions.

    Args:
        y: takes an array of times, returns an array of values.
        x: the same.
        start: where the integral begins.
        stop: where it ends, later.
        tolerance: how near two extrapolations must come, in units of the integral or of 1.

    Raises:
        ValueError: an interval that is empty.
        ArithmeticError: sums on 2^22 steps have not settled, as when 1/p + 1/q <= 1.

    Examples:
        >>> found = young_integral_of(lambda t: t**0.6, lambda t: t**0.5)
        >>> abs(found.value - 0.5 / 1.1) < 1e-9  # int t^a d(t^b) = b / (a + b)
        True
    """
    if not start < stop:
        raise ValueError(f"start must be below stop, got {start!r} and {stop!r}")
    tolerance = check_positive("tolerance", tolerance)
    sums: list[float] = []
    guesses: list[float] = []
    for level in LEVELS:
        t = np.linspace(start, stop, 2**level + 1)
        v, u = np.asarray(y(t), dtype=np.float64), np.asarray(x(t), dtype=np.float64)
        sums.append(float(0.5 * (v[1:] + v[:-1]) @ np.diff(u)))
        if len(sums) >= 3:
            guesses.append(_aitken(*sums[-3:]))
        if len(guesses) >= 2:
            error = abs(guesses[-1] - guesses[-2])
            if error <= tolerance * max(1.0, abs(guesses[-1])):
                return Integral(guesses[-1], error)
    raise ArithmeticError(
        f"the sums have not settled after 2^{LEVELS[-1]} steps: the last two extrapolations are "
        f"{guesses[-2]!r} and {guesses[-1]!r}; is 1/p + 1/q > 1?"
    )


def young_constant(p: float, q: float) -> float:
    """Return 1 / (1 - 2^(1 - 1/p - 1/q)), which is finite for 1/p + 1/q > 1.

    Examples:
        >>> young_constant(1.0, 1.0)
        2.0
    """
    for name, value in (("p", p), ("q", q)):
        check_real(name, value, "[1, inf)", 1.0, np.inf, "[)")
    theta = 1.0 / p + 1.0 / q
    if not theta > 1.0:
        raise ValueError(f"1/p + 1/q must exceed 1, got {theta:.6g} for p = {p!r} and q = {q!r}")
    return float(1.0 / -np.expm1((1.0 - theta) * np.log(2.0)))


def young_loeve_bound(y: ArrayLike, x: ArrayLike, p: float, q: float) -> float:
    """Return the bound on |int_s^t y dx - y(s) (x(t) - x(s))| for polygons y and x on [s, t].

    Args:
        y: (time,), or (time, e, d), measured entry by entry in the Euclidean norm.
        x: (time,), or (time, d).
        p: of x.
        q: of y; 1/p + 1/q > 1.

    Examples:
        >>> t = np.linspace(0.0, 1.0, 11)
        >>> young_loeve_bound(t, t, 1.0, 1.0)  # int t dt - 0 = 1/2 is far below
        2.0
    """
    flat = np.asarray(y, dtype=np.float64)
    entries = flat.reshape(len(flat), -1)
    return young_constant(p, q) * p_variation(x, p) * p_variation(entries, q)


def _aitken(a: float, b: float, c: float) -> float:
    """Return the limit of a sequence whose errors fall by a constant factor."""
    bend = (c - b) - (b - a)
    # Where the sums agree to rounding, or do not bend, there is nothing to extrapolate.
    if abs(bend) <= 1e-15 * max(1.0, abs(c)) or abs(c - b) >= abs(b - a):
        return c
    return c - (c - b) ** 2 / bend
