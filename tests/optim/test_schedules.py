"""Settings that change during a run: lr, the window of steps, mu and sigma raised later."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from mpgd import MPGD, ChaoticNoise
from mpgd.noise.word import LONG, MAGNITUDE, ONE
from tests.optim.descents import LOUD, PATHS, VARIANTS, ends, orbits, parameters
from tests.optim.workers import ORBITS, run, same_bits, set_gradients, snapshot

BOTH = ("multiplicative", "additive")
RAISED: list[tuple[dict[str, Any], dict[str, Any], tuple[str, ...]]] = [
    ({"mu": 0.0, "sigma": 0.0}, {"mu": 0.3}, BOTH[:1]),
    ({"mu": 0.0, "sigma": 0.0}, {"sigma": 0.2}, BOTH[1:]),
    ({"mu": 0.0, "sigma": 0.0}, {"mu": 0.3, "sigma": 0.2}, BOTH),
    ({"mu": 0.0}, {"mu": 0.3}, BOTH),
    ({"sigma": 0.0}, {"sigma": 0.2}, BOTH),
    ({}, {"symmetric": True}, ORBITS),
    ({}, {"shared_multiplicative": True}, (*BOTH, "shared")),
    ({"mu": 0.0, "shared_multiplicative": True}, {"mu": 0.3}, ("additive", "shared")),
]


@pytest.mark.parametrize("path", PATHS, ids=str)
@pytest.mark.parametrize(("first", "change", "names"), RAISED, ids=str)
def test_raising_mu_or_sigma_later_creates_the_state_then(
    first: dict[str, Any], change: dict[str, Any], names: tuple[str, ...], path: dict[str, Any]
) -> None:
    """And the new driver acts at once: its orbit moves and so does the parameter."""
    optimizer = MPGD(parameters([(50,)]), **{**LOUD, **first, **path})
    twin = MPGD(parameters([(50,)]), **{**LOUD, **first, **path})
    run(optimizer, 3)
    run(twin, 3)
    before = orbits(optimizer) if optimizer.state else {}
    optimizer.param_groups[0].update(change)
    run(optimizer, 1, first=3)
    run(twin, 1, first=3)
    p = optimizer.param_groups[0]["params"][0]
    state = optimizer.state[p]
    assert set(names) <= state.keys()
    assert not same_bits(p, twin.param_groups[0]["params"][0])
    fresh = MPGD(parameters([(50,)]), **{**LOUD, **first, **change})
    for name in set(names) - before.keys() - {"shared"}:
        start = orbits(fresh)[name]
        assert not same_bits(state[name], start)  # it has moved on from the stationary start
        q = start & MAGNITUDE
        counted = (q > 2 * ONE) & (q < LONG)
        assert same_bits((state[name] & MAGNITUDE)[counted], q[counted] - ONE)
    run(optimizer, 5, first=4)


SCHEDULES: dict[str, Any] = {
    "step": lambda opt: torch.optim.lr_scheduler.StepLR(opt, 3, gamma=0.3),
    "cosine": lambda opt: torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=10),
    "plateau": lambda opt: torch.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.3, patience=1),
}


@pytest.mark.parametrize("path", PATHS, ids=str)
@pytest.mark.parametrize("name", list(SCHEDULES))
def test_the_perturbation_follows_the_schedule_as_lr_to_the_gamma(
    name: str, path: dict[str, Any]
) -> None:
    p = nn.Parameter(torch.zeros(40, dtype=torch.float64))
    optimizer = MPGD([p], lr=0.5, sigma=0.2, gamma=0.7, seed=3, **path)
    scheduler = SCHEDULES[name](optimizer)
    noise = ChaoticNoise(0.7, engine="torch")
    state, rates = noise.init(40, 3, driver_id=1), []
    for _ in range(12):
        rates.append(optimizer.param_groups[0]["lr"])
        before, p.grad = p.detach().clone(), torch.zeros_like(p)
        optimizer.step()
        if rates[-1] > 0:
            v, state = noise.step(state)
            expected = before + 0.2 * rates[-1] ** 0.7 * v
            torch.testing.assert_close(p.detach(), expected, rtol=1e-12, atol=1e-14)
        else:
            assert same_bits(p.detach(), before)
        scheduler.step(*([1.0] if name == "plateau" else []))
    assert len(set(rates)) > 2


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize("path", PATHS, ids=str)
def test_at_lr_zero_nothing_changes(path: dict[str, Any], variant: dict[str, Any]) -> None:
    optimizer = MPGD(parameters([(30,), ()]), **{**LOUD, **variant, **path})
    twin = MPGD(parameters([(30,), ()]), **{**LOUD, **variant, **path})
    run(optimizer, 3)
    run(twin, 3)
    [group] = optimizer.param_groups
    for zero in (0.0, torch.tensor(0.0)):
        group["lr"] = zero
        before = snapshot(optimizer)
        run(optimizer, 2)
        assert same_bits(snapshot(optimizer), before)
    group["lr"] = LOUD["lr"]
    run(optimizer, 3, first=3)
    run(twin, 3, first=3)
    assert same_bits(snapshot(optimizer), snapshot(twin))


@pytest.mark.parametrize("noise", ["chaotic", "gaussian", "stable"])
@pytest.mark.parametrize("path", PATHS, ids=str)
def test_a_tensor_lr_equals_the_number(path: dict[str, Any], noise: str) -> None:
    rest = {"noise": noise, **path}
    number = ends([(30,), ()], rest, 10)
    lr = torch.tensor(LOUD["lr"], dtype=torch.float64)
    assert same_bits(ends([(30,), ()], {**rest, "lr": lr}, 10), number)
    assert same_bits(ends([(30,), ()], {**rest, "lr": lr[None]}, 10), number)


@pytest.mark.parametrize("path", PATHS, ids=str)
@pytest.mark.parametrize("shared", [False, True])
def test_before_start_and_from_stop_on_it_is_plain_and_orbits_wait(
    path: dict[str, Any], shared: bool
) -> None:
    settings = {**LOUD, **path, "start": 3, "stop": 7, "shared_multiplicative": shared}
    [p] = parameters([(30,)])
    optimizer = MPGD([p], **settings)
    start, seen = orbits(optimizer), []
    for k in range(10):
        seen.append(orbits(optimizer))
        set_gradients([p], k)
        plain = p.detach() - p.grad * LOUD["lr"]
        optimizer.step()
        assert same_bits(p.detach(), plain) == (k not in range(3, 7))
        assert int(optimizer.state[p]["step"]) == k + 1
    assert all(same_bits(seen[k], start) for k in range(4))
    assert all(not same_bits(seen[k], seen[k + 1]) for k in range(3, 7))
    assert all(same_bits(seen[k], seen[7]) for k in range(7, 10))
    # the perturbation begins as it would have at step 0
    early = MPGD(parameters([(30,)]), **{**settings, "start": 0, "stop": 4})
    run(early, 5)
    assert same_bits(orbits(early), seen[-1])
