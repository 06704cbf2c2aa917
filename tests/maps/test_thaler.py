"""ThalerMap against 50 and more digits, and its identities."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from mpgd import ChaoticNoise, ThalerMap
from tests import reference

GAMMAS = [0.51, 0.55, 0.6, 2 / 3, 0.75, 0.8, 0.95]

# The paper's formulas in numbers: gamma, y*, P(Z), c0, c1, E v^2.
CONSTANTS = [
    (0.55, 0.568386211674288, 0.267957152027, 0.379693016361, -1.03729851937, 0.393855003685),
    (0.60, 0.574200182698109, 0.242141716745, 0.581047544906, -1.81857013650, 1.05667571305),
    (0.65, 0.579941011094023, 0.215415902103, 0.795801844522, -2.89845580662, 2.30659647717),
    (0.70, 0.585607954647024, 0.187747603644, 1.06036306624, -4.58744838735, 4.86436083825),
]


def interior(count: int = 400) -> np.ndarray:
    """Return points of (0, 1) that crowd at both ends."""
    return np.concatenate([np.geomspace(1e-12, 0.5, count), 1 - np.geomspace(1e-9, 0.5, count)])


def relative_errors_of_T(gamma: float, y: np.ndarray) -> np.ndarray:
    exact = [reference.thaler_exact(mp.mpf(float(x)), gamma) for x in y]
    with mp.workdps(60):
        pairs = zip(ThalerMap(gamma)(y), exact, strict=True)
        return np.array([float(abs(mp.mpf(float(a)) / b - 1)) for a, b in pairs])


@pytest.mark.parametrize("gamma", [0.51, 0.6, 0.8, 0.95])
def test_T_keeps_its_digits_down_to_1e_300(gamma: float) -> None:
    y = np.concatenate([np.geomspace(1e-300, 1e-3, 60), np.linspace(0.002, 1.0, 60)])
    assert relative_errors_of_T(gamma, y).max() < 1e-13


@pytest.mark.parametrize("gamma", GAMMAS)
def test_T_keeps_its_digits_next_to_y_star(gamma: float) -> None:
    T = ThalerMap(gamma)
    away = np.geomspace(1e-15, 0.3, 60)
    y = T.y_star + np.concatenate([away, -away])
    assert relative_errors_of_T(gamma, y).max() < 1e-13


def test_the_textbook_formula_does_not() -> None:
    """The two tests above can fail: T by powers loses its digits at both places."""
    gamma = 0.6
    for y in (1e-30, ThalerMap(gamma).y_star + 1e-15):
        exact = float(reference.thaler_exact(mp.mpf(y), gamma))
        assert abs(reference.thaler(np.array(y), gamma) / exact - 1) > 1e-13


@pytest.mark.parametrize(("gamma", "y_star", "burst", "c0", "c1", "variance"), CONSTANTS)
def test_constants_are_those_of_the_papers_formulas(
    gamma: float, y_star: float, burst: float, c0: float, c1: float, variance: float
) -> None:
    T, noise = ThalerMap(gamma), ChaoticNoise(gamma)
    assert T.y_star == pytest.approx(y_star, rel=1e-15, abs=5e-16)
    assert T.burst_probability == pytest.approx(burst, abs=6e-13)
    assert noise.laminar_value == pytest.approx(c0, rel=5e-12)
    assert noise.burst_value == pytest.approx(c1, rel=5e-12)
    assert noise.variance == pytest.approx(variance, rel=1e-11)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_y_star_is_a_sum_of_two_doubles(gamma: float) -> None:
    high, low = ThalerMap(gamma).tables.constants[:2]
    with mp.workdps(50):
        error = mp.mpf(float(high)) + mp.mpf(float(low)) - reference.branch_point(gamma)
    assert abs(error) < 1e-32
    assert abs(low) <= np.spacing(high) / 2


@pytest.mark.parametrize("gamma", GAMMAS)
def test_the_value_zero_is_never_taken(gamma: float) -> None:
    T = ThalerMap(gamma)
    assert T(1.0) == pytest.approx(1.0, abs=1e-14)
    assert T(np.nextafter(T.y_star, 0)) == pytest.approx(1.0, abs=1e-14)
    assert T(np.nextafter(T.y_star, 1)) > 0
    smallest = np.array([5e-324, 1e-310, 2.3e-308])
    assert np.all(T(smallest) >= smallest)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_quantile_inverts_cdf(gamma: float) -> None:
    T, u = ThalerMap(gamma), interior()
    np.testing.assert_allclose(T.cdf(T.quantile(u)), u, rtol=1e-14)
    y = interior()
    np.testing.assert_allclose(T.quantile(T.cdf(y)), y, rtol=1e-12)
    assert T.cdf(1.0) == pytest.approx(1.0, abs=1e-15)
    assert 1 - T.cdf(T.y_star) == pytest.approx(T.burst_probability, abs=1e-15)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_density_is_the_derivative_of_cdf(gamma: float) -> None:
    T, y = ThalerMap(gamma), np.linspace(0.05, 0.95, 50)
    h = 1e-3
    slope = (8 * (T.cdf(y + h) - T.cdf(y - h)) - T.cdf(y + 2 * h) + T.cdf(y - 2 * h)) / (12 * h)
    np.testing.assert_allclose(T.density(y), slope, rtol=1e-4)
    x, w = np.polynomial.legendre.leggauss(40)
    y, w = 0.1 + 0.9 * (x + 1) / 2, 0.45 * w
    assert w @ T.density(y) == pytest.approx(1 - float(T.cdf(0.1)), abs=1e-14)


def preimages(T: ThalerMap, y: np.ndarray) -> list[np.ndarray]:
    """Return the left and the right preimage of every y, by bisection on T alone."""
    found = []
    for first, last in ((1e-300, T.y_star), (np.nextafter(T.y_star, 1), 1.0)):
        low, high = np.full_like(y, first), np.full_like(y, last)
        for _ in range(1200):  # geometric and plain halves alternate: both ends keep their digits
            middle = np.sqrt(low) * np.sqrt(high) if _ % 2 else (low + high) / 2
            below = T(np.clip(middle, first, last)) < y
            low, high = np.where(below, middle, low), np.where(below, high, middle)
            if np.all(high - low <= 2 * np.spacing(low)):
                break
        found.append(high)
    return found


@pytest.mark.parametrize("gamma", GAMMAS)
def test_H_is_invariant(gamma: float) -> None:
    """The mass of T^-1 (0, y] is H(left) + H(right) - H(y*), and equals H(y)."""
    T, y = ThalerMap(gamma), np.geomspace(1e-3, 1.0, 50)[:-1]
    left, right = preimages(T, y)
    mass = T.cdf(left) + (T.cdf(right) - T.cdf(T.y_star))
    np.testing.assert_allclose(mass, T.cdf(y), rtol=1e-13)
    other = ThalerMap(gamma - 0.005)
    wrong = other.cdf(left) + other.cdf(right) - other.cdf(T.y_star)
    assert np.abs(wrong - other.cdf(y)).max() > 1e-5  # the identity singles out H


@pytest.mark.parametrize("gamma", GAMMAS)
def test_A_counts_the_left_branch_down(gamma: float) -> None:
    T = ThalerMap(gamma)
    y = np.concatenate(
        [np.geomspace(1e-200, 1e-3, 200), np.linspace(1e-3, np.nextafter(T.y_star, 0), 200)]
    )
    s = T.abel(y)
    tolerance = 4e-15 + 1e-13 / s  # of s: for large s one rounding of s hides the 1
    assert np.all(np.abs(T.abel(T(y)) - (s - 1)) <= tolerance * s)
    assert T.abel(1.0) == pytest.approx(0.0, abs=1e-14)
    assert T.abel(T.y_star) == pytest.approx(1.0, abs=1e-14)
    assert np.all(np.diff(T.abel(np.geomspace(1e-12, 1, 5000))) < 0)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_A_and_its_inverse_agree_with_an_independent_fit(gamma: float) -> None:
    T, A = ThalerMap(gamma), reference.abel(gamma)
    assert max(A.residual(z) for z in (64, 70, 90, 150, 1e3, 1e5)) < 1e-25
    y = [1e-40, 1e-6, 3e-3, 0.1, 0.56, 0.6, 0.999]
    exact = np.array([float(A.value(x)) for x in y])
    assert np.all(np.abs(T.abel(y) - exact) <= 1e-13 * np.maximum(1, exact))
    s = [0.0, 0.3, 0.999, 7.3, 36.5, 1e3, 2.0**52]
    np.testing.assert_allclose(T.abel_inverse(s), [float(A.inverse(x)) for x in s], rtol=1e-13)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_abel_inverse_round_trip(gamma: float) -> None:
    T = ThalerMap(gamma)
    s = np.concatenate([np.linspace(0, 60, 2001), np.geomspace(60, 2.0**52, 200)])
    assert np.all(np.abs(T.abel(T.abel_inverse(s)) - s) <= 2e-14 * np.maximum(1, s))
    assert T.abel_inverse(0.0) == pytest.approx(1.0, abs=1e-15)
    assert T.abel_inverse(1.0) == pytest.approx(T.y_star, rel=1e-15)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_B_is_A_after_T_after_Y(gamma: float) -> None:
    """Against an independent A in 50 digits; the promise is 1e-9 of max(1, B)."""
    T, A = ThalerMap(gamma), reference.abel(gamma)
    u = np.concatenate([np.geomspace(1e-15, 1e-2, 10), [0.06, 0.2, 0.37, 0.55, 0.8, 1 - 2**-30]])
    s = 1.0 - u  # rounded; 1 - s is exact again
    exact = np.array([float(A.first_return(x)) for x in 1.0 - s])
    errors = np.abs(T.abel_return(s) - exact) / np.maximum(1, exact)
    assert errors.max() < 1e-10
    shifted = np.abs(T.abel_return(s * (1 - 1e-8)) - exact) / np.maximum(1, exact)
    assert shifted.max() > 1e-9  # the comparison can fail


@pytest.mark.parametrize("gamma", [0.55, 0.6, 0.95])
def test_B_is_A_after_T_after_Y_everywhere(gamma: float) -> None:
    """Where no digits are lost in float64 a dense sweep is cheap."""
    T, s = ThalerMap(gamma), np.linspace(0, 0.9, 20_001)
    direct = T.abel(T(T.abel_inverse(s)))
    errors = np.abs(T.abel_return(s) - direct) / np.maximum(1, direct)
    assert errors.max() < 1e-12


@pytest.mark.parametrize("y", [0.0, -0.0, -1e-9, 1.0000001, np.nan, np.inf, [0.5, 2.0]])
def test_y_outside_its_interval_is_an_error(y: object) -> None:
    T = ThalerMap(0.6)
    for function in (T, T.density, T.cdf, T.abel):
        with pytest.raises(ValueError, match=r"y must lie in \(0, 1\], got"):
            function(y)


def test_other_domain_errors_name_argument_rule_and_value() -> None:
    T = ThalerMap(0.6)
    with pytest.raises(ValueError, match=r"u must lie in \(0, 1\], got 0\.0"):
        T.quantile([0.5, 0.0])
    with pytest.raises(ValueError, match=r"s must be at least 0, got -1\.0"):
        T.abel_inverse([2.0, -1.0])
    with pytest.raises(ValueError, match=r"s must be at least 0, got nan"):
        T.abel_inverse(np.nan)
    for s in (1.0, -0.5, np.nan):
        with pytest.raises(ValueError, match=rf"s must lie in \[0, 1\), got {s}"):
            T.abel_return(s)


@pytest.mark.parametrize("gamma", [1.0, 0.0, -0.1, float("nan"), float("inf")])
def test_gamma_outside_its_interval_is_an_error(gamma: float) -> None:
    with pytest.raises(ValueError, match=rf"gamma must lie in \(0, 0.99\], got {gamma}"):
        ThalerMap(gamma)


@pytest.mark.parametrize("gamma", [0.1, 0.3, 0.5])
def test_the_map_and_its_law_below_one_half(gamma: float) -> None:
    T, y = ThalerMap(gamma), np.geomspace(1e-6, 1.0, 50)
    assert relative_errors_of_T(gamma, y[:-1]).max() < 1e-13
    beside = T.y_star + np.array([-1e-9, 1e-12, 1e-9])
    assert relative_errors_of_T(gamma, beside).max() < 1e-11
    assert T.y_star == pytest.approx(float(reference.branch_point(gamma)), rel=1e-15)
    u = np.linspace(0.01, 1.0, 100)
    np.testing.assert_allclose(T.cdf(T.quantile(u)), u, rtol=1e-13)
    starts = T.quantile((np.arange(200_000) + 0.5) / 200_000)
    for moved in (T(starts), T(T(starts))):  # y ~ H implies T(y) ~ H
        np.testing.assert_allclose(
            np.quantile(T.cdf(moved), [0.1, 0.5, 0.9]), [0.1, 0.5, 0.9], atol=1e-4
        )


@pytest.mark.parametrize("gamma", [0.3, 0.5])
def test_the_abel_coordinate_is_there_above_one_half_only(gamma: float) -> None:
    T = ThalerMap(gamma)
    for function in (T.abel, T.abel_inverse, T.abel_return):
        with pytest.raises(ValueError, match=rf"0\.99\] for the Abel coordinate, got {gamma}"):
            function(0.3)


def test_the_constant_of_long_phases() -> None:
    """A phase longer than n begins in Z and lands at A > n + 1: its probability, n^alpha times."""
    for gamma in (0.55, 0.6, 0.8):
        T, n = ThalerMap(gamma), 1e9
        begins = T.cdf(T.abel_inverse(n + 1.0)) - T.cdf(T.abel_inverse(n + 2.0))
        assert n**T.alpha * begins == pytest.approx(T.phase_constant, rel=1e-3)


@pytest.mark.parametrize("gamma", ["0.6", None, True, 0.6j, [0.6]])
def test_gamma_must_be_a_number(gamma: object) -> None:
    with pytest.raises(TypeError, match=r"gamma must be a number that lies in \(0, 0.99\], got"):
        ThalerMap(gamma)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_shapes_are_kept(shape: tuple[int, ...]) -> None:
    T, y = ThalerMap(0.6), np.full(shape, 0.3)
    for function in (T, T.density, T.cdf, T.quantile, T.abel, T.abel_inverse, T.abel_return):
        result = function(y)
        assert result.shape == shape
        assert result.dtype == np.float64
