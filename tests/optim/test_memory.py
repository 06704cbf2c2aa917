"""The kernels take raw addresses: whatever happens to a tensor, they touch no other memory."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from mpgd import MPGD, ChaoticNoise
from tests.optim.workers import make_optimizer, same_bits, snapshot

KINDS = ["mpgd", "adamw"]


def made(kind: str, size: int = 8, **settings: Any) -> tuple[nn.Parameter, Any]:
    p = nn.Parameter(torch.zeros(size))
    p.grad = torch.zeros(size)
    return p, make_optimizer(kind, [p], **{"engine": "cpu", **settings})


def resize(p: nn.Parameter, optimizer: Any) -> None:
    p.grad, p.data = None, torch.zeros(64)
    p.grad = torch.zeros(64)


def cast(p: nn.Parameter, optimizer: Any) -> None:
    optimizer._orbits[p]["additive"] = optimizer._orbits[p]["additive"].float()


def release(p: nn.Parameter, optimizer: Any) -> None:
    optimizer._orbits[p]["additive"].untyped_storage().resize_(0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (resize, r"multiplicative of a parameter of shape \(64,\) must be .* got torch.int32"),
        (cast, r"additive .* must be a contiguous tensor .* int32 .* got torch.float32"),
        (release, r"additive of a parameter of shape \(8,\) has no memory any more"),
    ],
)
def test_an_orbit_that_does_not_fit_is_refused(kind: str, damage: Any, text: str) -> None:
    p, optimizer = made(kind)
    damage(p, optimizer)
    before = p.detach().clone()
    with pytest.raises(RuntimeError, match=text):
        optimizer.step()
    assert same_bits(p.detach(), before)


@pytest.mark.parametrize("engine", ["torch", "cpu"])
def test_an_orbit_with_strides_is_refused(engine: str) -> None:
    p, optimizer = made("mpgd", engine=engine)
    words, before = optimizer._orbits[p]["additive"], p.detach().clone()
    optimizer._orbits[p]["additive"] = words.repeat_interleave(2)[::2]
    with pytest.raises(RuntimeError, match=r"additive .* contiguous .* int32 .* strides \(2,\)"):
        optimizer.step()
    assert same_bits(p.detach(), before)


@pytest.mark.parametrize("kind", KINDS)
def test_a_parameter_that_changed_its_dtype_goes_on_as_with_torch_operations(kind: str) -> None:
    ends = []
    for engine in ("torch", "cpu"):
        p, optimizer = made(kind, engine=engine)
        optimizer.step()
        p.data = p.data.double()
        p.grad = torch.ones_like(p)
        for name in ("exp_avg", "exp_avg_sq"):
            if name in optimizer.state[p]:
                optimizer.state[p][name] = optimizer.state[p][name].double()
        optimizer.step()
        ends.append(p.detach().clone())
    assert torch.equal(*ends)


def test_a_lazily_negated_gradient_keeps_its_sign() -> None:
    for engine in ("torch", "cpu"):
        p = nn.Parameter(torch.zeros(()))
        p.grad = torch.tensor(1j).conj().imag  # -1, as a view with the negative bit
        MPGD([p], lr=0.1, sigma=1e-9, engine=engine).step()
        assert float(p.detach()) == pytest.approx(0.1)


def test_a_conjugated_parameter_is_refused() -> None:
    p = nn.Parameter(torch.ones(4, dtype=torch.complex64).conj())
    with pytest.raises(ValueError, match="must own its memory"):
        MPGD([p], lr=0.1, mu=0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_with_unused_orbits_of_another_size_is_refused(kind: str) -> None:
    _, optimizer = made(kind)
    prefix = optimizer._prefix
    optimizer.param_groups[0].update({prefix + "mu": 0.0, prefix + "sigma": 0.0})
    saved = copy.deepcopy(optimizer.state_dict())
    _, other = made(kind, 4096)
    with pytest.raises(ValueError, match=r"'additive' of parameter 0 must have shape \(4096,\)"):
        other.load_state_dict(saved)


@pytest.mark.parametrize("kind", KINDS)
def test_autograd_notices_the_displacement(kind: str) -> None:
    p, optimizer = made(kind)
    loss = (p**2).sum()
    versions = [p._version]
    optimizer.step()
    versions.append(p._version)
    assert versions[1] >= versions[0] + 2  # displacement and step
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "value"), [("lr", -0.1), ("mu", -1.0), ("sigma", float("nan")), ("gamma", 2.0)]
)
def test_a_setting_made_wrong_later_is_refused(kind: str, name: str, value: float) -> None:
    _, optimizer = made(kind)
    optimizer.step()
    before = snapshot(optimizer)
    key = name if name == "lr" else optimizer._prefix + name
    kept = optimizer.param_groups[0][key]
    optimizer.param_groups[0][key] = value
    with pytest.raises(ValueError, match=f"{name} must lie in"):
        optimizer.step()
    optimizer.param_groups[0][key] = kept
    assert same_bits(snapshot(optimizer), before)


def test_an_empty_group_is_allowed() -> None:
    optimizer = MPGD([{"params": []}], lr=0.1, mu=0.1, noise=ChaoticNoise(0.6, shared=True))
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
