import numpy as np
import pytest

from mpgd.limits import (
    p_variation,
    young_constant,
    young_integral,
    young_integral_of,
    young_loeve_bound,
)
from mpgd.limits.paths import young


def rough(a: float, phase: float):
    """Weierstrass' function with nine octaves, rough of order a down to its last one."""
    k = np.arange(9)

    def f(t: np.ndarray) -> np.ndarray:
        return (2.0 ** (-a * k) * np.sin(2.0 * np.pi * 2.0**k * t[:, None] + phase)).sum(axis=1)

    return f


@pytest.mark.parametrize(("a", "b"), [(0.6, 0.5), (0.9, 0.2), (0.35, 0.7), (2.0, 1.0)])
def test_powers_in_closed_form(a: float, b: float) -> None:
    """Int t^a d(t^b) = b / (a + b); t^b is rough of order b at 0 alone."""
    found = young_integral_of(lambda t: t**a, lambda t: t**b)
    assert found.value == pytest.approx(b / (a + b), abs=1e-8)
    assert found.error <= 1e-10


def test_rough_functions_in_closed_form() -> None:
    """Int cos d(sin) over full periods leaves each octave with itself: pi sum 2^((1-a-b) k)."""
    a, b = 0.6, 0.7
    found = young_integral_of(rough(a, np.pi / 2), rough(b, 0.0), tolerance=1e-9)
    exact = np.pi * (2.0 ** ((1.0 - a - b) * np.arange(9))).sum()
    assert found.value == pytest.approx(exact, rel=1e-8)


def test_sums_that_do_not_settle_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a + b < 1 every octave that a finer partition sees adds more than the one before."""
    monkeypatch.setattr(young, "LEVELS", range(4, 9))
    with pytest.raises(ArithmeticError, match=r"have not settled after 2\^8 steps: .* > 1\?"):
        young_integral_of(rough(0.4, np.pi / 2), rough(0.3, 0.0))
    with pytest.raises(ValueError, match=r"start must be below stop, got 1.0 and 0.0"):
        young_integral_of(np.sin, np.sin, 1.0, 0.0)


def test_polygons_are_integrated_exactly_and_by_parts() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 40)).cumsum(axis=1)
    parts = young_integral(y, x)[-1] + young_integral(x, y)[-1]
    assert parts == pytest.approx(x[-1] * y[-1] - x[0] * y[0], rel=1e-12)
    fine = np.interp(np.linspace(0, 39, 3901), np.arange(40), x)
    along = np.interp(np.linspace(0, 39, 3901), np.arange(40), y)
    assert young_integral(along, fine)[-1] == pytest.approx(young_integral(y, x)[-1], rel=1e-10)
    matrices = rng.normal(size=(40, 3, 2))
    path = young_integral(matrices, np.stack([x, y], axis=1))
    by_entry = young_integral(matrices[:, 1, 0], x) + young_integral(matrices[:, 1, 1], y)
    np.testing.assert_allclose(path[:, 1], by_entry, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("p", "q"), [(1.0, 1.0), (1.5, 1.5), (1.8, 1.2), (1.3, 2.5)])
def test_the_young_loeve_bound_holds(p: float, q: float) -> None:
    rng = np.random.default_rng(1)
    worst, path_worst = 0.0, 0.0
    for _ in range(200):
        n = int(rng.integers(2, 30))
        x, y = rng.standard_t(1.5, size=(2, n)).cumsum(axis=1)
        integral = young_integral(y, x)
        bound = young_loeve_bound(y, x, p, q)
        worst = max(worst, abs(integral[-1] - y[0] * (x[-1] - x[0])) / bound)
        size = p_variation(y, q) + np.abs(y).max()
        path_bound = young_constant(p, q) * p_variation(x, p) * size
        path_worst = max(path_worst, p_variation(integral, p) / path_bound)
    assert worst <= 1.0
    assert path_worst <= 1.0  # Proposition B.1 with C = the same constant
    assert worst > 0.05  # a twentieth of the bound would not hold


def test_bad_arguments() -> None:
    with pytest.raises(
        ValueError, match=r"1/p \+ 1/q must exceed 1, got 1 for p = 2.0 and q = 2.0"
    ):
        young_constant(2.0, 2.0)
    with pytest.raises(ValueError, match=r"p must lie in \[1, inf\), got 0.5"):
        young_constant(0.5, 1.0)
    with pytest.raises(ValueError, match=r"y must be \(time,\) or \(time, e, d\).*3 and 1, got"):
        young_integral([1.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="y must be finite, got nan"):
        young_integral([1.0, np.nan], [1.0, 2.0])
    with pytest.raises(ValueError, match=r"tolerance must lie in \(0, inf\), got 0"):
        young_integral_of(np.sin, np.sin, tolerance=0)
