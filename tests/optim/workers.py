"""What the optimizer tests share: models, comparisons in bits, a training that can be killed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import mpgd

ORBITS = ("multiplicative", "additive", "multiplicative_twin", "additive_twin")

# --- comparisons -------------------------------------------------------------------------------


def bits(x: Tensor) -> Tensor:
    """Return the bytes of a tensor: unlike its values they tell -0.0 from 0.0 and have no NaN."""
    plain = x.detach().clone(memory_format=torch.contiguous_format)
    return plain.view(-1).view(torch.uint8)


def same_bits(a: Any, b: Any) -> bool:
    """Return whether two nests of tensors and plain values agree in every bit."""
    if isinstance(a, Tensor):
        return (
            isinstance(b, Tensor)
            and (a.shape, a.dtype) == (b.shape, b.dtype)
            and torch.equal(bits(a), bits(b))
        )
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same_bits(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same_bits, a, b))
    return bool(a == b)


def snapshot(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Return a copy of everything a step may change: the state dict and the parameters."""
    packed = {k: v for k, v in optimizer.state_dict().items() if k in ("state", "param_groups")}
    parameters = [p.detach() for group in optimizer.param_groups for p in group["params"]]
    return deepcopy({**packed, "parameters": parameters})


def hooked(optimizer: torch.optim.Optimizer, seen: list[str]) -> list[Any]:
    """Register a hook of every kind, each of which says that it ran, and return the handles."""
    return [
        optimizer.register_step_pre_hook(lambda *_: seen.append("before step")),
        optimizer.register_step_post_hook(lambda *_: seen.append("after step")),
        optimizer.register_state_dict_pre_hook(lambda _: seen.append("before state")),
        optimizer.register_state_dict_post_hook(lambda _, s: {**s, "extra": 1}),
        optimizer.register_load_state_dict_pre_hook(lambda _, s: seen.append("before load")),
        optimizer.register_load_state_dict_post_hook(lambda _: seen.append("after load")),
    ]


# --- models ------------------------------------------------------------------------------------


def small_net(seed: int = 0, dtype: torch.dtype = torch.float32) -> nn.Sequential:
    """Return a 5-7-3 net with its own initialisation; the global generator is left alone."""
    generator = torch.Generator().manual_seed(seed)
    net = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.randn(p.shape, generator=generator) / 2)
    return net.to(dtype)


def set_gradients(parameters: Any, k: int) -> None:
    """Give every parameter a gradient that depends on (k, its place, its shape) alone."""
    for place, p in enumerate(parameters):
        generator = torch.Generator().manual_seed(1000 * k + place)
        real = torch.randn((*p.shape, 2), generator=generator, dtype=torch.float64)
        g = torch.view_as_complex(real) if p.is_complex() else real[..., 0]
        p.grad = g.to(p.dtype)


def run(optimizer: torch.optim.Optimizer, steps: int, first: int = 0) -> None:
    """Take steps with made-up gradients."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for k in range(first, first + steps):
        set_gradients(parameters, k)
        optimizer.step()


def batch(k: int, size: int = 8) -> tuple[Tensor, Tensor]:
    """Return the inputs and targets of step k."""
    generator = torch.Generator().manual_seed(k)
    return torch.randn(size, 5, generator=generator), torch.randn(size, 3, generator=generator)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
    """Take steps on the batches of the given numbers."""
    for k in steps:
        inputs, targets = batch(k)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()


def scaled_steps(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.amp.GradScaler:
    """Take four steps with a scaler; the third has an infinite gradient and must change nothing."""
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    for k in range(4):
        inputs, targets = batch(k)
        optimizer.zero_grad()
        scaler.scale(nn.functional.mse_loss(model(inputs), targets)).backward()
        if k == 2:
            next(model.parameters()).grad[0, 0] = float("inf")
        before = snapshot(optimizer)
        scaler.step(optimizer)
        scaler.update()
        assert same_bits(snapshot(optimizer), before) == (k == 2)
    return scaler


# --- optimizers ----------------------------------------------------------------------------------

SETTINGS: dict[str, Any] = {"lr": 0.05, "mu": 0.1, "sigma": 0.1, "gamma": 0.6, "beta": 0.5}


def make_optimizer(kind: str, parameters: Any, **settings: Any) -> torch.optim.Optimizer:
    """Return MPGD, or a perturbed optimizer, by name; a noise brings its own gamma and beta."""
    usual = SETTINGS if "noise" not in settings else {"lr": 0.05, "mu": 0.1, "sigma": 0.1}
    given = {**usual, **settings}
    if kind == "mpgd":
        return mpgd.MPGD(parameters, **given)
    lr = given.pop("lr")
    inner: dict[str, Callable[[], torch.optim.Optimizer]] = {
        "sgd": lambda: torch.optim.SGD(parameters, lr=lr, momentum=0.9),
        "adamw": lambda: torch.optim.AdamW(parameters, lr=lr),
        "adagrad": lambda: torch.optim.Adagrad(parameters, lr=lr),
    }
    return mpgd.perturb(inner[kind](), **given)


# --- a training run that can be killed ---------------------------------------------------------


def digits_net() -> nn.Sequential:
    """Return a small convolutional net for 8 x 8 images, the same in every process."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32, 10),
    )


def digits() -> tuple[Tensor, Tensor]:
    """Return the first 512 of scikit-learn's digits."""
    from sklearn.datasets import load_digits

    data = load_digits()
    images = torch.tensor(data.images[:512] / 16.0, dtype=torch.float32)
    return images[:, None], torch.tensor(data.target[:512])


def train_digits(kind: str, folder: Path, epochs: int, die_after: int | None) -> None:
    """Train, saving after every step; resume from what the folder holds.

    ``die_after`` is the step after which the process kills itself, without a chance to clean up.
    """
    images, labels = digits()
    model = digits_net()
    settings: dict[str, Any] = {"mu": 0.005, "sigma": 0.01, "gamma": 0.6, "beta": 0.5, "seed": 1}
    if kind == "mpgd":
        optimizer: torch.optim.Optimizer = mpgd.MPGD(model.parameters(), lr=0.5, **settings)
    else:
        inner = torch.optim.AdamW(model.parameters(), lr=0.01)
        optimizer = mpgd.perturb(inner, **settings)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs * 8)
    kept, losses = folder / "checkpoint.pt", []
    if kept.exists():
        saved = torch.load(kept, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        scheduler.load_state_dict(saved["scheduler"])
        losses = saved["losses"]
    for k in range(len(losses), epochs * 8):
        part = slice(64 * (k % 8), 64 * (k % 8) + 64)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images[part]), labels[part])
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
        content = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
            "losses": losses,
        }
        torch.save(content, kept.with_suffix(".new"))
        os.replace(kept.with_suffix(".new"), kept)
        if die_after == k:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    torch.set_num_threads(1)
    name, place, count, last = sys.argv[1:]
    train_digits(name, Path(place), int(count), None if last == "-" else int(last))
