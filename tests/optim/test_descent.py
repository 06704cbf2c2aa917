"""MPGD as any torch optimizer: SGD without perturbation, closures, hooks, generators."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mpgd import MPGD
from tests.optim.descents import LOUD, PATHS, core, orbits, parameters
from tests.optim.workers import batch, hooked, run, same_bits, set_gradients, small_net, train


@pytest.mark.parametrize("foreach", [None, False, True])
@pytest.mark.parametrize("maximize", [False, True])
def test_without_perturbation_it_is_sgd(foreach: bool | None, maximize: bool) -> None:
    ours, theirs = small_net(), small_net()
    optimizer = MPGD(ours.parameters(), lr=0.1, foreach=foreach, maximize=maximize)
    other = torch.optim.SGD(theirs.parameters(), lr=0.1, foreach=foreach, maximize=maximize)
    for k in range(200):
        train(ours, optimizer, range(k, k + 1))
        train(theirs, other, range(k, k + 1))
        assert same_bits(list(ours.parameters()), list(theirs.parameters()))
    assert not optimizer.state
    assert not optimizer.state_dict()["state"]


@pytest.mark.parametrize("noise", ["chaotic", "gaussian", "stable"])
def test_the_loss_of_a_regression_falls(noise: str) -> None:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(64, 5, generator=generator)
    targets = inputs @ torch.randn(5, 3, generator=generator)
    model = small_net()
    optimizer = MPGD(model.parameters(), lr=0.1, mu=0.01, sigma=0.01, noise=noise)
    losses = []
    for _ in range(100):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert np.mean(losses[-10:]) < 0.3 * losses[0]


def test_a_closure_is_called_once_with_gradients_on_and_its_loss_returned() -> None:
    model, calls = small_net(), []
    optimizer = MPGD(model.parameters(), **LOUD)

    def closure() -> Tensor:
        optimizer.zero_grad()
        inputs, targets = batch(len(calls))
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        calls.append(loss)
        return loss

    with torch.no_grad():
        assert optimizer.step(closure) is calls[0]
    assert len(calls) == 1
    other = small_net()
    train(other, MPGD(other.parameters(), **LOUD), range(1))
    assert same_bits(list(model.parameters()), list(other.parameters()))
    assert optimizer.step() is None


@pytest.mark.parametrize("path", PATHS, ids=str)
def test_maximize_is_the_negative_gradient(path: dict[str, Any]) -> None:
    up = MPGD(parameters([(30,)]), **LOUD, **path, maximize=True)
    down = MPGD(parameters([(30,)]), **LOUD, **path)
    for k in range(5):
        for optimizer, sign in ((up, 1), (down, -1)):
            [p] = optimizer.param_groups[0]["params"]
            set_gradients([p], k)
            p.grad *= sign
            optimizer.step()
    assert same_bits(core(up), core(down))


def test_construction_and_steps_leave_the_global_generators_alone() -> None:
    np.random.seed(1)
    torch.manual_seed(1)
    random.seed(1)
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    for noise in ("chaotic", "gaussian", "stable"):
        run(MPGD(parameters([(30,)]), **LOUD, noise=noise, symmetric=True), 3)
    after = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    assert same_bits(before, after)


def test_hooks_run_and_can_be_removed() -> None:
    optimizer, seen = MPGD(parameters([3]), **LOUD), []
    handles = hooked(optimizer, seen)
    run(optimizer, 1)
    saved = optimizer.state_dict()
    assert saved.pop("extra") == 1
    optimizer.load_state_dict(saved)
    names = ["before step", "after step", "before state", "before load", "after load"]
    assert seen == names
    for handle in handles:
        handle.remove()
    run(optimizer, 1)
    optimizer.load_state_dict(optimizer.state_dict())
    assert seen == names
    assert not optimizer._optimizer_load_state_dict_pre_hooks  # ours do not pile up either
    assert not optimizer._optimizer_load_state_dict_post_hooks


def test_a_load_hook_may_replace_the_state_and_sees_the_loaded_one() -> None:
    source, optimizer = MPGD(parameters([30]), **LOUD), MPGD(parameters([30]), **LOUD)
    run(source, 4)
    wanted, seen = source.state_dict(), []
    optimizer.register_load_state_dict_pre_hook(lambda _, s: wanted)
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append(orbits(o)))
    optimizer.load_state_dict(MPGD(parameters([30]), **LOUD).state_dict())
    assert same_bits(orbits(optimizer), orbits(source))
    assert same_bits(seen[0], orbits(source))


def test_repr_shows_the_settings_and_zero_grad_zeroes() -> None:
    optimizer = MPGD(parameters([3]), **LOUD)
    text = repr(optimizer)
    assert text.startswith("MPGD (")
    for part in ("mu: 0.3", "sigma: 0.2", "gamma: 0.6", "beta: 0.5", "lr: 0.05", "seed: 0"):
        assert part in text
    run(optimizer, 1)
    [p] = optimizer.param_groups[0]["params"]
    optimizer.zero_grad(set_to_none=False)
    assert same_bits(p.grad, torch.zeros(3))
    optimizer.zero_grad()
    assert p.grad is None
