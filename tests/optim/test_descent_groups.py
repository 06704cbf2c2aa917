"""Every group of MPGD has its own settings; one added later leaves the others alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from mpgd import MPGD
from tests.optim.descents import LOUD, PATHS, orbits, parameters
from tests.optim.workers import run, same_bits, snapshot


def test_every_group_has_its_own_settings() -> None:
    """Each group moves as it would alone, given the ordinals of its parameters."""
    own: list[dict[str, Any]] = [
        {"mu": 0.1, "sigma": 0.0, "gamma": 0.55},
        {"mu": 0.0, "sigma": 0.3, "beta": -1.0, "start": 2},
        {"mu": 0.0, "sigma": 0.0},
        {"gamma": (0.6, 0.8), "beta": (0.0, 1.0), "stop": 3, "symmetric": True, "lr": 0.2},
        {"noise": "gaussian", "seed": 9, "engine": "torch"},
    ]
    optimizer = MPGD(
        [{"params": [p], **g} for p, g in zip(parameters([20] * 5), own, strict=True)], **LOUD
    )
    run(optimizer, 6)
    for number, settings in enumerate(own):
        plain = {**LOUD, "mu": 0.0, "sigma": 0.0}
        groups = [
            {"params": [p], **(settings if n == number else plain)}
            for n, p in enumerate(parameters([20] * 5))
        ]
        alone = MPGD(groups, **LOUD)
        run(alone, 6)
        one, other = (o.param_groups[number]["params"][0] for o in (optimizer, alone))
        assert same_bits(one.detach(), other.detach())
        assert same_bits(dict(optimizer.state.get(one, {})), dict(alone.state.get(other, {})))
    assert optimizer.param_groups[2]["params"][0] not in optimizer.state


@pytest.mark.parametrize("path", PATHS, ids=str)
def test_a_group_added_later_leaves_the_others_alone(path: dict[str, Any]) -> None:
    settings = {**LOUD, **path}
    optimizer, twin = (MPGD(parameters([(400,)]), **settings) for _ in range(2))
    run(optimizer, 3)
    run(twin, 3)
    before = snapshot(optimizer)
    late = nn.Parameter(torch.ones(400))
    optimizer.add_param_group({"params": [late], "sigma": 0.5})
    assert same_bits(snapshot(optimizer)["state"][0], before["state"][0])
    assert int(optimizer.state[late]["step"]) == 0
    run(optimizer, 5, first=3)
    run(twin, 5, first=3)
    assert same_bits(orbits(optimizer), orbits(twin))
    assert same_bits(
        optimizer.param_groups[0]["params"][0].detach(), twin.param_groups[0]["params"][0].detach()
    )
    starts = [orbits(MPGD(parameters([(400,), (400,)]), **settings), n) for n in (0, 1)]
    flat = [s.abs() for each in starts for s in each.values()]
    for i, a in enumerate(flat):  # four drivers, no two of them with an element in common
        assert not any((a == b).any() for b in flat[:i])


def test_a_group_added_later_shares_the_scalar_driver() -> None:
    settings = {**LOUD, "shared_multiplicative": True, "sigma": 0.0}
    optimizer = MPGD(parameters([()], torch.float64), **settings)
    run(optimizer, 3)
    late = nn.Parameter(torch.ones((), dtype=torch.float64))
    optimizer.add_param_group({"params": [late]})
    first = optimizer.param_groups[0]["params"][0]
    for _ in range(5):
        before = first.detach().clone(), late.detach().clone()
        first.grad, late.grad = torch.zeros_like(first), torch.zeros_like(late)
        optimizer.step()
        ratios = [float(x.detach() / y) for x, y in zip((first, late), before, strict=True)]
        assert ratios[0] == pytest.approx(ratios[1], rel=1e-14)
        assert ratios[0] != 1.0
