"""Lengths of laminar phases, by the mass of the map and along orbits.

Statistical checks: fixed seeds, LEVEL for each, and each has a twin that must fail. Several
comparisons inside one check share its level (Bonferroni, `worst`).
"""

from __future__ import annotations

import mpmath as mp
import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import poisson
from tests import reference
from tests.conftest import LEVEL
from tests.noise.p_values import Array, mean_is, worst

from mpgd import ChaoticNoise, ThalerMap


def phase_tail(gamma: float, n: ArrayLike) -> Array:
    """Return P(y_k in Z, and more than n laminar steps follow) = H(x_n) - H(x_(n+1)).

    With x_n = Y(n + 1): s_(k+1) >= n + 1 has probability H(x_n), and if y_k is left of y* then
    s_k >= n + 2. The difference is taken in high precision.
    """
    A = reference.abel(gamma)
    with mp.workdps(40):

        def H(y: mp.mpf) -> mp.mpf:
            return (y**A.e + (1 + y) ** A.e - 1) / 2**A.e

        return np.array(
            [float(H(A.inverse(k + 1)) - H(A.inverse(k + 2))) for k in np.ravel(n).tolist()]
        )


def test_lengths_of_laminar_phases_by_the_mass_that_B_sends_there() -> None:
    """P(length > n) for n up to 1e6, exact: B falls in u, so it is the mass of u <= B^-1(n + 1)."""
    gamma, n = 0.6, np.array([0, 1, 2, 5, 10, 100, 1000, 10_000, 100_000, 1_000_000])
    T, A = ThalerMap(gamma), reference.abel(gamma)
    low, high = np.full(len(n), 2.0**-53), np.full(len(n), 1.0 - 2.0**-53)
    for _ in range(200):  # all doubles s = 1 - u
        middle = np.sqrt(low * high)
        longer = T.abel_return(1.0 - middle) >= n + 1
        low, high = np.where(longer, middle, low), np.where(longer, high, middle)
    with mp.workdps(40):
        y = [A.inverse(1 - mp.mpf(float(u))) for u in high]

        def excess(x: mp.mpf) -> mp.mpf:
            e, x0 = A.e, A.y_star
            return (x**e + (1 + x) ** e - x0**e - (1 + x0) ** e) / 2**e

        found = np.array([float(excess(x)) for x in y])
    tolerance = 1e-9 + 2.0**-52 / high  # 1 - s comes in steps of 2^-53
    assert np.all(np.abs(found / phase_tail(gamma, n) - 1) < tolerance)
    assert tolerance.max() < 1e-5
    assert np.abs(found / phase_tail(0.601, n) - 1).max() > 1e-3  # the check can fail


def test_lengths_of_laminar_phases_along_orbits() -> None:
    """Phases counted in 1e8 steps of 1e5 orbits, n up to 1e5.

    Up to n = 100 the counts of groups of orbits are normal; beyond, visits are so rare that the
    total is Poisson.
    """
    noise, steps, groups = ChaoticNoise(0.6), 1000, 250
    n = np.array([0, 1, 2, 5, 10, 30, 100, 300, 1000, 3000, 10_000, 100_000])
    state = noise.init(100_000, seed=8)
    counts = np.zeros((len(n), groups))
    for _ in range(steps):
        visiting = (state.s.abs() < 1).nonzero().squeeze(1)
        _, state = noise.step(state)
        length = state.s[visiting].abs().floor().numpy()
        group = visiting.numpy() % groups
        for i, bound in enumerate(n):
            chosen = length > bound
            length, group = length[chosen], group[chosen]
            counts[i] += np.bincount(group, minlength=groups)
    exact, other = (phase_tail(gamma, n) * steps * 100_000 for gamma in (0.6, 0.605))

    def p_values(total: Array) -> Array:
        few = n > 100
        below = poisson.cdf(counts[few].sum(axis=1), total[few])
        above = poisson.sf(counts[few].sum(axis=1) - 1, total[few])
        many = mean_is(counts[~few], total[~few] / groups)
        return np.concatenate([many, np.minimum(1, 2 * np.minimum(below, above))])

    assert worst(p_values(exact)) > LEVEL
    assert p_values(other).min() < LEVEL
