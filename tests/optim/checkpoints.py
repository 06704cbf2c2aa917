"""What tests of checkpoints share: kinds of optimizers, variants, a way to disk and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

import mpgd
from mpgd.optim.wrapper import PREFIX
from tests.optim.workers import make_optimizer

KINDS = ["mpgd", "sgd", "adamw", "adagrad"]
VARIANTS: list[dict[str, Any]] = [
    {},
    {"symmetric": True, "gamma": (0.6, 0.7), "beta": (0.0, 1.0)},
    {"shared_multiplicative": True, "symmetric": True},
    {"noise": "gaussian"},
    {"noise": "stable", "shared_multiplicative": True},
    {"start": 5, "stop": 15, "signs": "product", "engine": "torch"},
]


def made(kind: str, model: nn.Module, named: bool = False, **settings: Any) -> Optimizer:
    """Return an optimizer of the model's parameters or named parameters."""
    given = model.named_parameters() if named else model.parameters()
    return make_optimizer(kind, given, **settings)


def reloaded(content: Any, folder: Path) -> Any:
    """Write to disk and read back as a careful user does."""
    torch.save(content, folder / "checkpoint.pt")
    return torch.load(folder / "checkpoint.pt", weights_only=True)


def setting_name(optimizer: Optimizer, name: str) -> str:
    """Return the name of a setting in the groups of an optimizer."""
    return PREFIX + name if isinstance(optimizer, mpgd.Perturbed) else name


def drivers_state(optimizer: Optimizer) -> dict[Any, Any]:
    """Return a copy of the drivers' part of the state."""
    prefix = PREFIX if isinstance(optimizer, mpgd.Perturbed) else ""
    return {
        number: {key: v.clone() for key, v in values.items() if key.startswith(prefix)}
        for number, values in optimizer.state_dict()["state"].items()
    }
