"""The stable law S_alpha(c, beta, 0) and the Chambers-Mallows-Stuck formula.

For 1 < alpha <= 2, -1 <= beta <= 1 and scale c > 0 the characteristic function is

    E exp(i t X) = exp(-|c t|^alpha (1 - i beta sign(t) tan(pi alpha / 2)))

which is Nolan's parametrisation S1 at location 0, the default of ``scipy.stats.levy_stable``. The
mean is 0; alpha = 2 is the normal law of variance 2 c^2. The distribution functions are one-sided
integrals (``stable_integral``) joined by the reflection X(beta) ~ -X(-beta):

    cdf(x; beta) = sf(-x; -beta)

so cdf and sf are each computed directly in their own tail, where 1 minus the other would cancel.

References: Samorodnitsky & Taqqu (1994), Definition 1.1.6; Chambers, Mallows & Stuck (1976), with
the correction of Weron (1996).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mpgd.stable.integral import (
    LARGEST,
    SMALLEST,
    angle_offset,
    log_density,
    log_tail,
    log_tail_and_density,
)

if TYPE_CHECKING:
    from torch import Tensor

Array = NDArray[np.float64]

SMALLEST_ALPHA = 1.01  # below, y^(alpha/(alpha-1)) loses the digits promised here
TABLE_SIZE = 1024
NEWTON_STEPS = 60
SMALLEST_SCALE = np.finfo(np.float64).tiny  # below it densities overflow


@dataclass(frozen=True)
class StableLaw:
    """A stable law of index alpha, skewness beta and scale c, at location 0.

    The functions of ``x`` accept anything ``numpy.asarray`` turns into real numbers and return a
    float64 array of that shape, or a numpy float for a scalar. Relative errors are below 1e-10
    wherever the value exceeds 1e-15. They need alpha >= 1.01.

    Args:
        alpha: stability index in (1, 2].
        beta: skewness in [-1, 1]; +1 has its heavy tail to the right.
        scale: c > 0.

    Raises:
        TypeError: if an argument is no real number.
        ValueError: if an argument lies outside its range.

    Examples:
        >>> law = StableLaw(1.5, beta=0.5)
        >>> round(float(law.cdf(0.0)), 6)
        0.598389
        >>> bool(np.isclose(law.cdf(law.quantile(0.99)), 0.99, rtol=1e-12))
        True
    """

    alpha: float
    beta: float = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        for name in ("alpha", "beta", "scale"):
            object.__setattr__(self, name, _real_number(name, getattr(self, name)))
        if not 1.0 < self.alpha <= 2.0:  # written so that NaN fails too
            raise ValueError(f"alpha must lie in (1, 2], got {self.alpha!r}")
        if not -1.0 <= self.beta <= 1.0:
            raise ValueError(f"beta must lie in [-1, 1], got {self.beta!r}")
        if not 0.0 < self.scale < np.inf:
            raise ValueError(f"scale must be positive and finite, got {self.scale!r}")
        if self.scale < SMALLEST_SCALE:
            raise ValueError(f"scale must be at least {SMALLEST_SCALE:.3g}, got {self.scale!r}")

    def pdf(self, x: ArrayLike) -> Array:
        """Return the density at every entry of ``x``.

        Examples:
            >>> bool(np.isclose(StableLaw(2.0).pdf(0.0), 0.5 / np.sqrt(np.pi)))
            True
        """
        return _shaped(np.exp(self.logpdf(x)))

    def logpdf(self, x: ArrayLike) -> Array:
        """Return the log density, finite on a thin tail also where the density underflows.

        Examples:
            >>> round(float(StableLaw(2.0).logpdf(100.0)), 6)
            -2501.265512
        """
        y, negative, shape = self._standard(x)
        out = np.empty_like(y)
        for side, beta in ((~negative, self.beta), (negative, -self.beta)):
            out[side] = log_density(y[side], self.alpha, beta)
        return _shaped(out.reshape(shape) - np.log(self.scale))

    def cdf(self, x: ArrayLike) -> Array:
        """Return P(X <= x), relatively accurate in the left tail.

        Examples:
            >>> round(float(StableLaw(1.5).cdf(0.0)), 12), float(StableLaw(1.5).cdf(np.inf))
            (0.5, 1.0)
        """
        return self._upper_tail(np.negative(_real_array("x", x)), -self.beta)

    def sf(self, x: ArrayLike) -> Array:
        """Return P(X > x), relatively accurate in the right tail.

        Examples:
            >>> law = StableLaw(1.5, scale=2.0)
            >>> bool(np.isclose(law.sf(1e8), law.cdf(-1e8), rtol=1e-12))
            True
        """
        return self._upper_tail(_real_array("x", x), self.beta)

    def quantile(self, p: ArrayLike) -> Array:
        """Return the x with cdf(x) = p, for p in [0, 1]; the ends give -inf and inf.

        Raises:
            ValueError: if an entry of ``p`` lies outside [0, 1].

        Examples:
            >>> float(StableLaw(1.5).quantile(0.0))
            -inf
            >>> round(float(StableLaw(2.0).quantile(0.975) / np.sqrt(2.0)), 6)
            1.959964
        """
        p = _real_array("p", p)
        _require("p must lie in [0, 1]", p, ~((p < 0.0) | (p > 1.0)))  # NaN passes through
        self._check_alpha()
        right = p > 1.0 - _mass_above_zero(self.alpha, self.beta)
        x = np.empty_like(p)
        x[right] = _inverse_tail(1.0 - p[right], self.alpha, self.beta)
        x[~right] = -_inverse_tail(p[~right], self.alpha, -self.beta)
        with np.errstate(over="ignore"):
            return _shaped(self.scale * x)

    def sample(self, shape: int | tuple[int, ...], seed: int = 0) -> Tensor:
        """Return independent samples, a float64 tensor; element i depends on (seed, i) alone."""
        from mpgd.noise.memoryless import StableNoise  # loads torch, which nothing else here needs

        noise = StableNoise(self.alpha, self.beta)
        value, _ = noise.step(noise.init(shape, seed))
        return self.scale * value

    def characteristic_function(self, t: ArrayLike) -> NDArray[np.complex128]:
        """Return E exp(i t X) at every entry of ``t``.

        Examples:
            >>> complex(StableLaw(1.5, 1.0).characteristic_function(0.0))
            (1+0j)
        """
        t = _real_array("t", t)
        tangent = -np.tan(0.5 * np.pi * (2.0 - self.alpha))
        with np.errstate(over="ignore"):
            # e^(-750) is 0; a longer exponent would only turn its phase into inf * 0.
            decay = np.minimum(np.abs(self.scale * t) ** self.alpha, 750.0)
        value = np.exp(-decay * (1.0 - 1j * self.beta * np.sign(t) * tangent))
        return np.asarray(value)[()]

    def _upper_tail(self, x: Array, beta: float) -> Array:
        """Return P(X > x) for the law of skewness ``beta``."""
        y, negative, shape = self._standard(x)
        out = np.empty_like(y)
        out[~negative] = np.exp(log_tail(y[~negative], self.alpha, beta))
        out[negative] = -np.expm1(log_tail(y[negative], self.alpha, -beta))
        return _shaped(out.reshape(shape))

    def _standard(self, x: ArrayLike) -> tuple[Array, NDArray[np.bool_], tuple[int, ...]]:
        """Return |x| / c and x < 0, both flat, with the shape of ``x``."""
        self._check_alpha()
        x = _real_array("x", x)
        with np.errstate(over="ignore"):
            return np.abs(x).ravel() / self.scale, x.ravel() < 0.0, x.shape

    def _check_alpha(self) -> None:
        if self.alpha < SMALLEST_ALPHA:
            raise ValueError(
                f"alpha must be at least {SMALLEST_ALPHA} for the distribution functions, "
                f"got {self.alpha!r}"
            )


def chambers_mallows_stuck(
    angle: ArrayLike, exponential: ArrayLike, alpha: float, beta: float
) -> Array:
    """Map a uniform angle and an exponential variable to a standard stable variable.

    With theta_0 = arctan(beta tan(pi alpha/2)) / alpha, U = ``angle`` and W = ``exponential``:

        X = sin(alpha (theta_0 + U)) / (cos(alpha theta_0) cos U)^(1/alpha)
            (cos(alpha theta_0 + (alpha - 1) U) / W)^((1 - alpha)/alpha)

    computed in the distance of |U| to pi/2, where the cosines vanish.

    Args:
        angle: uniform on (-pi/2, pi/2).
        exponential: independent of ``angle``, exponential of mean 1; same shape.
        alpha: stability index in (1, 2].
        beta: skewness in [-1, 1].

    Returns:
        An array of the common shape, of scale 1 and location 0 (S1).

    Raises:
        TypeError: if an argument is not real.
        ValueError: if an argument lies outside its range.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> angle, exponential = np.pi * (rng.random(4) - 0.5), rng.standard_exponential(4)
        >>> x = chambers_mallows_stuck(angle, exponential, 2.0, 0.0)
        >>> bool(np.allclose(x, 2.0 * np.sin(angle) * np.sqrt(exponential)))
        True
    """
    law = StableLaw(alpha, beta)
    alpha, beta = law.alpha, law.beta
    U, W = _real_array("angle", angle), _real_array("exponential", exponential)
    _require("angle must lie in (-pi/2, pi/2)", U, np.abs(U) < 0.5 * np.pi)
    _require("exponential must be non-negative", W, W >= 0.0)
    delta = 0.5 * np.pi - np.abs(U)
    # At U < 0 the formula is that of -X at beta -> -beta; see stable_integral for epsilon.
    epsilon = np.where(U < 0.0, angle_offset(alpha, -beta), angle_offset(alpha, beta))
    cosine = 1.0 / np.hypot(1.0, beta * np.tan(0.5 * np.pi * (2.0 - alpha)))
    size = np.sin(epsilon + alpha * delta) / (cosine * np.sin(delta)) ** (1.0 / alpha)
    spread = (W / np.sin(epsilon + (alpha - 1.0) * delta)) ** ((alpha - 1.0) / alpha)
    return _shaped(np.where(U < 0.0, -1.0, 1.0) * size * spread)


def _mass_above_zero(alpha: float, beta: float) -> float:
    return (1.0 - angle_offset(alpha, beta) / np.pi) / alpha


def _inverse_tail(q: Array, alpha: float, beta: float) -> Array:
    """Return the y >= 0 with P(X > y) = q, by Newton's method kept inside a bracket."""
    y = np.full_like(q, np.nan)
    y[q == 0.0] = np.inf
    grid, log_tails = _tail_table(alpha, beta)
    with np.errstate(divide="ignore"):
        log_q = np.log(q)
    y[log_q >= log_tails[0]] = 0.0
    beyond = (q > 0.0) & (log_q <= log_tails[-1])
    y[beyond] = grid[-1] * np.exp((log_tails[-1] - log_q[beyond]) / alpha)
    inside = (log_q < log_tails[0]) & (log_q > log_tails[-1])
    y[inside] = _newton(log_q[inside], alpha, beta)
    return y


