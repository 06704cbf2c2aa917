"""How the Lyapunov exponents of descent are measured."""

from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from mpgd.theory import lyapunov_exponent
from mpgd_lab.batched_training import Result, nudged
from mpgd_lab.data.sources import airfoil
from mpgd_lab.nets.layout import Layout, mean_square
from mpgd_lab.store import Run
from mpgd_lab.studies.lyapunov.runs import SEEDS
from mpgd_lab.studies.valley.training import gradient as valley_gradient
from mpgd_lab.studies.valley.training import start as valley_start

Gradient = Callable[[Tensor], Tensor]


def train(runs: list[Run], data: Path | None = None) -> Iterator[Result]:
    """Yield the exponent of each run; they share problem and step size."""
    h = runs[0].hyperparameters
    x, gradient = (_valley if h["data"] == "valley" else _airfoil)(runs, data)
    half = h["steps"] // 2
    eta = h["eta"]
    # A run has the first tangent vector of its seed, whatever is trained beside it.
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn((SEEDS, x.shape[1]), generator=generator, dtype=torch.float64)
    w = drawn[[run.seed - 1 for run in runs]]
    found = lyapunov_exponent(
        lambda x: x - eta * gradient(x), nudged(x), half, skip=half, tangents=w
    )
    for run, exponent in zip(runs, found.tolist(), strict=True):
        yield run, {"exponent": exponent}, {}


def _valley(runs: list[Run], data: Path | None) -> tuple[Tensor, Gradient]:
    x = valley_start([run.seed for run in runs])
    x[:, -1] = runs[0].hyperparameters["height"]
    return x, lambda x: valley_gradient(x)[1]


def _airfoil(runs: list[Run], data: Path | None) -> tuple[Tensor, Gradient]:
    split, layout = airfoil(data), Layout(tuple(runs[0].hyperparameters["widths"]), torch.relu)

    def gradient(x: Tensor) -> Tensor:
        losses = mean_square(layout.forward(x, split.x_train), split.y_train)
        (slope,) = torch.autograd.grad(losses.sum(), x, create_graph=True)
        return slope

    return layout.initial([run.seed for run in runs], torch.float32).double(), gradient
