"""What tests of checkpoints share: kinds of optimizers, variants, a way to disk and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from mpgd import ChaoticNoise, GaussianNoise, StableNoise
from mpgd.optim.settings import PREFIX
from mpgd.optim.state import ENTRIES
from tests.optim.workers import make_optimizer

KINDS = ["mpgd", "sgd", "adamw", "adagrad"]
SHARED = ChaoticNoise(0.6, 0.5, signs="product", longest=50, shared=True)
VARIANTS: list[dict[str, Any]] = [
    {},
    {"symmetric": True, "gamma": (0.6, 0.7), "beta": (0.0, 1.0), "seed": (3, "critic")},
    {"noise": SHARED, "symmetric": True},
    {"noise": GaussianNoise.matched(ChaoticNoise(0.6))},
    {"noise": (GaussianNoise(shared=True), StableNoise(1.5))},
    {"start": 5, "stop": 15, "engine": "torch"},
]


def made(kind: str, model: nn.Module, named: bool = False, **settings: Any) -> Optimizer:
    """Return an optimizer of the model's parameters or named parameters."""
    given = model.named_parameters() if named else model.parameters()
    return make_optimizer(kind, given, **settings)


def reloaded(content: Any, folder: Path) -> Any:
    """Write to disk and read back as a careful user does."""
    torch.save(content, folder / "checkpoint.pt")
    return torch.load(folder / "checkpoint.pt", weights_only=True)


def prefix_of(kind: str) -> str:
    """Return what stands before our names in the groups and states of an optimizer."""
    return "" if kind == "mpgd" else PREFIX


def drivers_state(optimizer: Optimizer) -> dict[Any, Any]:
    """Return a copy of the drivers' part of the state, names without their prefix."""
    prefix: str = optimizer._prefix  # type: ignore[attr-defined]
    return {
        number: {n: values[prefix + n].clone() for n in ENTRIES if prefix + n in values}
        for number, values in optimizer.state_dict()["state"].items()
    }
