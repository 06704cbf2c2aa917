"""Wrong arguments of `ChaoticNoise` are refused by name, rule and value."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mpgd import ChaoticNoise
from mpgd.library import Loaded
from mpgd.noise import NoiseState, position
from mpgd.noise.engines import check_dtype
from mpgd.noise.word import LONGEST


@pytest.mark.parametrize("gamma", [0.5, 1, 0.3, float("nan"), float("inf")])
def test_gamma_out_of_range(gamma: float) -> None:
    with pytest.raises(ValueError, match=rf"gamma must lie in \(0\.5, 0.99\], got {gamma}"):
        ChaoticNoise(gamma)


def test_gamma_too_near_to_one() -> None:
    """At the largest gamma orbits still start all over the words, capped ones among them."""
    with pytest.raises(ValueError, match=r"gamma must lie in \(0\.5, 0\.99\], got 0\.991"):
        ChaoticNoise(0.991)
    state = ChaoticNoise(0.99).init((10_000,), seed=0)
    s = position(state)
    assert s.min() < 1
    assert s.max().floor() == LONGEST


@pytest.mark.parametrize("gamma", ["0.6", True, None, 0.6 + 0j, [0.6]])
def test_gamma_of_a_wrong_type(gamma: object) -> None:
    with pytest.raises(TypeError, match=r"gamma must be a number that lies in \(0.5, 0.99\], got"):
        ChaoticNoise(gamma)  # type: ignore[arg-type]


@pytest.mark.parametrize("beta", [1.1, -1.0001, float("nan")])
def test_beta_out_of_range(beta: float) -> None:
    with pytest.raises(ValueError, match=rf"beta must lie in \[-1, 1\], got {beta}"):
        ChaoticNoise(0.6, beta)


def test_beta_of_a_wrong_type() -> None:
    with pytest.raises(TypeError, match=r"beta must be a number that lies in \[-1, 1\], got '0'"):
        ChaoticNoise(0.6, "0")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("argument", "value", "rule"),
    [
        ("signs", "old", "'fresh', 'product'"),
        ("signs", None, "'fresh', 'product'"),
        ("engine", "jax", "'torch', 'cpu', 'triton'"),
        ("first_sign", "negative", "'drawn', 'positive'"),
    ],
)
def test_unknown_choices(argument: str, value: object, rule: str) -> None:
    with pytest.raises(ValueError, match=f"{argument} must be one of {rule}, got {value!r}"):
        ChaoticNoise(0.6, **{argument: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [-1, (2, -3)])
def test_negative_shapes(shape: object) -> None:
    with pytest.raises(ValueError, match=r"shape must be an integer >= 0, got -"):
        ChaoticNoise(0.6).init(shape)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [1.5, (2, 1.5), "3", None, True])
def test_shapes_of_a_wrong_type(shape: object) -> None:
    with pytest.raises(TypeError, match=r"shape must be an integer.* got"):
        ChaoticNoise(0.6).init(shape)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_seeds_out_of_range(seed: int) -> None:
    rule = r"seed must be an integer in \[0, 9223372036854775807\], got "
    with pytest.raises(ValueError, match=rule + str(seed)):
        ChaoticNoise(0.6).init(3, seed=seed)


@pytest.mark.parametrize("seed", [1.5, "0", None, True])
def test_seeds_of_a_wrong_type(seed: object) -> None:
    with pytest.raises(TypeError, match=r"seed must be an integer in \[0, .*\], got"):
        ChaoticNoise(0.6).init(3, seed=seed)  # type: ignore[arg-type]


def test_bad_counts() -> None:
    noise = ChaoticNoise(0.6)
    with pytest.raises(ValueError, match="steps must be an integer >= 0, got -1"):
        noise.path(-1)
    with pytest.raises(ValueError, match="steps must be an integer >= 1, got 0"):
        noise.birkhoff(0, 3)
    with pytest.raises(TypeError, match=r"count must be an integer >= 0, got 2\.0"):
        noise.birkhoff(5, 2.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="tensor_id must be an integer >= 0, got -1"):
        noise.init(3, tensor_id=-1)
    with pytest.raises(ValueError, match="driver_id must be an integer >= 0, got -2"):
        noise.init(3, driver_id=-2)


def test_kernels_asked_for_but_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = ChaoticNoise(0.6).path(50, (30,))
    monkeypatch.setattr("mpgd.noise.engines._HAS_CPU", False)
    monkeypatch.setattr("mpgd.noise.engines.native.LOADED", Loaded(None, "there is no compiler"))
    rule = "engine='cpu' needs compiled kernels, and there is no compiler"
    with pytest.raises(ImportError, match=rule):
        ChaoticNoise(0.6, engine="cpu")
    assert torch.equal(ChaoticNoise(0.6).path(50, (30,)), expected)  # the default falls back


def test_the_cpu_engine_refuses_other_devices() -> None:
    noise = ChaoticNoise(0.6, engine="cpu")
    word = torch.empty(3, dtype=torch.int32, device="meta")
    state = noise.init(3)
    with pytest.raises(ValueError, match=r"engine='cpu' runs on the CPU only, got .* on meta"):
        noise.step(NoiseState(word, state.step, state.key))


def test_a_device_without_64_bit_integers_is_refused() -> None:
    """Torch knows the name of this device and cannot make anything on it."""
    rule = r"device 'fpga' has no 64-bit integers .* move the parameters to another device"
    with pytest.raises(ValueError, match=rule):
        ChaoticNoise(0.6).init(3, device="fpga")


def test_values_in_float64_are_refused_where_a_device_has_none() -> None:
    with pytest.raises(ValueError, match=r"'mps' has no float64: ask for dtype=torch\.float32"):
        check_dtype(torch.float64, torch.device("mps"))
    assert check_dtype(torch.float32, torch.device("mps")) == torch.float32


@pytest.mark.parametrize("dtype", [torch.float16, torch.int32])
def test_values_of_another_dtype_are_refused(dtype: torch.dtype) -> None:
    noise, rule = ChaoticNoise(0.6), r"dtype must be torch\.float32 or torch\.float64, got torch\."
    with pytest.raises(ValueError, match=rule):
        noise.step(noise.init(3), dtype=dtype)
    with pytest.raises(ValueError, match=rule):
        noise.path(3, dtype=dtype)
    with pytest.raises(ValueError, match=rule):
        noise.birkhoff(3, 3, dtype=dtype)


def test_the_global_generators_are_untouched() -> None:
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()
    noise = ChaoticNoise(0.6, 0.5)
    _, state = noise.step(noise.init((4, 5), seed=1))
    noise.path(5, (3,))
    noise.birkhoff(5, 3)
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(np.random.get_state()[1], numpy_before)
    torch.manual_seed(5)
    again = ChaoticNoise(0.6, 0.5).init((4, 5), seed=1)
    assert torch.equal(noise.init((4, 5), seed=1).word, again.word)
    assert state.word.dtype == torch.int32
