import numpy as np
import pytest

from tests.maps.lsv import LSVMap

GAMMAS = [0.55, 0.6, 0.8]


@pytest.mark.parametrize("gamma", GAMMAS)
def test_the_law_is_invariant(gamma: float) -> None:
    """Stationary points stay so under the map; uniform ones do not."""
    T, q = LSVMap(gamma), np.array([0.05, 0.2, 0.5, 0.7, 0.9])
    u = (np.arange(200_000) + 0.5) / 200_000
    y = T.quantile(u)
    for _ in range(3):
        y = T(y)
        np.testing.assert_allclose(np.quantile(T.cdf(y), q), q, atol=1e-4)
    assert np.abs(np.quantile(T.cdf(T(u)), q) - q).max() > 0.02
    np.testing.assert_allclose(T.cdf(T.quantile(u)), u, atol=1e-9)
    assert T.cdf(1.0) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_the_constant_of_long_phases(gamma: float) -> None:
    """A phase over n steps begins right of 1/2, with an image below the n-th preimage of 1/2."""
    T, n = LSVMap(gamma), 2000
    x, _ = T._preimages(np.array([0.5]))
    begins = float(T.cdf(0.5 + 0.5 * x[n, 0]) - T.cdf(0.5))
    assert n**T.alpha * begins == pytest.approx(T.phase_constant, rel=0.02)
    np.testing.assert_allclose(T(x[1:, 0]), x[:-1, 0], rtol=1e-12)


def test_the_map_by_its_formula_and_its_errors() -> None:
    T = LSVMap(0.6)
    y = np.array([1e-9, 0.2, 0.4999, 0.5, 0.8, 1.0])
    expected = [*(y[:3] * (1.0 + (2.0 * y[:3]) ** 0.6)), 2.0**-52, 0.6, 1.0]
    np.testing.assert_allclose(T(y), expected, rtol=1e-14)
    assert (T.alpha, T.y_star) == (1.0 / 0.6, 0.5)
    with pytest.raises(ValueError, match=r"gamma must lie in \(0.5, 0.95\], got 0.5"):
        LSVMap(0.5)
    with pytest.raises(ValueError, match=r"y must lie in \(0, 1\], got 0.0"):
        T([0.5, 0.0])
    with pytest.raises(ValueError, match=r"u must lie in \(0, 1\], got 2.0"):
        T.quantile(2.0)
