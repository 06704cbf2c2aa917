"""Maximum likelihood: the stationary point, fixed parameters, ends of the range, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpgd.stable import StableLaw
from mpgd.stable.estimate import fit
from mpgd.stable.slopes import gradient, log_density_and_scores

NAMES = ("alpha", "beta", "loc", "scale")


@pytest.mark.parametrize(("alpha", "beta"), [(0.7, 0.5), (1.0, -0.4), (1.5, 0.6), (1.8, 0.0)])
def test_likelihood_is_largest_at_the_fit_and_covers_the_truth(alpha: float, beta: float) -> None:
    """A step of a tenth of a standard error in any direction lowers the likelihood."""
    truth = np.array([alpha, beta, 2.0, 3.0])
    x = StableLaw(*truth, "S0").rvs(600, random_state=11)
    result = fit(x)
    theta = np.array([getattr(result.law, name) for name in NAMES])
    assert result.converged
    assert (np.abs(theta - truth) < 4.0 * result.standard_errors).all()
    for k in range(4):
        for sign in (-0.1, 0.1):
            moved = theta.copy()
            moved[k] += sign * result.standard_errors[k]
            assert StableLaw(*moved, "S0").logpdf(x).sum() < result.log_likelihood


THETAS = [[0.5, 0.3, 0.0, 1.0], [0.7, 1.0, -9.0, 2.0], [1.4, 0.5, 1.0, 2.0]]
THETAS += [[1.004, -0.7, 0.0, 1.0], [1.008, 0.4, 0.0, 1.0], [1.6, -1.0, 0.0, 1.0], [2.0, 0, 1, 30]]


@pytest.mark.parametrize("theta", THETAS)
def test_density_and_scores_in_one_pass_are_the_law_s(theta: list[float]) -> None:
    """Many values are interpolated; each alone is not."""
    x = StableLaw(1.4, 0.5, 1.0, 2.0, "S0").rvs(3000, random_state=3)
    value, scores = log_density_and_scores(x, np.array(theta))
    few = slice(0, 3000, 100)
    np.testing.assert_allclose(value[few], StableLaw(*theta, "S0").logpdf(x[few]), rtol=1e-12)
    alone = np.stack([gradient("logpdf", [v, *theta], "S0")[1:] for v in x[few]], axis=1)
    np.testing.assert_allclose(scores[:, few], alone, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("alpha", [0.5, 0.8, 1.7])
def test_slope_of_the_likelihood_vanishes_at_the_fit(alpha: float) -> None:
    """Next to one standard error, which changes the likelihood by 1/2."""
    result = fit(StableLaw(alpha, 0.5, parametrization="S0").rvs(1000, random_state=5))
    theta = [getattr(result.law, name) for name in NAMES]
    slope = gradient("logpdf", [result.data, *theta], "S0")[1:].sum(axis=1)
    assert result.converged
    assert slope @ np.linalg.solve(result.information, slope) < 1e-5**2


def test_units_of_the_data_do_not_matter() -> None:
    x = StableLaw(1.6, 0.3, parametrization="S0").rvs(500, random_state=2)
    one, many = fit(x), fit(1e9 * x)
    assert many.converged
    for result, unit in ((one, 1.0), (many, 1e9)):
        units = np.array([1.0, 1.0, unit, unit])
        theta = np.array([getattr(result.law, name) for name in NAMES]) / units
        expected = np.array([getattr(one.law, name) for name in NAMES])
        assert (np.abs(theta - expected) < 1e-5 * one.standard_errors).all()
        np.testing.assert_allclose(result.standard_errors / units, one.standard_errors, rtol=1e-4)
        distance = result.profile_distance("loc", result.law.loc + unit)
        assert distance == pytest.approx(one.profile_distance("loc", one.law.loc + 1.0), rel=1e-3)


def test_fixed_parameters_stay() -> None:
    x = StableLaw(1.6, 0.0, 1.0, 2.0).rvs(500, random_state=2)
    result = fit(x, fix_beta=0.0, fix_loc=1.0)
    assert (result.law.beta, result.law.loc) == (0.0, 1.0)
    np.testing.assert_array_equal(result.standard_errors[1:3], 0.0)
    assert result.log_likelihood < fit(x).log_likelihood


def test_normal_data_reach_the_end_of_the_range() -> None:
    x = np.random.default_rng(1).normal(2.0, 3.0, 1000)
    result = fit(x)
    if result.law.alpha == 2.0:
        assert np.isnan(result.standard_errors[:2]).all()
        assert result.law.scale == pytest.approx(x.std() / np.sqrt(2.0), rel=1e-3)
        assert result.law.loc == pytest.approx(x.mean(), abs=1e-2)
    else:
        assert result.law.alpha > 1.95


def test_s1_is_the_same_law() -> None:
    x = StableLaw(0.8, 0.7).rvs(300, random_state=4)
    first, second = fit(x), fit(x, parametrization="S1")
    np.testing.assert_allclose(second.law.cdf(x), first.law.cdf(x), rtol=1e-8)


@pytest.mark.parametrize("data", [[1.0] * 20, [1.0, 2.0], [*range(20), np.nan]])
def test_data_without_a_fit(data: list[float]) -> None:
    with pytest.raises(ValueError, match="at least 10 finite numbers that are not all equal"):
        fit(data)


@pytest.mark.parametrize("name", NAMES)
def test_profile_interval(name: str) -> None:
    """At its ends the likelihood is lower by half a quantile of chi-squared, or the range ends."""
    x = StableLaw(1.7, 0.9, parametrization="S0").rvs(1000, random_state=3)
    result = fit(x)
    low, high = result.interval(name)
    assert low < getattr(result.law, name) < high
    for end in (low, high):
        distance = result.profile_distance(name, end)
        if end == 1.0:
            assert distance < 1.96**2
        else:
            assert distance == pytest.approx(1.96**2, abs=0.01)
    narrow = result.interval(name, confidence=0.5)
    assert low < narrow[0] < narrow[1] <= high


def test_profile_interval_far_from_the_ends_is_1_96_standard_errors() -> None:
    x = StableLaw(1.4, 0.2, 3.0, 2.0, "S0").rvs(4000, random_state=0)
    for parametrization in ("S0", "S1"):
        result = fit(x, fix_beta=0.2, parametrization=parametrization)
        half = 1.96 * result.standard_errors[0]
        ends = result.law.alpha + half * np.array([-1.0, 1.0])
        np.testing.assert_allclose(result.interval("alpha"), ends, atol=0.1 * half)
    with pytest.raises(ValueError, match="must be a parameter that was not fixed, got 'beta'"):
        result.interval("beta")
    with pytest.raises(ValueError, match=r"confidence must lie in \(0, 1\), got 1.0"):
        result.interval("alpha", 1.0)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"fix_alpha": 0.05}, "alpha is sought from 0.1 up, got fix_alpha=0.05"),
        ({"fix_alpha": 2.5}, r"alpha must lie in \(0, 2\], got 2.5"),
        ({"fix_beta": 1.5}, r"beta must lie in \[-1, 1\], got 1.5"),
        ({"fix_scale": 0.0}, "scale must"),
        ({"parametrization": "S2"}, "parametrization must be 'S0' or 'S1', got 'S2'"),
        ({"fix_loc": 3.0, "parametrization": "S1"}, "fix_loc is a location in S0"),
    ],
)
def test_a_value_that_no_law_has_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        StableLaw.fit(np.linspace(-1.0, 1.0, 50), **options)
