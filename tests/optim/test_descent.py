"""MPGD is torch's SGD with a perturbation in front: its bits without one, hooks, generators."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from mpgd import MPGD, GaussianNoise, StableNoise, perturb
from mpgd.optim import Perturbed
from tests.optim.descents import KINDS, LOUD, PATHS, core, flat, loud, made, orbits, parameters
from tests.optim.workers import hooked, run, same_bits, set_gradients, small_net, snapshot, train

NOISES = [None, GaussianNoise(), StableNoise(1.6)]
DIRECTIONS: list[dict[str, Any]] = [
    {"maximize": True},
    {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01, "foreach": False},
    {"momentum": 0.8, "dampening": 0.3, "foreach": True},
    {"momentum": 0.9, "fused": True},
]
SHAPES = [7, 1025, (4, 5), (), (0,)]


@pytest.mark.parametrize("how", DIRECTIONS, ids=str)
def test_without_perturbation_it_is_sgd_in_every_bit(how: dict[str, Any]) -> None:
    ours, theirs = small_net(), small_net()
    one = MPGD(ours.parameters(), lr=0.1, **how)
    other = torch.optim.SGD(theirs.parameters(), lr=0.1, **how)
    for k in range(200):
        train(ours, one, range(k, k + 1))
        train(theirs, other, range(k, k + 1))
        assert same_bits(flat(one), flat(other))
    assert same_bits(one.state_dict()["state"], other.state_dict()["state"])
    assert not one._orbits


@pytest.mark.parametrize("how", DIRECTIONS, ids=str)
def test_with_one_it_is_perturb_of_sgd_in_every_bit(how: dict[str, Any]) -> None:
    given = loud(symmetric=True)
    one = MPGD(parameters(SHAPES), **given, **how)
    other = perturb(torch.optim.SGD(parameters(SHAPES), given.pop("lr"), **how), **given)
    for optimizer in (one, other):
        run(optimizer, 5)
    assert same_bits(flat(one), flat(other))
    assert same_bits(orbits(one), orbits(other))


def test_its_classes() -> None:
    optimizer = MPGD(parameters([3]), **LOUD)
    assert isinstance(optimizer, torch.optim.SGD)
    assert isinstance(optimizer, Perturbed)
    assert not isinstance(torch.optim.SGD(parameters([3])), Perturbed)
    assert repr(optimizer).startswith("MPGD (")
    for part in ("mu: 0.3", "sigma: 0.2", "gamma: 0.6", "beta: 0.5", "lr: 0.05", "momentum: 0.0"):
        assert f"    {part}\n" in repr(optimizer)


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_the_loss_of_a_regression_falls(noise: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(64, 5, generator=generator)
    targets = inputs @ torch.randn(5, 3, generator=generator)
    model, losses = small_net(), []
    optimizer = MPGD(model.parameters(), lr=0.1, mu=0.01, sigma=0.01, noise=noise)
    for _ in range(100):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert np.mean(losses[-10:]) < 0.3 * losses[0]


@pytest.mark.parametrize("path", PATHS, ids=str)
def test_maximize_is_the_negative_gradient(path: dict[str, Any]) -> None:
    up, down = (MPGD(parameters([30]), **LOUD, **path, maximize=up) for up in (True, False))
    for k in range(5):
        for optimizer, sign in ((up, 1), (down, -1)):
            [p] = flat(optimizer)
            set_gradients([p], k)
            p.grad *= sign
            optimizer.step()
    assert same_bits(core(up), core(down))


@pytest.mark.parametrize("kind", KINDS)
def test_the_global_generators_are_left_alone(kind: str) -> None:
    np.random.seed(1)
    torch.manual_seed(1)
    random.seed(1)
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    for noise in NOISES[1:]:
        run(made(kind, parameters([30]), noise=noise, symmetric=True), 3)
    run(made(kind, parameters([30]), rounding="stochastic"), 3)
    after = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    assert same_bits(before, after)


@pytest.mark.parametrize("kind", KINDS)
def test_hooks_run_once_and_can_be_removed(kind: str) -> None:
    optimizer, seen = made(kind, parameters([3])), []
    handles = hooked(optimizer, seen)
    start = flat(optimizer)[0].detach().clone()
    optimizer.register_step_pre_hook(lambda *_: seen.append(start.equal(flat(optimizer)[0])))
    run(optimizer, 1)
    saved = optimizer.state_dict()
    assert saved.pop("extra") == 1
    optimizer.load_state_dict(saved)
    names = ["before step", True, "after step", "before state", "before load", "after load"]
    assert seen == names  # a hook before a step sees parameters that are not perturbed yet
    for handle in handles:
        handle.remove()
    run(optimizer, 1)
    optimizer.load_state_dict(optimizer.state_dict())
    assert seen == [*names, False]


@pytest.mark.parametrize("kind", KINDS)
def test_a_load_hook_may_replace_the_state_and_sees_the_loaded_one(kind: str) -> None:
    source, optimizer = (made(kind, parameters([30]), seed=seed) for seed in (1, 2))
    wanted, seen = source.state_dict(), []
    optimizer.register_load_state_dict_pre_hook(lambda *_: wanted)
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append(orbits(o)))
    optimizer.load_state_dict(made(kind, parameters([30])).state_dict())
    assert same_bits(seen, [orbits(source)])
    assert same_bits(orbits(optimizer), orbits(source))


@pytest.mark.parametrize("kind", KINDS)
def test_zero_grad_is_torchs(kind: str) -> None:
    optimizer = made(kind, parameters([3]))
    run(optimizer, 1)
    optimizer.zero_grad(set_to_none=False)
    assert same_bits(flat(optimizer)[0].grad, torch.zeros(3))
    optimizer.zero_grad()
    assert flat(optimizer)[0].grad is None


def test_at_lr_zero_only_the_momentum_changes() -> None:
    optimizer = MPGD(parameters([9]), **{**LOUD, "lr": 0.0}, momentum=0.9)
    before = snapshot(optimizer)
    run(optimizer, 2)
    after = snapshot(optimizer)
    assert float(after["state"][0].pop("momentum_buffer").abs().sum()) > 0
    assert same_bits(before, after)
