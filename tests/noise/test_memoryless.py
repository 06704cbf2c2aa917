"""GaussianNoise and StableNoise: their laws, and the interface they share with ChaoticNoise."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import kstest, norm

from mpgd import ChaoticNoise, GaussianNoise, StableLaw, StableNoise
from mpgd.noise.memoryless import MemorylessNoise
from tests.conftest import LEVEL

BOTH = [GaussianNoise(2.0), StableNoise(1.5, 0.5)]


def test_gaussian_values_are_normal_with_the_given_variance() -> None:
    v = GaussianNoise(variance=4.0).path(2, (50_000,), seed=1).reshape(-1).numpy()
    assert kstest(v, norm(scale=2.0).cdf).pvalue > LEVEL
    assert kstest(v, norm(scale=2.0 * 1.05).cdf).pvalue < LEVEL


@pytest.mark.parametrize(
    ("alpha", "beta"), [(0.25, 0.5), (0.5, -1.0), (0.995, 0.5), (1.0, 0.7), (1.2, -1.0), (2.0, 0.0)]
)
def test_stable_values_follow_the_stable_law(alpha: float, beta: float) -> None:
    v = StableNoise(alpha, beta).path(2, (50_000,), seed=1).reshape(-1).numpy()
    assert np.isfinite(v).all()
    assert kstest(v, StableLaw(alpha, beta).cdf).pvalue > LEVEL
    assert kstest(v, StableLaw(alpha, beta, scale=1.04 ** (2.0 / alpha)).cdf).pvalue < LEVEL


def test_normalised_sums_keep_the_law() -> None:
    """Sums of stable values are stable: exactly, at every number of terms."""
    for noise, law in (
        (GaussianNoise(3.0), norm(scale=3**0.5).cdf),
        (StableNoise(1.5, 0.5), StableLaw(1.5, 0.5).cdf),
    ):
        sums = noise.birkhoff(17, 40_000, seed=5).numpy()
        assert kstest(sums, law).pvalue > LEVEL / 2
        assert kstest(sums * 1.05, law).pvalue < LEVEL / 2


def test_values_of_successive_steps_elements_and_streams_are_uncorrelated() -> None:
    noise, count = GaussianNoise(), 40_000

    def first(**which: int) -> torch.Tensor:
        return noise.step(noise.init(count, **which))[0]

    v = noise.path(3, (count,), seed=0)
    pairs = [(v[0], v[1]), (v[0], v[2]), (v[0][1:], v[0][:-1]), (v[0] ** 2 - 1, v[1] ** 2 - 1)]
    pairs += [(v[0], first(seed=s)) for s in (1, 2, 2**20, 2**62)]
    pairs += [(v[0], first(tensor_id=1)), (v[0], first(driver_id=1))]
    z = np.array([float((a * b).mean() / (a * b).std()) * len(a) ** 0.5 for a, b in pairs])
    assert 2 * norm.sf(np.abs(z).max()) * len(z) > LEVEL
    twin = v[0] * (v[1] + 0.05 * v[0])
    assert 2 * norm.sf(float(twin.mean() / twin.std()) * count**0.5) * len(z) < LEVEL


@pytest.mark.parametrize("noise", BOTH, ids=["gaussian", "stable"])
def test_path_and_birkhoff_are_made_of_steps(noise: MemorylessNoise) -> None:
    state, values = noise.init((3, 5), seed=7), []
    for k in range(10):
        assert int(state.step) == k
        v, state = noise.step(state)
        assert v.dtype == torch.float64
        values.append(v)
    assert torch.equal(noise.path(10, (3, 5), seed=7), torch.stack(values))
    assert noise.path(0, (3, 5)).shape == (0, 3, 5)
    assert noise.path(4).shape == (4,)
    total = torch.zeros(15, dtype=torch.float64)
    for v in noise.path(10, (15,), seed=7):
        total = total + v
    assert torch.equal(noise.birkhoff(10, 15, seed=7), total * 10.0**-noise.exponent)
    assert noise.birkhoff(3, 0).shape == (0,)


@pytest.mark.parametrize("noise", BOTH, ids=["gaussian", "stable"])
def test_a_shard_is_a_slice_of_the_whole(noise: MemorylessNoise) -> None:
    whole = noise.path(5, (20, 10), seed=3)
    index = torch.arange(200).reshape(20, 10)
    for part in ((slice(0, 7),), (slice(7, 20),), (slice(None), slice(2, 9, 3))):
        where = index[part]
        state = noise.init(tuple(where.shape), seed=3, index=where)
        for k in range(5):
            v, state = noise.step(state, index=where)
            torch.testing.assert_close(v, whole[k][part], rtol=1e-13, atol=0)


@pytest.mark.parametrize("noise", BOTH, ids=["gaussian", "stable"])
def test_a_step_leaves_its_argument_and_the_global_generators_alone(noise: MemorylessNoise) -> None:
    before = torch.get_rng_state()
    state = noise.init(5, seed=1)
    one, following = noise.step(state)
    again, _ = noise.step(state)
    assert torch.equal(one, again)
    assert (int(state.step), int(following.step)) == (0, 1)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("noise", BOTH, ids=["gaussian", "stable"])
def test_a_state_takes_no_memory_per_element(noise: MemorylessNoise) -> None:
    state = noise.init((1000, 1000))
    assert state.word.shape == (1000, 1000)
    assert state.word.untyped_storage().nbytes() == 4


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), 4])
@pytest.mark.parametrize("noise", BOTH, ids=["gaussian", "stable"])
def test_shapes(noise: MemorylessNoise, shape: int | tuple[int, ...]) -> None:
    expected = (shape,) if isinstance(shape, int) else shape
    v, state = noise.step(noise.init(shape))
    assert v.shape == state.word.shape == torch.Size(expected)


def test_the_interface_is_that_of_the_chaotic_noise() -> None:
    for name in ("init", "step", "path", "birkhoff", "exponent"):
        for kind in (ChaoticNoise, GaussianNoise, StableNoise):
            assert hasattr(kind, name), (kind, name)
    assert GaussianNoise().exponent == 0.5
    assert StableNoise(1.6).exponent == 1 / 1.6


@pytest.mark.parametrize("variance", [0.0, -1.0, float("nan"), float("inf")])
def test_variance_out_of_range(variance: float) -> None:
    with pytest.raises(ValueError, match=rf"variance must lie in \(0, inf\), got {variance}"):
        GaussianNoise(variance)


@pytest.mark.parametrize("variance", ["1", None, True])
def test_variance_of_a_wrong_type(variance: object) -> None:
    with pytest.raises(TypeError, match=r"variance must be a number that lies in \(0, inf\), got"):
        GaussianNoise(variance)  # type: ignore[arg-type]


@pytest.mark.parametrize("alpha", [0.0, 0.24, 2.1, float("nan")])
def test_alpha_out_of_range(alpha: float) -> None:
    with pytest.raises(ValueError, match=rf"alpha must lie in \[0\.25, 2\], got {alpha}"):
        StableNoise(alpha)


def test_beta_out_of_range() -> None:
    with pytest.raises(ValueError, match=r"beta must lie in \[-1, 1\], got -1\.5"):
        StableNoise(1.5, -1.5)


@pytest.mark.parametrize("noise", BOTH, ids=["gaussian", "stable"])
def test_bad_shapes_seeds_and_counts(noise: MemorylessNoise) -> None:
    with pytest.raises(ValueError, match="shape must be an integer >= 0, got -2"):
        noise.init(-2)
    with pytest.raises(ValueError, match=r"seed must be an integer in \[0, .*\], got -1"):
        noise.init(2, seed=-1)
    with pytest.raises(TypeError, match=r"seed must be an integer in \[0, .*\], got 1\.5"):
        noise.init(2, seed=1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="steps must be an integer >= 0, got -1"):
        noise.path(-1)
    with pytest.raises(ValueError, match="steps must be an integer >= 1, got 0"):
        noise.birkhoff(0, 5)
    with pytest.raises(ValueError, match="count must be an integer >= 0, got -5"):
        noise.birkhoff(3, -5)
