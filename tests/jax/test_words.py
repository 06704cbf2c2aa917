"""The words are those of the numpy reference and of torch in every bit, with x64 and without.

10^5 elements x 1,000 steps were run once; here are fewer.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from mpgd import ChaoticNoise, TelegraphNoise
from mpgd.jax import mpgd as mpgd_transformation
from mpgd.jax import noise, pairs
from mpgd.jax import words as orbits
from mpgd.noise import PhaseNoise
from mpgd.noise import counter_hash as counter
from mpgd.noise.driver import make_driver
from mpgd.noise.word import FRACTION, LONG, MAGNITUDE, ONE
from tests.jax import expected
from tests.noise.integer_reference import Reference

GAMMAS = [0.52, 0.6, 0.75, 0.9, 0.99]
RULES = [(0.5, "fresh"), (-0.3, "product")]
SEED = 2**40 + 7  # needs more than 32 bits
LARGE = [0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1, counter.MULTIPLIER, counter.STRIDE]


def number(x: pairs.Pair) -> int:
    return (int(x[0]) << 32) | int(x[1])


@pytest.mark.parametrize("y", LARGE)
@pytest.mark.parametrize("x", LARGE)
def test_pairs_calculate_modulo_2_to_64(x: int, y: int) -> None:
    a, b = pairs.pair(x), pairs.pair(y)
    assert number(pairs.multiply(a, b)) == x * y % 2**64
    assert number(pairs.upper_pair(a, b)) == x * y >> 64
    assert number(pairs.add(a, b)) == (x + y) % 2**64
    assert number(pairs.subtract(a, b)) == (x - y) % 2**64


@pytest.mark.parametrize("by", [0, 1, 31, 32, 33, 63])
def test_pairs_are_shifted_by_any_number_of_places(by: int) -> None:
    for x in LARGE:
        assert number(orbits.shifted_right(pairs.pair(x), jnp.uint32(by))) == x >> by


@pytest.mark.parametrize("parts", [(0, 0, 0), (SEED, 3, 2), (2**63 - 1, 2**40, 1)])
def test_keys_are_torch_keys(parts: tuple[int, ...]) -> None:
    key = counter.make_key(*parts)
    assert number(pairs.make_key(*parts)) == key % 2**64
    for step in (0, 1, 2**32 - 1):
        found = pairs.step_key(pairs.pair(key % 2**64), jnp.uint32(step))
        assert number(found) == counter.step_key(key, step) % 2**64


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize(("beta", "signs"), RULES)
@pytest.mark.parametrize("gamma", GAMMAS)
def test_words_and_values_are_the_references_and_torchs(
    gamma: float, beta: float, signs: str, x64: bool
) -> None:
    torchs = ChaoticNoise(gamma, beta, signs=signs)
    theirs = torchs.init((500, 4), seed=SEED, tensor_id=2, driver_id=1)
    reference = expected.orbits(Reference(gamma, beta, signs), (500, 4), SEED, 2, 1)
    with jax.enable_x64(x64):
        source = noise(gamma, beta, signs=signs)
        state = source.init((500, 4), SEED, tensor_id=2, driver_id=1)
        step = jax.jit(source.step)
        for _ in range(150):
            assert np.array_equal(np.asarray(state.word), theirs.word.numpy())
            assert np.array_equal(np.asarray(state.word).view(np.uint32).ravel(), reference.words)
            v, state = step(state)
            w, theirs = torchs.step(theirs, dtype=torch.float32)
            assert v.dtype == jnp.float32
            assert np.array_equal(np.asarray(v), w.numpy())
            assert np.array_equal(np.asarray(v), reference.step().astype(np.float32))


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("longest", [1, 3, 100, 4095, 4096, 2**30 + 4095])
def test_words_and_values_with_a_longest_phase_are_the_references(longest: int, x64: bool) -> None:
    reference = expected.orbits(Reference(0.7, 0.5, longest=longest), (400,), SEED, 2, 1)
    with jax.enable_x64(x64):
        source = noise(0.7, 0.5, longest=longest)
        state = source.init(400, SEED, tensor_id=2, driver_id=1)
        first, step = state.word, jax.jit(source.step)
        for _ in range(40):
            assert np.array_equal(np.asarray(state.word).view(np.uint32), reference.words)
            v, state = step(state)
            assert np.array_equal(np.asarray(v), reference.step().astype(np.float32))
    free = noise(0.7, 0.5).init(400, SEED, tensor_id=2, driver_id=1)
    assert longest >= 4095 or not np.array_equal(free.word, first)  # the check can fail


def test_a_positive_first_sign_is_torchs() -> None:
    theirs = ChaoticNoise(0.6, -0.5, first_sign="positive").init(1000, seed=3)
    state = noise(0.6, -0.5, first_sign="positive").init(1000, seed=3)
    assert np.array_equal(np.asarray(state.word), theirs.word.numpy())
    assert (state.word >= 0).all()
    assert (noise(0.6, -0.5).init(1000, seed=3).word < 0).any()  # the check can fail


@pytest.mark.parametrize("signs", ["fresh", "product"])
@pytest.mark.parametrize("beta", [-1.0, 0.2, 1.0])
def test_every_kind_of_word_steps_like_the_reference(beta: float, signs: str) -> None:
    """Long phases, their ends, unknown fractions and both ends of Z, which orbits seldom show."""
    kinds = [0, 1, 2, FRACTION - 1, FRACTION, ONE, ONE + 1, LONG - ONE, LONG, LONG + 1, MAGNITUDE]
    words = np.array([k | sign for k in kinds for sign in (0, 2**31)] * 50, dtype=np.uint32)
    index, key = np.arange(len(words)), counter.make_key(5)
    _, following = Reference(0.9, beta, signs).step(words, index, key)
    found = orbits.advance(
        make_driver(0.9, beta, signs),
        jnp.asarray(words).view(jnp.int32),
        pairs.pair(key % 2**64),
        jnp.asarray(index, jnp.uint32),
        jnp.asarray(True),
    )
    assert np.array_equal(np.asarray(found).view(np.uint32), following)


@pytest.mark.parametrize("stream", [None, 0, 2**64 - 1, "generator"])
def test_a_stream_is_torchs(stream: int | str | None) -> None:
    """The seed of a stream, and the words of an optimizer that has one."""
    seed = counter.seed_of(SEED, stream)
    if stream is not None:
        assert number(pairs.seed_of(SEED, stream)) == seed  # type: ignore[arg-type]
    state = mpgd_transformation(
        0.1, sigma=0.2, seed=SEED if stream is None else (SEED, stream)
    ).init(jnp.ones(50))
    expected_words = ChaoticNoise(0.6).init(50, seed, driver_id=1).word
    assert np.array_equal(np.asarray(state.words["additive"]), expected_words.numpy())


@pytest.mark.parametrize(
    "source",
    [
        TelegraphNoise(5),
        TelegraphNoise(20, longest=6),
        PhaseNoise([1.0, 0.9, 0.5, 0.5, 0.1]),
        PhaseNoise(lambda n: n**-1.5),
        ChaoticNoise(0.6, burst=False),
    ],
    ids=repr,
)
def test_words_and_values_of_other_phases_are_torchs(source: ChaoticNoise) -> None:
    mine, theirs = noise(source), source.init(900, seed=SEED)
    state, step = mine.init(900, seed=SEED), jax.jit(mine.step)
    for _ in range(50):
        assert np.array_equal(state.word, theirs.word.numpy())
        v, state = step(state)
        w, theirs = source.step(theirs, dtype=torch.float32)
        assert np.array_equal(v, w.numpy())
