"""Indices up to 1 and near it, both parametrisations, arrays of laws, names of scipy."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from types import ModuleType

import mpmath as mp
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import cauchy, levy, levy_stable

from mpgd.stable import StableLaw, near_one

Array = NDArray[np.float64]

VISIBLE = 1e-15


def load_oracle() -> ModuleType:
    """Import the oracle's script by path: it is no module of the package."""
    path = Path(__file__).with_name("make_oracle.py")
    spec = importlib.util.spec_from_file_location("oracle", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_inverted_characteristic_function_at_random_points() -> None:
    """All 600 points of `python -m benchmarks.stable oracle`, and two of them computed anew."""
    oracle = load_oracle()
    rows = np.loadtxt(Path(__file__).with_name("random_points.csv"), delimiter=",", skiprows=1)
    np.testing.assert_array_equal(rows[:, :3], oracle.random_points())
    for alpha, beta, y, *expected in rows.tolist():
        law = StableLaw(alpha, beta)
        for ours, value in zip((law.sf(y), law.pdf(y)), expected, strict=True):
            assert ours == pytest.approx(value, rel=1e-12) or value < VISIBLE
    for k in (2, 550):
        assert oracle.tail_and_density(*rows[k, :3].tolist()) == tuple(rows[k, 3:])


def tail_and_density_by_series(x: float, alpha: float, beta: float) -> tuple[float, float]:
    """Return P(X > x) and f(x) in S1 for alpha < 1 and x > 0: the series converges there."""
    with mp.workdps(60):
        a, y = mp.mpf(alpha), mp.mpf(x)
        c = 1 - 1j * mp.mpf(beta) * mp.tan(mp.pi * a / 2)
        tail, density = mp.mpf(0), mp.mpf(0)
        for k in range(1, 400):
            term = (-c) ** k / mp.factorial(k) * mp.gamma(a * k + 1) * mp.mpc(0, 1) ** (-a * k - 1)
            density += mp.re(term * y ** (-a * k - 1))
            tail += mp.re(term * y ** (-a * k) / (a * k))
        return float(tail / mp.pi), float(density / mp.pi)


@pytest.mark.parametrize(
    ("alpha", "beta", "x"),
    [
        *[(0.02, 0.3, 1e-6), (0.02, -0.3, 5.0), (0.03, -0.2, 1e-30), (0.04, 1.0, 0.5)],
        *[(0.05, -0.5, 1e10), (0.06, 0.2, 1e60), (0.08, 0.0, 1e-3), (0.1, -0.9, 1e-5)],
    ],
)
def test_indices_below_a_tenth(alpha: float, beta: float, x: float) -> None:
    law = StableLaw(alpha, beta)
    expected = tail_and_density_by_series(x, alpha, beta)
    assert (float(law.sf(x)), float(law.pdf(x))) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("alpha", "beta", "p"),
    [(0.005, 1.0, 1e-10), (0.02, 1.0, 1e-300), (0.004, 0.5, 0.26), (0.001, 0.3, 0.5)],
)
def test_quantiles_of_indices_below_a_tenth(alpha: float, beta: float, p: float) -> None:
    law = StableLaw(alpha, beta)
    assert float(law.cdf(law.ppf(p))) == pytest.approx(p, rel=1e-10)


def density_by_quadrature(x: float, alpha: float, beta: float) -> float:
    """Return f(x) in S0 by mpmath's quadrature along the real line."""
    with mp.workdps(20):
        a, b = mp.mpf(alpha), mp.mpf(beta)

        def integrand(t: mp.mpf) -> mp.mpf:
            shift = mp.tan(mp.pi * a / 2) * (t - t**a) if alpha != 1 else 2 / mp.pi * t * mp.log(t)
            return mp.re(mp.exp(-(t**a) - 1j * (b * shift + t * x)))

        return float(mp.quad(integrand, mp.linspace(0, 45, 31)) / mp.pi)


@pytest.mark.parametrize("alpha", [1.0, 1.003])
@pytest.mark.parametrize(("beta", "x"), [(0.3, -4.0), (0.5, -0.06), (-0.9, 2.5), (0.7, 21.0)])
def test_density_near_one(alpha: float, beta: float, x: float) -> None:
    law = StableLaw(alpha, beta, parametrization="S0")
    expected = density_by_quadrature(x, alpha, beta)
    np.testing.assert_allclose(law.pdf(x), expected, rtol=1e-12)


