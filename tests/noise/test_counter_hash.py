"""The counter hash: one function in two languages, with no visible structure."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import kstest, norm

from mpgd.noise.counter_hash import (
    MASK,
    flat_index,
    hash_elements,
    make_key,
    mix,
    signed,
    step_key,
    step_key_tensor,
    uniform,
)
from tests.conftest import LEVEL

EDGES = [0, 1, 2, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
USED = range(12, 64)
SEEDS = [0, 1, 2, 3, 1000, 1001, *(2**i for i in range(2, 63)), 2**63 - 1]


def uniforms(seed: int, count: int) -> np.ndarray:
    """Return the uniforms of one seed, as a noise would draw them at step 0."""
    key = step_key(make_key(seed, 0, 0), 0)
    return uniform(hash_elements(torch.arange(count), key)).numpy()


def test_signed_keeps_the_bits() -> None:
    for x in EDGES:
        assert signed(x) & MASK == x
        assert -(2**63) <= signed(x) < 2**63


def test_step_key_is_the_same_for_integers_and_tensors() -> None:
    for key in map(signed, EDGES):
        for step in (0, 1, 2, 1000, 2**31, 2**40, 2**62):
            tensors = torch.tensor(key), torch.tensor(step)
            assert int(step_key_tensor(*tensors)) == step_key(key, step)


def test_step_key_of_many_steps_at_once() -> None:
    steps = torch.arange(500)
    expected = [step_key(-5, k) for k in range(500)]
    assert step_key_tensor(torch.tensor(-5), steps).tolist() == expected
    assert len(set(expected)) == 500


def test_mix_is_a_bijection_and_of_64_bits() -> None:
    x = list(range(3000)) + [i << 40 for i in range(3000)]
    images = {mix(value) for value in x}
    assert len(images) == len(set(x))
    assert all(0 <= image <= MASK for image in images)
    assert mix(2**64 + 5) == mix(5)  # only 64 bits count


def test_a_changed_bit_changes_half_of_the_bits() -> None:
    """Avalanche: every output bit of mix flips for 40 to 60 % of inputs, whichever bit flips."""
    inputs = [mix(k) for k in range(1, 1001)]
    for bit in range(64):
        flips = [mix(x) ^ mix(x ^ (1 << bit)) for x in inputs]
        share = np.array([[(f >> place) & 1 for place in range(64)] for f in flips]).mean(axis=0)
        assert share.min() > 0.4
        assert share.max() < 0.6


@pytest.mark.parametrize("what", ["index", "key", "salt"])
def test_a_changed_bit_changes_half_of_the_bits_of_an_element(what: str) -> None:
    arguments = {
        "index": torch.arange(4096),
        "key": torch.tensor(make_key(1)),
        "salt": torch.full((4096,), 0x3FD3333333333333),
    }
    before = hash_elements(**arguments)
    for bit in range(22 if what == "index" else 62):
        flips = before ^ hash_elements(**(arguments | {what: arguments[what] ^ (1 << bit)}))
        share = torch.stack([(flips >> place) & 1 for place in USED]).double().mean(dim=1)
        assert share.min() > 0.4
        assert share.max() < 0.6


def test_uniforms_lie_inside_the_open_interval() -> None:
    extremes = uniform(torch.tensor([0, -1, 2**63 - 1, -(2**63), 4095]))
    assert extremes.min() == 2.0**-53
    assert extremes.max() == 1 - 2.0**-53
    assert extremes[2] < 0.5 < extremes[3]  # the upper bits count as unsigned


def test_uniforms_are_uniform() -> None:
    u = uniforms(0, 200_000)
    assert kstest(u, "uniform").pvalue > LEVEL
    assert kstest(u**1.02, "uniform").pvalue < LEVEL  # the check can fail


def test_seeds_are_uncorrelated_neighbours_and_powers_of_two_too() -> None:
    """All pairs of 69 seeds and shifts by one element; sqrt(n) r is normal. Bonferroni."""
    count = 20_000
    rows = np.stack([uniforms(seed, count) for seed in SEEDS]) - 0.5
    rows /= np.sqrt((rows**2).sum(axis=1, keepdims=True))
    pairs = (rows @ rows.T)[np.triu_indices(len(rows), 1)]
    shifted = (rows[:, 1:] @ rows[:, :-1].T).ravel()  # seed a's element i + 1 with seed b's i
    r = np.concatenate([pairs, shifted])
    p = 2 * norm.sf(np.sqrt(count) * np.abs(r).max()) * len(r)
    assert p > LEVEL
    twin = rows[0] @ (rows[0] + 0.1 * rows[1])  # one tenth shared would show
    assert 2 * norm.sf(np.sqrt(count) * 0.1 * twin) * len(r) < LEVEL


def test_keys_of_nearby_tuples_are_distinct_and_order_matters() -> None:
    tuples = [(seed, t, d) for seed in SEEDS for t in range(5) for d in range(5)]
    assert len({make_key(*parts) for parts in tuples}) == len(tuples)
    assert make_key(1, 0, 0) != make_key(0, 1, 0) != make_key(0, 0, 1)
    assert make_key(0) != make_key(0, 0)


@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3), (2, 0, 3)])
def test_flat_index_counts_in_row_order(shape: tuple[int, ...]) -> None:
    index = flat_index(shape)
    assert index.shape == torch.Size(shape)
    assert index.dtype == torch.int64
    assert index.reshape(-1).tolist() == list(range(index.numel()))
