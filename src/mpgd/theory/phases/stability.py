"""What the multiplicative term does to a minimum: three statements.

With decay M = mu c0 eta^(gamma-1) and signs chi' of the multiplicative drivers, one for each
coordinate or one for all, descent in a phase has the Hessian Hess + M diag(chi').

1. It is indefinite for some chi' if and only if the smallest eigenvalue of Hess is below M: the
   worst signs are all -1. Then a phase of that sign grows exponentially.
2. Where eta (h + M) > 2, h the largest eigenvalue, steps of a phase with chi' = +1 overshoot and
   grow too. (Again the worst signs are all alike.)
3. Along one direction of curvature h, x grows or shrinks in the long run like exp(lambda k), with

       lambda = E log|1 - eta h - mu eta^gamma v|

   over the stationary law of v: by the ergodic theorem phases and their memory do not enter. 1
   and 2 may hold while lambda < 0: then x comes back, after excursions.

The paper has none of this. MPGD is Lim, Wan & Simsekli (2022), equation (8).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mpgd.parameters import (
    SIGN_RULES,
    check_beta,
    check_choice,
    check_finite,
    check_gamma,
    check_longest,
    check_nonnegative,
    check_positive,
)
from mpgd.theory.phases.exits import sign_chances
from mpgd.theory.phases.laminar import constants, decay_of

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Stability:
    """The three statements about one minimum.

    Attributes:
        decay: M.
        softest: the smallest eigenvalue that Hess + M diag(chi') can have.
        hardest: eta times the largest one.
        exponent: the larger lambda of the softest and of the hardest direction.

    Examples:
        >>> found = Stability(decay=0.4, softest=-0.3, hardest=0.05, exponent=-0.001)
        >>> found.grows_in_a_phase, found.overshoots, found.shrinks
        (True, False, True)
    """

    decay: float
    softest: float
    hardest: float
    exponent: float

    @property
    def grows_in_a_phase(self) -> bool:
        """Whether some phase makes the Hessian indefinite."""
        return self.softest < 0.0

    @property
    def overshoots(self) -> bool:
        """Whether some phase makes steps too long for the largest curvature."""
        return self.hardest > 2.0

    @property
    def shrinks(self) -> bool:
        """Whether x tends to the minimum in the long run, along both extreme directions."""
        return self.exponent < 0.0


def stability(
    hessian: ArrayLike, *, lr: float, mu: float, gamma: float, beta: float = 0.0
) -> Stability:
    """Return the three statements about a minimum at 0, for one driver per coordinate.

    Args:
        hessian: a symmetric matrix (coordinate, coordinate), or a number.
        lr: the step size eta.
        mu: the size of the multiplicative perturbation.
        gamma: the intermittency exponent.
        beta: the skewness.

    Examples:
        >>> found = stability([[2.0, 0.0], [0.0, 0.1]], lr=0.01, mu=0.1, gamma=0.6)
        >>> round(found.decay, 3), found.grows_in_a_phase, found.overshoots, found.shrinks
        (0.367, True, False, True)
    """
    curvatures = np.linalg.eigvalsh(_symmetric(hessian))
    low, high = float(curvatures[0]), float(curvatures[-1])
    M = decay_of(lr=lr, mu=mu, gamma=gamma)
    exponent = max(growth_exponent(h, lr=lr, mu=mu, gamma=gamma, beta=beta) for h in (low, high))
    return Stability(M, low - M, lr * (high + M), exponent)


def growth_exponent(
    h: float,
    *,
    lr: float,
    mu: float,
    gamma: float,
    beta: float = 0.0,
    signs: str = "fresh",
    symmetric: bool = False,
    longest: int | None = None,
) -> float:
    """Return lambda = E log|1 - eta h - mu eta^gamma v| along a direction of curvature ``h``.

    Args:
        h: the curvature.
        lr: the step size eta.
        mu: the size of the multiplicative perturbation.
        gamma: the intermittency exponent.
        beta: the skewness.
        signs: the sign rule of `ChaoticNoise`.
        symmetric: whether v is the difference of two independent values.
        longest: the cap on a phase, in steps.

    Examples:
        >>> round(growth_exponent(1.0, lr=0.01, mu=0.0, gamma=0.6), 6)  # log(0.99)
        -0.01005
        >>> growth_exponent(0.0, lr=0.1, mu=1.0, gamma=0.6) < 0
        True
    """
    gamma, lr, mu = check_gamma(gamma), check_positive("lr", lr), check_nonnegative("mu", mu)
    check_choice("signs", signs, SIGN_RULES)
    law = _law(gamma, sign_chances(check_beta(beta), signs), check_longest(longest))
    if symmetric:
        law = [(v - w, p * q) for (v, p), (w, q) in product(law, law)]
    kept = 1.0 - lr * check_finite("h", h)
    total = 0.0
    for v, p in law:
        factor = abs(kept - mu * lr**gamma * v)
        if p > 0.0:
            total += p * (math.log(factor) if factor else -math.inf)
    return total


def _law(
    gamma: float, chances: tuple[float, float], longest: int | None
) -> list[tuple[float, float]]:
    """Return the values v with their probabilities."""
    c = constants(gamma, longest)
    sizes = ((c.laminar_value, 1.0 - c.burst_probability), (c.burst_value, c.burst_probability))
    signs = zip((1.0, -1.0), chances, strict=True)
    return [(chi * v, p * q) for (chi, p), (v, q) in product(signs, sizes)]


def _symmetric(hessian: ArrayLike) -> Array:
    matrix = np.atleast_2d(np.asarray(hessian, dtype=np.float64))
    square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1] > 0
    if not (square and np.isfinite(matrix).all() and np.allclose(matrix, matrix.T)):
        raise ValueError(f"hessian must be a finite symmetric matrix, got shape {matrix.shape}")
    return matrix
