import numpy as np
import pytest
import torch

from mpgd import StableLaw
from mpgd.limits import Diagonal, FastSlow, Linear, MarcusSDE, symbol, symbol_index
from mpgd.limits.levy import levy_exponent, levy_triplet

ROTATION = Linear([[0.0, -1.0], [1.0, 0.0]])


def test_a_constant_coupling_matches_the_generator_by_monte_carlo_free_algebra() -> None:
    """E exp(i xi (X_t - x)) of dX = b dL is exp(-t q): X_t - x is b L_t, of known law."""
    B = np.array([[0.5, 0.2], [0.0, 1.5]])
    sde = MarcusSDE(torch.zeros_like, [(B, StableLaw(1.6, 0.4))])
    xi = np.array([[1.0, -2.0], [0.3, 0.1]])
    law = StableLaw(1.6, 0.4)
    expected = [np.prod(law.characteristic_function(B.T @ row)) for row in xi]
    np.testing.assert_allclose(np.exp(-symbol(sde, [3.0, 4.0], xi)), expected, rtol=1e-12)


def test_the_drift_and_several_drivers_add_up() -> None:
    sde = FastSlow.mpgd(lambda x: 3.0 * x, 0.2, 0.5, (0.6, 0.7), (0.5, -0.5)).limit()
    x, xi = np.array([2.0, -1.0]), np.array([0.7, 1.1])
    expected = -1j * (-3.0 * x) @ xi
    expected += levy_exponent(-0.2 * x * xi, StableLaw(1 / 0.6, 0.5)).sum()
    expected += levy_exponent(0.5 * xi, StableLaw(1 / 0.7, -0.5)).sum()
    assert symbol(sde, x, xi) == pytest.approx(expected)
    assert symbol(sde, x, 0.0 * xi) == 0.0  # Assumption 3, third point


def marcus_rotation(xi: np.ndarray, alpha: float) -> complex:
    """The Marcus symbol of the rotation at (1, 0), by quadrature over pairs of jumps z and -z.

    What is left out beyond z = 200 is at most 4 nu(z > 200), here below 1e-3.
    """
    triplet = levy_triplet(StableLaw(alpha))

    def pair(z: np.ndarray) -> np.ndarray:
        there, back = (xi[0] * (np.cos(z) - 1.0) + xi[1] * sign * np.sin(z) for sign in (1.0, -1.0))
        return (2.0 - np.exp(1j * there) - np.exp(1j * back)) * triplet.density(z)

    small, large = np.geomspace(1e-7, 1.0, 200_001), np.linspace(1.0, 200.0, 400_001)
    smallest = xi[1] ** 2 * triplet.density(1.0) * small[0] ** (2.0 - alpha) / (2.0 - alpha)
    logarithmic = np.trapezoid(pair(small) * small, np.log(small))
    return complex(smallest + logarithmic + np.trapezoid(pair(large), large))


def test_marcus_and_ito_symbols_differ_in_lower_order_only() -> None:
    alpha, direction = 1.5, np.array([0.6, 0.8])
    sde = MarcusSDE(torch.zeros_like, [(ROTATION, StableLaw(alpha))])
    sizes = np.array([10.0, 40.0, 160.0, 640.0])
    values = np.array([symbol(sde, [1.0, 0.0], r * direction) for r in sizes])
    gaps = np.abs([marcus_rotation(r * direction, alpha) for r in sizes] - values)
    assert (np.diff(gaps / np.abs(values)) < 0.0).all()
    slope = np.log(gaps[-1] / gaps[0]) / np.log(sizes[-1] / sizes[0])
    assert slope < alpha / 2  # the symbol itself has alpha


def test_the_index_is_the_growth_of_the_symbol() -> None:
    pair = [(0.1, StableLaw(1.4, 0.3)), (Diagonal(-1.0), StableLaw(1.8))]
    sde = MarcusSDE(lambda x: -x, pair)
    r = np.array([1e8, 1e9])
    for x, xi in (([1.0, 0.0], [1.0, 1.0]), ([1.0, 0.0], [0.0, 1.0]), ([0.0, 2.0], [0.0, -1.0])):
        q = np.abs(symbol(sde, x, r[:, None] * np.array(xi)))
        slope = np.log(q[1] / q[0]) / np.log(10.0)
        assert slope == pytest.approx(symbol_index(sde, x, xi), abs=2e-3)
    still = MarcusSDE(lambda x: -x, [(Diagonal(1.0), StableLaw(1.5))])
    assert symbol_index(still, [0.0], [1.0]) == 0.0
    drift = MarcusSDE(torch.ones_like, [(0.0, StableLaw(1.5))])
    assert symbol_index(drift, [0.0], 1.0) == 1.0


def test_bad_arguments() -> None:
    sde = MarcusSDE(lambda x: -x, [(0.5, StableLaw(1.5))])
    with pytest.raises(ValueError, match=r"xi must have shape \(2,\) or \(n, 2\), got \(3,\)"):
        symbol(sde, [0.0, 1.0], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"x must be a finite state \(d,\), got \[nan\]"):
        symbol(sde, [np.nan], [1.0])
    with pytest.raises(ValueError, match=r"xi must be finite, got \[inf\]"):
        symbol(sde, [0.0], [np.inf])
    with pytest.raises(ValueError, match=r"xi must be one direction that is not 0, got \[0.0\]"):
        symbol_index(sde, [0.0], [0.0])