@lru_cache(maxsize=32)
def _tail_table(alpha: float, beta: float) -> tuple[Array, Array]:
    """Return a grid of y and log P(X > y) on it, down to the smallest positive double."""
    y = np.geomspace(SMALLEST, LARGEST, TABLE_SIZE)
    if angle_offset(alpha, beta) == 0.0:
        y = y[: np.searchsorted(-log_tail(y, alpha, beta), 800.0) + 1]
    return y, np.minimum.accumulate(log_tail(y, alpha, beta))


def _newton(log_q: Array, alpha: float, beta: float) -> Array:
    """Solve log P(X > y) = log q for q strictly inside the table."""
    grid, log_tails = _tail_table(alpha, beta)
    upper = np.clip(np.searchsorted(-log_tails, -log_q), 1, grid.size - 1)
    low, high = grid[upper - 1], grid[upper]
    y, active = np.sqrt(low * high), np.arange(log_q.size)
    for _ in range(NEWTON_STEPS):
        tail, density = log_tail_and_density(y[active], alpha, beta)
        excess = tail - log_q[active]
        low[active] = np.where(excess > 0.0, y[active], low[active])
        high[active] = np.where(excess > 0.0, high[active], y[active])
        step = excess * np.exp(tail - density)
        moved = y[active] + step
        between = (moved >= low[active]) & (moved <= high[active])
        y[active] = np.where(between, moved, 0.5 * (low[active] + high[active]))
        # The error after a Newton step is of the order of its square; excess has rounding of 1e-15.
        active = active[(np.abs(step) > 1e-9 * y[active]) & (np.abs(excess) > 1e-15)]
        if not active.size:
            break
    return y


def _real_number(name: str, value: object) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a real number, got {value!r}")
    return float(value)


def _real_array(name: str, value: ArrayLike) -> Array:
    array = np.asarray(value)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must hold real numbers, got dtype {array.dtype}")
    return array.astype(np.float64)


def _require(rule: str, values: Array, held: NDArray[np.bool_]) -> None:
    if not np.all(held):
        raise ValueError(f"{rule}, got {float(values[~held][0])!r}")


def _shaped(values: Array) -> Array:
    """Turn an array without axes into a numpy float."""
    return np.asarray(values)[()]
