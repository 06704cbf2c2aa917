"""What a laminar phase does at a finite step: force, decay and the law of lengths.

While the orbits stay left of y* the values keep to chi c0, and equation (8) is plain descent with
step eta on another loss, exactly, whatever eta is:

    R(x) - chi F x + chi' (M/2) x^2,     F = sigma c0 eta^(gamma-1),   M = mu c0 eta^(gamma-1)

coordinatewise, chi and chi' the signs of the additive and the multiplicative driver. F is measured
in gradients, M in curvatures. A visit to Z begins a phase of N laminar steps with the law

    P(N >= n) = (H(Y(n)) - H(Y(n+1))) / P(Z),     Y(n) the n-th left preimage of 1,

since H is invariant: of the mass of (0, Y(n)], what does not come from (0, Y(n+1)] comes from Z.
With phases capped at some longest one the law is that of `mpgd.noise.capped`.

The paper has none of this. The map and its letters: Lim, Wan & Simsekli (2022), Section 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mpgd.maps import ThalerMap
from mpgd.noise.capped import capped_law
from mpgd.noise.driver import values
from mpgd.parameters import (
    check_finite,
    check_gamma,
    check_longest,
    check_nonnegative,
    check_positive,
)

Array = NDArray[np.float64]

WIDE = 1e-4  # the part of n over which a far tail is differenced, so that it keeps its digits


@dataclass(frozen=True)
class Levels:
    """The sizes of both perturbations.

    Examples:
        >>> Levels(mu=0.0, sigma=0.3).sigma
        0.3
    """

    mu: float
    sigma: float


def levels(
    *, lr: float, gamma: float | tuple[float, float], force: float = 0.0, decay: float = 0.0
) -> Levels:
    """Return the mu and sigma that give this force and decay at this step size.

    mu = M / (c0 eta^(gamma-1)), sigma = F / (c0 eta^(gamma-1)).

    Args:
        lr: the step size eta, above 0.
        gamma: the intermittency exponent, or a pair (multiplicative, additive).
        force: F, in units of the gradient. Its sign is sigma's.
        decay: M, in units of curvature, at least 0.

    Examples:
        >>> found = levels(lr=0.01, gamma=0.6, force=1.1)
        >>> round(found.sigma, 4), found.mu
        (0.3, 0.0)
        >>> round(force_of(lr=0.01, sigma=found.sigma, gamma=0.6), 12)
        1.1
    """
    first, second = gamma if isinstance(gamma, tuple) else (gamma, gamma)
    decay = check_nonnegative("decay", decay)
    force = check_finite("force", force)
    return Levels(decay / unit(lr, first), force / unit(lr, second))


def force_of(*, lr: float, sigma: float, gamma: float) -> float:
    """Return F = sigma c0 eta^(gamma-1), the slope that an additive phase just holds.

    Examples:
        >>> round(force_of(lr=0.01, sigma=0.3, gamma=0.6), 3)
        1.1
    """
    return check_finite("sigma", sigma) * unit(lr, gamma)


def decay_of(*, lr: float, mu: float, gamma: float) -> float:
    """Return M = mu c0 eta^(gamma-1), the curvature that a multiplicative phase adds or takes.

    Examples:
        >>> round(decay_of(lr=0.01, mu=0.02, gamma=0.6), 4)
        0.0733
    """
    return check_nonnegative("mu", mu) * unit(lr, gamma)


def unit(lr: float, gamma: float) -> float:
    """Return c0 eta^(gamma-1), the force of sigma = 1."""
    gamma = check_gamma(gamma)
    return float(values(gamma)[0] * check_positive("lr", lr) ** (gamma - 1.0))


def phase_tail(n: ArrayLike, gamma: float, longest: int | None = None) -> Array:
    """Return P(N >= n), N the laminar steps between two visits to Z.

    Args:
        n: numbers of steps, at least 0; whole or not, for the law has a smooth continuation.
        gamma: the intermittency exponent.
        longest: the cap on a phase, or None.

    Examples:
        >>> phase_tail([0, 1, 10, 100], 0.6).round(6).tolist()
        [1.0, 0.622874, 0.063244, 0.001411]
        >>> phase_tail([10, 11], 0.6, longest=10).round(6).tolist()
        [0.063666, 0.0]
    """
    T, n = ThalerMap(gamma), np.asarray(n, dtype=np.float64)
    survival = _survival(gamma, longest)
    if len(survival):
        return np.asarray(survival[np.minimum(np.ceil(n).astype(np.int64), len(survival) - 1)])
    middle, half = n + 0.5, np.maximum(0.5, WIDE * n)
    ends = (T.cdf(T.abel_inverse(middle + side * half)) for side in (-1.0, 1.0))
    near, far = ends
    tail = (near - far) / (2.0 * half) / T.burst_probability
    return np.asarray(tail if longest is None else np.where(n <= longest, tail, 0.0))


def _survival(gamma: float, longest: int | None) -> Array:
    """Return P(N >= n) for n = 0, 1, ... and a last 0 where a short cap changes the law.

    A phase that is cut leaves the next visit at another place, and so changes the next length too.
    """
    held = capped_law(gamma, longest).survival if longest is not None else np.zeros(0)
    return np.append(held, 0.0) if len(held) else held


def phase_steps(n: ArrayLike, gamma: float, longest: int | None = None) -> Array:
    """Return E min(N, n), the sum of P(N >= k) over k = 1 ... n.

    Examples:
        >>> bool(np.isclose(phase_steps(3, 0.6), phase_tail([1, 2, 3], 0.6).sum()))
        True
    """
    T, survival = ThalerMap(gamma), _survival(gamma, longest)
    if len(survival):
        sums = np.cumsum(survival) - survival[0]
        return np.asarray(sums[np.minimum(np.asarray(n, dtype=np.int64), len(sums) - 1)])
    first, last = (T.cdf(T.abel_inverse(np.asarray(k, dtype=np.float64) + 1.0)) for k in (0, n))
    return np.asarray((first - last) / T.burst_probability)


@dataclass(frozen=True)
class Constants:
    """What a cycle of a phase and its visit is made of, with or without a cap.

    Examples:
        >>> constants(0.6).burst_value == values(0.6)[1]
        True
    """

    burst_probability: float
    laminar_value: float
    burst_value: float

    @property
    def variance(self) -> float:
        """E v^2; the values have mean zero."""
        p = self.burst_probability
        return (1.0 - p) * self.laminar_value**2 + p * self.burst_value**2


def constants(gamma: float, longest: int | None = None) -> Constants:
    """Return P(Z), c0 and c1; with a cap P(Z) is larger and c1 keeps the mean at zero.

    Examples:
        >>> round(constants(0.6, longest=10).burst_probability, 4)
        0.314
    """
    gamma, longest = check_gamma(gamma), check_longest(longest)
    if longest is None:
        return Constants(ThalerMap(gamma).burst_probability, *values(gamma))
    return Constants(capped_law(gamma, longest).burst_probability, *values(gamma, longest))
