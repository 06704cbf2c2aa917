"""A run that was saved and read again goes on as if nothing had happened, in every bit."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
import pytest

from mpgd.jax import noise, perturb

OPTIMIZER = perturb(
    optax.adam(0.01),
    0.01,
    mu=0.3,
    sigma=0.2,
    noise=(noise(0.6, shared=True), noise(0.6)),
    symmetric=True,
    seed=5,
)


def by_pickle(run: Any, folder: Path) -> Any:
    (folder / "run.pickle").write_bytes(pickle.dumps(run))
    return pickle.loads((folder / "run.pickle").read_bytes())


def by_orbax(run: Any, folder: Path) -> Any:
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(folder / "run", run)
        checkpointer.wait_until_finished()
        return checkpointer.restore(folder / "run", jax.tree.map(jnp.zeros_like, run))


@jax.jit
def step(params: Any, state: Any) -> tuple[Any, Any]:
    updates, state = OPTIMIZER.update(jax.tree.map(jnp.sin, params), state, params)
    return optax.apply_updates(params, updates), state


def same(a: Any, b: Any) -> bool:
    return all(jax.tree.leaves(jax.tree.map(np.array_equal, a, b)))


@pytest.mark.parametrize("through", [by_pickle, by_orbax])
def test_a_run_resumes(through: Callable[[Any, Path], Any], tmp_path: Path) -> None:
    params = {"a": jnp.linspace(0.0, 1.0, 300), "b": jnp.ones((4, 5))}
    run = params, OPTIMIZER.init(params)
    for _ in range(10):
        run = step(*run)
    saved = through(run, tmp_path)
    assert same(saved, run)
    for _ in range(10):
        run, saved = step(*run), step(*saved)
        assert same(saved, run)
    assert int(saved[1].perturbation.step) == 20


def test_the_state_of_a_noise_resumes() -> None:
    source = noise(0.7)
    _, state = source.step(source.init(100, seed=2))
    copy = pickle.loads(pickle.dumps(state))
    assert same(source.step(copy), source.step(state))
