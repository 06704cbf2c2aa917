"""Checkpoints written by version 0.1.0, before keywords became values, resume bit for bit.

Each file holds parameters and the optimizer's state after 9 steps, and what they were 40 steps
later. Gradients are x/2 - 1/8, exact enough to be the same on every CPU.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.optim.workers import same_bits
from torch import Tensor, nn

from mpgd import MPGD, perturb

FOLDER = Path(__file__).parents[1] / "data" / "checkpoints"
SHAPES = ((7, 5), (600,), ())


def loaded(name: str) -> tuple[dict[str, Any], list[Tensor]]:
    """Return a file's content and its parameters."""
    saved = torch.load(FOLDER / name, weights_only=True)
    return saved, [nn.Parameter(x) for x in saved["parameters"]]


def steps(params: list[Tensor], optimizer: torch.optim.Optimizer, count: int) -> None:
    for _ in range(count):
        for p in params:
            p.grad = p.detach() * 0.5 - 0.125
        optimizer.step()


@pytest.mark.parametrize("engine", ["torch", "numba"])
def test_mpgd_goes_on(engine: str) -> None:
    saved, params = loaded("mpgd-float64-driver.pt")
    optimizer = MPGD([{"params": params[:2]}, {"params": params[2:]}], lr=1.0)
    optimizer.load_state_dict(saved["optimizer"])
    for group in optimizer.param_groups:
        group["engine"] = engine
    steps(params, optimizer, 40)
    assert same_bits([p.detach() for p in params], saved["after"])
    assert same_bits([dict(optimizer.state[p]) for p in params], saved["orbits"])


@pytest.mark.parametrize("engine", ["torch", "numba"])
def test_perturbed_adamw_goes_on(engine: str) -> None:
    """Drivers in bits; AdamW's own arithmetic may differ between CPUs in the last bits."""
    saved, params = loaded("adamw-float64-driver.pt")
    optimizer = perturb(torch.optim.AdamW(params, lr=1.0))
    optimizer.load_state_dict(saved["optimizer"])
    optimizer.param_groups[0]["engine"] = engine
    steps(params, optimizer, 40)
    assert same_bits([optimizer._orbits[p] for p in params], saved["orbits"])
    for p, after in zip(params, saved["after"], strict=True):
        torch.testing.assert_close(p.detach(), after, rtol=1e-5, atol=1e-6)
