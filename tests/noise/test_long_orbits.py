"""Many steps by the CPU engine: nothing freezes, and no orbit is periodic."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from mpgd import ChaoticNoise
from mpgd.noise import NoiseState, position, sign
from mpgd.noise.counter_hash import STRIDE
from mpgd.noise.engines import cpu
from mpgd.noise.word import LONGEST, MAGNITUDE

GAMMAS = [0.55, 0.6, 0.75, 0.95]

pytestmark = pytest.mark.skipif(not cpu.is_available(), reason="needs kernels, a C compiler")


def advance(noise: ChaoticNoise, state: NoiseState, steps: int) -> NoiseState:
    """Return the state after many steps."""
    word, sums = state.word.clone(), torch.zeros(state.word.shape, dtype=torch.float64)
    cpu.advance(noise.driver, word, sums, int(state.key), int(state.step), steps, adds=True)
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


def history(
    noise: ChaoticNoise, words: NDArray[np.int32], key: int, clock: NDArray[np.uint64]
) -> NDArray[np.int32]:
    """Return the words before and after every step of ``clock``, (time, orbit).

    Each step is a stream of its own, which reads the words that the last one wrote. The key of step
    k is a function of key + k STRIDE.
    """
    seen = np.empty((len(clock) + 1, len(words)), np.int32)
    seen[0] = words
    out = torch.empty(len(words), dtype=torch.float32)
    streams = np.zeros((len(clock), 6), np.int64)
    streams[:, 0] = seen.ctypes.data + seen.strides[0] * np.arange(len(clock))
    streams[:, 1], streams[:, 2] = streams[:, 0] + seen.strides[0], out.data_ptr()
    streams[:, 3], streams[:, 5] = len(words), (clock * np.uint64(STRIDE)).view(np.int64) + key
    cpu._run_values(noise.driver, streams, out, 0, 1, 0, False)
    return seen


def test_a_history_is_made_of_single_steps() -> None:
    noise = ChaoticNoise(0.6)
    state = noise.init(24)
    seen = history(noise, state.word.numpy(), int(state.key), np.arange(50, dtype=np.uint64))
    for k in range(51):
        assert np.array_equal(seen[k], state.word.numpy())
        _, state = noise.step(state)


def count_recurrences(steps: int, hash_has_the_step: bool) -> int:
    """Return how often an orbit meets the word it had at the last power of two (Brent)."""
    noise, chunk, found = ChaoticNoise(0.6), 8192, 0
    state = noise.init(24)
    words = anchor = state.word.numpy()
    for first in range(0, steps, chunk):  # powers of two from 2^13 on are the ends of chunks
        clock = np.arange(first, first + chunk, dtype=np.uint64)
        seen = history(noise, words, int(state.key), clock if hash_has_the_step else 0 * clock)
        found += int((seen[1:] == anchor).sum())
        words = seen[-1].copy()
        if (first + chunk).bit_count() == 1:
            anchor = words
    return found


def test_no_orbit_is_periodic_within_1e7_steps() -> None:
    """A word comes back by chance, about once in 2^20 steps; with a frozen hash it cycles."""
    assert count_recurrences(10_000_000, hash_has_the_step=True) < 24 * 100
    assert count_recurrences(100_000, hash_has_the_step=False) > 24 * 10
