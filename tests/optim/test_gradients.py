"""Gradients that are missing, NaN or infinite: the orbit waits or goes on, as it should."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch

from mpgd import MPGD
from tests.optim.descents import LOUD, PATHS, orbits, parameters
from tests.optim.workers import (
    run,
    same_bits,
    scaled_steps,
    set_gradients,
    small_net,
    snapshot,
    train,
)


@pytest.mark.parametrize("path", PATHS, ids=str)
@pytest.mark.parametrize("shared", [False, True])
def test_a_parameter_without_a_gradient_waits(path: dict[str, Any], shared: bool) -> None:
    """Once, or for good as in a frozen layer; the others do not notice."""
    settings = {**LOUD, **path, "shared_multiplicative": shared}
    optimizer, twin = (MPGD(parameters([(30,), (20,)]), **settings) for _ in range(2))
    alone = MPGD(parameters([(30,)]), **settings)
    p, q = optimizer.param_groups[0]["params"]
    for k in range(6):
        set_gradients([p, q], k)
        if k >= 2:
            q.grad = None
        before = deepcopy(optimizer.state[q])
        optimizer.step()
        if k >= 2:
            assert same_bits(optimizer.state[q], before)
    run(twin, 2)
    run(alone, 6)
    assert int(optimizer.state[q]["step"]) == 2
    assert same_bits(orbits(optimizer, 1), orbits(twin, 1))
    assert same_bits(q.detach(), twin.param_groups[0]["params"][1].detach())
    assert same_bits(p.detach(), alone.param_groups[0]["params"][0].detach())
    set_gradients([p, q], 6)
    optimizer.step()
    assert int(optimizer.state[q]["step"]) == 3
    assert not same_bits(orbits(optimizer, 1), orbits(twin, 1))


@pytest.mark.parametrize("path", PATHS, ids=str)
def test_a_grad_scaler_skips_a_step_with_an_inf_gradient(path: dict[str, Any]) -> None:
    model = small_net()
    optimizer = MPGD(model.parameters(), **{**LOUD, **path})
    scaler = scaled_steps(model, optimizer)
    assert scaler.get_scale() == 4.0
    twin = small_net()
    other = MPGD(twin.parameters(), **{**LOUD, **path})
    for k in (0, 1, 3):  # a power of two scales exactly
        train(twin, other, range(k, k + 1))
    assert same_bits(snapshot(optimizer), snapshot(other))


@pytest.mark.parametrize("path", PATHS, ids=str)
def test_nan_and_inf_gradients_leave_the_orbit_alone(path: dict[str, Any]) -> None:
    """And the parameters end as those of SGD do, NaN or inf in the same places."""
    optimizer, twin = (MPGD(parameters([(40,)]), **{**LOUD, **path}) for _ in range(2))
    sgd = torch.optim.SGD(parameters([(40,)]), lr=LOUD["lr"])
    p, q, r = (o.param_groups[0]["params"][0] for o in (optimizer, twin, sgd))
    for k in range(6):
        set_gradients([p, q, r], k)
        for x in (p, q, r):
            x.grad = p.grad.clone()
        if k == 1:
            for x in (p, r):
                x.grad[:3] = torch.tensor([float("nan"), float("inf"), -float("inf")])
        for each in (optimizer, twin, sgd):
            each.step()
        if k == 1:
            assert same_bits(p[:3].isnan(), r[:3].isnan())
            assert same_bits(p[1:3].detach(), r[1:3].detach())
    assert same_bits(orbits(optimizer), orbits(twin))
    assert all(torch.isfinite(s).all() for s in orbits(optimizer).values())
    assert same_bits(p[3:].detach(), q[3:].detach())
    assert not torch.isfinite(p[:3]).any()
