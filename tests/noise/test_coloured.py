"""Coloured noise: its law against the closed form, its bits, and noises of equal displacement."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import kstest

from mpgd import MPGD, ChaoticNoise, GaussianNoise, StableNoise, TelegraphNoise
from mpgd.limits import limit_law
from mpgd.noise import ColouredNoise, Noise
from tests.conftest import LEVEL

COUNT = 40_000


@pytest.mark.parametrize("time", [0.5, 3.0, 50.0])
def test_values_have_the_autocovariance_and_the_displacement(time: float) -> None:
    noise = ColouredNoise(time, variance=2.0)
    v = noise.path(30, COUNT, seed=3)
    for n in (0, 1, 5, 29):
        product = v[0] * v[n]
        error = 4.5 * float(product.std()) / math.sqrt(COUNT)
        assert abs(float(product.mean()) - float(noise.autocovariance(n))) < error
    square = v.sum(0) ** 2
    error = 4.5 * float(square.std()) / math.sqrt(COUNT)
    assert abs(float(square.mean()) - noise.displacement(30) ** 2) < error
    assert abs(float(square.mean()) - 1.2 * noise.displacement(30) ** 2) > error


@pytest.mark.parametrize("k", [0, 20])
def test_values_are_normal_from_the_start_on(k: int) -> None:
    v = ColouredNoise(7.0).path(k + 1, COUNT, seed=5)[k].numpy()
    assert kstest(v, "norm").pvalue > LEVEL
    assert kstest(v * 1.08, "norm").pvalue < LEVEL


def test_a_value_is_a_function_of_its_element_and_a_part_has_the_bits_of_the_whole() -> None:
    noise, index = ColouredNoise(5.0), torch.arange(3, 9)
    whole, part = noise.init(20, 4), noise.init(6, 4, index=index)
    for _ in range(8):
        a, whole = noise.step(whole)
        b, part = noise.step(part, index=index)
        assert torch.equal(a[3:9], b)
    assert not torch.equal(noise.init(20, 4).word, noise.init(20, 4, tensor_id=1).word)


@pytest.mark.parametrize("shape", [(), (2, 3)])
def test_a_path_is_its_steps_to_the_last_bit(shape: tuple[int, ...]) -> None:
    noise = ColouredNoise(5.0, variance=2.0)
    path, state = noise.path(40, shape, seed=4), noise.init(shape, 4)
    for expected in path:
        value, state = noise.step(state)
        assert torch.equal(value, expected)
    assert noise.path(0, shape).shape == (0, *shape)


def test_an_optimizer_takes_it_and_a_checkpoint_goes_on() -> None:
    def trained(steps: list[int]) -> Any:
        x = torch.zeros(50, dtype=torch.float64, requires_grad=True)
        optimizer = MPGD([x], lr=0.1, sigma=0.3, noise=ColouredNoise(5.0), seed=3)
        for part, count in enumerate(steps):
            if part:
                saved, y = optimizer.state_dict(), x.detach().clone().requires_grad_()
                optimizer, x = MPGD([y], lr=0.1, sigma=0.3, noise=ColouredNoise(5.0), seed=3), y
                optimizer.load_state_dict(saved)
            for _ in range(count):
                x.grad = torch.zeros_like(x)
                optimizer.step()
        return x.detach()

    assert torch.equal(trained([6]), trained([2, 4]))
    assert isinstance(ColouredNoise(5.0), Noise)


def test_the_limit_is_brownian_motion_with_the_sum_of_the_covariances() -> None:
    noise = ColouredNoise(20.0)
    R = noise.autocovariance(np.arange(2000)).numpy()
    law = limit_law(noise)
    assert 2 * law.scale**2 == pytest.approx(2 * R.sum() - R[0], rel=1e-12)


@pytest.mark.parametrize("steps", [1, 10, 500])
@pytest.mark.parametrize("noise", [ChaoticNoise(0.6), TelegraphNoise(20), ColouredNoise(9.0)])
def test_a_matched_gaussian_moves_as_far(noise: Any, steps: int) -> None:
    twin = GaussianNoise.matched(noise, steps=steps)
    assert twin.displacement(steps) == pytest.approx(noise.displacement(steps), rel=1e-12)
    both = GaussianNoise.matched(noise, steps=steps, symmetric=True)
    assert both.variance == pytest.approx(2 * twin.variance, rel=1e-12)
    assert twin.exponent == noise.exponent


def test_matched_by_the_step_chaos_moves_3_11_times_as_far_in_500_steps() -> None:
    chaos = ChaoticNoise(0.6)
    ratio = chaos.displacement(500) / GaussianNoise.matched(chaos).displacement(500)
    assert ratio == pytest.approx(3.11, abs=0.005)


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: ColouredNoise(0.0), ValueError, r"time must lie in \(0, inf\), got 0.0"),
        (lambda: ColouredNoise(5.0, variance=-1.0), ValueError, "variance must lie in"),
        (
            lambda: GaussianNoise.matched(StableNoise(1.5), steps=10),
            TypeError,
            "has no root mean square displacement",
        ),
        (
            lambda: GaussianNoise.matched(ChaoticNoise(0.6), steps=0),
            ValueError,
            "steps must be an integer >= 1, got 0",
        ),
    ],
)
def test_a_wrong_argument_is_named(make: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        make()
