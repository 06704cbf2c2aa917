"""Momentum, rounding and classes under abuse: settings changed later, odd states, casts."""

from __future__ import annotations

import copy
import io
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import mpgd
from mpgd.noise.engines import has_cpu

ENGINES = [
    "torch",
    pytest.param("cpu", marks=pytest.mark.skipif(not has_cpu(), reason="needs numba")),
]


def parameter(n: int = 3, dtype: torch.dtype = torch.float32) -> nn.Parameter:
    p = nn.Parameter(torch.ones(n, dtype=dtype))
    p.grad = torch.ones_like(p)
    return p


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("momentum", float("nan"), "momentum must"),
        ("momentum", -1.0, "momentum must"),
        ("weight_decay", -5.0, "weight_decay must"),
        ("dampening", float("inf"), "dampening must"),
        ("nesterov", "x", "nesterov must"),
        ("lr", -1.0, "lr must"),
    ],
)
@pytest.mark.parametrize("sigma", [0.0, 0.01])
def test_settings_changed_later_are_checked_before_anything_moves(
    name: str, value: Any, text: str, sigma: float
) -> None:
    first, second = parameter(), parameter()
    groups = [{"params": [first]}, {"params": [second]}]
    optimizer = mpgd.MPGD(groups, lr=0.1, sigma=sigma, momentum=0.9, dampening=0.5)
    optimizer.param_groups[1][name] = value
    with pytest.raises((ValueError, TypeError), match=text):
        optimizer.step()
    assert torch.equal(first, torch.ones(3))
    assert optimizer.state[first].get("momentum_buffer") is None  # still fresh


@pytest.mark.parametrize("engine", ENGINES)
def test_a_momentum_follows_a_cast_of_the_model(engine: str) -> None:
    model = nn.Linear(3, 2)
    optimizer = mpgd.MPGD(model.parameters(), lr=0.1, momentum=0.9, sigma=0.01, engine=engine)
    for dtype in (torch.float32, torch.float64):
        model.to(dtype)
        optimizer.zero_grad()
        model(torch.ones(1, 3, dtype=dtype)).sum().backward()
        optimizer.step()
    assert optimizer.state[model.weight]["momentum_buffer"].dtype == torch.float64


def test_a_schedule_may_bring_nesterovs_momentum_to_zero() -> None:
    p = parameter()
    optimizer = mpgd.MPGD([p], lr=0.1, momentum=0.9, nesterov=True, sigma=0.01)
    optimizer.step()
    optimizer.param_groups[0]["momentum"] = 0.0
    optimizer.step()
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    with pytest.raises(ValueError, match="nesterov needs a momentum above 0"):
        mpgd.MPGD([p], lr=0.1, nesterov=True)


@pytest.mark.parametrize("buffer", [torch.ones(5), "x", 3.0, torch.eye(3).to_sparse()[0]])
def test_a_momentum_of_something_else_is_refused_on_load(buffer: Any) -> None:
    optimizer = mpgd.MPGD([parameter()], lr=0.1, sigma=0.01, momentum=0.9)
    optimizer.step()
    saved = copy.deepcopy(optimizer.state_dict())
    saved["state"][0]["momentum_buffer"] = buffer
    with pytest.raises(ValueError, match="'momentum_buffer' of parameter 0 must be a dense tensor"):
        optimizer.load_state_dict(saved)


def test_numbers_of_numpy_are_saved_as_plain_ones() -> None:
    given: dict[str, Any] = {"momentum": np.float64(0.9), "weight_decay": np.float32(0.5)}
    optimizer = mpgd.MPGD([parameter()], lr=0.1, **given)
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    group = torch.load(file, weights_only=True)["param_groups"][0]
    assert (group["momentum"], group["weight_decay"]) == (0.9, 0.5)


def test_tied_halves_are_not_rounded_stochastically_by_a_wrapper() -> None:
    base = torch.ones(8, dtype=torch.bfloat16)
    p, q = nn.Parameter(base), nn.Parameter(base.view(2, 4))
    p.grad, q.grad = torch.ones_like(p), torch.ones_like(q)
    optimizer = mpgd.perturb(torch.optim.SGD([p, q], lr=0.125), rounding="stochastic")
    with pytest.raises(ValueError, match="cannot take half parameters that share memory"):
        optimizer.step()
    assert torch.equal(base, torch.ones(8, dtype=torch.bfloat16))


def test_float32_states_of_other_shapes_resume_in_bits() -> None:
    """Adafactor's row and column means."""

    def made(saved: Any = None) -> tuple[nn.Parameter, mpgd.optim.Perturbed]:
        p = nn.Parameter(torch.linspace(-1, 1, 12).reshape(3, 4).bfloat16())
        inner = torch.optim.Adafactor([p], lr=0.1)
        optimizer = mpgd.perturb(inner, sigma=0.001, rounding="stochastic")
        if saved is not None:
            with torch.no_grad():
                p.copy_(saved[0])
            optimizer.load_state_dict(saved[1])
        return p, optimizer

    def run(p: nn.Parameter, optimizer: mpgd.optim.Perturbed, first: int, last: int) -> None:
        for k in range(first, last):
            p.grad = torch.full_like(p, 0.1 + k) * p.detach()
            optimizer.step()

    p, optimizer = made()
    run(p, optimizer, 0, 2)
    again, resumed = made((p.detach().clone(), copy.deepcopy(optimizer.state_dict())))
    run(p, optimizer, 2, 5)
    run(again, resumed, 2, 5)
    assert torch.equal(p, again)


def test_a_class_is_one_whatever_the_way_it_is_asked_for() -> None:
    assert mpgd.perturbed(torch.optim.AdamW) is mpgd.perturbed(torch.optim.AdamW)
    with pytest.raises(TypeError, match="positional-only"):
        mpgd.perturbed(inner=torch.optim.AdamW)  # type: ignore[call-arg]


def test_normal_numbers_in_float16_are_finite() -> None:
    z = mpgd.counter.normal(torch.empty(10_000), seed=1, step=0, dtype=torch.float16)
    wide = mpgd.counter.normal(torch.empty(10_000), seed=1, step=0)
    assert torch.equal(z, wide.half())
