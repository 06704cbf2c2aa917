"""The fast-slow recursion: against plain loops, against its limit, and what it refuses."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp, kstest
from torch import Tensor

from mpgd import ChaoticNoise, GaussianNoise, StableLaw, StableNoise
from mpgd.limits import Diagonal, ExpandingNoise, FastSlow, Linear, limit_law
from mpgd.limits.noise_blocks import open_stream
from mpgd.optim.displacement.reference import descended, strengths, term
from tests.conftest import LEVEL

COUNT = 40_000
RADIUS = math.sqrt(math.log(2.0 / LEVEL) / (2.0 * COUNT))  # DKW: KS of a sample to its own law


def sums(noise: ChaoticNoise, m: int, seed: int) -> np.ndarray:
    """m^(-gamma) sum_j (1 - 1/m)^(m-1-j) v_j, the solution of the linear recursion at time 1."""
    total, state = torch.zeros(COUNT).double(), noise.init(COUNT, seed)
    for _ in range(m):
        value, state = noise.step(state)
        total = (1.0 - 1.0 / m) * total + value
    return np.asarray(total * m**-noise.gamma)


def equation(noise: ChaoticNoise) -> StableLaw:
    """int_0^1 e^(s-1) dL_s is stable, of scale (int_0^1 e^(-alpha s) ds)^(1/alpha)."""
    alpha = noise.alpha
    return StableLaw(alpha, noise.beta, scale=(-math.expm1(-alpha) / alpha) ** (1.0 / alpha))


def test_mpgd_is_the_optimizers_update() -> None:
    m, mu, sigma = 50, 0.3, 0.2
    system = FastSlow.mpgd(torch.sin, mu, sigma, gamma=(0.6, 0.7), beta=(0.5, -0.3))
    x = torch.tensor([[0.4, -1.0]], dtype=torch.float64).expand(7, 2)
    found = system.simulate([0.4, -1.0], m, t1=1.0, paths=7, seed=9).final
    noises = [ChaoticNoise(0.6, 0.5), ChaoticNoise(0.7, -0.3)]
    states = [noise.init((7, 2), 9, driver_id=i) for i, noise in enumerate(noises)]
    strength = strengths(1 / m, mu, sigma, (0.6, 0.7))
    for _ in range(m):
        parts = []
        for i, noise in enumerate(noises):
            v, states[i] = noise.step(states[i])
            parts.append(term(strength[i], v, None, torch.float64))
        x = descended(x, torch.sin(x), 1 / m, *parts)
    torch.testing.assert_close(found, x, rtol=1e-12, atol=1e-12)


def test_every_form_of_coupling_against_a_plain_loop() -> None:
    """A matrix, a diagonal, a linear one, and fields with a diagonal and with a full matrix."""
    m, paths, B = 20, 5, np.array([[1.0, 2.0, 0.0], [0.0, -1.0, 0.5]])
    A = np.array([[0.0, 1.0], [0.3, 0.1]])
    matrices: list[tuple[object, Callable[[np.ndarray], np.ndarray]]] = [
        (B, lambda x: B),
        (torch.tensor([0.5, 2.0]), lambda x: np.diag([0.5, 2.0])),
        (Diagonal([0.5, -1.0]), lambda x: np.diag([0.5, -1.0] * x)),
        (Linear(A), lambda x: (A @ x)[:, None]),
        (torch.cos, lambda x: np.diag(np.cos(x))),
        (lambda x: x[:, :, None] * torch.ones(3), lambda x: np.outer(x, np.ones(3))),
    ]
    noises = [ChaoticNoise(0.55 + 0.05 * i) for i in range(len(matrices))]
    system = FastSlow(lambda x: -x, [(b, n) for (b, _), n in zip(matrices, noises, strict=True)])  # type: ignore[misc]
    found = system.simulate([1.0, 0.5], m, 1.0, paths, seed=2).final.numpy()
    r = [b(np.zeros(2)).shape[1] for _, b in matrices]
    drivers = [n.init((paths, k), 2, driver_id=i) for i, (n, k) in enumerate(zip(noises, r))]  # noqa: B905
    x = np.tile([1.0, 0.5], (paths, 1))
    for _ in range(m):
        new = x - x / m
        for i, (_, b) in enumerate(matrices):
            v, drivers[i] = noises[i].step(drivers[i])
            new += m ** -noises[i].gamma * np.stack([b(x[p]) @ v[p].numpy() for p in range(paths)])
        x = new
    np.testing.assert_allclose(found, x, rtol=1e-11)


@pytest.mark.parametrize("signs", ["fresh", "product"])
def test_streams_are_the_noise_in_bits(signs: str) -> None:
    noise = ChaoticNoise(0.7, 0.5, signs=signs)
    fill, out = open_stream(noise, (600, 2), seed=1, driver_id=0), torch.empty(30, 600, 2).double()
    fill(out[:7])
    fill(out[7:])
    assert torch.equal(out, noise.path(30, (600, 2), seed=1))
    slow = ChaoticNoise(0.6, 0.0, signs=signs, engine="torch")
    fast = FastSlow.mpgd(torch.sin, 0.1, 0.1, signs=signs)
    plain = FastSlow(lambda x: -torch.sin(x), [(Diagonal(-0.1), slow), (0.1, slow)])
    ends = [system.simulate(0.5, 30, paths=20, seed=3).final for system in (fast, plain)]
    assert torch.equal(*ends)


def test_the_quadratic_at_m_2000_is_as_near_its_equation_as_the_driver_allows() -> None:
    """For a linear recursion x_m is a weighted sum of the driver's values, path by path.

    So its distance to the equation is that of these sums, which another seed estimates from the
    driver alone. The distance is the driver's: with exactly stable values in its place the sum is
    stable, and its scale differs from the equation's by a closed form below 1e-3.
    """
    m, noise = 2000, ChaoticNoise(0.6, 0.5)
    system = FastSlow.mpgd(lambda x: x, sigma=1.0, gamma=0.6, beta=0.5)
    x = system.simulate(0.0, m, 1.0, COUNT, seed=0).final[:, 0].numpy()
    np.testing.assert_allclose(x, sums(noise, m, seed=0), rtol=1e-10, atol=1e-10)

    drivers_own = kstest(sums(noise, m, seed=1), equation(noise).cdf).statistic
    y = system.limit().solve(0.0, 1.0, steps=100, paths=COUNT, seed=2).final[:, 0].numpy()
    assert ks_2samp(x, y).statistic < drivers_own + 3.0 * RADIUS
    skewed = FastSlow.mpgd(lambda x: x, sigma=1.0, gamma=0.6, beta=-0.5).limit()
    z = skewed.solve(0.0, 1.0, steps=100, paths=COUNT, seed=2).final[:, 0].numpy()
    assert ks_2samp(x, z).statistic > drivers_own + 3.0 * RADIUS  # the check can fail

    alpha, weights = noise.alpha, (1.0 - 1.0 / m) ** np.arange(m)
    scale = ((weights**alpha).sum() / m) ** (1.0 / alpha)
    assert scale == pytest.approx(equation(noise).scale, rel=1e-3)
    exact = FastSlow(lambda x: -x, [(1.0, StableNoise(alpha, 0.5))])
    w = exact.simulate(0.0, 200, 1.0, COUNT, seed=3).final[:, 0].numpy()
    assert kstest(w, equation(noise).cdf).statistic < RADIUS + 1e-2
    assert kstest(y, equation(noise).cdf).pvalue > LEVEL


def test_the_distance_falls_as_m_grows() -> None:
    """By more than sampling explains: two radii, one for either sample."""
    noise, system = ChaoticNoise(0.55), FastSlow.mpgd(lambda x: x, sigma=1.0, gamma=0.55)
    distance = [
        kstest(system.simulate(0.0, m, paths=COUNT).final[:, 0], equation(noise).cdf).statistic
        for m in (10, 100, 4000)
    ]
    assert distance[0] > distance[1] + 2.0 * RADIUS
    assert distance[1] > distance[2] + 2.0 * RADIUS


def test_the_doubling_map_is_followed_digit_by_digit() -> None:
    noise = ExpandingNoise()
    state = noise.init(1000, seed=1)
    for _ in range(200):
        x = state.word
        v, state = noise.step(state)
        torch.testing.assert_close(v, math.sqrt(8.0) * (x - 0.5))
        gap = (state.word - 2.0 * x % 1.0).abs()
        assert float(gap.max()) <= 2.0**-52
    assert len(state.word.unique()) == 1000  # digits never run out


@pytest.mark.parametrize("m", [1, 10, 400])
def test_sums_of_the_doubling_map_have_the_green_kubo_variance(m: int) -> None:
    """The variance of m^(-1/2) times a sum: (8/12) (1 + 2 sum_n (1 - n/m) 2^-n) -> 2."""
    noise = ExpandingNoise()
    x = FastSlow(torch.zeros_like, [(1.0, noise)]).simulate(0.0, m, paths=COUNT).final
    n = np.arange(1, m)
    variance = 8.0 / 12.0 * (1.0 + 2.0 * ((1.0 - n / m) * 0.5**n).sum())
    assert float(x.var()) == pytest.approx(variance, rel=5.0 * math.sqrt(2.0 / COUNT))
    assert abs(float(x.mean())) < 5.0 * math.sqrt(variance / COUNT)
    if m == 400:
        assert kstest(x[:, 0], limit_law(noise).cdf).pvalue > LEVEL
        assert kstest(x[:, 0], StableLaw(2.0, scale=1.1).cdf).pvalue < LEVEL


def test_two_maps_in_one_system_tend_to_their_own_laws() -> None:
    noise = ExpandingNoise()
    system = FastSlow(lambda x: -x, [(1.0, noise), (1.0, GaussianNoise(2.0))])
    x = system.simulate(0.0, 300, 1.0, 20_000).final[:, 0].numpy()
    scale = math.sqrt(2.0 * -math.expm1(-2.0) / 2.0)  # two independent drivers of variance 2
    assert kstest(x, StableLaw(2.0, scale=scale).cdf).pvalue > LEVEL
    assert [law.alpha for _, law in system.limit().couplings] == [2.0, 2.0]


def test_drivers_are_independent() -> None:
    """Of each other, of the path and of the component; correlations have a normal limit."""
    noise = ChaoticNoise(0.55)
    x = torch.eye(4).double()
    system = FastSlow(torch.zeros_like, [(x[:, :2], noise), (x[:, 2:], noise)])
    end = system.simulate(torch.zeros(4), 5, paths=COUNT, seed=1).final
    correlation = np.corrcoef(np.concatenate((end.T, end.roll(1, 0).T)))
    assert np.abs(correlation - np.eye(8)).max() < 6.0 / math.sqrt(COUNT)


def test_limit_laws() -> None:
    assert limit_law(ChaoticNoise(0.625, 0.5)) == StableLaw(1.6, 0.5)
    assert limit_law(ChaoticNoise(0.625, 0.5, signs="product")) == StableLaw(1.6)
    assert limit_law(StableNoise(1.5, -1.0)) == StableLaw(1.5, -1.0)
    assert limit_law(GaussianNoise(2.0)) == limit_law(ExpandingNoise()) == StableLaw(2.0)
    with pytest.raises(TypeError, match=r"give it an attribute limit_law"):
        limit_law("noise")  # type: ignore[arg-type]


@pytest.mark.parametrize("beta", [-1.0, -0.5, 0.0, 0.5, 1.0])
def test_product_signs_have_a_symmetric_limit_unless_they_never_change(beta: float) -> None:
    """Sums of 8,000 values are nearer to their law than to the other one."""
    noise = ChaoticNoise(0.6, beta, signs="product")
    law = limit_law(noise)
    assert law == StableLaw(noise.alpha, 1.0 if beta == 1.0 else 0.0)
    sums = noise.birkhoff(8000, 4000, seed=0).numpy()
    other = StableLaw(noise.alpha, 1.0 - law.beta)
    assert kstest(sums, law.cdf).statistic < 0.06 < kstest(sums, other.cdf).statistic


def test_symmetric_mpgd_subtracts_an_independent_twin() -> None:
    system = FastSlow.mpgd(torch.sin, mu=0.1, sigma=0.2, symmetric=True)
    assert len(system.couplings) == 4
    single = FastSlow.mpgd(torch.zeros_like, sigma=1.0, beta=1.0, symmetric=True)
    # Sums of 50 values have atoms; without rounding, two of the same size need not be equal.
    x = single.simulate(0.0, 50, paths=20_000).final[:, 0].numpy().round(9)
    assert ks_2samp(x, -x).pvalue > LEVEL


def test_times_fall_on_steps() -> None:
    system = FastSlow(lambda x: torch.ones_like(x), [])
    solution = system.simulate(0.0, 100, 1.0, times=[0.0, 0.29, 0.295, 1.0])
    assert torch.round(solution.x.flatten() * 100).tolist() == [0.0, 29.0, 29.0, 100.0]
    assert solution.times.tolist() == [0.0, 0.29, 0.295, 1.0]
    assert system.simulate(2.0, m=0.5).final.item() == 2.0  # no step fits


SYSTEM = FastSlow.mpgd(lambda x: x, sigma=1.0)
NOISE = ChaoticNoise(0.6)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: SYSTEM.simulate(0.0, m=0), r"m must lie in \(0, inf\), got 0"),
        (lambda: SYSTEM.simulate(0.0, m=-3), r"m must lie in \(0, inf\), got -3"),
        (lambda: SYSTEM.simulate(0.0, m=math.nan), r"m must lie in \(0, inf\), got nan"),
        (lambda: SYSTEM.simulate(0.0, m=10, t1=-1.0), r"t1 must lie in \(0, inf\), got -1\.0"),
        (lambda: SYSTEM.simulate(0.0, m=10, seed=-1), r"seed must be an integer in .* got -1"),
        (lambda: SYSTEM.simulate(0.0, m=10, times=[-0.1]), r"times must lie in .* got -0\.1"),
        (lambda: FastSlow(torch.sum, []).simulate(0.0, m=10), r"drift\(x\) must be .* shape \(\)"),
        (
            lambda: FastSlow(torch.neg, [(torch.ones(3), NOISE)]).simulate([0.0, 0.0], m=10),
            r"couplings\[0\]: a constant b of shape \(3,\) does not fit d = 2",
        ),
        (
            lambda: FastSlow(torch.neg, [(0.1, NOISE), (torch.ones(3, 2), NOISE)]).simulate(
                0.0, m=10
            ),
            r"couplings\[1\]: a constant b of shape \(3, 2\) does not fit d = 1",
        ),
        (
            lambda: FastSlow(torch.neg, [(lambda x: x[:, 0], NOISE)]).simulate(0.0, m=10),
            r"couplings\[0\]: b\(x\) must be a tensor \(paths, d\) or .* got shape \(1,\)",
        ),
        (lambda: FastSlow(torch.neg, [(np.zeros((1, 1, 1)), NOISE)]), r"Constant value must have"),
        (lambda: FastSlow.mpgd(torch.neg, mu=-0.1), r"mu must lie in \[0, inf\), got -0\.1"),
        (lambda: FastSlow.mpgd(torch.neg, gamma=(0.6,)), r"gamma must be a number or a pair"),
        (lambda: FastSlow.mpgd(torch.neg, gamma=1.2), r"gamma must lie in \(0.5, 0.99\], got 1\.2"),
    ],
)
def test_refuses(call: Callable[[], object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call()


def test_refuses_a_noise_that_is_none() -> None:
    with pytest.raises(TypeError, match=r"couplings\[0\] needs a noise .* got 0\.6"):
        FastSlow(torch.neg, [(1.0, 0.6)])  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"couplings must be a list of pairs \(b, noise\), got"):
        FastSlow(torch.neg, (1.0, NOISE))  # type: ignore[arg-type]


def test_a_state_that_is_not_finite_names_time_and_path() -> None:
    def cubic(x: Tensor) -> Tensor:
        return x**3

    x0 = torch.tensor([[0.1], [30.0], [0.1]])
    with pytest.raises(FloatingPointError, match=r"at time 0\.[4-9]: path 1 is .* \(1 of 3 paths"):
        FastSlow(cubic, []).simulate(x0, m=10, paths=3)


def test_importing_the_limits_loads_no_extra() -> None:
    code = """
import sys, mpgd.limits
loaded = [name for name in ("scipy", "matplotlib") if name in sys.modules]
assert not loaded, loaded
"""
    subprocess.run([sys.executable, "-c", code], check=True)
