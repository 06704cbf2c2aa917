"""Settings that change during a run: schedulers, the window of steps, mu and sigma raised later."""

from __future__ import annotations

import copy
import io
import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler
from torch.optim.swa_utils import SWALR

from mpgd import MPGD, ChaoticNoise, GaussianNoise, StableNoise, perturb
from tests.optim.descents import (
    KINDS,
    LOUD,
    PATHS,
    SHARED,
    drivers,
    ends,
    flat,
    made,
    orbits,
    parameters,
    set_keyword,
)
from tests.optim.workers import ORBITS, run, same_bits, set_gradients, small_net, snapshot, train

SCHEDULERS: dict[str, Any] = {
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, lambda k: 0.9**k),
    "MultiplicativeLR": lambda o: lr_scheduler.MultiplicativeLR(o, lambda k: 0.9),
    "StepLR": lambda o: lr_scheduler.StepLR(o, 2),
    "MultiStepLR": lambda o: lr_scheduler.MultiStepLR(o, [2, 4]),
    "ConstantLR": lr_scheduler.ConstantLR,
    "LinearLR": lr_scheduler.LinearLR,
    "ExponentialLR": lambda o: lr_scheduler.ExponentialLR(o, 0.9),
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 8),
    "PolynomialLR": lambda o: lr_scheduler.PolynomialLR(o, 8),
    "CyclicLR": lambda o: lr_scheduler.CyclicLR(o, 0.001, 0.05, step_size_up=3),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, 0.05, total_steps=10),
    "CosineAnnealingWarmRestarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 3),
    "ReduceLROnPlateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=0),
    "SequentialLR": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.ConstantLR(o), lr_scheduler.ExponentialLR(o, 0.9)], milestones=[2]
    ),
    "ChainedScheduler": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.ConstantLR(o), lr_scheduler.ExponentialLR(o, 0.9)]
    ),
    "SWALR": lambda o: SWALR(o, swa_lr=0.01),
}


def rates(model: nn.Module, optimizer: Any, scheduler: Any, steps: range) -> list[float]:
    """Take steps with a scheduler and return the learning rates."""
    found = []
    for k in steps:
        train(model, optimizer, range(k, k + 1))
        scheduler.step(*([1.0] if isinstance(scheduler, lr_scheduler.ReduceLROnPlateau) else []))
        found.append(float(optimizer.param_groups[0]["lr"]))
    return found


@pytest.mark.parametrize("is_first", [False, True], ids=["after perturb", "before perturb"])
@pytest.mark.parametrize("name", list(SCHEDULERS))
def test_every_scheduler_is_followed_and_resumes_in_bits(name: str, is_first: bool) -> None:
    """Made before or after `perturb`: as many perturbed steps, the plain rates, no warning."""

    def build(noise: dict[str, float] | None) -> tuple[nn.Module, Any, Any]:
        model = small_net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
        scheduler = SCHEDULERS[name](optimizer) if is_first or noise is None else None
        if noise is not None:
            optimizer = perturb(optimizer, **noise)
        return model, optimizer, scheduler or SCHEDULERS[name](optimizer)

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The epoch parameter in")  # SequentialLR's own
        plain, noisy = build(None), build({"mu": 0.02, "sigma": 0.02})
        assert rates(*noisy, range(4)) == rates(*plain, range(4))
        assert int(drivers(noisy[1])["step"]) == 4
        file = io.BytesIO()
        torch.save([x.state_dict() for x in noisy[:2]], file)
        file.seek(0)
        schedule = copy.copy(noisy[2].state_dict())
        again = build({"mu": 0.02, "sigma": 0.02})
        again[2].load_state_dict(schedule)
        for x, state in zip(again[:2], torch.load(file, weights_only=True), strict=True):
            x.load_state_dict(state)
        assert rates(*again, range(4, 8)) == rates(*noisy, range(4, 8))
    assert same_bits(snapshot(again[1]), snapshot(noisy[1]))


