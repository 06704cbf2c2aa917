"""How runs of `levels` are trained, and what is kept of their final weights.

Beside the metrics of its study a run keeps some of its final weights, always the same randomly
chosen ones, from which distances between runs are found; and the growth its multiplicative noise
would give a weight that no gradient holds.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from mpgd_lab.batched_training import Gradient, Problem, Result, descend, full_batch
from mpgd_lab.data.sources import airfoil as airfoil_split
from mpgd_lab.data.sources import digits as digits_split
from mpgd_lab.data.sources import ecg5000
from mpgd_lab.nets.layout import Layout, class_entropy, cross_entropy, mean_square
from mpgd_lab.perturbations.batched import Shapes, perturbations
from mpgd_lab.store import Run
from mpgd_lab.studies.airfoil import training as airfoil
from mpgd_lab.studies.digits import training as digits
from mpgd_lab.studies.ecg import training as ecg
from mpgd_lab.studies.valley import training as valley

KEPT: Final = 256  # weights of a run
MAX_BATCH: Final = 40  # runs trained together
POWERS: Final = 60  # iterations of the largest curvature
NEAR: Final = 1e-5  # the distance of the two gradients of a curvature


def train(runs: list[Run], data: Path | None = None) -> Iterator[Result]:
    """Yield metrics and kept weights of each run; the runs share their study."""
    name = runs[0].hyperparameters["data"]
    if name == "valley":
        yield from _valley(runs)
        return
    problem, measure = problem_of(runs[0], data)
    gradient, layout = full_batch(problem), problem.layout
    x = layout.initial([run.seed for run in runs], problem.start).double()
    trained = descend(x, runs, layout.shapes, gradient, layout).after
    split, grown = problem.split, growth(runs, layout.shapes)
    with torch.no_grad():
        on_train, on_test = (
            layout.outputs(trained, part) for part in (split.x_train, split.x_test)
        )
    curved = curvature(trained, gradient) if name == "airfoil" else None
    places = kept(layout.size)
    for row, run in enumerate(runs):
        metrics = measure(on_train[row], on_test[row], split)
        metrics |= {"growth": float(grown[row]), "diverged": int(not trained[row].isfinite().all())}
        metrics |= {"curvature": float(curved[row])} if curved is not None else {}
        yield run, metrics, {"weights": trained[row, places]}


def problem_of(run: Run, data: Path | None) -> tuple[Problem, Any]:
    """Return what a run is trained on, and the function that measures outputs."""
    name, widths = run.hyperparameters["data"], tuple(run.hyperparameters["widths"])
    if name == "airfoil":
        layout = Layout(widths, torch.relu)
        return Problem(layout, airfoil_split(data), mean_square, torch.float32), airfoil.metrics
    if name == "digits":
        return Problem(Layout(widths, torch.relu), digits_split(), class_entropy), digits.metrics
    layout = Layout(widths, torch.sigmoid, torch.sigmoid)
    return Problem(layout, ecg5000(data), cross_entropy), ecg.metrics


def kept(size: int) -> Tensor:
    """Return which weights are kept, at most `KEPT` of them."""
    order = np.random.default_rng(0).permutation(size)[:KEPT]
    return torch.from_numpy(np.sort(order))


def growth(runs: Sequence[Run], shapes: Shapes) -> Tensor:
    """Return the largest factor |prod (1 - m)| among the weights of each run, (run,).

    It is what the multiplicative noise alone would do to a weight that no gradient holds.
    """
    h = runs[0].hyperparameters
    steps = h.get("stop") or h["steps"]
    largest = torch.zeros(len(runs), dtype=torch.float64)
    for source in perturbations(runs, shapes, torch.float64):
        total: Tensor | None = None
        for _ in range(steps):
            m, _ = source.next()
            now = torch.log((1.0 - m).abs())
            total = now if total is None else total + now
        assert total is not None
        largest[source.rows] = total.max(dim=1).values
    return torch.exp(largest)


def curvature(x: Tensor, gradient: Gradient) -> Tensor:
    """Return the largest curvature at each x (run, element), by iterated differences of gradients.

    A run that diverged has NaN.
    """
    generator = torch.Generator().manual_seed(0)
    v = torch.randn(x.shape, dtype=x.dtype, generator=generator)
    largest = x.new_zeros(len(x))
    for _ in range(POWERS):
        v = v / v.norm(dim=1, keepdim=True)
        Hv = (gradient(x + NEAR * v)[1] - gradient(x - NEAR * v)[1]) / (2 * NEAR)
        largest, v = (v * Hv).sum(1), Hv
    return largest


def _valley(runs: list[Run]) -> Iterator[Result]:
    """Yield the final trace, and the one that pushes would give which no slope opposes."""
    start = valley.start([run.seed for run in runs])
    trained = descend(start, runs, valley.SHAPES, valley.gradient).after
    pushed = start.clone()
    for source in perturbations(runs, valley.SHAPES, torch.float64):
        for _ in range(runs[0].hyperparameters["steps"]):
            m, n = source.next()
            old = pushed[source.rows, :-1]
            pushed[source.rows, :-1] = old - m[:, :-1] * old + n[:, :-1]
    ends, free = valley.trace(trained), valley.trace(pushed)
    for row, run in enumerate(runs):
        diverged = int(not trained[row].isfinite().all())
        yield run, {"trace": float(ends[row]), "free": float(free[row]), "diverged": diverged}, {}
