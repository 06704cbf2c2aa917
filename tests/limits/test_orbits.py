import numpy as np
import pytest
import torch
from scipy.stats import kstest

from mpgd import ChaoticNoise, FastSlow, StableLaw, ThalerMap
from mpgd.limits import Constant, OrbitNoise, limit_law
from mpgd.noise.driver import values
from tests.maps.lsv import LSVMap

GAMMA = 0.65  # where sums converge fastest


def sums(noise: OrbitNoise, steps: int, count: int, seed: int = 0) -> np.ndarray:
    """Normalised sums of many orbits."""
    state, total = noise.init((count,), seed), 0.0
    for _ in range(steps):
        v, state = noise.step(state)
        total = total + v
    return np.asarray(steps**-noise.exponent * total)


def two_values(T: ThalerMap | LSVMap, at_zero: float):
    """The value v(0) left of the branch point, and what makes the mean 0 right of it."""
    left = float(T.cdf(T.y_star))
    return lambda y: np.where(y <= T.y_star, at_zero, -at_zero * left / (1.0 - left))


def ramp(T: LSVMap, sign: float):
    """A smooth observable: the mean of y minus y."""
    mean = float(T.quantile((np.arange(200_000) + 0.5) / 200_000).mean())
    return lambda y: sign * (mean - y)


def test_the_paper_s_observable_has_scale_one() -> None:
    T = ThalerMap(0.6)
    c0, c1 = values(0.6)
    noise = OrbitNoise(T, lambda y: np.where(y <= T.y_star, c0, c1))
    law = limit_law(noise)
    assert (law.alpha, law.beta) == (1 / 0.6, 1.0)
    assert law.scale == pytest.approx(1.0, rel=1e-12)
    state = noise.init((50,), 3)
    orbit = state.word.numpy().copy()
    v, state = noise.step(state)
    np.testing.assert_array_equal(v, np.where(orbit <= T.y_star, c0, c1))
    np.testing.assert_array_equal(state.word, T(orbit))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_sums_along_another_map_tend_to_the_law_of_v_at_zero(sign: float) -> None:
    """Liverani, Saussol and Vaienti's map with a smooth observable; v(0) decides the skewness."""
    noise = OrbitNoise(LSVMap(GAMMA), ramp(LSVMap(GAMMA), sign))
    x, law = sums(noise, 2000, 1500), limit_law(noise)
    assert law.beta == sign
    near = kstest(x, law.cdf).statistic
    assert near < 0.12
    assert kstest(x, StableLaw(law.alpha, -sign, scale=law.scale).cdf).statistic > 2.0 * near
    assert kstest(x, StableLaw(law.alpha, sign, scale=2.0 * law.scale).cdf).statistic > 1.5 * near


def test_convergence_to_that_law() -> None:
    T = LSVMap(GAMMA)
    noise = OrbitNoise(T, two_values(T, 0.7))
    law = limit_law(noise)
    few, many = (kstest(sums(noise, n, 1500), law.cdf).statistic for n in (30, 2000))
    assert many < 0.6 * few
    assert many < 0.06


def test_components_of_one_orbit_follow_one_process() -> None:
    T = ThalerMap(GAMMA)
    one = two_values(T, 1.0)

    def vector(y: np.ndarray) -> np.ndarray:
        return np.stack([2.0 * one(y), -1.0 * one(y), 0.5 - T.cdf(y)], axis=1)

    noise = OrbitNoise(T, vector)
    assert noise.components == 3
    np.testing.assert_allclose(noise.direction, [2.0, -1.0, 0.5])
    B = Constant([[1.0, 0.0, 0.5], [0.0, 1.0, 0.0]])
    system = FastSlow(torch.zeros_like, [(B, noise)])
    x = system.simulate([0.0, 0.0], 200, paths=300, seed=1).final
    state, total = noise.init((300,), 1, "cpu", driver_id=0), 0.0
    for _ in range(200):
        v, state = noise.step(state)
        total = total + v
    torch.testing.assert_close(
        x, 200**-GAMMA * total @ torch.as_tensor(B.B.T), rtol=1e-9, atol=1e-12
    )
    limit = system.limit()
    y = limit.solve([0.0, 0.0], steps=1, paths=300).final
    assert limit.couplings[0][0].width(y) == 1
    torch.testing.assert_close(y[:, 0], -2.25 * y[:, 1])  # both are v(0) times one process
    with pytest.raises(ValueError, match="has 3 components, but its coupling takes 2 drivers"):
        FastSlow(torch.zeros_like, [(1.0, noise)]).simulate([0.0, 0.0], 10)
    with pytest.raises(ValueError, match="a direction of 3 components does not fit 2 drivers"):
        FastSlow(torch.zeros_like, [(1.0, noise)]).limit().solve([0.0, 0.0])


def test_below_one_half_sums_are_normal() -> None:
    T = ThalerMap(0.1)
    noise = OrbitNoise(T, lambda y: 0.5 - T.cdf(y))
    assert noise.exponent == 0.5
    x = sums(noise, 400, 4000)
    assert kstest(x / x.std(), "norm").statistic < 0.03
    heavy = OrbitNoise(ThalerMap(0.8), two_values(ThalerMap(0.8), 1.0))
    z = sums(heavy, 400, 4000)
    assert kstest(z / z.std(), "norm").statistic > 0.1  # the check can fail
    with pytest.raises(TypeError, match="is not known: give it an attribute limit_law"):
        limit_law(noise)
    law = StableLaw(2.0, scale=float(x.std()) / 2**0.5)
    assert limit_law(OrbitNoise(T, noise.observable, law)) == law


def test_two_drivers_of_different_kinds_at_once() -> None:
    T = LSVMap(0.6)
    pair = [(0.5, OrbitNoise(T, two_values(T, 1.0))), (0.2, ChaoticNoise(0.7, beta=-0.5))]
    system = FastSlow(torch.neg, pair)
    assert [law.beta for _, law in system.limit().couplings] == [1.0, -0.5]
    assert system.simulate(1.0, 50, paths=4).final.shape == (4, 1)


def test_bad_arguments() -> None:
    T = ThalerMap(0.6)
    with pytest.raises(
        ValueError, match=r"observable must have mean 0 under the map's law, got 0.5"
    ):
        OrbitNoise(T, T.cdf)
    with pytest.raises(ValueError, match="observable must not be 0 at 0, where phases are spent"):
        OrbitNoise(T, lambda y: np.sin(2.0 * np.pi * T.cdf(y)))
    with pytest.raises(
        ValueError, match=r"observable must return finite values \(n,\) or \(n, r\)"
    ):
        OrbitNoise(T, lambda y: np.full((2, 2), 1.0))
    with pytest.raises(ValueError, match="device must be the CPU for orbits of numpy, got 'meta'"):
        OrbitNoise(T, lambda y: 0.5 - T.cdf(y)).init((2,), device="meta")