@pytest.mark.parametrize("beta", [-1.0, -0.7, 0.2, 0.95])
def test_no_jump_at_the_seams_near_one(beta: float) -> None:
    """The band about 1, |x| = FAR and |beta| = HALF: three formulas that share no line."""
    x = np.array([-400.0, -20.0, -3.0, 0.5, 4.0, 20.0, 1e6])
    for edge in (0.99, 1.01):
        inner, outer = (
            StableLaw(edge + side, beta, parametrization="S0") for side in (-1e-13, 1e-13)
        )
        for a, b in ((inner.sf(x), outer.sf(x)), (inner.pdf(x), outer.pdf(x))):
            np.testing.assert_allclose(a[b > VISIBLE], b[b > VISIBLE], rtol=1e-10)
    law = StableLaw(1.002, beta, parametrization="S0")
    ends = near_one.FAR * (1.0 + np.array([-1e-15, 1e-15]))
    for f in (law.pdf, law.sf, law.cdf):
        for pair in (f(ends), f(-ends)):
            if pair.min() > VISIBLE:
                assert pair[0] == pytest.approx(pair[1], rel=1e-11)


@pytest.mark.parametrize("alpha", [0.1, 0.25, 0.5, 0.9, 1.4])
@pytest.mark.parametrize("beta", [-0.9, 0.3, 1.0])
def test_far_tail_is_its_leading_power(alpha: float, beta: float) -> None:
    """P(X > x) ~ C (1 + beta) x^-alpha, with an error of the size of the tail or x^-2."""
    x = 10.0 ** (min(13.5, 280.0 * alpha) / min(alpha, 1.0))
    constant = math.gamma(alpha) * math.sin(0.5 * math.pi * alpha) / math.pi * (1.0 + beta)
    assert StableLaw(alpha, beta).sf(x) * x**alpha == pytest.approx(constant, rel=1e-12)


def test_seam_of_the_skewness_near_one() -> None:
    x = np.linspace(-19.0, 19.0, 39)
    for alpha in (0.995, 1.0, 1.004):
        below, above = (
            StableLaw(alpha, near_one.HALF + step, parametrization="S0") for step in (0.0, 1e-13)
        )
        np.testing.assert_allclose(below.pdf(x), above.pdf(x), rtol=3e-12)
        np.testing.assert_allclose(below.cdf(x), above.cdf(x), rtol=3e-12)


def test_many_values_near_one_are_interpolated() -> None:
    x = np.random.default_rng(0).uniform(-21.0, 21.0, 2400)
    for alpha, beta in ((0.992, 0.5), (1.0, -0.3), (1.009, 0.0)):
        law = StableLaw(alpha, beta, parametrization="S0")
        for f in (law.pdf, law.cdf, law.sf):
            few = np.concatenate([f(part) for part in np.split(x, 6)])
            np.testing.assert_allclose(f(x), few, rtol=1e-13)


def test_s0_is_continuous_through_one() -> None:
    x = np.linspace(-30.0, 30.0, 61)
    at_one = StableLaw(1.0, 0.8, parametrization="S0").cdf(x)
    for step in (-1e-7, 1e-7):
        near = StableLaw(1.0 + step, 0.8, parametrization="S0").cdf(x)
        np.testing.assert_allclose(near, at_one, atol=2e-7)
    jump = StableLaw(1.0 + 1e-7, 0.8).cdf(x) - StableLaw(1.0, 0.8).cdf(x)
    assert np.abs(jump).max() > 0.5  # S1 is not


def test_closed_forms() -> None:
    x, p = np.geomspace(1e-2, 1e12, 61), np.geomspace(1e-12, 0.9, 30)
    one_sided, symmetric = StableLaw(0.5, 1.0, loc=1.0, scale=2.0), StableLaw(1.0, 0.0, 1.0, 2.0)
    for law, theirs in ((one_sided, levy(1.0, 2.0)), (symmetric, cauchy(1.0, 2.0))):
        for name in ("pdf", "logpdf", "cdf", "sf"):
            ours, expected = getattr(law, name)(1.0 + x), getattr(theirs, name)(1.0 + x)
            np.testing.assert_allclose(ours, expected, rtol=1e-13, err_msg=name)
        np.testing.assert_allclose(law.isf(p), theirs.isf(p), rtol=1e-12)
    assert one_sided.pdf(1.0) == one_sided.cdf(0.5) == 0.0
    np.testing.assert_allclose(StableLaw(0.5, -1.0).cdf(-x), StableLaw(0.5, 1.0).sf(x), rtol=1e-15)


