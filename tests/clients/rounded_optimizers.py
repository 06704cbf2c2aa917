"""Optimizers of torch and of other libraries under `stochastic_rounding`: buckets, and resuming.

`python -m tests.clients.rounded_optimizers` prints a table: does each step bucket by bucket or
whole, and does it resume in bits after a save in mid-run?
"""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytorch_optimizer
import schedulefree
import torch
from torch import nn

from mpgd import stochastic_rounding
from tests.optim.workers import same_bits

TORCHS = (
    *("Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD"),
    *("NAdam", "RAdam", "RMSprop", "Rprop", "SGD"),
)
OTHERS = (
    *("AdaBelief", "AdaBound", "Adan", "ADOPT", "CAME", "DAdaptAdam", "Lamb", "LARS", "Lion"),
    *("MADGRAD", "Prodigy", "QHAdam", "Ranger", "ScheduleFreeAdamW", "SignSGD", "Tiger", "Yogi"),
)


def makers() -> dict[str, Callable[[Any], Any]]:
    """Return what makes each optimizer, by its name."""

    def maker(kind: Any) -> Callable[[Any], Any]:
        return lambda params: kind(params, lr=0.01)

    made = {f"torch {name}": maker(getattr(torch.optim, name)) for name in TORCHS}
    made |= {name: maker(getattr(pytorch_optimizer, name)) for name in OTHERS}
    made["Lamb, pre_norm"] = lambda params: pytorch_optimizer.Lamb(params, lr=0.01, pre_norm=True)
    return made | {"schedulefree AdamW": maker(schedulefree.AdamWScheduleFree)}


def train(model: nn.Module, optimizer: Any, steps: range) -> None:
    """Take steps on batches that depend on the step alone."""
    if hasattr(optimizer, "train"):
        optimizer.train()
    for k in steps:
        torch.manual_seed(k)
        x = torch.randn(16, 8).bfloat16()
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), x[:, :4]).backward()
        optimizer.step()


def outcome(make: Callable[[Any], Any], states: torch.dtype | None) -> tuple[str, str]:
    """Return how an optimizer steps, and how it resumes."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)).bfloat16()
    try:
        optimizer = stochastic_rounding(make(model.parameters()), state_dtype=states)
        train(model, optimizer, range(3))
        other_model = copy.deepcopy(model)
        other = stochastic_rounding(make(other_model.parameters()), state_dtype=states)
        other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        for one, each in ((model, optimizer), (other_model, other)):
            train(one, each, range(3, 6))
    except Exception as error:
        return "-", f"{type(error).__name__}: {str(error).splitlines()[0]}"[:120]
    weights = [[p.detach() for p in one.parameters()] for one in (model, other_model)]
    how = "buckets" if optimizer._is_separable else "whole"
    return how, "in bits" if same_bits(*weights) else "WRONG: other bits"


def main() -> int:
    """Print the table; return 1 if one resumes with other bits."""
    warnings.simplefilter("ignore")
    print("| optimizer | steps | resumes | with bfloat16 states |\n| --- | --- | --- | --- |")
    wrong = False
    for name, make in makers().items():
        how, wide = outcome(make, None)
        _, narrow = outcome(make, torch.bfloat16)
        wrong |= "WRONG" in wide + narrow
        print(f"| {name} | {how} | {wide} | {narrow} |", flush=True)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
