"""Slow, clear references: the Thaler map by powers, and its Abel function in high precision.

    T(y) = (y^e + (1 + y)^e - 1)^(1/e), minus 1 if that exceeds 1        e = 1 - gamma
    A(T y) = A(y) - 1 left of y*, A(1) = 0,   Y = A^-1,   B = A o T o Y

A is found without the package's recurrence: the unknowns c_k of

    F = z + log(z)/(2 gamma) + sum_k c_k z^(1 - r_k),   z = y^(-gamma)/gamma,  r_k = i alpha + j

are *fitted* to F(T y) = F(y) - 1 far out. The proof is in the residual d(z) of that equation, not
in the fit: A - F - const is bounded by the sum of d over the backward orbit (`Abel.residual`).
"""

from __future__ import annotations

from functools import cached_property, lru_cache

import mpmath as mp
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

DIGITS = 50
FAR = 64  # the fit is used for z >= FAR
FITTED_TO = 1e3  # and was fitted for z from FAR to here
ORDER = 12  # powers z^(1 - r) with r <= ORDER
TERMS = 50  # but no more of them


def branch_point(gamma: float) -> mp.mpf:
    """Return y*, the root of y^e + (1 + y)^e = 2, to DIGITS digits."""
    with mp.workdps(DIGITS + 5):
        e = 1 - mp.mpf(gamma)
        return mp.findroot(lambda y: y**e + (1 + y) ** e - 2, (0.5, 0.65), solver="anderson")


def thaler_exact(y: mp.mpf, gamma: float) -> mp.mpf:
    """Return T(y) in high precision, also at y ~ 1e-300."""
    with mp.workdps(DIGITS + 20):
        e = 1 - mp.mpf(gamma)
        image = (y**e + mp.expm1(e * mp.log1p(y))) ** (1 / e)
        return image if image <= 1 else image - 1


def thaler(y: Array, gamma: float) -> Array:
    """Return T(y) in float64, as anybody would write it."""
    e = 1.0 - gamma
    image = (y**e + (1.0 + y) ** e - 1.0) ** (1.0 / e)
    return np.where(image > 1.0, image - 1.0, image)


def stationary_draws(gamma: float, count: int, generator: np.random.Generator) -> Array:
    """Return draws of the invariant law H(y) = (y^e + (1+y)^e - 1) / 2^e by bisection."""
    e, u = 1.0 - gamma, generator.random(count)
    low, high = np.zeros(count), np.ones(count)
    for _ in range(60):
        middle = (low + high) / 2
        below = (middle**e + (1 + middle) ** e - 1) / 2**e < u
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return high


def signed_orbits(
    gamma: float, beta: float, rule: str, steps: int, count: int, generator: np.random.Generator
) -> Array:
    """Return values chi_k v(y_k) of stationary orbits of T by powers, (time, orbit).

    v is 1 left of y* and 1/(1 - 2^e) right of it: the package's values over c0.
    """

    def draw() -> Array:
        return np.where(generator.random(count) < (1 + beta) / 2, 1.0, -1.0)

    y_star, burst = float(branch_point(gamma)), 1.0 / (1.0 - 2.0 ** (1.0 - gamma))
    y, chi, out = stationary_draws(gamma, count, generator), draw(), np.empty((steps, count))
    for k in range(steps):
        visiting = y > y_star
        out[k] = chi * np.where(visiting, burst, 1.0)
        new = draw() * (chi if rule == "product" else 1.0)
        chi = np.where(visiting, new, chi)
        y = thaler(y, gamma)
    return out


@lru_cache(maxsize=16)
def abel(gamma: float) -> Abel:
    """Return the fitted Abel function at ``gamma``, kept for later tests."""
    return Abel(gamma)


