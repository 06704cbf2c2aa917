"""Sharding does not change the noise: by `jax.jit`, in `jax.shard_map` and in `jax.pmap`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from mpgd.jax import element_index, mpgd

ROWS, COLUMNS, STEPS = 8, 6, 20
OPTIMIZER = mpgd(0.1, mu=0.3, sigma=0.2, gamma=0.7, beta=0.5, seed=3)


@pytest.fixture(params=[AxisType.Auto, AxisType.Explicit], ids=str, scope="module")
def mesh(request: pytest.FixtureRequest) -> Mesh:
    """Return four devices in two rows."""
    assert jax.device_count() == 4, "XLA_FLAGS must ask for four devices, see conftest.py"
    return jax.make_mesh((2, 2), ("row", "column"), axis_types=(request.param,) * 2)


def parameters() -> Any:
    return jnp.linspace(-1.0, 1.0, ROWS * COLUMNS).reshape(ROWS, COLUMNS)


def advanced(x: Any, state: Any, index: Any = None) -> tuple[Any, Any]:
    updates, state = OPTIMIZER.update(0.5 * x, state, x, index=index)
    return optax.apply_updates(x, updates), state


def many(step: Any, x: Any, state: Any) -> tuple[Any, Any]:
    for _ in range(STEPS):
        x, state = step(x, state)
    return x, state


@pytest.fixture(scope="module")
def whole() -> tuple[Any, Any]:
    """Return parameters and state after some steps on one device."""
    x = parameters()
    return many(jax.jit(advanced), x, OPTIMIZER.init(x))


def agree(found: tuple[Any, Any], whole: tuple[Any, Any]) -> None:
    for name, words in whole[1].words.items():
        assert np.array_equal(found[1].words[name], words)
    np.testing.assert_allclose(found[0], whole[0], rtol=1e-5, atol=1e-6)


def test_jit_needs_nothing_and_the_state_lies_where_the_parameters_lie(
    mesh: Mesh, whole: tuple[Any, Any]
) -> None:
    sharding = NamedSharding(mesh, P("row", "column"))
    x = jax.device_put(parameters(), sharding)
    state = OPTIMIZER.init(x)
    found = many(jax.jit(advanced), x, state)
    for words in (*state.words.values(), *found[1].words.values()):
        assert words.sharding.is_equivalent_to(sharding, 2)
    agree(found, whole)


def test_shard_map_with_an_index(mesh: Mesh, whole: tuple[Any, Any]) -> None:
    spec = P("row", "column")
    x = jax.device_put(parameters(), NamedSharding(mesh, spec))
    state = OPTIMIZER.init(x)

    def step(x: Any, state: Any) -> Any:
        offset = [lax.axis_index(n) * s for n, s in zip(("row", "column"), x.shape, strict=True)]
        return advanced(x, state, element_index(x.shape, (ROWS, COLUMNS), offset))

    words = dict.fromkeys(state.words, spec)
    specs = spec, state._replace(count=P(), step=P(), keys=P(), words=words)
    blocks, unaware = (
        jax.shard_map(f, mesh=mesh, in_specs=specs, out_specs=specs) for f in (step, advanced)
    )
    agree(many(jax.jit(blocks), x, state), whole)
    with pytest.raises(AssertionError):  # without an index all blocks believe they are the first
        agree(many(jax.jit(unaware), x, state), whole)


def test_pmap_with_an_index(whole: tuple[Any, Any]) -> None:
    x = parameters()
    state = OPTIMIZER.init(x)

    def cut(a: Any) -> Any:
        return a.reshape(4, ROWS // 4, COLUMNS)

    def step(x: Any, state: Any) -> Any:
        offset = (lax.axis_index("device") * x.shape[0], 0)
        return advanced(x, state, element_index(x.shape, (ROWS, COLUMNS), offset))

    def each(a: Any) -> Any:
        return jnp.broadcast_to(a, (4, *a.shape))

    parts = jax.tree.map(each, state)._replace(words=jax.tree.map(cut, state.words))
    x, parts = many(jax.pmap(step, axis_name="device"), cut(x), parts)
    words = jax.tree.map(lambda a: a.reshape(ROWS, COLUMNS), parts.words)
    agree((x.reshape(ROWS, COLUMNS), parts._replace(words=words)), whole)
