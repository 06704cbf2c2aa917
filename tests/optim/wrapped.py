"""Parameters in double precision for tests of `perturb`, and the parameters of an optimizer."""

from __future__ import annotations

import torch
from torch import nn
from torch.optim import Optimizer


def vectors(count: int = 3, dtype: torch.dtype = torch.float64) -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(1)
    return [nn.Parameter(torch.randn(6, 4, generator=generator).to(dtype)) for _ in range(count)]


def flat(optimizer: Optimizer) -> list[nn.Parameter]:
    return [p for group in optimizer.param_groups for p in group["params"]]
