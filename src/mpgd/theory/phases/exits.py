"""How often MPGD leaves a well, at any step size.

One phase from a place s in the well leaves if it lasts the n* steps of `crossing_time`, so

    rate per step = P(Z) sum over chi of P(chi) P(N >= n*(chi)),

and 0 as long as F is below the steepest slope on the way, whatever the tail. Position and bursts
carried from phase to phase (`phases.phase_kernel`) give the rate of the walkers that are counted:
one over the mean number of steps to leave, from the minimum just after a visit. As eta -> 0, F
grows beyond all slopes, n* tends to distance / (eta F), and the rate per unit of time becomes that
of the limit equation for small sigma,

    sigma^alpha C_alpha ((1+beta)/2 a^(-alpha) + (1-beta)/2 b^(-alpha)),

a and b the distances to the right and the left wall,
C_alpha = (1 - alpha) / (Gamma(2 - alpha) cos(pi alpha / 2)) = K P(Z) c0^alpha.

Other noises with phases (`mpgd.TelegraphNoise`, `mpgd.noise.PhaseNoise`, chaos without bursts) have
other tails of N and a visit that pushes like the phase. A telegraph of dwell d has runs of one sign
with a geometric length of mean 2 d. One run from a place leaves at the rate

    sum over chi of (1 / 4d) (1 - 1/(2d))^(n*(chi) - 1)         per step.

A rate needs a clock. ``"restart"``: the clock runs while x is in the well; after an exit x is put
back and the clock stands still until the next visit, since the phase that led out goes on. The
driver of an optimizer is stationary when it starts, and then in a phase that is longer than others.
``"stationary"``: x begins at the minimum with such a driver, and the clock runs until x leaves or
``steps`` steps are over. The rate is P(T <= steps) / E min(T, steps), exits by the time at risk.
The first phase is followed exactly; after it x leaves at the rate of the other clock.

Reference for the limit: Lim, Wan & Simsekli (2022), Theorem 4.1. The rest is not in the paper.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mpgd.maps import ThalerMap
from mpgd.noise import ChaoticNoise, TelegraphNoise
from mpgd.noise.capped import capped_law
from mpgd.noise.phased import PhasedNoise
from mpgd.parameters import (
    check_choice,
    check_finite,
    check_integer,
    check_nonnegative,
    check_positive,
)
from mpgd.theory.phases.crossing import PLACES, Gradient, crossing_time, slope_at
from mpgd.theory.phases.laminar import Constants
from mpgd.theory.phases.phase_kernel import Recursion, chain

Array = NDArray[np.float64]

FEWEST, MOST = 401, 2001  # points of the kernel's grid
CLOCKS: Final = ("restart", "stationary")


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
    sigma: float | None = None,
    force: float | None = None,
    gamma: float | None = None,
    beta: float = 0.0,
    start: float | None = None,
    longest: int | None = None,
    signs: str = "fresh",
    noise: PhasedNoise | None = None,
    clock: str = "restart",
    steps: int | None = None,
) -> ExitRate:
    """Return how often x' = x - eta R'(x) + sigma eta^gamma v leaves a well in one dimension.

    Args:
        gradient: R', a function of arrays.
        well: its left and its right wall.
        lr: the step size eta.
        sigma: the size of the perturbation.
        force: F, its push in a phase in units of the gradient, instead of sigma.
        gamma: the intermittency exponent of chaotic noise.
        beta: the skewness.
        start: None to carry position from phase to phase; a place for one phase from there.
        longest: the cap on a phase, in steps. Then there are no jumps in the limit, ``levy`` is 0.
        signs: ``"fresh"`` or ``"product"``.
        noise: another noise with phases, such as ``TelegraphNoise(20)``, instead of gamma, beta,
            longest and signs.
        clock: ``"restart"`` or ``"stationary"``: what the module says a rate is.
        steps: how long a walker is watched; for the stationary clock.

    Examples:
        >>> rate = exit_rate(lambda x: x, (-1.0, 1.0), lr=0.01, sigma=0.3, gamma=0.6, start=0.0)
        >>> round(rate.per_time, 4), round(rate.levy, 4)
        (0.0079, 0.0386)
        >>> round(rate.force, 2), round(rate.threshold, 2)
        (1.1, 1.0)
        >>> few = exit_rate(lambda x: x, (-1.0, 1.0), lr=0.02, sigma=0.3, gamma=0.6, start=0.0)
        >>> few.per_time  # F = 0.83: no phase is long enough
        0.0
        >>> from mpgd import TelegraphNoise
        >>> given = {"lr": 0.02, "force": 1.2, "noise": TelegraphNoise(20)}
        >>> telegraph = exit_rate(lambda x: x, (-1.0, 1.0), **given)
        >>> round(telegraph.per_time, 4)
        0.1368
    """
    lr = check_positive("lr", lr)
    noise = _noise(noise, gamma, beta, longest, signs)
    check_choice("clock", clock, CLOCKS)
    kick, force = _sizes(noise, lr, sigma, force)
    left, right = _walls(well)
    place = _minimum(gradient, left, right) if start is None else check_finite("start", start)
    if not left < place < right:
        raise ValueError(f"start must lie inside the well {well}, got {start!r}")
    chances = _chances(noise)
    recursion = _recursion(noise, gradient, lr, kick)
    if start is None:
        rate = _restarted(recursion, place, left, right, noise)
    else:
        rate = _one_phase(recursion, place, (left, right), force, chances, noise)
    if clock == "stationary":
        walk = [crossing_time(gradient, place, w, lr=lr, force=force) for w in (right, left)]
        rate = at_risk(noise, walk, chances, rate, check_integer("steps", steps, 1))
    limit = _limit(noise, kick / lr**noise.exponent, right - place, place - left, chances)
    return ExitRate(rate, limit, _threshold(gradient, place, left, right, chances), force, lr)


def _noise(
    noise: PhasedNoise | None, gamma: float | None, beta: float, longest: int | None, signs: str
) -> PhasedNoise:
    if noise is None:
        if gamma is None:
            raise TypeError("exit_rate needs a noise or the gamma of chaotic noise, got neither")
        return ChaoticNoise(gamma, beta, longest=longest, signs=signs)
    if not isinstance(noise, PhasedNoise):
        raise TypeError(f"noise must have phases, as TelegraphNoise(20) has, got {noise!r}")
    if (gamma, beta, longest, signs) != (None, 0.0, None, "fresh"):
        raise ValueError(
            f"noise={noise!r} says gamma, beta, longest and signs itself; leave them out"
        )
    return noise


def _sizes(
    noise: PhasedNoise, lr: float, sigma: float | None, force: float | None
) -> tuple[float, float]:
    """Return sigma eta^gamma and F."""
    if (sigma is None) == (force is None):
        raise TypeError(f"exit_rate needs sigma or force, got sigma={sigma!r} and force={force!r}")
    if sigma is not None:
        kick = check_nonnegative("sigma", sigma) * lr**noise.exponent
        return kick, kick * noise.laminar_value / lr
    force = check_nonnegative("force", force)
    return force * lr / noise.laminar_value, force


def _chances(noise: PhasedNoise) -> tuple[float, float]:
    return sign_chances(noise.beta, noise.signs) if isinstance(noise, ChaoticNoise) else (0.5, 0.5)


def _recursion(noise: PhasedNoise, gradient: Gradient, lr: float, kick: float) -> Recursion:
    driver = noise.driver
    values = Constants(driver.burst_probability, driver.laminar_value, driver.burst_value)
    law, gamma = getattr(noise, "law", None), getattr(noise, "gamma", 0.0)
    return Recursion(gradient, lr, kick, gamma, noise.longest, values, law)


def _limit(
    noise: PhasedNoise, sigma: float, right: float, left: float, chances: tuple[float, float]
) -> float:
    """Return the rate of the jumps of the limit, 0 where it is Brownian motion."""
    if noise.exponent == 0.5 or noise.longest is not None:
        return 0.0
    scale = sigma * noise.limit_law.scale
    return levy_rate(scale, noise.exponent, right, left, chances)


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
    recursion: Recursion,
    place: float,
    walls: tuple[float, float],
    force: float,
    chances: tuple[float, float],
    noise: PhasedNoise,
) -> float:
    """Return the rate of phases from ``place`` that leave; of a telegraph, of runs of one sign."""
    values, rate = recursion.values, 0.0
    smooth = int(values.burst_value == values.laminar_value)  # then a visit pushes too
    for chance, wall in zip(chances, reversed(walls), strict=True):
        n = crossing_time(recursion.gradient, place, wall, lr=recursion.lr, force=force)
        if not math.isfinite(n):
            continue
        if isinstance(noise, TelegraphNoise) and noise.longest is None:
            flip = 1.0 / (2.0 * noise.dwell)
            rate += chance * flip * (1.0 - flip) ** (n - 1.0)
        else:
            rate += chance * values.burst_probability * float(recursion.tail(int(n) - smooth))
    return rate


def at_risk(
    noise: PhasedNoise,
    walk: Sequence[float],
    chances: tuple[float, float],
    rate: float,
    steps: int,
) -> float:
    """Return P(T <= steps) / E min(T, steps) from a stationary driver.

    Args:
        noise: whose first phase lasts R steps and its visit more.
        walk: n*, the steps that a phase of either sign needs to leave.
        chances: of the signs.
        rate: at which x leaves after the first phase, per step.
        steps: how long it is watched.
    """
    t = np.unique(np.append(np.geomspace(1, steps, 600).astype(np.int64), [0, steps]))
    smooth = int(noise.burst_value == noise.laminar_value)
    longer = 1.0 - np.append(0.0, 1.0 - stationary_tail(noise, t[1:]))  # P(R >= t)
    alive = np.zeros(len(t))
    for chance, n in zip(chances, walk, strict=True):
        stays = np.where(t < n, longer, 0.0)  # in the first phase still
        ended = -np.diff(np.minimum.accumulate(np.where(t < n - smooth, longer, np.nan)))
        ended = np.nan_to_num(ended)
        middle = (t[1:] + t[:-1]) / 2.0
        since = np.maximum(t[:, None] - middle, 0.0)
        later = (np.exp(-rate * since) * (middle < t[:, None]) * ended).sum(1)
        alive += chance * (stays + later)
    spent = float(np.sum(np.diff(t) * (alive[1:] + alive[:-1]) / 2.0))
    return (1.0 - float(alive[-1])) / spent


def stationary_tail(noise: PhasedNoise, n: NDArray[np.int64]) -> Array:
    """Return P(R >= n), R the steps of a stationary driver before its next visit."""
    law = getattr(noise, "law", None)
    if law is not None:
        return np.asarray(law.residual_survival(n))
    assert isinstance(noise, ChaoticNoise)
    T = ThalerMap(noise.gamma)
    own = T.cdf(T.abel_inverse(n.astype(np.float64)))
    return own if noise.longest is None else capped_law(noise.gamma, noise.longest).tail(n, own)


def _restarted(
    recursion: Recursion, place: float, left: float, right: float, noise: PhasedNoise
) -> float:
    """Return one over the mean number of steps to leave, from ``place`` just after a visit."""
    kick = recursion.kick * recursion.values.laminar_value  # of a laminar step
    points = 2.0 * (right - left) / kick if kick else 0.0  # two of them in each such step
    grid = np.linspace(left, right, int(np.clip(points, FEWEST, MOST)) | 1)
    rule = (noise.beta, noise.signs) if isinstance(noise, ChaoticNoise) else (0.0, "fresh")
    kernel = chain(recursion, grid, *rule)
    if not kernel.killed.any():
        return 0.0
    size = len(kernel.killed)
    # Next to the eigenvalue 1, not at it: it may be that next to nothing is killed.
    times = np.linalg.solve((1.0 + 1e-12) * np.eye(size) - kernel.matrix, kernel.steps)
    return 1.0 / float(np.mean([np.interp(place, grid, t) for t in times.reshape(-1, len(grid))]))


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
