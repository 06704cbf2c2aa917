"""Orbits whose laminar phases are cut at N steps: their law, their start, their P(Z).

After a visit at s the next phase has floor(B(s)) steps, but at most N. A phase that is cut ends at
a fraction that is not known, and the next visit draws it: then s is uniform. So visits to Z are a
Markov chain with another stationary law Phi than the map's. With beta_j(f) the s at which
B(s) = j + f, and s = f the place of the next visit,

    Phi(f) = sum_(j < N) (Phi(beta_j(f)) - Phi(beta_j(0))) + f (1 - Phi(beta_N(0)))

A phase has at least n steps with probability S_n = 1 - Phi(beta_n(0)), n <= N. A point of the
stationary orbit has n steps to go if a phase of at least n steps began n steps and so many more
ago, which gives

    P(n to go) = P(Z) S_n,        P(Z) = 1 / (1 + S_1 + ... + S_N)

and the values have mean zero with c1 = -c0 (1 - P(Z)) / P(Z).

Phi(s) = s + s (1 - s) psi(s) with a polynomial psi solves this at Chebyshev nodes. beta is read
off the table of B, since that table is what moves the orbits, with the four operations and roots of
doubles, which every CPU rounds alike. The start draws n, then where the last visit was, from Phi on
s > beta_n(0), and finds the fraction by one table for B(Phi^-1): so n and f have their joint law.

From N = 4096 on a word keeps no fraction of so long a phase anyway. Then Phi is the map's own, to
a part in 10^7, and so is the law but for the end that is cut off, H(Y(N + 1)):

    P(n or more to go) = (H(Y(n)) - H(Y(N + 1))) / (1 - H(Y(N + 1)))
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mpgd.maps.rows import INPUT_BITS, Rows, from_values, read, solve
from mpgd.maps.tables import RETURN_ROW_BITS, ThalerTables, thaler_tables
from mpgd.noise.word import FAR

Array = NDArray[np.float64]

DEGREE: Final = 16  # coefficients of psi; the table of B is not smoother than their error, 1e-8
NODES: Final = 18  # of an octave of the start
_BEYOND: Final = 2.0**32  # a value whose row is above every phase
_NEVER_BELOW: Final = 8.0  # Phi's density lies between this and its inverse
_u = np.uint64


@dataclass(frozen=True, eq=False)
class CappedLaw:
    """The stationary law of orbits with phases of at most N steps.

    Attributes:
        longest: N.
        burst_probability: P(Z).
        survival: S_0, ..., S_N if N < 4096, else empty.
        landings: for N < 4096, rows of B(Phi^-1(1 - v)), where the last visit led, at v = 1 - Phi.
        cut: H(Y(N + 1)), what is cut off the map's own law, if N >= 4096, else 0.
    """

    longest: int
    burst_probability: float
    survival: Array
    landings: Rows | None
    cut: float

    @property
    def ends(self) -> NDArray[np.uint32]:
        """P(fewer than n to go) for n = 1, ..., N in units of 2^-32; a uniform number finds n."""
        below = np.cumsum(self.survival)[:-1] * self.burst_probability
        return np.rint(below * 2.0**32).astype(np.uint32)

    @property
    def widths(self) -> NDArray[np.uint64]:
        """S_0, ..., S_N in units of 2^-50, below 2^50."""
        whole = np.rint(self.survival * 2.0**INPUT_BITS).astype(np.uint64)
        return np.minimum(whole, _u(2**INPUT_BITS - 1))

    @property
    def least(self) -> int:
        """``cut`` in units of 2^-50."""
        return round(self.cut * 2.0**INPUT_BITS)

    def tail(self, n: NDArray[np.int64], own: Array) -> Array:
        """Return P(n or more to go); ``own`` is that of the map, H(Y(n))."""
        if not len(self.survival):
            return np.maximum(own - self.cut, 0.0) / (1.0 - self.cut)
        sums = np.append(np.cumsum(self.survival[::-1])[::-1], 0.0) * self.burst_probability
        return np.asarray(sums[np.minimum(n, len(sums) - 1)])


@lru_cache(maxsize=128)
def capped_law(gamma: float, longest: int) -> CappedLaw:
    """Return the law at ``gamma`` of phases of at most ``longest`` steps."""
    tables = thaler_tables(gamma)
    if longest >= FAR:
        return _far_law(tables, longest)
    psi, survival = _chain(tables.returns, longest)
    p = 1.0 / float(np.cumsum(survival)[-1])
    return CappedLaw(longest, p, survival, _landings(tables.returns, psi), 0.0)


def _far_law(tables: ThalerTables, longest: int) -> CappedLaw:
    from mpgd.maps import ThalerMap

    cut = float(solve(tables.starts, tables.start_row_bits, np.array([longest + 1.0]))[0])
    p = ThalerMap(tables.gamma).burst_probability / (1.0 - cut)
    return CappedLaw(longest, p, np.empty(0), None, cut)


def _chain(returns: Rows, longest: int) -> tuple[Array, Array]:
    """Return the coefficients of psi, and S_0, ..., S_N."""
    import mpmath as mp

    from mpgd.maps.abel import unit_nodes

    f = np.array([float(x) for x in unit_nodes(DEGREE)])
    j = np.arange(longest + 1.0)
    u = solve(returns, RETURN_ROW_BITS, j[:-1, None] + f)  # 1 - beta_j(f), (j, node)
    u0 = solve(returns, RETURN_ROW_BITS, j)
    u0[0] = 1.0  # beta_0(0) = 0
    # Phi is s plus a sum of coefficients times `_basis`. Here is what either adds to the equation.
    steps = _basis(u) - _basis(u0)[:-1, None]
    matrix = _basis(1.0 - f) - np.cumsum(steps, axis=0)[-1] + f[:, None] * _basis(u0[-1:])
    given = np.cumsum(u0[:-1, None] - u, axis=0)[-1] + f * u0[-1] - f
    with mp.workdps(30):
        solution = mp.lu_solve(mp.matrix(matrix.tolist()), mp.matrix(given.tolist()))
    psi = np.array([float(x) for x in solution])
    return psi, _weight(u0, psi)


def _basis(u: Array) -> Array:
    """Return s (1 - s) T_k(2 s - 1) at s = 1 - u for every k, (*u, k)."""
    t = 1.0 - 2.0 * u
    found = [np.ones_like(t), t]
    while len(found) < DEGREE:
        found.append(2.0 * t * found[-1] - found[-2])
    return (u * (1.0 - u))[..., None] * np.stack(found, axis=-1)


def _weight(u: Array, psi: Array) -> Array:
    """Return 1 - Phi(1 - u), exact relative to itself as u -> 0."""
    terms = _basis(u) * psi
    return u - np.cumsum(terms, axis=-1)[..., -1]


def _landings(returns: Rows, psi: Array) -> Rows:
    """Return rows of B(Phi^-1(1 - v)); entries far beyond N are never read."""
    from mpgd.maps.abel import unit_nodes

    nodes = np.array([float(x) for x in unit_nodes(NODES)])
    v = np.ldexp(1.0 + nodes, -1 - np.arange(INPUT_BITS)[:, None])
    low, high = v / _NEVER_BELOW, np.minimum(v * _NEVER_BELOW, 1.0)
    for _ in range(60):
        middle = (low + high) / 2
        is_low = _weight(middle, psi) < v
        low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
    values = read(returns, RETURN_ROW_BITS, low)
    values[values.min(axis=1) > 2 * FAR] = _BEYOND
    return from_values(values, RETURN_ROW_BITS)
