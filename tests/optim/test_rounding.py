"""Stochastic rounding in the optimizers: the same bits everywhere, and no small step is lost."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import Optimizer

from mpgd import MPGD, perturb, stochastic_round
from tests.optim.descents import LOUD, PATHS, ends, parameters, resumed
from tests.optim.transformer import losses
from tests.optim.workers import run, same_bits, snapshot

SHAPES = [7, 1025, (4, 5), ()]
HALVES = [torch.bfloat16, torch.float16]
VARIANTS: list[dict[str, Any]] = [
    {},
    {"mu": 0.0, "sigma": 0.0},
    {"symmetric": True, "momentum": 0.9},
    {"start": 2, "stop": 4, "noise": "gaussian"},
]


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_all_paths_have_the_same_bits(variant: dict[str, Any], dtype: torch.dtype) -> None:
    given = {**variant, "rounding": "stochastic"}
    expected = ends(SHAPES, {**given, **PATHS[0]}, 5, dtype=dtype)
    for path in PATHS[1:]:
        assert same_bits(ends(SHAPES, {**given, **path}, 5, dtype=dtype), expected)
    nearest = ends(SHAPES, {**variant, **PATHS[0]}, 5, dtype=dtype)
    assert not same_bits(expected["parameters"], nearest["parameters"])


def test_the_optimizers_rounding_is_stochastic_round() -> None:
    """Parameter number 1 is stream 1; a step is counted though nothing is perturbed."""
    params = parameters([3, 1000], torch.bfloat16)
    optimizer = MPGD(params, lr=0.01, rounding="stochastic", seed=5)
    x = params[1].detach().clone()
    for k in range(3):
        run(optimizer, 1, first=k)
        wide = x.float() - params[1].grad.float() * 0.01
        x = stochastic_round(wide, torch.bfloat16, seed=5, step=k, stream=1)
        assert same_bits(x, params[1].detach())
    assert int(optimizer.state[params[1]]["step"]) == 3


def test_float32_parameters_beside_halves_are_sgds() -> None:
    def mixed() -> list[nn.Parameter]:
        return [*parameters([5]), *parameters([5], torch.bfloat16)]

    one = MPGD(mixed(), lr=0.1, momentum=0.9, rounding="stochastic")
    other = torch.optim.SGD(mixed(), lr=0.1, momentum=0.9)
    for optimizer in (one, other):
        run(optimizer, 4)
    pair = [optimizer.param_groups[0]["params"][0].detach() for optimizer in (one, other)]
    assert same_bits(*pair)
    assert list(one.state[one.param_groups[0]["params"][0]]) == ["momentum_buffer"]


def test_the_bits_do_not_depend_on_threads() -> None:
    found = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        given = {"rounding": "stochastic"}
        found.append(ends([150_001], given, 2, dtype=torch.bfloat16))
    assert all(same_bits(each, found[0]) for each in found)


@pytest.mark.parametrize("path", PATHS, ids=str)
def test_it_resumes_bit_for_bit(path: dict[str, Any]) -> None:
    given = {**LOUD, **path, "rounding": "stochastic", "mu": 0.0, "sigma": 0.0}
    assert same_bits(*resumed(SHAPES, torch.bfloat16, given))


def wrapped(params: list[nn.Parameter], **settings: Any) -> Optimizer:
    return perturb(torch.optim.AdamW(params, lr=0.01), rounding="stochastic", **settings)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("variant", [{}, {"mu": 0.1, "sigma": 0.1}, {"sigma": 0.1}], ids=str)
def test_another_optimizer_steps_in_float32_and_resumes(
    variant: dict[str, Any], dtype: torch.dtype
) -> None:
    one = wrapped(parameters(SHAPES, dtype), **variant)
    other = wrapped(parameters(SHAPES, dtype), **variant, engine="torch")
    for optimizer in (one, other):
        run(optimizer, 4)
    found, expected = snapshot(one), snapshot(other)
    assert same_bits(found["parameters"], expected["parameters"])
    assert same_bits(found["state"], expected["state"])
    assert found["state"][1]["exp_avg"].dtype == torch.float32
    again = wrapped([deepcopy(p) for p in one.param_groups[0]["params"]], **variant)
    again.load_state_dict(deepcopy(one.state_dict()))
    for optimizer in (one, again):
        run(optimizer, 3, first=4)
    assert same_bits(snapshot(one), snapshot(again))


def test_a_closure_sees_the_halves() -> None:
    params, seen = parameters([9], torch.bfloat16), []
    optimizer = perturb(torch.optim.LBFGS(params, lr=0.1, max_iter=3), rounding="stochastic")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        seen.append(params[0].dtype)
        loss = params[0].float().square().sum()
        loss.backward()
        return loss

    first = optimizer.step(closure)
    assert optimizer.step(closure).item() < first.item()
    assert set(seen) == {torch.bfloat16}
    assert optimizer.param_groups[0]["params"][0] is params[0]


def test_an_earlier_state_in_halves_is_taken_up() -> None:
    params = parameters([9], torch.bfloat16)
    inner = torch.optim.AdamW(params, lr=0.01)
    run(inner, 2)
    optimizer = perturb(inner, rounding="stochastic")
    run(optimizer, 2, first=2)
    assert inner.state[params[0]]["exp_avg"].dtype == torch.float32


NEAREST = "rounding of group 0 was 'stochastic', .* cannot become 'nearest' in mid-run: set it back"


def test_stochastic_rounding_is_not_switched_off_in_mid_run() -> None:
    optimizer = wrapped(parameters([9], torch.bfloat16), sigma=0.1)
    run(optimizer, 2)
    before, (group,) = snapshot(optimizer), optimizer.param_groups
    group["perturbation.rounding"] = "nearest"
    with pytest.raises(ValueError, match=NEAREST):
        run(optimizer, 1, first=2)
    group["perturbation.rounding"] = "stochastic"
    assert same_bits(snapshot(optimizer), before)
    run(optimizer, 1, first=2)


def test_it_is_switched_on_in_mid_run_and_off_before_the_first_step() -> None:
    params = parameters([9], torch.bfloat16)
    optimizer = wrapped(params, sigma=0.1)
    optimizer.param_groups[0]["perturbation.rounding"] = "nearest"
    run(optimizer, 2)
    state = optimizer.inner.state[params[0]]
    assert state["exp_avg"].dtype == torch.bfloat16
    optimizer.param_groups[0]["perturbation.rounding"] = "stochastic"
    run(optimizer, 2, first=2)
    assert state["exp_avg"].dtype == torch.float32


def test_mpgd_switches_its_rounding_at_any_time() -> None:
    one = MPGD(parameters([9], torch.bfloat16), 0.01, momentum=0.9, rounding="stochastic")
    run(one, 2)
    values = [p.detach().clone() for p in one.param_groups[0]["params"]]
    other = MPGD([nn.Parameter(x) for x in values], 0.01, momentum=0.9)
    other.load_state_dict(deepcopy(one.state_dict()))
    for optimizer in (one, other):
        optimizer.param_groups[0]["rounding"] = "nearest"
        run(optimizer, 2, first=2)
    assert same_bits(snapshot(one), snapshot(other))


@pytest.mark.parametrize("kind", ["MPGD", "perturb"])
def test_steps_far_below_a_place_add_up(kind: str) -> None:
    """A thousand steps of 1e-4 move a weight of 1 by 0.1; to nearest, it stays there."""
    ends = {}
    for rounding in ("nearest", "stochastic"):
        p = nn.Parameter(torch.ones(400, dtype=torch.bfloat16))
        if kind == "MPGD":
            optimizer: Optimizer = MPGD([p], lr=1e-4, rounding=rounding)
        else:
            optimizer = perturb(torch.optim.SGD([p], lr=1e-4), rounding=rounding)
        for _ in range(1000):
            p.grad = torch.ones_like(p)
            optimizer.step()
        ends[rounding] = float(p.detach().float().mean())
    assert ends["nearest"] == 1.0
    assert abs(ends["stochastic"] - 0.9) < 0.01  # the deviation of the mean is 0.001


def test_a_transformer_in_bfloat16_follows_float32() -> None:
    """Within 2 % of float32 over the last quarter, where rounding to nearest is not."""

    def curve(rounding: str, dtype: torch.dtype) -> torch.Tensor:
        def make(params: list[nn.Parameter]) -> Optimizer:
            return perturb(torch.optim.AdamW(params, lr=3e-4), rounding=rounding)

        return losses(make, dtype, steps=240)

    exact = curve("nearest", torch.float32)
    chosen, nearest = (curve(r, torch.bfloat16) for r in ("stochastic", "nearest"))
    assert float((chosen / exact - 1).abs().max()) < 0.02
    assert float((nearest / exact - 1)[-60:].mean()) > 0.02


def test_a_wrong_word_is_named() -> None:
    text = "rounding must be one of .*nearest.*stochastic.* got 'up'"
    with pytest.raises(ValueError, match=text):
        MPGD(parameters([2]), **LOUD, rounding="up")
    with pytest.raises(ValueError, match=text):
        perturb(torch.optim.SGD(parameters([2]), lr=0.1), rounding="up")


def test_a_lazily_negated_tensor_is_rounded_as_its_values() -> None:
    x = torch.linspace(0.1, 0.9, 50)
    lazy = torch._neg_view(x)
    found = stochastic_round(lazy, torch.bfloat16, seed=1, step=2)
    assert torch.equal(found, stochastic_round(-x, torch.bfloat16, seed=1, step=2))
