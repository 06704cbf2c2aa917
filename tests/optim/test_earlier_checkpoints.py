"""Checkpoints of the earlier float64 driver are refused with a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.optim.workers import same_bits, snapshot
from torch import Tensor, nn

from mpgd import MPGD, perturb

FOLDER = Path(__file__).parents[1] / "data" / "checkpoints"
REASON = "orbit of the earlier float64 driver, .* start the noise anew"


def loaded(name: str) -> tuple[dict[str, Any], list[Tensor]]:
    """Return a saved state and its parameters."""
    saved = torch.load(FOLDER / name, weights_only=True)
    return saved["optimizer"], [nn.Parameter(x) for x in saved["parameters"]]


def own(params: list[Tensor]) -> torch.optim.Optimizer:
    return MPGD([{"params": params[:2]}, {"params": params[2:]}], lr=1.0, sigma=0.1)


def wrapped(params: list[Tensor]) -> torch.optim.Optimizer:
    return perturb(torch.optim.AdamW(params, lr=1.0), sigma=0.1)


@pytest.mark.parametrize(
    ("name", "make"), [("mpgd-float64-driver.pt", own), ("adamw-float64-driver.pt", wrapped)]
)
def test_they_are_refused_and_nothing_is_changed(name: str, make: Any) -> None:
    saved, params = loaded(name)
    optimizer = make(params)
    before = snapshot(optimizer)
    with pytest.raises(ValueError, match=REASON):
        optimizer.load_state_dict(saved)
    assert same_bits(snapshot(optimizer), before)