@pytest.mark.parametrize("parametrization", ["S0", "S1"])
@pytest.mark.parametrize(("alpha", "beta"), [(0.7, 0.5), (1.0, 0.4), (1.5, -0.8)])
def test_scipy_agrees_on_location_and_scale(
    alpha: float, beta: float, parametrization: str
) -> None:
    x = np.array([-2.0, 0.5, 4.0])
    law = StableLaw(alpha, beta, 0.3, 1.7, parametrization)
    levy_stable.parameterization = parametrization
    try:
        theirs = levy_stable(alpha, beta, 0.3, 1.7)
        np.testing.assert_allclose(law.cdf(x), theirs.cdf(x), rtol=1e-5)
        np.testing.assert_allclose(law.pdf(x), theirs.pdf(x), rtol=1e-5)
    finally:
        levy_stable.parameterization = "S1"


@pytest.mark.parametrize("parametrization", ["S0", "S1"])
def test_characteristic_function_is_the_mean_of_the_draws(parametrization: str) -> None:
    """Of 40,000 bounded values, so within 5 standard errors; the other form is outside."""
    t = np.array([-0.7, 0.4, 1.1])
    for alpha, beta in ((0.6, 0.9), (1.0, -0.7), (1.0005, 0.8), (1.6, 1.0)):
        law = StableLaw(alpha, beta, 0.5, 1.4, parametrization)
        x = law.rvs(40_000, random_state=5)
        mean = np.exp(1j * np.multiply.outer(t, x)).mean(axis=1)
        assert np.abs(mean - law.characteristic_function(t)).max() < 5.0 / math.sqrt(40_000)
        other = StableLaw(alpha, beta, 0.8, 1.4, parametrization)
        assert np.abs(mean - other.characteristic_function(t)).max() > 5.0 / math.sqrt(40_000)


@pytest.mark.parametrize(
    ("alpha", "beta"), [(0.1, 0.3), (0.3, -1.0), (0.7, 1.0), (0.99, 0.5), (1.0, 0.9), (1.0, -0.2)]
)
def test_ppf_inverts_the_cdf_up_to_one(alpha: float, beta: float) -> None:
    p = np.concatenate([np.geomspace(1e-14, 0.5, 40), np.linspace(0.5, 0.999, 20)])
    law = StableLaw(alpha, beta, parametrization="S0" if alpha == 1.0 else "S1")
    np.testing.assert_allclose(law.cdf(law.ppf(p)), p, rtol=1e-11)
    np.testing.assert_allclose(law.sf(law.isf(p)), p, rtol=1e-11)


def test_moments_and_support() -> None:
    law = StableLaw([0.5, 1.0, 1.5, 2.0], 1.0, loc=1.0, scale=2.0)
    np.testing.assert_array_equal(law.mean(), [np.nan, np.nan, 1.0, 1.0])
    np.testing.assert_array_equal(law.var(), [np.inf, np.inf, np.inf, 8.0])
    np.testing.assert_array_equal(law.support()[0], [1.0, -np.inf, -np.inf, -np.inf])
    np.testing.assert_array_equal(law.support()[1], np.inf)
    assert StableLaw(1.5, 1.0, parametrization="S0").mean() == pytest.approx(1.0)
    assert StableLaw(0.5, -1.0).support() == (-np.inf, 0.0)
    # In S0 the end of a one-sided law moves with beta tan(pi alpha/2).
    end = StableLaw(0.995, 1.0, parametrization="S0").support()[0]
    assert end == pytest.approx(-math.tan(0.4975 * math.pi))
    low, high = StableLaw(1.3, 0.5).interval(0.9)
    np.testing.assert_allclose(StableLaw(1.3, 0.5).cdf([low, high]), [0.05, 0.95])


def test_arrays_of_laws_are_the_laws_one_by_one() -> None:
    alpha, beta = np.array([[0.6], [1.0], [1.7]]), np.array([-0.5, 0.9])
    law, x = StableLaw(alpha, beta, loc=0.2, scale=1.5), 0.7
    for name in ("pdf", "logcdf", "logsf", "sf", "characteristic_function"):
        values = getattr(law, name)(x)
        for i in range(3):
            for j in range(2):
                one = StableLaw(alpha[i, 0], beta[j], loc=0.2, scale=1.5)
                assert values[i, j] == getattr(one, name)(x)
    assert law.ppf(0.3).shape == law.rvs(random_state=0).shape == (3, 2)
    assert law.rvs((4, 3, 2), random_state=0).shape == (4, 3, 2)
    with pytest.raises(ValueError, match="broadcast"):
        StableLaw([0.5, 0.6], [0.1, 0.2, 0.3])


def test_old_names_warn() -> None:
    law = StableLaw(1.5)
    with pytest.warns(FutureWarning, match="quantile is now StableLaw.ppf"):
        assert law.quantile(0.3) == law.ppf(0.3)
    with pytest.warns(FutureWarning, match="sample is now StableLaw.rvs"):
        np.testing.assert_array_equal(law.sample(3, seed=1), law.rvs(3, random_state=1))
