"""The Thaler map T, its invariant law H, the branch point y* and the Abel coordinate.

With e = 1 - gamma, 0 < gamma < 1, 0 < y <= 1 and G(y) = y^e + (1+y)^e - 1:

    T(y) = G(y)^(1/e), minus 1 if that exceeds 1         G(y*) = 1
    H(y) = G(y) / 2^e                                    y ~ H implies T(y) ~ H

and A, Y = A^-1, B = A o T o Y as in `mpgd.maps.abel`. The value 0 is never taken: y* -> 1 -> 1.

Above gamma = 1/2 phases are so long that sums tend to a stable law; up to 1/2 they tend to a normal
one. The map and its law are the same on both sides, the Abel coordinate is there above only.

Reference: Lim, Wan & Simsekli (2022), Section 2; Thaler (1980).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import mpmath as mp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from mpgd.maps.abel import DIGITS, solve_G
from mpgd.maps.tables import ThalerTables, thaler_tables
from mpgd.parameters import LARGEST_GAMMA, check_real

Array = NDArray[np.float64]

BEYOND = 1e100  # an s so large that the other terms of the expansion are nothing beside it


@dataclass(frozen=True)
class ThalerMap:
    """The Thaler map at one gamma, accurate next to 0 and next to y*.

    Methods take anything `numpy.asarray` takes and return float64 arrays of the same shape.

    Args:
        gamma: the intermittency exponent, in (0, 0.99]; the Abel coordinate asks for more than 0.5.

    Examples:
        >>> T = ThalerMap(gamma=0.6)
        >>> round(T.alpha, 4), round(T.y_star, 12)
        (1.6667, 0.574200182698)
        >>> float(T(T.quantile(0.25))) > 0
        True
        >>> bool(abs(T.abel(T(0.01)) - (T.abel(0.01) - 1)) < 1e-12)
        True

    Reference: Lim, Wan & Simsekli (2022), equation (5).
    """

    gamma: float

    def __post_init__(self) -> None:
        rule = f"(0, {LARGEST_GAMMA}]"
        gamma = check_real("gamma", self.gamma, rule, 0.0, LARGEST_GAMMA, "(]")
        object.__setattr__(self, "gamma", gamma)

    @property
    def alpha(self) -> float:
        """The tail index 1/gamma of a phase's length, and of the limit law if it is below 2."""
        return 1.0 / self.gamma

    @property
    def e(self) -> float:
        """The exponent 1 - gamma."""
        return 1.0 - self.gamma

    @cached_property
    def tables(self) -> ThalerTables:
        """The numbers of this gamma, rounded once from high precision."""
        if self.gamma <= 0.5:
            raise ValueError(
                f"gamma must lie in (0.5, {LARGEST_GAMMA}] for the Abel coordinate, "
                f"got {self.gamma!r}"
            )
        return thaler_tables(self.gamma)

    @property
    def y_star(self) -> float:
        """The branch point, where the left branch reaches 1."""
        return self._branch_point[0]

    @cached_property
    def _branch_point(self) -> tuple[float, float]:
        """y* as the sum of two doubles."""
        if self.gamma > 0.5:
            high, low = self.tables.constants[:2]
            return float(high), float(low)
        with mp.workdps(DIGITS):
            exact = solve_G(mp.mpf(1), 1 - mp.mpf(self.gamma))
            return float(exact), float(exact - mp.mpf(float(exact)))

    @property
    def burst_probability(self) -> float:
        """The invariant probability of Z = (y*, 1], which is 1 - 2^(gamma - 1)."""
        return float(-np.expm1((self.gamma - 1.0) * np.log(2.0)))

    @property
    def phase_constant(self) -> float:
        """The limit of n^alpha times the invariant probability that a phase over n steps begins."""
        return float(self.e * self.alpha**self.alpha * 2.0**-self.e)

    def __call__(self, y: ArrayLike) -> Array:
        """Return T at every entry of ``y``."""
        y = checked_unit(y)
        distance = self._beyond_y_star(y)
        image = np.where(distance > 0, self._right(distance), self._left(y))
        return np.where(y == 1.0, 1.0, image)

    def _beyond_y_star(self, y: Array) -> Array:
        high, low = self._branch_point
        return np.asarray((y - high) - low)

    def _left(self, y: Array) -> Array:
        """T = y (1 + y^-e ((1+y)^e - 1))^(1/e): the increment keeps its digits as y -> 0."""
        e = self.e
        rise = y**-e * np.expm1(e * np.log1p(y))
        return np.asarray(np.minimum(y * np.exp(np.log1p(rise) / e), 1.0))

    def _right(self, distance: Array) -> Array:
        """T = (1 + G(y) - G(y*))^(1/e) - 1, with the difference taken from y - y* itself."""
        e, y_star = self.e, self.y_star
        d = np.maximum(distance, 0.0)
        rise = y_star**e * np.expm1(e * np.log1p(d / y_star))
        rise = rise + (1 + y_star) ** e * np.expm1(e * np.log1p(d / (1 + y_star)))
        return np.asarray(np.minimum(np.expm1(np.log1p(rise) / e), 1.0))

    def density(self, y: ArrayLike) -> Array:
        """Return the invariant density H' at every entry of ``y``."""
        y = checked_unit(y)
        return np.asarray(self.e / 2.0**self.e * (y**-self.gamma + (1 + y) ** -self.gamma))

    def cdf(self, y: ArrayLike) -> Array:
        """Return the invariant distribution function H at every entry of ``y``."""
        y = checked_unit(y)
        mass = (y**self.e + np.expm1(self.e * np.log1p(y))) / 2.0**self.e
        return np.asarray(np.minimum(mass, 1.0))

    def quantile(self, u: ArrayLike) -> Array:
        """Return the y with H(y) = u: a uniform draw becomes a stationary start.

        In w = y^e the equation w + (1 + w^(1/e))^e - 1 = 2^e u is convex and increasing, so
        Newton's steps from the right never overshoot.
        """
        e = self.e
        level = 2.0**e * checked_unit(u, "u")
        w = np.minimum(level, 1.0)
        for _ in range(60):
            y = w ** (1 / e)
            excess = w + np.expm1(e * np.log1p(y)) - level
            step = excess / (1 + (1 + y) ** -self.gamma * y / w)
            w = w - step
            if np.all(np.abs(step) <= 1e-15 * w):
                break
        return np.asarray(np.minimum(w ** (1 / e), 1.0))

    def abel(self, y: ArrayLike) -> Array:
        """Return A at every entry of ``y``: A(T y) = A(y) - 1 left of y*, A(1) = 0."""
        y = checked_unit(y)
        z = y**-self.gamma / self.gamma
        ends = self._panel_ends
        near = y > ends[-1]
        s = np.asarray(self._expansion(z))
        if near.any():
            s[near] = self._near_abel(y[near])
        return s

    def abel_inverse(self, s: ArrayLike) -> Array:
        """Return Y = A^-1 at every entry of ``s`` >= 0."""
        s = np.asarray(s, dtype=np.float64)
        if not np.all(s >= 0):
            raise ValueError(f"s must be at least 0, got {_offender(s, s >= 0)!r}")
        y = np.asarray(self._far_inverse(s))
        near = s < len(self.tables.panels)
        if near.any():
            panel = s[near].astype(np.int64)
            y[near] = np.minimum(_clenshaw(self.tables.panels[panel], s[near] - panel), 1.0)
        return y

    def abel_return(self, s: ArrayLike) -> Array:
        """Return B = A o T o Y at every entry of ``s`` in [0, 1).

        With u = 1 - s, Y(s) - y* is u times a smooth function, so no digit is lost as s -> 1.
        """
        s = np.asarray(s, dtype=np.float64)
        inside = (s >= 0) & (s < 1)
        if not np.all(inside):
            raise ValueError(f"s must lie in [0, 1), got {_offender(s, inside)!r}")
        u = 1.0 - s
        slope = _clenshaw(self.tables.slope[None, :], u.reshape(-1)).reshape(u.shape)
        return self.abel(self._right(u * slope))

    @cached_property
    def _panel_ends(self) -> Array:
        panels = self.tables.panels
        return _clenshaw(panels, np.ones(len(panels)))

    def _expansion(self, z: Array) -> Array:
        p, q = 1 / z, z**-self.alpha
        total = np.zeros_like(z)
        for row in self.tables.series[::-1]:
            inner = np.zeros_like(z)
            for c in row[::-1]:
                inner = inner * p + c
            total = total * q + inner
        with np.errstate(over="ignore", invalid="ignore"):  # only where z is near; replaced there
            s = z + self.alpha / 2 * np.log(z) + self.tables.constants[2] + z * total
        return np.asarray(s)

    def _near_abel(self, y: Array) -> Array:
        ends = self._panel_ends
        panel = len(ends) - np.searchsorted(ends[::-1], y, side="right")
        rows = self.tables.panels[panel]
        slopes = _derivative(rows)
        x = np.full_like(y, 0.5)
        for _ in range(12):
            x = x - (_clenshaw(rows, x) - y) / _clenshaw(slopes, x)
        return np.maximum(panel + x, 0.0)

    def _far_inverse(self, s: Array) -> Array:
        beyond = s
        far = s > BEYOND  # there A(y) is z to the last digit
        s = np.minimum(s, BEYOND) if far.any() else s
        z = np.maximum(s - self.tables.constants[2], float(len(self.tables.panels)) / 2)
        for _ in range(40):
            step = (self._expansion(z) - s) / (1 + self.alpha / (2 * z))
            z = np.maximum(z - step, 1.0)
            if np.all(np.abs(step) <= 1e-16 * z):
                break
        z = np.where(far, beyond, z) if far.any() else z
        return np.asarray((self.gamma * z) ** -self.alpha)


