"""What one jitted update costs in JAX, beside optax SGD with two normal numbers per parameter.

Run it with `python -m benchmarks.jax_step` in the environment that `make jax` makes.
"""

from __future__ import annotations

from typing import Any, Final

import jax
import jax.numpy as jnp
import optax

import mpgd.jax
from benchmarks.timing import Case, Claim, Table, interleaved

SIZE, ROUNDS, BOUND = 1_000_000, 41, 1.0
LR, MU, SIGMA, GAMMA = 0.1, 0.01, 0.02, 0.6
SGD: Final = "SGD"
GAUSSIAN: Final = "SGD + two `jax.random.normal`"
MPGD: Final = "`mpgd.jax.mpgd`"
WRAPPED: Final = "`mpgd.jax.perturb(sgd)`"


def update(optimizer: Any) -> Case:
    """Return one jitted update of an optax transformation, in place."""

    def step(x: Any, state: Any, gradient: Any) -> tuple[Any, Any]:
        updates, state = optimizer.update(gradient, state, x)
        return optax.apply_updates(x, updates), state

    x = jnp.ones(SIZE)
    return repeated(step, x, optimizer.init(x))


def gaussian() -> Case:
    """Return SGD with Gaussian noises in the place of the chaotic ones."""
    sgd, scale = optax.sgd(LR), LR**GAMMA

    def step(x: Any, key: Any, gradient: Any) -> tuple[Any, Any]:
        key, first, second = jax.random.split(key, 3)
        v1, v2 = (jax.random.normal(k, x.shape) for k in (first, second))
        updates, _ = sgd.update(gradient, sgd.init(x), x)
        return optax.apply_updates(x, updates + scale * (SIGMA * v2 - MU * v1 * x)), key

    return repeated(step, jnp.ones(SIZE), jax.random.key(0))


def repeated(step: Any, x: Any, state: Any) -> Case:
    """Return a case that replaces x and state by those of the next step."""
    compiled = jax.jit(step, donate_argnums=(0, 1))
    run, gradient = [x, state], jnp.full(SIZE, 0.1)

    def once() -> None:
        run[:] = jax.block_until_ready(compiled(*run, gradient))

    return once


def table(rounds: int) -> Table:
    """Return the table of one update."""
    keywords = {"mu": MU, "sigma": SIGMA, "gamma": GAMMA, "beta": 0.5}
    times = interleaved(
        {
            SGD: update(optax.sgd(LR)),
            GAUSSIAN: gaussian(),
            MPGD: update(mpgd.jax.mpgd(LR, **keywords)),
            WRAPPED: update(mpgd.jax.perturb(optax.sgd(LR), LR, **keywords)),
        },
        rounds,
    )
    beside = times[GAUSSIAN]
    rows = [
        [
            name,
            f"{t.median * 1e9 / SIZE:.2f}",
            f"{t.best * 1e9 / SIZE:.2f}",
            f"{t.over(beside):.2f}",
        ]
        for name, t in times.items()
    ]
    return Table(
        title=f"One update in JAX {jax.__version__}, {jax.default_backend()}",
        columns=[f"{SIZE:.0e} float32 parameters, ns per parameter", "median", "best", "relative"],
        rows=rows,
        claims=[
            Claim(
                f"{name} / {GAUSSIAN}, at most 1", times[name].over(beside), BOUND, at_least=False
            )
            for name in (MPGD, WRAPPED)
        ],
    )


if __name__ == "__main__":
    print(table(ROUNDS).markdown())