class Abel:
    """A, Y and B at one gamma, to about 15 digits or better."""

    def __init__(self, gamma: float) -> None:
        self.gamma = gamma
        with mp.workdps(DIGITS):
            self.g = mp.mpf(gamma)
            self.e, self.alpha = 1 - self.g, 1 / self.g
        self.y_star = branch_point(gamma)

    @cached_property
    def exponents(self) -> list[mp.mpf]:
        """The distinct 1 - i alpha - j; coinciding ones would make the fit singular."""
        with mp.workdps(DIGITS):
            all_r = [i * self.alpha + j for i in range(ORDER) for j in range(ORDER + 1)]
            found: list[mp.mpf] = []
            for r in sorted(r for r in all_r if 1 < r <= ORDER):
                if not found or r - found[-1] > 1e-6:
                    found.append(r)
            return [1 - r for r in found[:TERMS]]

    @cached_property
    def coefficients(self) -> list[mp.mpf]:
        """The c_k, by collocation at geometrically spaced z."""
        with mp.workdps(2 * DIGITS):
            n = len(self.exponents)
            ratio = mp.mpf(FITTED_TO / FAR) ** (mp.mpf(1) / (n - 1))
            matrix, right = mp.matrix(n, n), mp.matrix(n, 1)
            for row in range(n):
                z = FAR * ratio**row
                w = self._image(z)
                weight = z ** -self.exponents[0]  # else far rows are tiny
                right[row] = weight * (z - w - mp.log(w / z) * self.alpha / 2 - 1)
                for k, power in enumerate(self.exponents):
                    matrix[row, k] = weight * (w**power - z**power)
            return list(mp.lu_solve(matrix, right))

    def _image(self, z: mp.mpf) -> mp.mpf:
        y = (self.g * z) ** -self.alpha
        return (y**self.e + (1 + y) ** self.e - 1) ** (-self.g / self.e) / self.g

    def _uncentred(self, z: mp.mpf) -> mp.mpf:
        terms = (c * z**power for c, power in zip(self.coefficients, self.exponents, strict=True))
        return z + self.alpha / 2 * mp.log(z) + mp.fsum(terms)

    def residual(self, z: float) -> float:
        """Return |F(T y) - F(y) + 1| at z: what bounds the error of A."""
        with mp.workdps(DIGITS):
            z = mp.mpf(z)
            return float(abs(self._uncentred(self._image(z)) - self._uncentred(z) + 1))

    def _pull_back(self, y: mp.mpf) -> tuple[int, mp.mpf]:
        """Return n and z of the n-th left preimage of y, the first with z >= FAR."""
        count, w = 0, y**self.e
        while w ** (-self.g / self.e) < FAR * self.g:
            target, x = w, w
            for _ in range(60):  # w + (1 + w^(1/e))^e - 1 = target is convex: Newton from the right
                y = x ** (1 / self.e)
                power = (1 + y) ** self.e
                step = (x + power - 1 - target) / (1 + power * y / ((1 + y) * x))
                x -= step
                if abs(step) < mp.mpf(10) ** (-DIGITS // 2 - 1) * x:
                    break
            count, w = count + 1, x
        return count, w ** (-self.g / self.e) / self.g

    @cached_property
    def constant(self) -> mp.mpf:
        """The constant of A, from A(1) = 0."""
        with mp.workdps(DIGITS):
            count, z = self._pull_back(mp.mpf(1))
            return count - self._uncentred(z)

    def value(self, y: mp.mpf) -> mp.mpf:
        """Return A(y)."""
        with mp.workdps(DIGITS):
            count, z = self._pull_back(mp.mpf(y))
            return self._uncentred(z) + self.constant - count

    def inverse(self, s: float | mp.mpf) -> mp.mpf:
        """Return Y(s): solve far out, where A is explicit, and iterate T back."""
        with mp.workdps(DIGITS):
            back = max(0, int(FAR + 4 - self.constant - s) + 10)
            target = mp.mpf(s) + back - self.constant
            z = target
            for _ in range(60):
                step = (self._uncentred(z) - target) / (1 + self.alpha / (2 * z))
                z -= step
                if abs(step) < mp.mpf(10) ** (-DIGITS + 8) * z:
                    break
            y = (self.g * z) ** -self.alpha
            for _ in range(back):
                y = (y**self.e + ((1 + y) ** self.e - 1)) ** (1 / self.e)
            return y

    def first_return(self, u: float | mp.mpf) -> mp.mpf:
        """Return B(1 - u) = A(T(Y(1 - u)))."""
        with mp.workdps(DIGITS):
            return self.value(thaler_exact(self.inverse(1 - mp.mpf(u)), self.gamma))
