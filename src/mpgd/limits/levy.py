"""Stable Levy processes by their triplet (b, Sigma, nu) and their characteristic exponent.

A Levy process has E exp(i xi L_t) = exp(-t Psi(xi)), and by the Levy-Khintchine formula

    Psi(xi) = -i b xi + Sigma xi^2 / 2 + int [1 - e^(i x xi) + i x xi 1(|x| < 1)] nu(dx)

A stable process of index 1 < alpha < 2 has Sigma = 0 and jumps of intensity

    nu(dx) = (right 1(x > 0) + left 1(x < 0)) |x|^(-1-alpha) dx .

With the law X(alpha, beta) of scale c at time 1, and C = (1-alpha) / (Gamma(2-alpha)
cos(pi alpha/2)),

    right = alpha C c^alpha (1+beta)/2,   left = alpha C c^alpha (1-beta)/2,

and the mean is 0 if b undoes the jumps that the integral does not compensate:

    b = -int_(|x|>=1) x nu(dx) = -(right - left) / (alpha - 1) .

At alpha = 2 there are no jumps, and Sigma = 2 c^2.

The paper calls (0, 0, |x|^(-1-alpha) dx) the symmetric stable process. In one dimension that is one
of scale (2 / (alpha C))^(1/alpha), not 1; in R^d the power that makes it stable is |x|^(-d-alpha).

Reference: Lim, Wan & Simsekli (2022), Section 2, equations (4), (6) and (10).
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mpgd.limits.drivers import DrivingNoise, limit_law
from mpgd.parameters import check_alpha, check_finite, check_flag, check_nonnegative
from mpgd.stable import StableLaw

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]


@dataclass(frozen=True)
class LevyTriplet:
    """The triplet (b, Sigma, nu) of a process on the line, with jumps as those of a stable one.

    Args:
        alpha: the power of the jumps, in (1, 2]; at 2 there are none.
        b: the drift that is left when jumps below 1 are compensated.
        Sigma: the variance of the Brownian part at time 1, at least 0.
        right: intensity of jumps up, right x^(-1-alpha) dx, at least 0.
        left: of jumps down.

    Examples:
        >>> brownian = LevyTriplet(2.0, Sigma=2.0)
        >>> brownian.exponent([0.0, 3.0]).real.tolist()
        [0.0, 9.0]
    """

    alpha: float
    b: float = 0.0
    Sigma: float = 0.0
    right: float = 0.0
    left: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", check_alpha(self.alpha))
        object.__setattr__(self, "b", check_finite("b", self.b))
        for name in ("Sigma", "right", "left"):
            object.__setattr__(self, name, check_nonnegative(name, getattr(self, name)))
        if self.alpha == 2.0 and self.right + self.left > 0.0:
            raise ValueError(f"alpha must be below 2 where there are jumps, got {self.alpha!r}")

    def density(self, x: ArrayLike) -> Array:
        """Return the density of nu at every entry of ``x``, none of which is 0.

        Examples:
            >>> float(LevyTriplet(1.5, right=2.0).density(4.0))
            0.0625
        """
        x = _not_zero(x)
        side = np.where(x > 0.0, self.right, self.left)
        return np.asarray(side * np.abs(x) ** (-1.0 - self.alpha))[()]

    def tail(self, x: ArrayLike) -> Array:
        """Return how many jumps beyond ``x`` there are in a unit of time, away from 0.

        Examples:
            >>> float(LevyTriplet(1.5, left=3.0).tail(-4.0))
            0.25
        """
        x = _not_zero(x)
        side = np.where(x > 0.0, self.right, self.left)
        return np.asarray(side / self.alpha * np.abs(x) ** -self.alpha)[()]

    def exponent(self, xi: ArrayLike) -> Complex:
        """Return Psi at every entry of ``xi``, in closed form.

        The integral over x > 0 is -Gamma(-alpha) (-i xi)^alpha - i xi / (alpha - 1).

        Examples:
            >>> complex(LevyTriplet(1.5, b=2.0).exponent(3.0))
            -6j
        """
        xi = _real(xi, "xi")
        value = -1j * self.b * xi + 0.5 * self.Sigma * xi**2
        if self.right + self.left > 0.0:
            turn = 0.5 * np.pi * self.alpha
            both, skew = self.right + self.left, self.right - self.left
            power = -math.gamma(-self.alpha) * np.abs(xi) ** self.alpha
            value = value + power * (both * np.cos(turn) - 1j * np.sign(xi) * skew * np.sin(turn))
            value = value - 1j * xi * skew / (self.alpha - 1.0)
        return np.asarray(value, dtype=np.complex128)[()]


def levy_triplet(driver: StableLaw | DrivingNoise, *, symmetric: bool = False) -> LevyTriplet:
    """Return the triplet of the stable process with this law at time 1.

    Args:
        driver: a law, or a driver of a recursion, which stands for the process its sums tend to.
        symmetric: of the difference of two independent copies, as in the symmetric variant.

    Raises:
        TypeError: a driver whose limit is not known.

    Examples:
        >>> from mpgd import ChaoticNoise
        >>> triplet = levy_triplet(ChaoticNoise(0.6, beta=0.5))
        >>> round(triplet.right / triplet.left, 12), triplet.Sigma
        (3.0, 0.0)
        >>> twins = levy_triplet(ChaoticNoise(0.6, beta=0.5), symmetric=True)
        >>> twins.right == twins.left
        True
    """
    law = process_law(driver, symmetric=symmetric)
    alpha, variance = law.alpha, 2.0 * law.scale**2
    if alpha == 2.0:
        return LevyTriplet(2.0, Sigma=variance)
    # cos(pi alpha/2) from the distance to 2, where it is near -1 and keeps its digits anyway.
    C = (alpha - 1.0) / (math.gamma(2.0 - alpha) * math.cos(0.5 * math.pi * (2.0 - alpha)))
    total = alpha * C * law.scale**alpha
    right, left = total * (1.0 + law.beta) / 2.0, total * (1.0 - law.beta) / 2.0
    return LevyTriplet(alpha, -(right - left) / (alpha - 1.0), 0.0, right, left)


def levy_exponent(
    xi: ArrayLike, driver: StableLaw | DrivingNoise, *, symmetric: bool = False
) -> Complex:
    """Return the exponent Psi of equation (10) at every xi.

    Psi(xi) = |c xi|^alpha (1 - i beta sign(xi) tan(pi alpha/2)).

    Args:
        xi: real numbers.
        driver: a law, or a driver of a recursion.
        symmetric: of the difference of two independent copies: beta 0, scale 2^(1/alpha) c.

    Examples:
        >>> complex(levy_exponent(2.0, StableLaw(2.0)))
        (4+0j)
        >>> law = StableLaw(1.5, beta=1.0)
        >>> bool(np.isclose(np.exp(-levy_exponent(0.7, law)), law.characteristic_function(0.7)))
        True
    """
    law, xi = process_law(driver, symmetric=symmetric), _real(xi, "xi")
    tangent = -np.tan(0.5 * np.pi * (2.0 - law.alpha))
    size = np.abs(law.scale * xi) ** law.alpha
    return np.asarray(size * (1.0 - 1j * law.beta * np.sign(xi) * tangent))[()]


def process_law(driver: StableLaw | DrivingNoise, *, symmetric: bool = False) -> StableLaw:
    """Return the law at time 1 of the process a driver tends to, or of a difference of two.

    Examples:
        >>> process_law(StableLaw(1.6, 0.5), symmetric=True).scale == 2.0**0.625
        True
    """
    check_flag("symmetric", symmetric)
    law = driver if isinstance(driver, StableLaw) else limit_law(driver)
    if not symmetric:
        return law
    return StableLaw(law.alpha, scale=2.0 ** (1.0 / law.alpha) * law.scale)


def _real(values: ArrayLike, name: str) -> Array:
    array = np.asarray(values)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must hold real numbers, got dtype {array.dtype}")
    if not np.isfinite(array).all():
        raise ValueError(
            f"{name} must be finite, got {float(array[~np.isfinite(array)].flat[0])!r}"
        )
    return array.astype(np.float64)


def _not_zero(x: ArrayLike) -> Array:
    array = _real(x, "x")
    if (array == 0.0).any():
        raise ValueError("x must not be 0, where nu is infinite, got 0.0")
    return array
