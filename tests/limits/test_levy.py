import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate

from mpgd import ChaoticNoise, GaussianNoise, StableLaw
from mpgd.limits import LevyTriplet, levy_exponent, levy_triplet
from mpgd.limits.levy import process_law

Array = NDArray[np.float64]
ALPHAS = [1.05, 1.3, 5 / 3, 1.95]


NODE, WEIGHT = np.polynomial.legendre.leggauss(24)


def panels(f: Callable[[Array], Array], edges: Array) -> complex:
    """Gauss-Legendre between neighbouring edges."""
    half = 0.5 * np.diff(edges)[:, None]
    return complex((half * f(edges[:-1, None] + half * (NODE + 1.0)) * WEIGHT).sum())


def by_quadrature(triplet: LevyTriplet, xi: float) -> complex:
    """Equation (4) term by term, with the density of nu: jumps below 1, then the others.

    Below 1 in u = -log x, the bracket by its series where it cancels. Above, the wave is turned to
    the ray x = 1 + i s / xi, on which it decays.
    """
    alpha = triplet.alpha

    def small(u: Array, t: float) -> Array:
        z = 1j * t * np.exp(-u)
        series = -sum(z ** (k - 2) / math.factorial(k) for k in range(2, 20))
        w = np.where(np.abs(z) < 0.5, 1.0, z)
        over_z2 = np.where(np.abs(z) < 0.5, series, (1.0 - np.exp(w) + w) / w**2)
        return np.asarray(-(t**2) * over_z2 * np.exp((alpha - 2.0) * u))

    total = -1j * triplet.b * xi + triplet.Sigma * xi**2 / 2
    for sign in (1.0, -1.0):
        t, side = sign * xi, float(triplet.density(sign))
        near = panels(lambda u, t=t: small(u, t), np.linspace(0.0, 50.0 / (2.0 - alpha), 400))
        ray = panels(
            lambda s, t=t: np.exp(-s) * (1.0 + 1j * s / t) ** (-1.0 - alpha), np.linspace(0, 40, 81)
        )
        total += side * (near + 1.0 / alpha - 1j / t * np.exp(1j * t) * ray)
    return total


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("beta", [-1.0, 0.3])
def test_the_triplet_gives_the_characteristic_function_by_quadrature(
    alpha: float, beta: float
) -> None:
    law = StableLaw(alpha, beta, scale=1.3)
    triplet = levy_triplet(law)
    for xi in (-0.4, 1.7):
        found = by_quadrature(triplet, xi)
        assert found == pytest.approx(complex(levy_exponent(xi, law)), rel=1e-10)
        assert np.exp(-found) == pytest.approx(complex(law.characteristic_function(xi)), rel=1e-9)
        assert triplet.exponent(xi) == pytest.approx(found, rel=1e-10)
        wrong = LevyTriplet(alpha, triplet.b + 1e-3, 0.0, triplet.right, triplet.left)
        assert abs(by_quadrature(wrong, xi) - levy_exponent(xi, law)) > 1e-4  # the check can fail


def test_the_paper_s_symmetric_process_has_another_scale() -> None:
    """(0, 0, |x|^(-1-alpha) dx) is the process of the scale the module's docstring gives."""
    alpha = 1.5
    C = (1 - alpha) / (math.gamma(2 - alpha) * math.cos(math.pi * alpha / 2))
    scale = float((2 / (alpha * C)) ** (1 / alpha))
    bare = LevyTriplet(alpha, right=1.0, left=1.0)
    for xi in (0.5, 2.0):
        assert bare.exponent(xi) == pytest.approx(levy_exponent(xi, StableLaw(alpha, scale=scale)))
    assert abs(scale - 1.0) > 0.5


@pytest.mark.parametrize("beta", [-0.5, 1.0])
def test_the_tail_of_nu_is_that_of_the_law(beta: float) -> None:
    law = StableLaw(1.4, beta, scale=0.7)
    triplet = levy_triplet(law)
    assert triplet.tail(1e9) == pytest.approx(float(law.sf(1e9)), rel=1e-4)
    if beta < 1.0:
        assert triplet.tail(-1e9) == pytest.approx(float(law.cdf(-1e9)), rel=1e-4)
    total, _ = integrate.quad(triplet.density, 2.0, np.inf)
    assert total == pytest.approx(float(triplet.tail(2.0)), rel=1e-8)


def test_the_mean_is_zero() -> None:
    """The mean of L_1 is b plus that of the jumps of at least 1, which are not compensated."""
    triplet = levy_triplet(StableLaw(1.3, 0.6))
    large = sum(
        s * integrate.quad(lambda x, s=s: x * triplet.density(s * x), 1.0, np.inf)[0]
        for s in (1, -1)
    )
    assert triplet.b + large == pytest.approx(0.0, abs=1e-7)
    assert abs(triplet.b) > 0.1


def test_drivers_of_mpgd() -> None:
    noise = ChaoticNoise(0.6, beta=0.5)
    assert levy_triplet(noise) == levy_triplet(StableLaw(1 / 0.6, 0.5))
    xi = np.array([-1.0, 0.3, 2.0])
    twins = levy_exponent(xi, noise, symmetric=True)
    np.testing.assert_allclose(twins, levy_exponent(xi, noise) + levy_exponent(-xi, noise))
    np.testing.assert_allclose(levy_triplet(noise, symmetric=True).exponent(xi), twins)
    assert process_law(noise, symmetric=True).scale == pytest.approx(2**0.6)
    printed = ChaoticNoise(0.6, beta=0.5, signs="product")
    assert levy_triplet(printed).right == levy_triplet(printed).left
    assert levy_triplet(GaussianNoise(variance=3.0)).Sigma == pytest.approx(3.0)
    assert levy_exponent(2.0, GaussianNoise(variance=3.0)) == pytest.approx(6.0)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"alpha": 1.0}, r"alpha must lie in \(1, 2\], got 1.0"),
        ({"alpha": 1.5, "Sigma": -1.0}, r"Sigma must lie in \[0, inf\), got -1.0"),
        ({"alpha": 1.5, "right": np.nan}, r"right must lie in \[0, inf\), got nan"),
        ({"alpha": 1.5, "b": np.inf}, r"b must lie in \(-inf, inf\), got inf"),
        ({"alpha": 2.0, "left": 1.0}, r"alpha must be below 2 where there are jumps, got 2.0"),
    ],
)
def test_bad_triplets(arguments: dict[str, float], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        LevyTriplet(**arguments)


def test_bad_arguments() -> None:
    with pytest.raises(TypeError, match="xi must hold real numbers, got dtype complex128"):
        levy_exponent(1j, StableLaw(1.5))
    with pytest.raises(ValueError, match="xi must be finite, got nan"):
        levy_exponent([0.0, np.nan], StableLaw(1.5))
    with pytest.raises(ValueError, match=r"x must not be 0, where nu is infinite, got 0.0"):
        levy_triplet(StableLaw(1.5)).density([1.0, 0.0])
    with pytest.raises(TypeError, match="symmetric must be True or False, got 1"):
        levy_triplet(StableLaw(1.5), symmetric=1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="the limit of 'x' is not known"):
        levy_triplet("x")  # type: ignore[arg-type]
