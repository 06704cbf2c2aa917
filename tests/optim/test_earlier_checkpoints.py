"""Checkpoints of the earlier drivers, float64 and Box-Muller, are refused with a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mpgd import MPGD, GaussianNoise, perturb
from tests.optim.workers import make_optimizer, run, same_bits, snapshot

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


def without_tables(state_dict: dict[str, Any]) -> dict[str, Any]:
    """Return a state as it was written when Gaussian noise had no fingerprint, and other bits."""
    state = {
        number: {name: v for name, v in values.items() if not name.endswith("tables")}
        for number, values in state_dict["state"].items()
    }
    return {**state_dict, "state": state}


@pytest.mark.parametrize("kind", ["mpgd", "adamw"])
@pytest.mark.parametrize("noise", ["gaussian", (GaussianNoise(2.0), GaussianNoise(1.0))])
def test_gaussian_noise_of_an_unknown_generator_is_refused(kind: str, noise: Any) -> None:
    saved, optimizer = (
        make_optimizer(kind, [nn.Parameter(torch.ones(3))], noise=noise) for _ in range(2)
    )
    run(saved, 2)
    before = snapshot(optimizer)
    with pytest.raises(ValueError, match=r"Gaussian noise of parameter 0 .* start the noise anew"):
        optimizer.load_state_dict(without_tables(saved.state_dict()))
    assert same_bits(snapshot(optimizer), before)
    optimizer.load_state_dict(saved.state_dict())
    assert same_bits(snapshot(optimizer)["state"], snapshot(saved)["state"])
