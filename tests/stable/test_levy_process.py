"""Stable processes: the law at a time, independent coordinates, rotations, clocks, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import kstest

from mpgd.stable import StableLaw, process

LEVEL = 1e-5
LAWS = [(1.5, 0.5, "S1"), (1.0, 0.7, "S1"), (1.0, 0.7, "S0"), (0.7, -0.4, "S0"), (1.005, 0.6, "S0")]


@pytest.mark.parametrize(("alpha", "beta", "parametrization"), LAWS)
def test_law_at_a_time(alpha: float, beta: float, parametrization: str) -> None:
    """Cut into 8 uneven steps, X(1) has its law, and X(2) the law of a sum of two of them."""
    law = StableLaw(alpha, beta, 0.3, 1.4, parametrization)
    times = np.concatenate([np.linspace(0.1, 1.0, 8) ** 2, [2.0]])
    paths = process(law, times, 4000, 3)
    assert kstest(paths[:, -2], law.cdf).pvalue > LEVEL
    assert kstest(paths[:, -1] - paths[:, -2], law.cdf).pvalue > LEVEL
    assert kstest(paths[:, -1], law.cdf).pvalue < LEVEL  # the check can fail


@pytest.mark.parametrize("alpha", [0.8, 1.5, 1.99, 2.0])
def test_isotropic_paths_have_one_law_in_every_direction(alpha: float) -> None:
    law = StableLaw(alpha, scale=1.3)
    x = process(law, [0.4, 1.0], 4000, 1, coordinates=3, isotropic=True)[:, -1]
    for direction in ([1.0, 0.0, 0.0], [0.6, 0.0, -0.8], [1 / math.sqrt(3)] * 3):
        assert kstest(x @ np.array(direction), law.cdf).pvalue > LEVEL
    if alpha < 1.9:  # independent coordinates are not isotropic
        y = process(law, [0.4, 1.0], 4000, 1, coordinates=3)[:, -1]
        assert kstest(y @ np.full(3, 1 / math.sqrt(3)), law.cdf).pvalue < LEVEL


def test_subordinated_brownian_motion_is_stable() -> None:
    """Bochner: normal increments run by a clock of index a are stable of index 2 a."""
    clock = StableLaw(0.7, 1.0, scale=math.cos(0.35 * math.pi) ** (1 / 0.7))
    x = process(StableLaw(2.0), [0.5, 1.0], 4000, 2, subordinator=clock)[:, -1]
    assert kstest(x, StableLaw(1.4).cdf).pvalue > LEVEL
    assert kstest(x, StableLaw(1.4, scale=1.3).cdf).pvalue < LEVEL


def test_wrong_processes() -> None:
    law = StableLaw(1.5)
    with pytest.raises(ValueError, match="rise from 0"):
        process(law, [1.0, 0.5])
    with pytest.raises(ValueError, match="one law, not an array"):
        process(StableLaw([1.5, 1.6]), [1.0])
    with pytest.raises(ValueError, match="subordinator must have alpha < 1"):
        process(law, [1.0], subordinator=StableLaw(0.7, 0.5))
    with pytest.raises(ValueError, match="needs beta = 0"):
        process(StableLaw(1.5, 0.5), [1.0], coordinates=2, isotropic=True)
