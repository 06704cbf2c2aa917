"""Extreme numbers: the table of the test suite, and laws that hold at every scale."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import pytest

import mpgd
from mpgd.limits import distances_in_law, p_variation
from tests.extreme_numbers import ANSWERS, LAW, REFUSALS

RANDOM = 160


def attack(seed: int) -> Iterator[str | None]:
    """Go through the table, then scale random paths and samples by random powers of two."""
    for case, (function, expected) in ANSWERS.items():
        yield problem_of(case, lambda f=function, e=expected: f() == pytest.approx(e, 1e-9, 0.0))
    for case, (function, kind, text) in REFUSALS.items():
        yield problem_of(case, lambda f=function, k=kind, t=text: is_refused(f, k, t))
    for number in range(RANDOM):
        dice = random.Random(f"{seed} {number}")
        law = LAWS[number % len(LAWS)]
        yield problem_of(f"{law.__name__}, number {number}", lambda law=law, dice=dice: law(dice))


def problem_of(case: str, holds: Callable[[], bool]) -> str | None:
    """Return what is wrong with a case, or None."""
    try:
        return None if holds() else f"{case}: wrong"
    except Exception as problem:
        return f"{case}: {type(problem).__name__}: {problem}"


def is_refused(function: Callable[[], object], kind: type[Exception], text: str) -> bool:
    """Return whether a function raises this error with this text."""
    with pytest.raises(kind, match=text):
        function()
    return True


def path_of(dice: random.Random) -> np.ndarray:
    """Return a random walk."""
    rng = np.random.default_rng(dice.randrange(2**32))
    return rng.standard_normal((dice.randrange(2, 60), dice.choice((1, 2, 5)))).cumsum(axis=0)


def variation_scales(dice: random.Random) -> bool:
    """|2^k u|_p = 2^k |u|_p, for p up to 10^6."""
    u, p, k = path_of(dice), 10.0 ** dice.uniform(0, 6), dice.randrange(-1000, 1000)
    return p_variation(np.ldexp(u, k), p) == np.ldexp(p_variation(u, p), k)


def variation_falls(dice: random.Random) -> bool:
    """|u|_p falls in p, and is at least the largest increment."""
    u = path_of(dice)
    p = sorted(10.0 ** dice.uniform(0, 8) for _ in range(5))
    values = [p_variation(u, each) for each in p]
    largest = np.linalg.norm(u[:, None] - u[None], axis=2).max()
    rounding = 1 + 1e-12
    return values[-1] * rounding >= largest and all(a * rounding >= b for a, b in pairwise(values))


def distances_scale(dice: random.Random) -> bool:
    """Wasserstein's distance scales with the sample, Kolmogorov's does not."""
    u, k = path_of(dice), dice.randrange(-1000, 1000)
    half = max(1, len(u) // 2)
    one, two = (
        distances_in_law(np.ldexp(u[:half], e), np.ldexp(u[half - 1 :], e), 0) for e in (0, k)
    )
    return (
        two["ks"].value == one["ks"].value
        and two["wasserstein"].value == np.ldexp(one["wasserstein"].value, k)
        and np.isclose(
            two["energy"].value, one["energy"].value * 2.0 ** (k / 2), rtol=1e-12, atol=0
        )
    )


def law_scales(dice: random.Random) -> bool:
    """P(c X <= c x) = P(X <= x) for a scale c from 1e-300 to 1e300."""
    c, x = 2.0 ** dice.randrange(-990, 990), dice.gauss(0, 3)
    scaled = mpgd.StableLaw(LAW.alpha, LAW.beta, scale=c)
    return scaled.cdf(c * x) == LAW.cdf(x) and np.isclose(scaled.pdf(c * x) * c, LAW.pdf(x), 1e-12)


LAWS = [variation_scales, variation_falls, distances_scale, law_scales]
