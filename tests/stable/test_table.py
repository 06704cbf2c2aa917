"""The table of quantiles: its error, its tails, and the same bits from every engine."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from mpgd import StableNoise
from mpgd.noise.counter_hash import flat_index, hash_elements, step_key_tensor
from mpgd.stable import StableLaw, sampling
from mpgd.stable.sampling import draw_quantiles, quantile_rows
from mpgd.stable.standard import quantile

Array = NDArray[np.float64]

FINGERPRINTS = [
    (0.5, 0.5, "45022d79fd4667dd"),
    (1.0, 0.5, "40b5b9894d3012b7"),
    (1.5, 0.5, "4dbd68d78f742f3f"),
    (2.0, 0.0, "cc32c6f5a035b16c"),
]
ERRORS = [
    (0.25, 0.5, 5e-5),
    (0.4, 0.5, 5e-6),
    (0.5, 1.0, 1e-7),
    (0.8, -0.7, 5e-7),
    (1.0, 0.5, 1e-7),
    (1.01, 1.0, 5e-6),
    (1.1, 0.5, 5e-7),
    (1.5, -1.0, 6e-8),
    (2.0, 0.0, 6e-8),
]


@pytest.mark.parametrize(("alpha", "beta", "bound"), ERRORS)
def test_table_is_the_quantile_function(alpha: float, beta: float, bound: float) -> None:
    """At u from 2^-50 to 1, evenly in log u, relative to max(|x|, 0.1)."""
    rng = np.random.default_rng(0)
    U = np.exp2(rng.uniform(0.0, 50.0, 4000)).astype(np.uint64) | np.uint64(1)
    side = rng.integers(0, 2, 4000).astype(np.uint64)
    x = draw_quantiles(quantile_rows(alpha, beta), (side << np.uint64(63)) | (U << np.uint64(13)))
    p = U.astype(np.float64) / 2.0**51
    low, high = (quantile(*ends, alpha, beta) for ends in ((p, 1.0 - p), (1.0 - p, p)))
    exact = np.where(side == 1, low, high)
    assert (np.abs(x - exact) / np.maximum(np.abs(exact), 0.1)).max() < bound


@pytest.mark.parametrize(("alpha", "beta"), [(0.5, 0.5), (1.0, 0.5), (1.5, 0.5)])
def test_last_bits_of_quantiles_do_not_reach_the_table(
    alpha: float, beta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes of a few units in the last place, as another CPU makes them; the twin: of 1e-9."""
    rows, rng = quantile_rows(alpha, beta), np.random.default_rng(1)

    def moved(size: float) -> NDArray[np.int64]:
        def noisy(*arguments: Any) -> Array:
            exact = quantile(*arguments)
            return exact * (1.0 + size * rng.uniform(-1.0, 1.0, exact.shape))

        monkeypatch.setattr(sampling, "quantile", noisy)
        return np.asarray(quantile_rows.__wrapped__(alpha, beta))

    np.testing.assert_array_equal(moved(1e-15), rows)
    assert not np.array_equal(moved(1e-9), rows)


@pytest.mark.parametrize(("alpha", "beta", "expected"), FINGERPRINTS)
def test_tables_are_those_of_the_first_machine(alpha: float, beta: float, expected: str) -> None:
    assert hashlib.sha256(quantile_rows(alpha, beta).tobytes()).hexdigest()[:16] == expected


@pytest.mark.parametrize(("alpha", "beta"), [(0.3, 0.2), (1.0, 0.5), (1.2, 0.5), (1.7, -0.4)])
def test_tail_constant_of_the_table(alpha: float, beta: float) -> None:
    """u^(1/alpha) x at the smallest u, against P(X > x) ~ C (1 + beta) x^-alpha."""
    constant = math.gamma(alpha) * math.sin(0.5 * math.pi * alpha) / math.pi
    bits = np.array([1 << (13 + 4), (1 << 63) | (1 << (13 + 4))], np.uint64)
    x = draw_quantiles(quantile_rows(alpha, beta), bits)
    tail = (2.0**4 + 1.0) / 2.0**51 * np.abs(x) ** alpha
    np.testing.assert_allclose(tail, constant * np.array([1.0 + beta, 1.0 - beta]), rtol=1e-6)


@pytest.mark.parametrize(
    ("alpha", "beta"), [(0.25, -0.5), (1.004, 0.7), (1.5, 0.5), (1.9, -1.0), (2.0, 0.0)]
)
def test_engines_have_the_same_bits(alpha: float, beta: float) -> None:
    """The C kernel, torch's operations and numpy, over lengths that are no multiple of a block."""
    noise, count = StableNoise(alpha, beta), 1531
    state = noise.init(count, seed=7)
    value, _ = noise.step(state)
    index, key = flat_index((count,), torch.device("cpu")), step_key_tensor(state.key, state.step)
    assert torch.equal(value, noise.draw(index, key))
    h = hash_elements(index, key).numpy().view(np.uint64)
    shift = abs(alpha - 1.0) < 0.01
    law = quantile_rows(alpha, beta, beta * math.tan(math.pi * alpha / 2) if shift else 0.0)
    np.testing.assert_allclose(draw_quantiles(law, h), value.numpy(), rtol=0 if not shift else 1e-6)
    assert not torch.equal(value, StableNoise(alpha, 0.3).step(state)[0]) or alpha == 2.0


def test_float32_values_are_the_rounded_float64_ones() -> None:
    from mpgd.noise.engines import cpu
    from mpgd.noise.memoryless import stable_driver

    driver, wide = stable_driver(1.5, 0.5), torch.empty(700, dtype=torch.float64)
    narrow = torch.empty(700, dtype=torch.float32)
    for out in (wide, narrow):
        cpu.advance(driver, None, out, 5)
    assert torch.equal(narrow, wide.float())


def test_draws_near_one_are_of_the_law() -> None:
    law = StableLaw(1.0 + 1e-12, 0.9, parametrization="S0")
    u = np.sort(law.cdf(law.rvs(20_000, random_state=0)))
    distance = np.abs(u - (np.arange(20_000) + 0.5) / 20_000).max()
    assert distance < 2.2 / math.sqrt(20_000)  # chance below 1e-4
    assert abs(law.cdf(law.rvs(20_000, random_state=0) + 0.1).mean() - 0.5) > 0.01
