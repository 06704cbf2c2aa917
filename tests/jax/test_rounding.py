"""Stochastic rounding in JAX: the bits of torch, on one device and on shards."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import mpgd
from mpgd.jax import element_index, stochastic_round
from mpgd.jax import mpgd as descent

DTYPES = [(jnp.bfloat16, torch.bfloat16), (jnp.float16, torch.float16)]
STEPS, LR = 5, 2.0**-7  # a power of two: the gradient times it is exact in both


def numbers() -> Any:
    rng = np.random.default_rng(0)
    sizes = [rng.normal(size=300) * 10.0**k for k in range(-10, 5)]
    return np.concatenate([*sizes, [np.inf, -np.inf, 65504.0, 0.0, -0.0]]).astype(np.float32)


def same(ours: Any, theirs: torch.Tensor) -> bool:
    bits = theirs.detach().contiguous().view(torch.int16).numpy()
    return np.array_equal(np.asarray(ours).view(np.int16), bits)


@pytest.mark.parametrize(("ours", "theirs"), DTYPES, ids=["bfloat16", "float16"])
def test_the_bits_are_those_of_torch(ours: Any, theirs: torch.dtype) -> None:
    x = numbers()
    found = jax.jit(lambda x: stochastic_round(x, ours, seed=3, step=2, stream=1))(jnp.asarray(x))
    expected = mpgd.optim.stochastic_round(torch.from_numpy(x), theirs, seed=3, step=2, stream=1)
    assert same(found, expected)
    assert not same(jnp.asarray(x).astype(ours), expected)  # the check can fail


def test_a_block_with_its_index_is_rounded_as_in_the_whole() -> None:
    x = jnp.linspace(1.0, 2.0, 40).reshape(8, 5)
    whole = stochastic_round(x, jnp.bfloat16, seed=0, step=0)
    index = element_index((4, 5), (8, 5), (4, 0))
    block = stochastic_round(x[4:], jnp.bfloat16, seed=0, step=0, index=index)
    assert np.array_equal(block, whole[4:])


def beginning() -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    return rng.normal(size=(8, 6)), rng.normal(size=(STEPS, 8, 6))


def walked(dtype: Any, sharding: Any = None, rounding: str = "stochastic") -> Any:
    """Return the parameters after steps with given gradients."""
    start, gradients = beginning()
    x = jax.device_put(jnp.asarray(start, dtype), sharding)
    optimizer = descent(LR, seed=5, rounding=rounding)
    state = optimizer.init(x)

    @jax.jit
    def step(x: Any, state: Any, g: Any) -> Any:
        updates, state = optimizer.update(g, state, x)
        return optax.apply_updates(x, updates), state

    for g in gradients:
        x, state = step(x, state, jnp.asarray(g, dtype))
    return x


@pytest.mark.parametrize(("ours", "theirs"), DTYPES, ids=["bfloat16", "float16"])
def test_a_descent_ends_where_torchs_does(ours: Any, theirs: torch.dtype) -> None:
    start, gradients = beginning()
    p = torch.nn.Parameter(torch.from_numpy(start).float().to(theirs))
    optimizer = mpgd.MPGD([p], lr=LR, seed=5, rounding="stochastic", engine="torch")
    for g in gradients:
        p.grad = torch.from_numpy(g).float().to(theirs)
        optimizer.step()
    assert same(walked(ours), p)
    assert not same(walked(ours, rounding="nearest"), p)


def test_the_bits_do_not_depend_on_sharding() -> None:
    mesh = jax.make_mesh((2, 2), ("row", "column"), axis_types=(AxisType.Auto,) * 2)
    found = walked(jnp.bfloat16, NamedSharding(mesh, P("row", "column")))
    assert np.array_equal(np.asarray(found), np.asarray(walked(jnp.bfloat16)))


def test_small_steps_add_up() -> None:
    """A thousand steps of 1e-4 move a weight of 1 by 0.1; to nearest, it stays there."""
    ends = {}
    for rounding in ("nearest", "stochastic"):
        optimizer = descent(1e-4, rounding=rounding)
        x = jnp.ones(400, jnp.bfloat16)

        def one(_: Any, carried: Any, optimizer: Any = optimizer) -> Any:
            x, state = carried
            updates, state = optimizer.update(jnp.ones_like(x), state, x)
            return optax.apply_updates(x, updates), state

        x, _ = jax.lax.fori_loop(0, 1000, one, (x, optimizer.init(x)))
        ends[rounding] = float(x.astype(jnp.float32).mean())
    assert ends["nearest"] == 1.0
    assert abs(ends["stochastic"] - 0.9) < 0.01


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(TypeError, match="x must be a float32 array, got bfloat16"):
        stochastic_round(jnp.ones(2, jnp.bfloat16), jnp.float16, seed=0, step=0)
    with pytest.raises(ValueError, match="dtype must be bfloat16 or float16, got float32"):
        stochastic_round(jnp.ones(2), jnp.float32, seed=0, step=0)
    with pytest.raises(ValueError, match=r"rounding must be one of .* got 'up'"):
        descent(0.1, rounding="up")
