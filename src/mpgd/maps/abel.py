r"""The Abel function A of the left branch, in high precision.

A straightens the slow part of the Thaler map: it is the smooth decreasing solution of

    A(T y) = A(y) - 1     for 0 < y <= y*,        A(1) = 0,

so an orbit counts down by ones until it enters Z = (y*, 1], which is A in [0, 1). With
z = y^(-gamma) / gamma, p = 1/z and q = z^(-alpha), so that y^gamma = p/gamma and
y = gamma^(-alpha) q, the left branch reads

    z(T y) = z (1 + (p/gamma) E(q))^(-gamma/e),   E(q) = sum_n binom(e, n+1) (gamma^(-alpha) q)^n

and A has the asymptotic expansion, as y -> 0,

    A = z + log(z) / (2 gamma) + const + z * sum_ij c_ij q^i p^j.

The map sends the term c_ij z q^i p^j to itself times (1 + (p/gamma) E)^(-gamma rho/e) with
rho = 1 - j - i alpha, whose first new term is -rho c_ij q^i p^j. Matching powers of p and q as
if they were independent gives every c_ij from the earlier ones by one division; rho is never 0,
so no pair of coinciding exponents can spoil it. At z >= 34 the expansion is right to 1e-20.

Reference for the map: Lim, Wan & Simsekli (2022), Section 2. The expansion is our own.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import mpmath as mp

DIGITS = 36  # working precision; tables keep 16 of them
ORDER = 18  # the expansion keeps c_ij with i alpha + j <= ORDER
FAR = 34  # and is used for z >= FAR
NODES = 22  # Chebyshev nodes of one unit interval of s
HALF_WAY = 1e-17  # a Newton step this small was the last but its square

Number = Any  # an mpmath number; mpmath has no types
Table = list[list[Number]]


@lru_cache(maxsize=16)
def abel_coordinate(gamma: float) -> AbelCoordinate:
    """Return the Abel coordinate at ``gamma``; takes a fraction of a second, then is kept."""
    return AbelCoordinate(gamma)


@dataclass(frozen=True)
class AbelCoordinate:
    """A and its inverse Y at one gamma, to about 20 digits.

    Y is kept as one Chebyshev interpolant for each unit interval of s below ``panel_count`` and
    comes from the expansion above it.
    """

    gamma: float

    @cached_property
    def e(self) -> Number:
        """The exponent 1 - gamma."""
        return 1 - mp.mpf(self.gamma)

    @cached_property
    def alpha(self) -> Number:
        """The tail index 1/gamma."""
        return 1 / mp.mpf(self.gamma)

    @cached_property
    def series(self) -> Table:
        """The rows c_i0, c_i1, ... of the expansion, one row for each power i of q."""
        with mp.workdps(DIGITS):
            return expansion(mp.mpf(self.gamma), ORDER)

    @cached_property
    def y_star(self) -> Number:
        """The branch point, the left preimage of 1."""
        with mp.workdps(DIGITS):
            return left_preimage(mp.mpf(1), self.e)

    @cached_property
    def _far_preimage_of_one(self) -> tuple[int, Number]:
        with mp.workdps(DIGITS):
            y, count = mp.mpf(1), 0
            while y ** (-mp.mpf(self.gamma)) < FAR * mp.mpf(self.gamma):
                y, count = left_preimage(y, self.e), count + 1
            return count, y

    @property
    def panel_count(self) -> int:
        """How many unit intervals of s have an interpolant of Y."""
        return self._far_preimage_of_one[0]

    @cached_property
    def constant(self) -> Number:
        """The constant of the expansion, from A(1) = 0."""
        with mp.workdps(DIGITS):
            count, y = self._far_preimage_of_one
            return count - self._uncentred(self._z(y))

    @cached_property
    def panels(self) -> Table:
        """Chebyshev coefficients of Y on [n, n + 1], row n; nodes are pushed forward by T."""
        with mp.workdps(DIGITS):
            last = self.panel_count
            y = [self.far_inverse(last + x) for x in unit_nodes(NODES)]
            rows = []
            for _ in range(last):
                y = [left_branch(value, self.e) for value in y]
                rows.append(chebyshev_coefficients(y))
            return rows[::-1]

    @cached_property
    def slope(self) -> list[Number]:
        """Chebyshev coefficients of (Y(1 - u) - y*) / u, which keeps its digits as u -> 0."""
        with mp.workdps(DIGITS):
            nodes = unit_nodes(NODES)
            y = [evaluate(self.panels[0], x) for x in nodes]
            ratios = [(value - self.y_star) / (1 - x) for value, x in zip(y, nodes, strict=True)]
            return chebyshev_coefficients(ratios[::-1])  # nodes are symmetric: x -> u = 1 - x

    def _z(self, y: Number) -> Number:
        return y ** (-mp.mpf(self.gamma)) * self.alpha

    def _uncentred(self, z: Number) -> Number:
        p, q = 1 / z, z**-self.alpha
        order = min(ORDER, 87 // (mp.mag(z) - 1) + 2)  # z^-order < 2^-87: the rest is nothing
        rows = self.series[: int(order / self.alpha) + 1]
        tail = horner([horner(row[: order + 1], p) for row in rows], q)
        return z + self.alpha / 2 * mp.log(z) + z * tail

    def value(self, y: Number) -> Number:
        """Return A(y) for 0 < y <= 1."""
        z = self._z(y)
        if z >= FAR:
            return self._uncentred(z) + self.constant
        return self._near_value(y)

    def _near_value(self, y: Number) -> Number:
        n = sum(1 for right_end in self._panel_ends if right_end >= y)
        n = min(n, self.panel_count - 1)
        row, slope = self.panels[n], derivative(self.panels[n])
        x = mp.mpf(1) / 2
        for _ in range(30):
            step = (evaluate(row, x) - y) / evaluate(slope, x)
            x -= step
            if abs(step) < HALF_WAY:
                break
        return n + x

    @cached_property
    def _panel_ends(self) -> list[Number]:
        return [evaluate(row, mp.mpf(1)) for row in self.panels]

    def far_inverse(self, s: Number) -> Number:
        """Return Y(s) for s beyond the interpolants, by Newton steps in z."""
        target = s - self.constant
        z = max(target, mp.mpf(FAR) / 2)
        for _ in range(60):
            step = (self._uncentred(z) - target) / (1 + self.alpha / (2 * z))
            z -= step
            if abs(step) < z * HALF_WAY**2:  # the slope is rounded, so steps shrink 1000-fold
                break
        return (mp.mpf(self.gamma) * z) ** -self.alpha

    def first_return(self, u: Number) -> Number:
        """Return B(1 - u) = A(T(Y(1 - u))) for 0 < u <= 1."""
        y = self.y_star + u * evaluate(self.slope, u)
        return self.value(left_branch(y, self.e) - 1)

    def stationary(self, level: Number) -> Number:
        """Return A(y) for the y with invariant distribution function H(y) = ``level``."""
        return self.value(solve_G(level * 2**self.e, self.e))


def left_branch(y: Number, e: Number) -> Number:
    """Return (y^e + (1+y)^e - 1)^(1/e), the Thaler map before the reduction modulo 1."""
    return (y**e + (1 + y) ** e - 1) ** (1 / e)


def left_preimage(y: Number, e: Number) -> Number:
    """Return the x with T(x) = y on the left branch."""
    return solve_G(y**e, e)


def solve_G(level: Number, e: Number) -> Number:
    """Return the y with y^e + (1+y)^e - 1 = ``level``.

    In w = y^e the left side is convex and increasing, so Newton's steps from the right converge.
    """
    w = min(level, mp.mpf(1))
    for _ in range(80):
        y = w ** (1 / e)
        power = (1 + y) ** e
        step = (w + power - 1 - level) / (1 + power / (1 + y) * y / w)
        w -= step
        if abs(step) < w * HALF_WAY:
            break
    return w ** (1 / e)


def expansion(gamma: Number, order: int) -> Table:
    """Return the rows c_i0, c_i1, ... of the expansion of A, up to i alpha + j <= ``order``."""
    alpha, e = 1 / gamma, 1 - gamma
    size_q, size_p = int(order / alpha) + 1, order + 1
    powers = _powers_of_E(gamma, size_q, size_p + 1)
    rows: Table = [[mp.mpf(0)] * size_p for _ in range(size_q)]
    residual: defaultdict[tuple[int, int], Number] = defaultdict(mp.mpf)

    def spread(i: int, j: int, factors: list[Number]) -> None:
        """Add factors[k] z q^i p^j ((p/gamma) E)^k, k >= 1, to the residual."""
        for k in range(1, size_p + 1 - j):
            for n in range(size_q - i):
                residual[i + n, j + k - 1] += factors[k] * powers[k][n]

    spread(0, 0, _binomials(-gamma / e, size_p))
    spread(0, 1, [_log_factor(gamma, k) for k in range(size_p + 1)])
    pairs = ((i, j) for i in range(size_q) for j in range(size_p) if 0 < i * alpha + j <= order)
    for i, j in sorted(pairs, key=sum):
        rho = 1 - j - i * alpha
        if (i, j) != (0, 1):  # rho = 0: this power is the logarithm's
            rows[i][j] = residual[i, j] / rho
            spread(i, j, [rows[i][j] * b for b in _binomials(-gamma * rho / e, size_p)])
    return rows


def _powers_of_E(gamma: Number, size_q: int, count: int) -> Table:
    """Return the q-coefficients of (E / gamma)^k for k below ``count``."""
    e, scale = 1 - gamma, gamma ** (-1 / gamma)
    E = [mp.binomial(e, n + 1) * scale**n / gamma for n in range(size_q)]
    rows = [[mp.mpf(1)] + [mp.mpf(0)] * (size_q - 1)]
    for _ in range(count):
        last = rows[-1]
        rows.append([mp.fdot(last[: n + 1], E[n::-1]) for n in range(size_q)])
    return rows


def _binomials(a: Number, count: int) -> list[Number]:
    values = [mp.mpf(1)]
    for k in range(1, count + 1):
        values.append(values[-1] * (a - k + 1) / k)
    return values


def _log_factor(gamma: Number, k: int) -> Number:
    """Coefficient k of log(1 + x)^(-gamma/e) / (2 gamma), the image of the logarithm."""
    return mp.mpf(0) if k == 0 else mp.mpf((-1) ** k) / (2 * (1 - gamma) * k)


def horner(coefficients: list[Number], x: Number) -> Number:
    """Return the polynomial with these coefficients, lowest first, at ``x``."""
    total = mp.mpf(0)
    for c in reversed(coefficients):
        total = total * x + c
    return total


def unit_nodes(count: int) -> list[Number]:
    """Return the Chebyshev nodes of the first kind on [0, 1], descending."""
    return [(1 + mp.cos(mp.pi * (2 * k + 1) / (2 * count))) / 2 for k in range(count)]


def chebyshev_coefficients(values: list[Number]) -> list[Number]:
    """Return the Chebyshev coefficients of the interpolant of ``values`` at the unit nodes."""
    cosines = _cosines(len(values), mp.mp.prec)
    rows = [mp.fdot(values, row) * 2 / len(values) for row in cosines]
    return [rows[0] / 2, *rows[1:]]


@lru_cache(maxsize=8)
def _cosines(count: int, precision: int) -> Table:
    # The precision is an argument so that a caller with few digits does not fix them for all.
    angles = [[mp.pi * j * (2 * k + 1) / (2 * count) for k in range(count)] for j in range(count)]
    return [[mp.cos(angle) for angle in row] for row in angles]


def evaluate(coefficients: list[Number], x: Number) -> Number:
    """Return a Chebyshev sum on [0, 1] at ``x`` (Clenshaw)."""
    t = 4 * x - 2
    b1 = b2 = mp.mpf(0)
    for c in reversed(coefficients[1:]):
        b1, b2 = c + t * b1 - b2, b1
    return coefficients[0] + t / 2 * b1 - b2


def derivative(coefficients: list[Number]) -> list[Number]:
    """Return the Chebyshev coefficients on [0, 1] of the derivative."""
    n = len(coefficients)
    d = [mp.mpf(0)] * (n + 1)
    for k in range(n - 1, 0, -1):
        d[k - 1] = d[k + 1] + 4 * k * coefficients[k]
    return [d[0] / 2, *d[1 : n - 1]]
