"""A small net and its data, which tests of the curvature share."""

from __future__ import annotations

import torch
from torch import Tensor, nn

mse = nn.functional.mse_loss


def network(dtype: torch.dtype = torch.float64) -> nn.Module:
    """Return 4-12-8-1 with batch norm, 197 parameters, running statistics away from 0 and 1."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Linear(4, 12),
            nn.BatchNorm1d(12),
            nn.Tanh(),
            nn.Dropout(0.5),
            nn.Linear(12, 8),
            nn.Softplus(),
            nn.Linear(8, 1),
        ).to(dtype)
        for _ in range(5):
            model(torch.randn(16, 4, dtype=dtype) + 1.0)
    return model


def data(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(40, 4, generator=generator, dtype=torch.float64).to(dtype)
    return x, x[:, :1] ** 2 - x[:, 1:2]
