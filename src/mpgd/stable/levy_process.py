"""Stable Levy processes at given times.

X(t) has independent increments, and X(t + h) - X(t) is the law of X(1) with scale times h^(1/alpha)
and location (in S1) times h. d coordinates are independent, or isotropic: then the increment is
A^(1/2) G, with G normal and A one-sided stable of index alpha/2, common to all coordinates, so that
every projection has the law of one coordinate. A subordinator is a rising process T, stable with
alpha < 1 and beta = 1, and X(T(t)) is the process run by its clock.

Reference: Samorodnitsky & Taqqu (1994), Propositions 2.5.2 and 3.8.2.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from mpgd.stable.law import StableLaw
from mpgd.stable.nodes import Array
from mpgd.stable.sampling import draw
from mpgd.stable.standard import BAND, location, skew_shift


def process(
    law: StableLaw,
    times: ArrayLike,
    size: int = 1,
    random_state: int | np.random.Generator | None = None,
    *,
    coordinates: int | None = None,
    isotropic: bool = False,
    subordinator: StableLaw | None = None,
) -> Array:
    """Return paths of the process with X(0) = 0 and X(1) of a law.

    Args:
        law: of X(1), one law; isotropic paths need beta = 0 and a location of 0.
        times: rising, from 0 or later on.
        size: number of paths.
        random_state: a seed or a numpy generator; None takes fresh entropy.
        coordinates: of each path; None for paths in the line.
        isotropic: a law that no rotation changes, instead of independent coordinates.
        subordinator: law of T(1), with alpha < 1, beta = 1 and support [0, inf).

    Returns:
        An array (path, time) or (path, time, coordinate).

    Raises:
        ValueError: if times do not rise from 0 or later, or a law does not fit its role.

    Examples:
        >>> process(StableLaw(1.5), np.linspace(0.0, 1.0, 5), size=3, random_state=0).shape
        (3, 5)
        >>> process(StableLaw(1.5), [0.5, 1.0], 2, 0, coordinates=3, isotropic=True).shape
        (2, 2, 3)
    """
    rng, t = np.random.default_rng(random_state), np.asarray(times, dtype=np.float64)
    if t.ndim != 1 or not (np.diff(t, prepend=0.0) >= 0.0).all():
        raise ValueError("times must be one row of numbers that rise from 0 or later")
    if any(np.ndim(getattr(law, name)) for name in ("alpha", "beta", "loc", "scale")):
        raise ValueError("law must be one law, not an array of them")
    steps = np.broadcast_to(np.diff(t, prepend=0.0), (size, t.size))
    if subordinator is not None:
        if not (subordinator.alpha < 1.0 and float(subordinator.support()[0]) == 0.0):
            raise ValueError("subordinator must have alpha < 1, beta = 1 and support [0, inf)")
        steps = _increments(subordinator, steps, rng)
    dimension = 1 if coordinates is None else coordinates
    if isotropic:
        jumps = _isotropic(law, steps, dimension, rng)
    else:
        jumps = _increments(law, np.repeat(steps[..., None], dimension, axis=2), rng)
    paths = np.cumsum(jumps, axis=1)
    return paths[..., 0] if coordinates is None else paths


def _increments(law: StableLaw, steps: Array, rng: np.random.Generator) -> Array:
    """Return increments over ``steps``, in S1, where location and time are proportional."""
    alpha, beta, shift = law.alpha, law.beta, np.zeros_like(steps)
    z = draw(steps.size, alpha, beta, rng).reshape(steps.shape)
    loc = location(alpha, beta, law.loc, law.scale, law.parametrization)
    if alpha == 1.0:  # S0 is the coordinate there: the scale's logarithm moves with the time
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = 2.0 / math.pi * beta * law.scale * steps * np.log(steps)
        shift = np.where(steps > 0.0, moved, 0.0)
    elif abs(alpha - 1.0) < BAND:
        z = z + skew_shift(alpha, beta)
        loc -= law.scale * skew_shift(alpha, beta)
    return np.asarray(law.scale * steps ** (1.0 / alpha) * z + loc * steps + shift)


def _isotropic(law: StableLaw, steps: Array, dimension: int, rng: np.random.Generator) -> Array:
    """Return increments A^(1/2) G with G of variance 2 scale^2 in every coordinate."""
    if law.beta != 0.0 or law.loc != 0.0:
        raise ValueError("an isotropic process needs beta = 0 and loc = 0")
    normal = math.sqrt(2.0) * law.scale * rng.standard_normal((*steps.shape, dimension))
    clock = steps ** (2.0 / law.alpha)
    if law.alpha < 2.0:
        half = 0.5 * law.alpha
        positive = draw(steps.size, half, 1.0, rng).reshape(steps.shape)
        if half > 1.0 - BAND:  # in S0 there: the support begins at -tan(pi alpha/4)
            positive = np.maximum(positive + skew_shift(half, 1.0), 0.0)
        clock = clock * math.cos(0.5 * math.pi * half) ** (1.0 / half) * positive
    return np.asarray(np.sqrt(clock)[..., None] * normal)
