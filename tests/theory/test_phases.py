"""Force and decay, the law of phases, and crossing times."""

from __future__ import annotations

from math import inf, log, nan

import numpy as np
import pytest
from scipy.stats import chisquare

from mpgd import ChaoticNoise, ThalerMap, levels
from mpgd.noise import position
from mpgd.theory import crossing_time, decay_of, force_of, phase_tail
from mpgd.theory.phases import crossing
from mpgd.theory.phases.laminar import constants, phase_steps
from tests.conftest import LEVEL

GAMMAS = [0.55, 0.6, 0.7, 0.9]


@pytest.mark.parametrize("gamma", GAMMAS)
def test_levels_and_force_are_inverse(gamma: float) -> None:
    found = levels(lr=0.03, gamma=gamma, force=-1.7, decay=0.4)
    assert force_of(lr=0.03, sigma=found.sigma, gamma=gamma) == pytest.approx(-1.7)
    assert decay_of(lr=0.03, mu=found.mu, gamma=gamma) == pytest.approx(0.4)
    c0 = ChaoticNoise(gamma).laminar_value  # a laminar step moves x by F eta
    assert found.sigma * 0.03**gamma * c0 == pytest.approx(-1.7 * 0.03)


def test_a_pair_of_gammas_is_multiplicative_then_additive() -> None:
    found = levels(lr=0.1, gamma=(0.6, 0.7), force=2.0, decay=1.0)
    assert found.mu == levels(lr=0.1, gamma=0.6, decay=1.0).mu
    assert found.sigma == levels(lr=0.1, gamma=0.7, force=2.0).sigma


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"lr": 0.0}, r"lr must lie in \(0, inf\), got 0.0"),
        ({"gamma": 1.0}, r"gamma must lie in \(0.5, 0.99\], got 1.0"),
        ({"force": nan}, r"force must lie in \(-inf, inf\), got nan"),
        ({"decay": -0.1}, r"decay must lie in \[0, inf\), got -0.1"),
        ({"decay": inf}, r"decay must lie in \[0, inf\), got inf"),
    ],
)
def test_levels_refuses(given: dict[str, float], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        levels(**{"lr": 0.1, "gamma": 0.6} | given)


# --- the law of phases -------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", GAMMAS)
def test_the_tail_is_a_law_with_the_mean_of_kac(gamma: float) -> None:
    n = np.arange(3000)
    tail = phase_tail(n, gamma)
    assert tail[0] == pytest.approx(1.0)
    assert (np.diff(tail) < 0).all()
    np.testing.assert_allclose(np.cumsum(tail[1:]), phase_steps(n[1:], gamma), rtol=1e-9)
    whole = 1.0 / ThalerMap(gamma).burst_probability - 1.0
    assert phase_steps(1e15, gamma) == pytest.approx(whole, rel=1e-5 if gamma < 0.8 else 0.1)


@pytest.mark.parametrize("gamma", [0.6, 0.7])
def test_the_tail_has_the_constant_of_the_limit(gamma: float) -> None:
    alpha, e = 1.0 / gamma, 1.0 - gamma
    K = e * alpha**alpha / (2.0**e - 1.0)
    for n in (1e6, 1e9):
        assert phase_tail(n, gamma) * n**alpha == pytest.approx(K, rel=1e-4)


def lengths(noise: ChaoticNoise, orbits: int) -> np.ndarray:
    """Phases that begin now, one of each orbit that has just visited Z."""
    state = noise.init(orbits, seed=3)
    visits = position(state) < 1.0
    return position(noise.step(state)[1])[visits].numpy().astype(int)


@pytest.mark.parametrize("longest", [None, 12])
def test_the_engine_draws_phases_of_this_law(longest: int | None) -> None:
    """One phase from each of many orbits: independent, so the chi-square test is exact."""
    found = np.bincount(np.minimum(lengths(ChaoticNoise(0.6, longest=longest), 400_000), 12))

    def p_value(gamma: float) -> float:
        tail = phase_tail(np.arange(13), gamma, longest)
        chances = -np.diff(np.append(tail, 0.0))
        return float(chisquare(found, chances * found.sum()).pvalue)

    assert p_value(0.6) > LEVEL
    assert p_value(0.65) < LEVEL  # the check can fail


@pytest.mark.parametrize("longest", [None, 1, 10, 300, 5000])
def test_the_constants_are_the_drivers_own(longest: int | None) -> None:
    noise, found = ChaoticNoise(0.7, longest=longest), constants(0.7, longest)
    assert found.laminar_value == noise.laminar_value
    assert found.burst_value == noise.burst_value
    assert found.variance == pytest.approx(noise.variance)
    steps = 1.0 + phase_steps(10**7 if longest is None else longest, 0.7, longest)
    assert 1.0 / steps == pytest.approx(found.burst_probability, rel=2e-3)


def test_nothing_is_longer_than_the_cap() -> None:
    assert phase_tail(10, 0.6, longest=10) > 0.0
    assert phase_tail(11, 0.6, longest=10) == 0.0
    assert phase_tail(5000, 0.6, longest=5000) > 0.0
    assert phase_tail(5001, 0.6, longest=5000) == 0.0


# --- crossing times ----------------------------------------------------------------------------


def test_few_steps_are_walked() -> None:
    x, n = 0.0, 0
    while x <= 1.0:
        x, n = x - 0.05 * (x - 1.5), n + 1
    assert crossing_time(lambda x: x, 0.0, 1.0, lr=0.05, force=1.5) == n


@pytest.mark.parametrize("wall", [1.0, -1.0])
def test_the_formula_agrees_with_the_walk(wall: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def slope(x: np.ndarray) -> np.ndarray:
        return np.sin(2.0 * x)

    walked = crossing_time(slope, 0.1, wall, lr=0.003, force=1.1)
    monkeypatch.setattr(crossing, "WALKED", 0)
    assert abs(crossing_time(slope, 0.1, wall, lr=0.003, force=1.1) - walked) <= 1
    assert walked > 500


def test_the_closed_form_of_a_quadratic() -> None:
    found = crossing_time(lambda x: x, 0.0, 1.0, lr=1e-6, force=3.0)
    assert found == pytest.approx(log(3.0 / 2.0) / 1e-6, abs=2.0)


def test_a_slope_above_the_force_is_never_passed() -> None:
    def hump(x: np.ndarray) -> np.ndarray:
        return np.where(np.abs(x - 0.5) < 0.1, 2.0, 0.0)

    assert crossing_time(hump, 0.0, 1.0, lr=0.01, force=1.9) == inf
    assert crossing_time(hump, 0.0, 1.0, lr=0.01, force=2.1) < inf
    assert crossing_time(hump, 0.7, 1.0, lr=0.01, force=1.9) < inf  # begins beyond it
    assert crossing_time(hump, 1.0, 1.0, lr=0.01, force=1.0) == 0.0


def test_steps_too_long_for_the_loss_do_not_cross() -> None:
    """The slope is below the force all the way, but steps jump from side to side."""
    assert crossing_time(lambda x: 3.0 * x, 0.0, 0.49, lr=0.7, force=1.5) < inf
    assert crossing_time(lambda x: 0.99 * x, 0.0, 1.0, lr=3.0, force=1.0) < inf


@pytest.mark.parametrize("bad", [lambda x: 1.0, lambda x: x * nan, lambda x: x[:3]])
def test_a_gradient_must_be_one(bad: object) -> None:
    with pytest.raises(ValueError, match="gradient must take an array and return finite numbers"):
        crossing_time(bad, 0.0, 1.0, lr=0.01, force=1.0)  # type: ignore[arg-type]
