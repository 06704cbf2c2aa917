"""Mean and autocovariance of ChaoticNoise, in closed form and along orbits.

Statistical checks: fixed seeds, LEVEL for each, and each has a twin that must fail. Several
comparisons inside one check share its level (Bonferroni, `worst`).
"""

from __future__ import annotations

from itertools import product as words

import numpy as np
import pytest
import torch
from tests import reference
from tests.conftest import LEVEL
from tests.noise.p_values import Array, mean_is, worst

from mpgd import ChaoticNoise, ThalerMap

RULES = [(0.0, "fresh"), (0.7, "fresh"), (0.5, "product")]  # beta, signs


def test_the_mean_is_zero_at_every_step_for_any_beta() -> None:
    """The first sign is drawn like all others. With a positive first sign it is not zero."""
    p = []
    for beta in (-1.0, 0.5, 1.0):
        p.append(mean_is(ChaoticNoise(0.6, beta).path(12, (40_000,), seed=1).numpy(), 0.0))
    assert worst(np.concatenate(p)) > LEVEL
    twin = ChaoticNoise(0.6, 0.0, first_sign="positive").path(12, (40_000,), seed=1).numpy()
    assert mean_is(twin, 0.0).min() < LEVEL


@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_a_positive_first_sign_moves_the_mean_of_the_second_value(beta: float) -> None:
    """E v_1 = (1 - beta) E[v(y_1); y_0 left of y*] for product signs, as printed in the paper."""
    noise = ChaoticNoise(0.6, beta, "product", first_sign="positive")
    T, c0, c1 = ThalerMap(0.6), noise.laminar_value, noise.burst_value
    x0, x1 = T.cdf(T.abel_inverse([1.0, 2.0]))
    mean = (1 - beta) * (c0 * x1 + c1 * (x0 - x1))
    assert mean == pytest.approx((1 - beta) * 0.078, abs=1e-3)
    v = noise.path(2, (400_000,), seed=3).numpy()
    assert (noise.init(1000).s > 0).all()
    assert mean_is(v[1], mean) > LEVEL
    assert mean_is(v[1], 0.0) < LEVEL


def covariance_by_cylinders(gamma: float, t: float, lag: int) -> float:
    """Return R_t(lag) = E[t^N v(y_0) v(y_lag)] from the masses of all itineraries.

    An itinerary is an interval; its ends are pulled back through the inverse branches
    G(left) = y^e, G(right) = (1 + y)^e.
    """
    T, e, noise = ThalerMap(gamma), 1 - gamma, ChaoticNoise(gamma)
    value = noise.laminar_value, noise.burst_value
    total = 0.0
    for word in words((0, 1), repeat=lag + 1):
        ends = np.array([1e-300, T.y_star] if word[-1] == 0 else [T.y_star, 1.0])
        for letter in reversed(word[:-1]):
            ends = T.quantile(((ends + letter) / 2) ** e)
        mass = float(T.cdf(ends[1]) - T.cdf(ends[0]))
        total += t ** sum(word[:-1]) * value[word[0]] * value[word[-1]] * mass
    return total


@pytest.mark.parametrize(("beta", "signs"), [*RULES, (1.0, "fresh"), (-0.4, "product")])
@pytest.mark.parametrize("gamma", [0.55, 0.6, 0.75])
def test_autocovariance_is_the_sum_over_all_itineraries(
    gamma: float, beta: float, signs: str
) -> None:
    noise, lags = ChaoticNoise(gamma, beta, signs), range(7)
    if signs == "product":
        expected = [covariance_by_cylinders(gamma, beta, n) for n in lags]
    else:
        parts = [[covariance_by_cylinders(gamma, t, n) for n in lags] for t in (0.0, 1.0)]
        expected = (1 - beta**2) * np.array(parts[0]) + beta**2 * np.array(parts[1])
    found = noise.autocovariance(list(lags))
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9, atol=1e-10)
    assert float(noise.autocovariance(0)) == pytest.approx(noise.variance, rel=1e-12)


def test_the_closed_form_without_skewness() -> None:
    """R_0(n) = c0^2 H(x_n) + c0 c1 (H(x_(n-1)) - H(x_n)) with x_n by inverting T, not through A."""
    gamma = 0.6
    noise, T = ChaoticNoise(gamma), ThalerMap(gamma)
    x = [T.y_star]
    for _ in range(50):
        x.append(float(T.quantile((x[-1] / 2) ** (1 - gamma))))  # G(x) = y^e
    H, (c0, c1) = T.cdf(x), (noise.laminar_value, noise.burst_value)
    expected = c0**2 * H[1:] + c0 * c1 * (H[:-1] - H[1:])
    found = noise.autocovariance(np.arange(1, 51)).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert noise.autocovariance(torch.tensor([[1, 10**9]])).shape == (1, 2)


def lagged_products(v: Array, lags: list[int]) -> Array:
    """Return v_0 v_n for every lag n, (lag, orbit)."""
    return np.stack([v[0] * v[n] for n in lags])


@pytest.mark.parametrize(("beta", "signs"), RULES)
def test_lag_covariances_are_those_of_theory(beta: float, signs: str) -> None:
    noise, lags = ChaoticNoise(0.6, beta, signs), [0, 1, 2, 3, 5, 10, 30]
    v = noise.path(31, (100_000,), seed=5).numpy()
    products = lagged_products(v, lags)
    assert worst(mean_is(products, noise.autocovariance(lags).numpy())) > LEVEL
    other = ChaoticNoise(0.6, 0.2 if beta else 0.5, signs).autocovariance(lags).numpy()
    assert mean_is(products, other).min() < LEVEL


@pytest.mark.parametrize(("beta", "signs"), RULES)
def test_lag_covariances_of_the_map_by_powers_are_those_of_theory(beta: float, signs: str) -> None:
    noise, lags = ChaoticNoise(0.6, beta, signs), [0, 1, 2, 5, 10]
    generator = np.random.default_rng(6)
    v = noise.laminar_value * reference.signed_orbits(0.6, beta, signs, 11, 60_000, generator)
    theory = noise.autocovariance(lags).numpy()
    assert worst(mean_is(lagged_products(v, lags), theory)) > LEVEL
    late = lagged_products(v / noise.laminar_value * ChaoticNoise(0.62).laminar_value, lags)
    assert mean_is(late, theory).min() < LEVEL


@pytest.mark.parametrize("lags", [0.5, [1.0], "1", None])
def test_lags_must_be_integers(lags: object) -> None:
    with pytest.raises(TypeError, match="lags must be integers, got"):
        ChaoticNoise(0.6).autocovariance(lags)  # type: ignore[arg-type]


def test_lags_must_not_be_negative_nor_too_large_to_compute() -> None:
    with pytest.raises(ValueError, match=r"lags must be an integer >= 0, got -1"):
        ChaoticNoise(0.6).autocovariance([2, -1])
    with pytest.raises(ValueError, match=r"lags .* got 1000000"):
        ChaoticNoise(0.6, 0.5).autocovariance(1_000_000)
