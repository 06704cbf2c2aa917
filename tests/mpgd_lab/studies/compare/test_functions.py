"""Test functions: their gradients are those of their formulas, and starts are where they should."""

from __future__ import annotations

from collections.abc import Callable
from math import pi

import numpy as np
import pytest
import torch
from torch import Tensor

from mpgd_lab.studies.compare.functions import FUNCTIONS, POINTS, Function

Height = Callable[[Tensor, Tensor], Tensor]


def rastrigin(x: Tensor, c: Tensor) -> Tensor:
    z = x - c
    return (z.square() + 10.0 * (1.0 - torch.cos(2.0 * pi * z))).sum(-1)


def ackley(x: Tensor, c: Tensor) -> Tensor:
    z = x - c
    ripple = torch.exp(torch.cos(2.0 * pi * z).mean(-1))
    return -20.0 * torch.exp(-0.2 * z.square().mean(-1).sqrt()) - ripple


def wells(a: float, b: float) -> Height:
    def height(x: Tensor, c: Tensor) -> Tensor:
        z = (x - c)[..., 0]
        sharp = a * (1.0 - torch.cos(pi * (z + 0.5) / 0.5)) / 2.0 - (a - 1.0)
        wide = b * (1.0 - torch.cos(pi * (z - 1.5) / 1.5)) / 2.0 - (b - 1.0)
        left = 12.0 * (z + 0.5).square() - (a - 1.0)
        right = 3.0 * (z - 1.5).square() - (b - 1.0)
        inside = torch.where(z < 0.0, sharp, wide)
        return torch.where(z < -0.5, left, torch.where(z > 1.5, right, inside))

    return height


def frequency(x: Tensor, sought: Tensor) -> Tensor:
    ours, theirs = (torch.sin(each[..., :1] * POINTS + each[..., 1:]) for each in (x, sought))
    return (ours - theirs).square().mean(-1)


def rugged(x: Tensor, secrets: Tensor) -> Tensor:
    """Return the height, well by well."""
    z, total = x[..., 0], torch.zeros_like(x[..., 0])
    for i in range(8):
        m, w, d = (secrets[..., i + 8 * k] for k in range(3))
        well = -d * (1.0 + torch.cos(pi * (z - m) / w)) / 2.0
        total = total + torch.where((z - m).abs() < w, well, 0.0)
    left, right = secrets[..., 0] - secrets[..., 8], secrets[..., 7] + secrets[..., 15]
    return total + 25.0 * ((z - right).clamp(min=0).square() + (z - left).clamp(max=0).square())


def minimum(name: str, secrets: Tensor) -> Tensor:
    """Return where each start should end."""
    if name.startswith("rugged"):
        return secrets[..., :8].gather(-1, secrets[..., 16:].argmax(-1, keepdim=True))
    return secrets + {"wide well": 1.5, "sharp well": -0.5}.get(name, 0.0)


HEIGHTS: dict[str, Height] = {
    "rastrigin": rastrigin,
    "ackley": ackley,
    "wide well": wells(1.0, 1.2),
    "sharp well": wells(1.2, 1.0),
    "rugged tied": rugged,
    "rugged independent": rugged,
    "frequency": frequency,
}


def drawn(function: Function) -> tuple[Tensor, Tensor]:
    parts = [function.draw(np.random.default_rng(seed), 40) for seed in (1, 2)]
    start, secrets = (torch.stack(part) for part in zip(*parts, strict=True))
    return start, secrets


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_gradient_is_that_of_the_function(name: str) -> None:
    x, secrets = drawn(FUNCTIONS[name])
    generator = torch.Generator().manual_seed(0)
    x = x + torch.randn(x.shape, generator=generator, dtype=torch.float64)
    leaf = x.clone().requires_grad_()
    (expected,) = torch.autograd.grad(HEIGHTS[name](leaf, secrets).sum(), leaf)
    assert torch.allclose(FUNCTIONS[name].gradient(x, secrets), expected, atol=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_minimum_is_lower_than_all_starts_and_is_reached_only_there(name: str) -> None:
    function = FUNCTIONS[name]
    start, secrets = drawn(function)
    lowest = minimum(name, secrets)
    assert function.reached(lowest, secrets).all()
    assert function.reached(start, secrets).double().mean() < 0.1
    height = HEIGHTS[name]
    assert (height(lowest + 1e-9, secrets) <= height(start, secrets) + 1e-9).all()


def test_the_deepest_well_is_the_sharpest_where_depth_is_tied() -> None:
    for name, tied in (("rugged tied", True), ("rugged independent", False)):
        _, secrets = drawn(FUNCTIONS[name])
        deepest, sharpest = secrets[..., 16:].argmax(-1), secrets[..., 8:16].argmin(-1)
        assert bool((deepest == sharpest).all()) is tied
        assert 0.1 <= float(secrets[..., 8:16].min()) < float(secrets[..., 8:16].max()) <= 1.0


def test_a_batch_of_all_examples_has_the_full_gradient() -> None:
    function = FUNCTIONS["frequency"]
    x, secrets = drawn(function)
    every = torch.arange(64).flip(0).expand(2, -1)
    found = function.gradient(x, secrets, every)
    assert torch.allclose(found, function.gradient(x, secrets))
    assert not torch.allclose(function.gradient(x, secrets, every[:, :8]), found)
