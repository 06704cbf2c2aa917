"""The settings of the README's example, trained on digits: no net comes out worse than with SGD."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import mpgd

README = Path(__file__).parents[2] / "README.md"
STEPS, BATCH, TRAIN = 3000, 64, 1200
SEEDS = (1, 2, 3)
Data = tuple[Tensor, Tensor]


def settings() -> dict[str, float]:
    """Return the learning rate and the keywords of `perturb` in the README's first example."""
    text = README.read_text()
    (steps,) = re.findall(r"^steps = (\d+)$", text, re.MULTILINE)
    assert int(steps) == STEPS
    (lr,) = re.findall(r"optim\.SGD\(model\.parameters\(\), lr=(.*)\)\n", text)
    (keywords,) = re.findall(r"mpgd\.perturb\(optimizer, (.*)\)\n", text)
    return dict(eval(f"dict(lr={lr}, {keywords})", {"steps": STEPS}))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def cnn() -> nn.Module:
    convolutions = (nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.ReLU())
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), *convolutions, nn.Flatten(), nn.Linear(256, 10)
    )


def digits() -> tuple[Data, Data]:
    X, y = load_digits(return_X_y=True)
    images, labels = torch.tensor(X / 16, dtype=torch.float32), torch.tensor(y)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    images, labels = images[order], labels[order]
    return (images[:TRAIN], labels[:TRAIN]), (images[TRAIN:], labels[TRAIN:])


def accuracy(make: Callable[[], nn.Module], seed: int, noisy: bool) -> float:
    """Train one net and return its test accuracy in per cent."""
    (images, labels), (test_images, test_labels) = digits()
    torch.manual_seed(seed)
    model, given = make(), settings()
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=given["lr"])
    if noisy:
        optimizer = mpgd.MPGD(model.parameters(), seed=seed, **given)
    for _ in range(STEPS):
        rows = torch.randint(TRAIN, (BATCH,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images[rows]), labels[rows]).backward()
        optimizer.step()
    return 100 * float((model(test_images).argmax(1) == test_labels).double().mean())


@pytest.mark.parametrize("make", [mlp, cnn])
def test_the_readmes_settings_do_no_harm(make: Callable[[], nn.Module]) -> None:
    plain = [accuracy(make, seed, noisy=False) for seed in SEEDS]
    noisy = [accuracy(make, seed, noisy=True) for seed in SEEDS]
    print(make.__name__, plain, noisy)
    assert min(plain) > 93
    assert all(with_noise > without - 1.5 for with_noise, without in zip(noisy, plain, strict=True))
    assert sum(noisy) > sum(plain) - 3 * 0.75
