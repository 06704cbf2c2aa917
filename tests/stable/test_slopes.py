"""Derivatives in x and the four parameters, against differences of sixth order and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from mpgd.stable import StableLaw
from mpgd.stable.slopes import NEAR, STENCIL, gradient

Array = NDArray[np.float64]
X = np.array([-300.0, -20.0, -3.0, -0.7, 0.2, 1.0, 4.0, 25.0, 1e4])
STEPS = (2e-3, 1e-3, 1e-3, 2e-3, 2e-3)
LAWS = [(0.6, -0.5), (0.97, -0.8), (0.992, 0.5), (1.0, 0.5), (1.0, 0.0), (1.02, 0.3), (1.5, -0.9)]


def difference(function: str, theta: list[Array | float], k: int, form: str) -> Array:
    """Return the derivative in argument number ``k`` by three central differences."""

    def at(step: float) -> Array:
        x, *rest = (v + step if i == k else v for i, v in enumerate(theta))
        return np.asarray(getattr(StableLaw(*rest, form), function)(x))

    weights = zip((1, 2, 3), (3 / 4, -3 / 20, 1 / 60), strict=True)
    h = STEPS[k]
    return np.sum([w * (at(j * h) - at(-j * h)) for j, w in weights], axis=0) / h


@pytest.mark.parametrize("form", ["S0", "S1"])
@pytest.mark.parametrize("function", ["logpdf", "cdf"])
@pytest.mark.parametrize(("alpha", "beta"), LAWS)
def test_slopes_are_limits_of_differences(
    alpha: float, beta: float, function: str, form: str
) -> None:
    """In S1 the differences in alpha fail near 1, where the location moves without bound."""
    theta = [X, alpha, beta, 0.3, 1.7]
    rows = gradient(function, theta, form)
    near = abs(alpha - 1.0) < 0.05 and form == "S1"
    for k in [0, 2, 3, 4] if near else range(5):
        expected = difference(function, theta, k, form)
        size = np.abs(expected) + 1e-3 * np.abs(expected).max()
        # At alpha = 1 six laws are interpolated, each with 1/(alpha - 1)^2 of rounding.
        bound = 2e-7 if alpha != 1.0 else 1e-5
        assert (np.abs(rows[k] - expected) / (size + 1e-4)).max() < bound


def test_normal_cauchy_and_levy_laws() -> None:
    x = np.array([0.1, 0.9, 5.0, 40.0])
    np.testing.assert_allclose(gradient("logpdf", [x, 2.0, 0.0, 0.0, 1.0])[0], -x / 2, rtol=1e-12)
    cauchy = gradient("logpdf", [x, 1.0, 0.0, 0.0, 1.0])
    np.testing.assert_allclose(cauchy[0], -2 * x / (1 + x * x), rtol=1e-8)
    np.testing.assert_allclose(cauchy[4], (x * x - 1) / (x * x + 1), rtol=1e-8)
    levy = gradient("logpdf", [x, 0.5, 1.0, 0.0, 1.0])
    np.testing.assert_allclose(levy[0], 0.5 / x**2 - 1.5 / x, rtol=1e-11)
    np.testing.assert_array_equal(gradient("logpdf", [-x, 0.5, 1.0, 0.0, 1.0])[:3], 0.0)


def test_slope_at_the_origin_is_continuous() -> None:
    """The power series and the integral meet, and 0 itself has the limit of both sides."""
    for alpha, beta in ((0.4, 0.5), (0.8, -0.3), (1.3, 0.7), (1.9, 0.2)):
        y = np.geomspace(1e-9, 1e-3, 60)
        x = np.concatenate([-y[::-1], [0.0], y])
        slope = gradient("logpdf", [x, alpha, beta, 0.0, 1.0])[0]
        smooth = np.abs(np.diff(slope)) / np.abs(slope).max()
        assert smooth.max() < (0.5 if alpha < 0.5 else 0.02)
        expected = (
            StableLaw(alpha, beta).logpdf(1e-5) - StableLaw(alpha, beta).logpdf(-1e-5)
        ) / 2e-5
        assert slope[y.size] == pytest.approx(expected, rel=1e-2 if alpha < 0.5 else 1e-6)


@pytest.mark.parametrize(("alpha", "beta", "k"), [(2.0, 0.3, 1), (1.6, 1.0, 2), (0.7, -1.0, 2)])
def test_one_sided_derivatives_at_the_ends(alpha: float, beta: float, k: int) -> None:
    x, h = np.array([-2.5, -0.5, 0.0, 0.7, 2.5]), 1e-5
    inward = -np.sign((alpha, beta)[k - 1])

    def at(step: float) -> Array:
        moved = [alpha, beta]
        moved[k - 1] += inward * step
        return np.asarray(StableLaw(*moved, parametrization="S0").cdf(x))

    expected = inward * (-at(2 * h) + 4 * at(h) - 3 * at(0.0)) / (2 * h)
    rows = gradient("cdf", [x, alpha, beta, 0.0, 1.0], "S0")
    np.testing.assert_allclose(rows[k], expected, atol=2e-6)


def test_no_jump_where_interpolation_begins() -> None:
    """The six laws of the stencil stand outside the band that they serve."""
    assert (np.abs(STENCIL) >= NEAR).all()
    for side in (-1.0, 1.0):
        inner, outer = (
            gradient("logpdf", [X, 1.0 + side * NEAR * f, 0.6, 0.0, 1.0], "S0")
            for f in (1.0 - 1e-9, 1.0 + 1e-9)
        )
        np.testing.assert_allclose(inner, outer, rtol=1e-6, atol=1e-7)


def test_arrays_of_laws_and_points_of_no_use() -> None:
    alpha = np.array([0.7, 1.0, 1.7])
    rows = gradient("logpdf", [X[:, None], alpha, 0.2, 0.0, 1.0], "S0")
    assert rows.shape == (5, X.size, 3)
    for j in range(3):
        one = gradient("logpdf", [X, alpha[j], 0.2, 0.0, 1.0], "S0")
        np.testing.assert_array_equal(rows[:, :, j], one)
    at_ends = gradient("logpdf", [np.array([np.inf, -np.inf]), 1.5, 0.2, 0.0, 1.0])
    np.testing.assert_array_equal(at_ends[:3], 0.0)
    assert np.isnan(gradient("logpdf", [np.nan, 1.5, 0.2, 0.0, 1.0])[0])
