"""A perturbed optimizer under bad gradients, hooks and the global generators."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mpgd import perturb
from tests.optim.workers import (
    ORBITS,
    hooked,
    run,
    same_bits,
    scaled_steps,
    set_gradients,
    small_net,
)
from tests.optim.wrapped import INNERS, LOUD, flat, vectors


@pytest.mark.parametrize("name", ["sgd", "adamw", "adagrad"])
def test_a_grad_scaler_skips_a_step_with_an_inf_gradient(name: str) -> None:
    model = small_net()
    optimizer = perturb(INNERS[name](model.parameters()), **LOUD)
    scaled_steps(model, optimizer)


@pytest.mark.parametrize("engine", ["torch", "numba"])
@pytest.mark.parametrize("name", ["sgd", "adamw", "adagrad"])
def test_nan_and_inf_gradients_leave_the_orbits_alone(name: str, engine: str) -> None:
    found = []
    for bad in (0.0, float("nan"), float("inf")):
        optimizer = perturb(INNERS[name](vectors()), engine=engine, **LOUD)
        for k in range(4):
            set_gradients(flat(optimizer), k)
            if k == 1:
                flat(optimizer)[0].grad[0, 0] += bad
            optimizer.step()
        state = optimizer.state_dict()["state"][0]
        orbits = [state[f"perturbation.{key}"].clone() for key in ORBITS[:2]]
        assert all(torch.isfinite(s).all() for s in orbits)
        found.append([orbits, int(state["perturbation.step"]), flat(optimizer)[0][1:].detach()])
    assert same_bits(found[1], found[0])
    assert same_bits(found[2], found[0])


def test_hooks_repr_and_zero_grad() -> None:
    optimizer, seen = perturb(INNERS["adamw"](vectors()), **LOUD), []
    handles = hooked(optimizer, seen)
    run(optimizer, 1)
    saved = optimizer.state_dict()
    assert saved.pop("extra") == 1
    optimizer.load_state_dict(saved)
    assert seen == ["before step", "after step", "before state", "before load", "after load"]
    for handle in handles:
        handle.remove()
    run(optimizer, 1)
    assert len(seen) == 5
    text = repr(optimizer)
    for part in (
        "Perturbed (",
        "perturbation.mu: 0.3",
        "perturbation.sigma: 0.2",
        "weight_decay: 0.1",
    ):
        assert part in text
    optimizer.zero_grad(set_to_none=False)
    assert all(not p.grad.any() for p in flat(optimizer))
    optimizer.zero_grad()
    assert all(p.grad is None for p in flat(optimizer))


def test_the_global_generators_are_left_alone() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    run(perturb(INNERS["adamw"]([nn.Parameter(torch.ones(3))]), **LOUD), 3)
    assert same_bits(torch.get_rng_state(), before)
