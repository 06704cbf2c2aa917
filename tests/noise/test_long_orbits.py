"""Many steps by the fused engine: nothing freezes, and no orbit is periodic."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mpgd import ChaoticNoise
from mpgd.noise import NoiseState, position, sign
from mpgd.noise.counter_hash import step_key_tensor
from mpgd.noise.word import LONGEST, MAGNITUDE

numba = pytest.importorskip("numba", reason="these need numba: pip install 'mpgd[fast]'")
fused = pytest.importorskip("mpgd.noise.engines.fused")

GAMMAS = [0.55, 0.6, 0.75, 0.95]


def advance(noise: ChaoticNoise, state: NoiseState, steps: int) -> NoiseState:
    """Return the state after many steps of the fused engine."""
    word, sums = state.word.clone(), torch.zeros(state.word.shape, dtype=torch.float64)
    first = int(state.step)
    keys = step_key_tensor(state.key, torch.arange(first, first + steps)).numpy().view(np.uint64)
    constants = fused.arguments(noise.driver)
    fused.advance_sums(fused.flat(word), sums.numpy(), steps, 0, keys, *constants)
    assert torch.isfinite(sums).all()
    return NoiseState(word, state.step + steps, state.key)


def test_many_steps_at_once_are_the_single_steps() -> None:
    noise = ChaoticNoise(0.6, 0.5)
    state = noise.init(100)
    following = state
    for _ in range(500):
        _, following = noise.step(following)
    assert torch.equal(advance(noise, state, 500).word, following.word)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_nothing_freezes(gamma: float) -> None:
    """2e4 orbits, 1e4 steps: all move, and long phases count down exactly."""
    noise, steps = ChaoticNoise(gamma), 10_000
    before = noise.init(20_000, seed=1)
    after = advance(noise, before, steps)
    n = position(before).floor()
    long = n >= steps
    assert torch.equal(position(after).floor()[long], n[long] - steps)
    assert torch.equal(sign(after)[long], sign(before)[long])
    _, following = noise.step(after)
    moved = (following.word & MAGNITUDE) != (after.word & MAGNITUDE)
    assert moved[position(after) >= 1].all()
    assert moved.sum() >= 20_000 - 5  # a visit may lead back to its own cell, of 2^18
    if gamma == 0.95:
        capped = n == LONGEST
        assert capped.sum() > 1000  # these starts are capped, and move like all others
        assert (position(after).floor()[capped] == LONGEST - steps).all()


@numba.njit
def recurrences(words, keys, table, threshold, product, largest, c0, c1):  # type: ignore[no-untyped-def]
    """Return how often an orbit meets the word it had at the last power of two (Brent)."""
    values, anchor, found, power = np.empty(len(words)), words.copy(), 0, 1
    for k in range(len(keys)):
        rule = (threshold, product, largest)
        fused.advance_values(words, values, 0, keys[k], table, *rule, c0, c1)
        for i in range(len(words)):
            found += words[i] == anchor[i]
        if k == power:
            anchor[:] = words
            power *= 2
    return found


def count_recurrences(steps: int, hash_has_the_step: bool) -> int:
    noise = ChaoticNoise(0.6)
    state = noise.init(24)
    clock = torch.arange(steps) if hash_has_the_step else torch.zeros(steps, dtype=torch.int64)
    keys = step_key_tensor(state.key, clock).numpy().view(np.uint64)
    return int(recurrences(fused.flat(state.word), keys, *fused.arguments(noise.driver)))


def test_no_orbit_is_periodic_within_1e7_steps() -> None:
    """A word comes back by chance, about once in 2^20 steps; with a frozen hash it cycles."""
    assert count_recurrences(10_000_000, hash_has_the_step=True) < 24 * 100
    assert count_recurrences(100_000, hash_has_the_step=False) > 24 * 10
