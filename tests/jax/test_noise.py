"""`mpgd.jax.noise` as a citizen of JAX: vmap, scan, blocks, counting, and wrong arguments."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mpgd.jax import element_index, noise

SOURCE = noise(0.7, 0.5)


def path(source: Any, state: Any, steps: int) -> np.ndarray:
    return np.asarray(jax.lax.scan(lambda s, _: source.step(s)[::-1], state, None, steps)[1])


def test_a_scan_takes_the_same_steps_as_a_loop() -> None:
    state = start = SOURCE.init((20, 3), seed=4)
    step, values = jax.jit(SOURCE.step), []
    for _ in range(30):
        v, state = step(state)
        values.append(v)
    assert np.array_equal(path(SOURCE, start, 30), np.stack(values))
    assert int(state.step) == 30


def test_vmap_goes_over_seeds() -> None:
    seeds = jnp.arange(5, 9)
    states = jax.vmap(lambda seed: SOURCE.init((40,), seed))(seeds)
    for k, seed in enumerate(seeds.tolist()):
        alone = SOURCE.init((40,), seed)
        assert np.array_equal(states.word[k], alone.word)
        one = jax.tree.map(lambda x, k=k: x[k], states)
        assert np.array_equal(path(SOURCE, one, 50), path(SOURCE, alone, 50))
    together = jax.vmap(lambda s: jax.lax.scan(lambda s, _: SOURCE.step(s)[::-1], s, None, 50)[1])
    assert np.array_equal(together(states)[2], path(SOURCE, SOURCE.init((40,), 7), 50))


def test_a_seed_may_be_an_array_of_64_bits() -> None:
    with jax.enable_x64(True):
        found = SOURCE.init((9,), jnp.asarray(2**40 + 1)).word
    assert np.array_equal(found, SOURCE.init((9,), 2**40 + 1).word)
    assert not np.array_equal(found, SOURCE.init((9,), 1).word)


def test_a_block_has_the_noise_of_its_place_in_the_whole() -> None:
    whole = SOURCE.init((6, 5), seed=1)
    index = element_index((2, 3), within=(6, 5), offset=(3, 2))
    block = SOURCE.init((2, 3), seed=1, index=index)
    for _ in range(40):
        assert np.array_equal(block.word, whole.word[3:5, 2:5])
        _, whole = SOURCE.step(whole)
        _, block = SOURCE.step(block, index=index)


def test_an_array_gives_its_shape_and_others_are_independent() -> None:
    state = SOURCE.init(jnp.zeros((3, 2)), seed=1)
    assert state.word.shape == (3, 2)
    assert state.word.dtype == jnp.int32
    for other in ({"seed": 2}, {"seed": 1, "tensor_id": 1}, {"seed": 1, "driver_id": 1}):
        assert not np.array_equal(SOURCE.init((3, 2), **other).word, state.word)


@pytest.mark.parametrize("shape", [(), (0,), (1, 0, 2)])
def test_scalars_and_empty_arrays_step(shape: tuple[int, ...]) -> None:
    v, state = SOURCE.step(SOURCE.init(shape))
    assert v.shape == state.word.shape == shape


def test_the_count_ends_and_orbits_stand_still() -> None:
    state = SOURCE.init(50)._replace(step=jnp.uint32(2**32 - 2))
    _, last = SOURCE.step(state)
    _, after = SOURCE.step(last)
    assert int(last.step) == int(after.step) == 2**32 - 1
    assert np.array_equal(after.word, last.word)
    assert not np.array_equal(state.word, last.word)


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: noise(0.5), ValueError, r"gamma must lie in \(0.5, 0.99\], got 0.5"),
        (lambda: noise(0.6, 2), ValueError, r"beta must lie in \[-1, 1\], got 2"),
        (lambda: noise(0.6, signs="old"), ValueError, "signs must be one of 'fresh', 'product'"),
        (lambda: noise(0.6, first_sign="-"), ValueError, "first_sign must be one of 'drawn'"),
        (lambda: noise(0.6, longest=0), ValueError, "longest must be an integer in .*, got 0"),
        (lambda: SOURCE.init(3, seed=-1), ValueError, "seed must be an integer in .*, got -1"),
        (lambda: SOURCE.init(3, seed=1.5), TypeError, "seed must be an integer in"),
        (lambda: SOURCE.init(3, seed=jnp.arange(2)), TypeError, "go over many seeds with jax.vmap"),
        (lambda: SOURCE.init(3, tensor_id=-1), ValueError, "tensor_id must be an integer >= 0"),
        (lambda: SOURCE.init((-1,)), ValueError, "shape must be an integer >= 0, got -1"),
        (lambda: element_index((2, 2), (4,)), ValueError, "must have one number per axis"),
        (lambda: element_index((2,), (2**33,)), ValueError, "at most 2.32 elements .*; split it"),
    ],
)
def test_a_wrong_argument_is_named(make: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        make()
