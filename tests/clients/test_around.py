"""Optimizers of pytorch_optimizer that share names with a perturbation, or go around one."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import pytorch_optimizer
import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

import mpgd

LOUD: dict[str, Any] = {"mu": 0.3, "sigma": 0.2, "beta": 0.5, "seed": 4}
Make = Callable[[list[nn.Parameter]], Optimizer]


def parameters(dtype: torch.dtype = torch.float32) -> list[nn.Parameter]:
    """Return three matrices, always the same."""
    generator = torch.Generator().manual_seed(1)
    return [nn.Parameter(torch.randn(6, 4, generator=generator).to(dtype)) for _ in range(3)]


def step(optimizer: Any, params: list[nn.Parameter], k: int) -> None:
    """Take a step on a loss that depends on the number of the step alone."""
    generator = torch.Generator().manual_seed(k)
    factors = [torch.randn(6, 4, generator=generator) for _ in params]

    def closure() -> Tensor:
        optimizer.zero_grad()
        pairs = zip(params, factors, strict=True)
        loss = torch.stack([(p.float() * a).square().mean() for p, a in pairs]).mean()
        (getattr(optimizer, "backward", None) or Tensor.backward)(loss)
        return loss

    closure()
    asks = isinstance(optimizer, (pytorch_optimizer.SAM, pytorch_optimizer.FriendlySAM))
    optimizer.step(closure) if asks else optimizer.step()


INSIDE: dict[str, Make] = {
    "Tiger": lambda params: pytorch_optimizer.Tiger(params, lr=0.05, weight_decay=0.0),
    "FriendlySAM": lambda params: pytorch_optimizer.FriendlySAM(params, SGD, lr=0.05),
}


@pytest.mark.parametrize("name", INSIDE)
def test_a_namesake_of_a_setting_is_not_the_perturbations(name: str) -> None:
    """At 0 with gradients of 0 nothing moves but by the noise, which is that around SGD."""
    ends = []
    for make in (INSIDE[name], lambda params: SGD(params, lr=0.05)):
        params = [nn.Parameter(torch.zeros(6, 4))]
        inner = make(params)
        optimizer = mpgd.perturb(inner, sigma=0.2, beta=0.5)

        def closure(p: nn.Parameter = params[0]) -> Tensor:
            p.grad = torch.zeros_like(p)
            return torch.zeros(())

        for _ in range(2):
            closure()
            optimizer.step(closure)
            params[0].grad = None
        ends.append(params[0].detach())
    assert float(ends[0].abs().sum()) > 0
    assert torch.equal(*ends)


def adamw(params: Any, **settings: Any) -> Optimizer:
    return mpgd.perturb(AdamW(params, lr=0.05), **LOUD, **settings)


AROUND: dict[str, Make] = {
    "SAM": lambda params: pytorch_optimizer.SAM(params, base_optimizer=adamw),
    "TRAC": lambda params: pytorch_optimizer.TRAC(adamw(params)),
    "Lookahead": lambda params: pytorch_optimizer.Lookahead(
        adamw(params), k=2, pullback_momentum="pullback"
    ),
    "SafeFP16Optimizer": lambda params: pytorch_optimizer.SafeFP16Optimizer(adamw(params)),
    "SafeFP16Optimizer of MPGD": lambda params: pytorch_optimizer.SafeFP16Optimizer(
        mpgd.MPGD(params, lr=0.05, **LOUD)
    ),
}


@pytest.mark.parametrize("name", AROUND)
def test_what_goes_around_a_perturbed_optimizer_resumes_in_bits(name: str) -> None:
    dtype = torch.float16 if name.startswith("SafeFP16") else torch.float32
    params = parameters(dtype)
    optimizer = AROUND[name](params)
    for k in range(5):
        step(optimizer, params, k)
    file = io.BytesIO()
    torch.save(([p.detach() for p in params], optimizer.state_dict()), file)
    for k in range(5, 9):
        step(optimizer, params, k)
    file.seek(0)
    values, state = torch.load(file, weights_only=False)
    resumed = [nn.Parameter(x) for x in values]
    again = AROUND[name](resumed)
    again.load_state_dict(state)
    for k in range(5, 9):
        step(again, resumed, k)
    assert all(bool(p.isfinite().all()) for p in params)
    assert all(torch.equal(p, q) for p, q in zip(params, resumed, strict=True))