def test_a_schedulers_wrapper_that_was_left_in_place_would_be_seen() -> None:
    """Twin: it calls the old step, and nothing is perturbed."""
    [p] = parameters([3])
    optimizer = torch.optim.SGD([p], lr=0.1)
    lr_scheduler.StepLR(optimizer, 1)
    wrapper = optimizer.step
    perturb(optimizer, sigma=0.1)
    assert "step" not in vars(optimizer)
    p.grad = torch.ones(3)
    wrapper()
    assert int(drivers(optimizer)["step"]) == 0


@pytest.mark.parametrize("path", PATHS, ids=str)
@pytest.mark.parametrize("wraps", [False, True], ids=["mpgd", "perturb"])
def test_the_noise_follows_lr_to_the_gamma_and_waits_at_zero(
    path: dict[str, Any], wraps: bool
) -> None:
    p = nn.Parameter(torch.zeros(40, dtype=torch.float64))
    given: dict[str, Any] = {"sigma": 0.2, "gamma": 0.7, "seed": 3, **path}
    optimizer = perturb(torch.optim.SGD([p], 0.5), **given) if wraps else MPGD([p], 0.5, **given)
    noise = ChaoticNoise(0.7, engine="torch")
    state = noise.init(40, 3, driver_id=1)
    for lr in (0.5, 0.25, 0.0, 0.3, torch.tensor(0.0), torch.tensor(0.1, dtype=torch.float64)):
        optimizer.param_groups[0]["lr"] = lr
        before, p.grad = p.detach().clone(), torch.full_like(p, 0.25)
        optimizer.step()
        expected = before - float(lr) * 0.25
        if float(lr):
            v, state = noise.step(state)
            expected = expected + 0.2 * float(lr) ** 0.7 * v
        torch.testing.assert_close(p.detach(), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("noise", [SHARED, GaussianNoise(), StableNoise(1.6)], ids=str)
@pytest.mark.parametrize("path", PATHS, ids=str)
def test_a_tensor_lr_equals_the_number(path: dict[str, Any], noise: Any) -> None:
    """Of the noise in bits; torch's own step with a tensor differs by rounding."""
    number = ends([30, ()], {"noise": noise, **path}, 10)
    lr = torch.tensor(LOUD["lr"], dtype=torch.float64)
    tensor = ends([30, ()], {"noise": noise, **path, "lr": lr, "foreach": False}, 10)
    assert same_bits(tensor["state"], number["state"])
    for a, b in zip(tensor["parameters"], number["parameters"], strict=True):
        torch.testing.assert_close(a, b)


# --- the window of steps -----------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS, ids=str)
@pytest.mark.parametrize("variant", [{}, {"noise": SHARED}], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_before_start_and_from_stop_on_it_is_plain_and_orbits_wait(
    kind: str, variant: dict[str, Any], path: dict[str, Any]
) -> None:
    optimizer = made(kind, parameters([30]), **variant, **path, start=3, stop=7)
    [p] = flat(optimizer)
    start, seen = orbits(optimizer), []
    for k in range(10):
        seen.append(orbits(optimizer))
        set_gradients([p], k)
        plain = copy.deepcopy((p, optimizer))
        set_keyword(plain[1], mu=0.0, sigma=0.0)
        plain[0].grad = p.grad.clone()
        plain[1].step()
        optimizer.step()
        assert same_bits(p.detach(), plain[0].detach()) == (k not in range(3, 7))
        assert int(drivers(optimizer)["step"]) == k + 1
    assert all(same_bits(seen[k], start) for k in range(4))
    assert all(not same_bits(seen[k], seen[k + 1]) for k in range(3, 7))
    assert all(same_bits(seen[k], seen[7]) for k in range(7, 10))


@pytest.mark.parametrize("path", PATHS, ids=str)
@pytest.mark.parametrize("noise", [ChaoticNoise(0.6), GaussianNoise(), StableNoise(1.6)], ids=str)
def test_the_noise_of_a_step_depends_on_its_own_number(noise: Any, path: dict[str, Any]) -> None:
    """It is the one of (seed, ordinal, element, step) whenever the window begins."""
    [p] = parameters([40], torch.float64)
    optimizer = MPGD([p], 0.1, sigma=0.2, noise=noise, start=3, **path)
    state = noise.init(40, 0, driver_id=1)
    for k in range(6):
        before, p.grad = p.detach().clone(), torch.zeros_like(p)
        optimizer.step()
        state = type(state)(state.word, torch.tensor(k), state.key)
        if k >= 3:
            v, state = noise.step(state)
            expected = before + 0.2 * 0.1**noise.exponent * v
            torch.testing.assert_close(p.detach(), expected, rtol=1e-12, atol=1e-14)


# --- raised later ------------------------------------------------------------------------------

BOTH = ("multiplicative", "additive")
RAISED: list[tuple[dict[str, Any], dict[str, Any], tuple[str, ...]]] = [
    ({"mu": 0.0, "sigma": 0.0}, {"mu": 0.3}, BOTH[:1]),
    ({"mu": 0.0, "sigma": 0.0}, {"mu": 0.3, "sigma": 0.2}, BOTH),
    ({"mu": 0.0}, {"mu": 0.3}, BOTH),
    ({}, {"symmetric": True}, ORBITS),
    ({}, {"noise": SHARED, "gamma": 0.6, "beta": 0.0}, (*BOTH, "shared")),
    ({"mu": 0.0, "noise": SHARED}, {"mu": 0.3}, ("additive", "shared")),
    ({"sigma": 0.0}, {"force": 0.1}, BOTH),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("first", "change", "names"), RAISED, ids=str)
def test_a_driver_that_is_asked_for_later_acts_at_once(
    first: dict[str, Any], change: dict[str, Any], names: tuple[str, ...], kind: str
) -> None:
    """It starts where it would have at construction, and the others go on."""
    optimizer, twin = (made(kind, parameters([50]), **first) for _ in range(2))
    for each in (optimizer, twin):
        run(each, 3)
    before = orbits(optimizer) if optimizer._orbits else {}
    set_keyword(optimizer, **change)
    fresh = made(kind, parameters([50]), **{**first, **change})
    optimizer.state_dict()
    for name, words in orbits(optimizer).items():
        expected = before[name] if name in before else orbits(fresh)[name]
        assert same_bits(words, expected)
    for each in (optimizer, twin):
        run(each, 1, first=3)
    assert set(names) <= drivers(optimizer).keys()
    assert not same_bits(flat(optimizer)[0].detach(), flat(twin)[0].detach())


def test_a_seed_may_be_changed_in_mid_run() -> None:
    """The orbits stay where they are, and other signs follow."""
    optimizer, twin = (made("mpgd", parameters([200])) for _ in range(2))
    for each in (optimizer, twin):
        run(each, 3)
    set_keyword(optimizer, seed=(1, "late"))
    assert same_bits(orbits(optimizer), orbits(twin))
    for each in (optimizer, twin):
        run(each, 3, first=3)
    assert not same_bits(orbits(optimizer), orbits(twin))


CHANGED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"gamma": 0.7, "seed": 3, "symmetric": True}),
    ({"sigma": 0.0}, {"sigma": 0.2}),
    ({"mu": 0.0, "sigma": 0.0}, {"sigma": 0.2}),
    ({"mu": 0.0, "noise": SHARED}, {"mu": 0.3}),
    ({"noise": ChaoticNoise(0.8)}, {"noise": ChaoticNoise(0.8, longest=2)}),
]


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")
@pytest.mark.parametrize(("first", "change"), CHANGED, ids=str)
def test_a_compiled_step_takes_up_what_was_changed(
    first: dict[str, Any], change: dict[str, Any]
) -> None:
    torch._dynamo.reset()
    plain, compiled = (made("mpgd", parameters([50, 3]), **first) for _ in range(2))
    compiled.step = torch.compile(compiled.step, backend="aot_eager")
    for each in (plain, compiled):
        run(each, 3)
        set_keyword(each, **change)
        run(each, 4, first=3)
    assert same_bits(snapshot(compiled), snapshot(plain))