def checked_unit(y: ArrayLike, name: str = "y") -> Array:
    """Return an array of float64 whose entries lie in (0, 1]."""
    y = np.asarray(y, dtype=np.float64)
    inside = (y > 0) & (y <= 1)
    if not np.all(inside):
        raise ValueError(f"{name} must lie in (0, 1], got {_offender(y, inside)!r}")
    return y


def _offender(values: Array, good: NDArray[np.bool_]) -> float:
    return float(values[~good].flat[0])


def _clenshaw(rows: Array, x: Array) -> Array:
    """Return Chebyshev sums on [0, 1], row by row: ``rows`` (entry, coefficient), x (entry,)."""
    t = 4.0 * x - 2.0
    b1 = b2 = np.zeros_like(x)
    for k in range(rows.shape[1] - 1, 0, -1):
        b1, b2 = rows[:, k] + t * b1 - b2, b1
    return np.asarray(rows[:, 0] + 0.5 * t * b1 - b2)


def _derivative(rows: Array) -> Array:
    n = rows.shape[1]
    d = np.zeros((len(rows), n + 1))
    for k in range(n - 1, 0, -1):
        d[:, k - 1] = d[:, k + 1] + 4 * k * rows[:, k]
    d[:, 0] /= 2
    return d[:, : n - 1]
