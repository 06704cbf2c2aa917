"""How often MPGD leaves a well, at any step size.

One phase from a place s in the well leaves if it lasts the n* steps of `crossing_time`, so

    rate per step = P(Z) sum over chi of P(chi) P(N >= n*(chi)),

and 0 as long as F is below the steepest slope on the way, whatever the tail. Position and bursts
carried from phase to phase (`phases.phase_kernel`) give the quasi-stationary rate: one over
the mean number of steps to leave, from the law that phases leave as it is. As eta -> 0, F grows
beyond all slopes, n* tends to distance / (eta F), and the rate per unit of time becomes that of
the limit equation for small sigma,

    sigma^alpha C_alpha ((1+beta)/2 a^(-alpha) + (1-beta)/2 b^(-alpha)),

a and b the distances to the right and the left wall,
C_alpha = (1 - alpha) / (Gamma(2 - alpha) cos(pi alpha / 2)) = K P(Z) c0^alpha.

Reference for the limit: Lim, Wan & Simsekli (2022), Theorem 4.1. The rest is not in the paper.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
from mpgd.theory.phases.crossing import PLACES, Gradient, crossing_time, slope_at
from mpgd.theory.phases.laminar import constants, phase_tail, unit
from mpgd.theory.phases.phase_kernel import Recursion, chain

Array = NDArray[np.float64]

FEWEST, MOST = 401, 2001  # points of the kernel's grid


@dataclass(frozen=True)
class ExitRate:
    """How often a well is left.

    Attributes:
        per_step: exits per step spent in the well.
        levy: exits per unit of time in the limit of small steps, then of small sigma.
        threshold: the force needed: the steepest slope on the way to a wall, of the easier wall.
        force: F, the force there is.
        lr: the step size.

    Examples:
        >>> ExitRate(per_step=1e-4, levy=0.04, threshold=1.0, force=1.1, lr=0.01).per_time
        0.01
    """

    per_step: float
    levy: float
    threshold: float
    force: float
    lr: float

    @property
    def per_time(self) -> float:
        """Exits per unit of time, of which a step takes lr."""
        return self.per_step / self.lr


def exit_rate(
    gradient: Gradient,
    well: tuple[float, float],
    *,
    lr: float,
    sigma: float,
    gamma: float,
    beta: float = 0.0,
    start: float | None = None,
    longest: int | None = None,
    signs: str = "fresh",
) -> ExitRate:
    """Return how often x' = x - eta R'(x) + sigma eta^gamma v leaves a well in one dimension.

    The clock of the rates runs while x is in the well. Where x is put back after an exit, it
    stands still until the driver's next visit to Z, for the phase that led out goes on.

    Args:
        gradient: R', a function of arrays.
        well: its left and its right wall.
        lr: the step size eta.
        sigma: the size of the perturbation.
        gamma: the intermittency exponent.
        beta: the skewness.
        start: None for the quasi-stationary rate; a place for one phase from there.
        longest: the cap on a phase, in steps. Then there are no jumps in the limit, ``levy`` is 0.
        signs: ``"fresh"`` or ``"product"``.

    Examples:
        >>> rate = exit_rate(lambda x: x, (-1.0, 1.0), lr=0.01, sigma=0.3, gamma=0.6, start=0.0)
        >>> round(rate.per_time, 4), round(rate.levy, 4)
        (0.0079, 0.0386)
        >>> round(rate.force, 2), round(rate.threshold, 2)
        (1.1, 1.0)
        >>> few = exit_rate(lambda x: x, (-1.0, 1.0), lr=0.02, sigma=0.3, gamma=0.6, start=0.0)
        >>> few.per_time  # F = 0.83: no phase is long enough
        0.0
    """
    lr, sigma = check_positive("lr", lr), check_nonnegative("sigma", sigma)
    gamma, beta, longest = check_gamma(gamma), check_beta(beta), check_longest(longest)
    check_choice("signs", signs, SIGN_RULES)
    left, right = _walls(well)
    place = _minimum(gradient, left, right) if start is None else check_finite("start", start)
    if not left < place < right:
        raise ValueError(f"start must lie inside the well {well}, got {start!r}")
    chances = sign_chances(beta, signs)
    force = sigma * unit(lr, gamma)
    if start is None:
        c = constants(gamma, longest)
        recursion = Recursion(gradient, lr, sigma * lr**gamma, gamma, longest, c)
        rate = _quasi_stationary(recursion, left, right, beta, signs)
    else:
        rate = _one_phase(gradient, place, (left, right), lr, force, gamma, chances, longest)
    limit = 0.0 if longest else levy_rate(sigma, gamma, right - place, place - left, chances)
    return ExitRate(rate, limit, _threshold(gradient, place, left, right, chances), force, lr)


def sign_chances(beta: float, signs: str) -> tuple[float, float]:
    """Return how many phases have the signs +1 and -1; products forget their start."""
    if signs == "product" and beta < 1.0:
        return 0.5, 0.5
    return (1.0 + beta) / 2.0, (1.0 - beta) / 2.0


def levy_rate(
    sigma: float, gamma: float, right: float, left: float, chances: tuple[float, float]
) -> float:
    """Return the rate at which jumps of sigma times the stable process exceed the distances."""
    alpha = 1.0 / gamma
    C = (1.0 - alpha) / (math.gamma(2.0 - alpha) * math.cos(math.pi * alpha / 2.0))
    sides = zip(chances, (right, left), strict=True)
    return float(sigma**alpha * C * sum(p * distance**-alpha for p, distance in sides))


def _one_phase(
    gradient: Gradient,
    place: float,
    walls: tuple[float, float],
    lr: float,
    force: float,
    gamma: float,
    chances: tuple[float, float],
    longest: int | None,
) -> float:
    rate = 0.0
    for chance, wall in zip(chances, reversed(walls), strict=True):
        n = crossing_time(gradient, place, wall, lr=lr, force=force)
        if math.isfinite(n):
            rate += chance * float(phase_tail(n, gamma, longest))
    return constants(gamma, longest).burst_probability * rate


def _quasi_stationary(
    recursion: Recursion, left: float, right: float, beta: float, signs: str
) -> float:
    kick = recursion.kick * recursion.values.laminar_value  # of a laminar step
    points = 2.0 * (right - left) / kick if kick else 0.0  # two of them in each such step
    grid = np.linspace(left, right, int(np.clip(points, FEWEST, MOST)) | 1)
    kernel = chain(recursion, grid, beta, signs)
    law = kernel.quasi_stationary()
    return float(law @ kernel.killed / (law @ kernel.steps))


def _walls(well: tuple[float, float]) -> tuple[float, float]:
    walls = [check_finite("well", wall) for wall in well] if isinstance(well, Iterable) else []
    if len(walls) != 2 or not walls[0] < walls[1]:
        raise ValueError(f"well must be a left and a right wall, in this order, got {well!r}")
    return walls[0], walls[1]


def _minimum(gradient: Gradient, left: float, right: float) -> float:
    """Return the place of the lowest loss in the well, where the gradient goes through 0."""
    x = np.linspace(left, right, PLACES)
    slope = slope_at(gradient, x)
    loss = np.concatenate([[0.0], np.cumsum((slope[1:] + slope[:-1]) / 2.0)])
    k = int(np.argmin(loss))
    if not 0 < k < len(x) - 1:
        raise ValueError(f"gradient must have a minimum inside the well ({left:g}, {right:g})")
    return float(np.interp(0.0, slope[k - 1 : k + 2], x[k - 1 : k + 2]))


def _threshold(
    gradient: Gradient, place: float, left: float, right: float, chances: tuple[float, float]
) -> float:
    """Return the steepest slope up to the easier of the walls that phases can push to."""
    sides = []
    for chance, wall, chi in zip(chances, (right, left), (1.0, -1.0), strict=True):
        if chance > 0.0:
            slopes = chi * slope_at(gradient, np.linspace(place, wall, PLACES))
            sides.append(float(slopes.max()))
    return max(0.0, min(sides))
