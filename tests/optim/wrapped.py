"""What tests of `perturb` share: inner optimizers, settings, parameters."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

LOUD: dict[str, Any] = {"mu": 0.3, "sigma": 0.2, "gamma": (0.6, 0.7), "beta": 0.5, "seed": 4}
INNERS: dict[str, Any] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.05, weight_decay=0.1, amsgrad=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.05),
}
VARIANTS: list[dict[str, Any]] = [
    {},
    {"symmetric": True},
    {"shared_multiplicative": True, "symmetric": True},
    {"mu": 0.0},
    {"sigma": 0.0, "signs": "product"},
    {"start": 2, "stop": 4},
]


def vectors(count: int = 3, dtype: torch.dtype = torch.float64) -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(1)
    return [nn.Parameter(torch.randn(6, 4, generator=generator).to(dtype)) for _ in range(count)]


def flat(optimizer: Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]
