"""The map of Liverani, Saussol and Vaienti: another one with a neutral fixed point at 0.

    T(y) = y (1 + (2 y)^gamma)   for y < 1/2,       T(y) = 2 y - 1   for 1/2 <= y <= 1

Near 0 it moves by 2^gamma y^(1+gamma), so phases have the same tail index alpha = 1/gamma as those
of the Thaler map, with another constant. Its invariant density h has no closed form. Let y_n be the
n-th preimage of y under the left branch. Following a point back until it was last in the right
branch,

    h(y) = sum_n  h((1 + y_n) / 2) / 2  dy_n/dy ,

and for y in [1/2, 1] this is an equation for h on [1/2, 1] alone, with a smooth kernel: some
Chebyshev nodes solve it. The same sum with the integral of h instead of h is the distribution
function on [0, 1/2], so its values on a grid and on all preimages of that grid are known at once. A
phase over n steps begins with probability int of h over [1/2, (1 + x_n)/2], where x_n, the n-th
preimage of 1/2, tends to (gamma n)^(-alpha) / 2; hence the constant h(1/2) gamma^(-alpha) / 4.

Sums are cut at `DEPTH` terms and their tails added as powers; relative errors are below 1e-4.

Reference: Liverani, Saussol & Vaienti (1999); Gouezel (2004) for the limit law of its sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mpgd.maps.thaler import checked_unit
from mpgd.parameters import check_real

Array = NDArray[np.float64]

NODES: Final = 24  # Chebyshev nodes on [1/2, 1]
DEPTH: Final = 4000  # preimages that are followed
GRID: Final = 48  # points between 1/2 and its preimage
SMALLEST: Final = 2.0**-52  # an orbit that rounds to 0 would stay there


@dataclass(frozen=True)
class LSVMap:
    """The map of Liverani, Saussol and Vaienti at one gamma.

    Args:
        gamma: the intermittency exponent, in (0.5, 0.95].

    Examples:
        >>> T = LSVMap(0.6)
        >>> float(T(0.75)), round(float(T(0.25)), 6)
        (0.5, 0.414938)
        >>> bool(abs(T.cdf(T.quantile(0.3)) - 0.3) < 1e-6)
        True
    """

    gamma: float

    def __post_init__(self) -> None:
        gamma = check_real("gamma", self.gamma, "(0.5, 0.95]", 0.5, 0.95, "(]")
        object.__setattr__(self, "gamma", gamma)

    @property
    def alpha(self) -> float:
        """The tail index 1/gamma."""
        return 1.0 / self.gamma

    @property
    def y_star(self) -> float:
        """The branch point."""
        return 0.5

    def __call__(self, y: ArrayLike) -> Array:
        """Return T at every entry of ``y``."""
        y = checked_unit(y)
        left = np.minimum(y, 0.5)
        image = np.where(y < 0.5, left * (1.0 + (2.0 * left) ** self.gamma), 2.0 * y - 1.0)
        return np.asarray(np.clip(image, SMALLEST, 1.0))

    @property
    def phase_constant(self) -> float:
        """The limit of n^alpha times the invariant probability that a phase over n steps begins."""
        return float(self._density_right(np.array([0.5]))[0] * self.gamma**-self.alpha / 4.0)

    def cdf(self, y: ArrayLike) -> Array:
        """Return the invariant distribution function at every entry of ``y``."""
        y, (grid, H) = checked_unit(y), self._table
        power = H[0] * (y / grid[0]) ** (1.0 - self.gamma)  # h falls like y^-gamma near 0
        return np.asarray(np.where(y < grid[0], power, np.interp(y, grid, H)))

    def quantile(self, u: ArrayLike) -> Array:
        """Return the y with cdf(y) = u: a uniform draw becomes a stationary start."""
        u, (grid, H) = checked_unit(u, "u"), self._table
        power = grid[0] * (np.minimum(u / H[0], 1.0)) ** (1.0 / (1.0 - self.gamma))
        return np.asarray(np.maximum(np.where(u < H[0], power, np.interp(u, H, grid)), 1e-300))

    @cached_property
    def _table(self) -> tuple[Array, Array]:
        """Increasing points y and the distribution function at them."""
        start = np.linspace(0.5, float(self._preimage(np.array([0.5]))[0]), GRID, endpoint=False)
        chain, _ = self._preimages(start)
        entered = self._mass_right(0.5 + 0.5 * chain)  # of points whose image lies below
        H = np.cumsum(entered[::-1], axis=0)[::-1] + self._tail(entered[-1], self.alpha - 1.0)
        left, mass = chain.ravel()[::-1], H.ravel()[::-1]
        right = np.linspace(0.5, 1.0, 400)[1:]
        below = H[0, 0] + self._mass_right(right)
        return np.concatenate([left, right]), np.concatenate([mass, below])

    @cached_property
    def _coefficients(self) -> Array:
        """Chebyshev coefficients of h on [1/2, 1], normalised over [0, 1]."""
        nodes = 0.75 + 0.25 * np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)
        chain, slopes = self._preimages(nodes)
        basis = _chebyshev(0.5 + 0.5 * chain)  # (preimage, node, coefficient)
        terms = 0.5 * slopes[..., None] * basis
        kernel = terms.sum(axis=0) + self._tail(terms[-1], self.alpha)
        values, vectors = np.linalg.eig(np.linalg.solve(_chebyshev(nodes), kernel))
        h = np.real(vectors[:, np.argmin(np.abs(values - 1.0))])
        edge, _ = self._preimages(np.array([0.5]))
        entered = _integrals(0.5 + 0.5 * edge) @ h
        left = entered.sum(axis=0) + self._tail(entered[-1], self.alpha - 1.0)
        return np.asarray(h / (left[0] + _integrals(np.array([1.0]))[0] @ h))

    def _tail(self, last: Array, power: float) -> Array:
        """Return the sum over n > DEPTH of terms like n^(-1-power), of which ``last`` is known."""
        return last * DEPTH / power

    def _density_right(self, y: Array) -> Array:
        return _chebyshev(y) @ self._coefficients

    def _mass_right(self, y: Array) -> Array:
        """Return the integral of h from 1/2 to y."""
        return _integrals(y) @ self._coefficients

    def _preimages(self, y: Array) -> tuple[Array, Array]:
        """Return y, its preimages under the left branch, and their derivatives, (n, entry)."""
        chain, slopes = [y], [np.ones_like(y)]
        for _ in range(DEPTH):
            x = self._preimage(chain[-1])
            chain.append(x)
            slopes.append(slopes[-1] / (1.0 + (1.0 + self.gamma) * (2.0 * x) ** self.gamma))
        return np.stack(chain), np.stack(slopes)

    def _preimage(self, y: Array) -> Array:
        """Return the x < 1/2 with T(x) = y, by Newton's method from the right of a convex curve."""
        x = np.minimum(y, 0.5)
        for _ in range(8):
            power = (2.0 * x) ** self.gamma
            step = (x * (1.0 + power) - y) / (1.0 + (1.0 + self.gamma) * power)
            x = x - step
            if np.all(np.abs(step) <= 1e-15 * x):
                break
        return x


def _chebyshev(y: Array) -> Array:
    """Return the polynomials on [1/2, 1] at ``y``, with an axis for them at the end."""
    return np.polynomial.chebyshev.chebvander(4.0 * y - 3.0, NODES - 1).astype(np.float64)


def _integrals(y: Array) -> Array:
    """Return their integrals from 1/2 to ``y``."""
    whole = np.polynomial.chebyshev.chebint(np.eye(NODES), lbnd=-1.0, axis=1)
    basis = np.polynomial.chebyshev.chebvander(4.0 * y - 3.0, NODES)
    return np.asarray(0.25 * basis @ whole.T)
