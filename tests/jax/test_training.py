"""A small net trained by JAX follows the same net trained by torch."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch
from torch import Tensor

from mpgd import ChaoticNoise
from mpgd.jax import mpgd

LR, MU, SIGMA, GAMMA, BETA, SEED, STEPS = 0.05, 0.02, 0.02, 0.6, 0.5, 7, 100
KEYWORDS: dict[str, Any] = {"mu": MU, "sigma": SIGMA, "gamma": GAMMA, "beta": BETA, "seed": SEED}


def problem() -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Return inputs, targets, and the weights of a net with one hidden layer, all float32."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(64, 5)).astype(np.float32)
    y = np.sin(x.sum(axis=1, keepdims=True)).astype(np.float32)
    shapes = [(5, 16), (16,), (16, 1), (1,)]
    return x, y, [(0.5 * rng.normal(size=shape)).astype(np.float32) for shape in shapes]


def jax_losses() -> np.ndarray:
    x, y, weights = problem()
    optimizer = mpgd(LR, **KEYWORDS)

    def loss(p: list[Any]) -> Any:
        return jnp.mean((jnp.tanh(x @ p[0] + p[1]) @ p[2] + p[3] - y) ** 2)

    def step(carry: Any, _: None) -> tuple[Any, Any]:
        params, state = carry
        value, gradients = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(gradients, state, params)
        return (optax.apply_updates(params, updates), state), value

    params = [jnp.asarray(w) for w in weights]
    return np.asarray(jax.lax.scan(step, (params, optimizer.init(params)), None, STEPS)[1])


class WrittenOut:
    """The update of `MPGD` from `ChaoticNoise`, in the operations that the formula shows."""

    def __init__(self, params: list[Tensor], sigma: float = SIGMA) -> None:
        self.params, self.sigma = params, sigma
        self.noise = ChaoticNoise(GAMMA, BETA)
        self.states = [
            [self.noise.init(p.shape, SEED, tensor_id=i, driver_id=d) for d in (0, 1)]
            for i, p in enumerate(params)
        ]

    @torch.no_grad()
    def step(self) -> None:
        """Update all parameters in place."""
        for p, states in zip(self.params, self.states, strict=True):
            v = []
            for number in (0, 1):
                value, states[number] = self.noise.step(states[number])
                v.append(value)
            m, n = ((s * LR**GAMMA * w).float() for s, w in zip((MU, self.sigma), v, strict=True))
            p.copy_(((p - LR * p.grad) - m * p) + n)


def torch_losses(make: Any) -> np.ndarray:
    x, y, weights = problem()
    inputs, targets = torch.tensor(x), torch.tensor(y)
    params = [torch.nn.Parameter(torch.tensor(w)) for w in weights]
    optimizer, losses = make(params), []
    for _ in range(STEPS):
        for p in params:
            p.grad = None
        hidden = torch.tanh(inputs @ params[0] + params[1])
        loss = torch.mean((hidden @ params[2] + params[3] - targets) ** 2)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


def test_the_loss_curve_is_that_of_the_formula_in_torch() -> None:
    found = jax_losses()
    np.testing.assert_allclose(found, torch_losses(WrittenOut), atol=1e-5)
    other = torch_losses(lambda p: WrittenOut(p, sigma=1.1 * SIGMA))
    assert np.abs(found - other).max() > 1e-4  # the check can fail


def test_the_loss_curve_is_that_of_mpgd_in_torch() -> None:
    from mpgd import MPGD

    theirs = torch_losses(lambda params: MPGD(params, lr=LR, **KEYWORDS))
    np.testing.assert_allclose(jax_losses(), theirs, atol=1e-5)
