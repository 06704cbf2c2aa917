"""Every optimizer of pytorch_optimizer alone and perturbed: train, save, load, resume.

`python -m tests.clients.every_optimizer` prints the outcome of each, then how many have which. The
same is asked of an optimizer alone first: who does not train or resume in bits alone is not asked
to do so perturbed.
"""

from __future__ import annotations

import io
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from pytorch_optimizer.optimizer import OPTIMIZERS
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from mpgd import perturb, perturbed

HALF, WHOLE = 3, 6  # steps
EXACT, NOT_ALONE, INEXACT_ALONE = "exact", "does not run alone", "not exact alone"
NO_LR = "has no lr, which a perturbation needs"
MUONS = ("adago", "adamuon", "distributedmuon", "muon", "muonclip", "normuon")


def _by_shape(kind: Any, model: nn.Module, **given: Any) -> Optimizer:
    """Return one of Muon's kind: matrices in a group of their own."""
    groups: list[list[Tensor]] = [[], []]
    for p in model.parameters():
        groups[p.dim() == 2].append(p)
    return kind([{"params": group, "use_muon": n == 1} for n, group in enumerate(groups)], **given)


SPECIAL: dict[str, Callable[..., Optimizer]] = {
    "adammini": lambda kind, model, **given: kind(model, **given),
    "bsam": lambda kind, model, **given: kind(model.parameters(), num_data=WHOLE, **given),
    "magma": lambda kind, model, **given: kind(AdamW(model.parameters(), lr=0.01), **given),
    "ranger21": lambda kind, model, **given: kind(
        model.parameters(), num_iterations=WHOLE, **given
    ),
    "spectralsphere": lambda kind, model, **given: kind(
        [p for p in model.parameters() if p.dim() == 2], **given
    ),
    **dict.fromkeys(MUONS, _by_shape),
}


def net() -> nn.Module:
    """Return a small net, always the same."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))


def made(name: str, model: nn.Module, how: str) -> Optimizer:
    """Return an optimizer of the model's parameters with its default settings.

    ``how`` is plain, silent (a made class without noise) or noisy (perturbed after it was made).
    """
    build = SPECIAL.get(name, lambda kind, model, **given: kind(model.parameters(), **given))
    if how == "silent":
        return build(perturbed(OPTIMIZERS[name]), model, perturbation={"force": 0.0})
    optimizer = build(OPTIMIZERS[name], model)
    return perturb(optimizer, mu=0.01, sigma=0.01) if how == "noisy" else optimizer


def train(model: nn.Module, optimizer: Any, steps: range) -> None:
    """Take steps on data and random numbers that depend on the number of the step alone."""
    if hasattr(optimizer, "train"):
        optimizer.train()
    for k in steps:
        torch.manual_seed(k)
        x = torch.randn(16, 8)

        def closure(x: Tensor = x) -> Tensor:
            optimizer.zero_grad()
            with torch.enable_grad():
                loss = nn.functional.mse_loss(model(x), x[:, :4])
                loss.backward(create_graph=True)  # some ask for second derivatives
            return loss

        optimizer.step(closure)


def end(name: str, how: str, stops: bool) -> list[Tensor]:
    """Return the weights after all steps, with or without a stop and new objects half-way."""
    model = net()
    optimizer = made(name, model, how)
    first = HALF if stops else WHOLE
    train(model, optimizer, range(first))
    if stops:
        file = io.BytesIO()
        torch.save((model.state_dict(), optimizer.state_dict()), file)
        file.seek(0)
        weights, state = torch.load(file, weights_only=False)
        model = net()
        model.load_state_dict(weights)
        optimizer = made(name, model, how)
        optimizer.load_state_dict(state)
        train(model, optimizer, range(first, WHOLE))
    return [p.detach().clone() for p in model.parameters()]


def alike(a: list[Tensor], b: list[Tensor]) -> bool:
    """Return whether two lists of weights have the same bits."""
    return all(x.equal(y) for x, y in zip(a, b, strict=True))


def outcome(name: str) -> str:
    """Return how an optimizer ends: exact, excused, or what is wrong."""
    try:
        whole, stopped = end(name, "plain", False), end(name, "plain", True)
    except Exception as error:
        return f"{NOT_ALONE}: {_line(error)}"
    if not alike(whole, stopped):
        return INEXACT_ALONE
    if "lr" not in made(name, net(), "plain").param_groups[0]:
        return NO_LR
    try:
        if not alike(end(name, "silent", False), whole):
            return "WRONG: without noise it is not the plain one"
        noisy = end(name, "noisy", False)
        if alike(noisy, whole):
            return "WRONG: the perturbation does nothing"
        is_exact = alike(noisy, end(name, "noisy", True))
    except Exception as error:
        return f"WRONG: {_line(error)}"
    return EXACT if is_exact else "WRONG: resumes with other bits"


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:160]


def outcomes() -> dict[str, str]:
    """Return the outcome of every optimizer by its name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # theirs, of default settings and second derivatives
        return {name: outcome(name) for name in OPTIMIZERS}


def main() -> int:
    """Print all outcomes; return 1 if one is wrong."""
    found = outcomes()
    for name, text in found.items():
        print(f"{name:24} {text}")
    print(dict(Counter(text.partition(":")[0] for text in found.values())))
    return int(any(text.startswith("WRONG") for text in found.values()))


if __name__ == "__main__":
    sys.exit(main())
