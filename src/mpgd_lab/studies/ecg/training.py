"""How ECG5000's nets are trained: many at once, or one at a time as the authors' script does."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy

from mpgd_lab.batched_training import Problem, Result, TrainedBatch, descend, full_batch
from mpgd_lab.batched_training import train as train_nets
from mpgd_lab.data.sources import Split
from mpgd_lab.data.sources import ecg5000 as load_split
from mpgd_lab.nets.layout import Layout, cross_entropy
from mpgd_lab.perturbations.released import released_gaussian
from mpgd_lab.schemes import is_scripted
from mpgd_lab.store import Run

MAX_BATCH: Final = 20  # in a batch, for the memory of its noise
WATCHED: Final = 40  # steps between two points of the curve of the test accuracy


def max_batch(task: Run) -> int:
    """Return how many runs may be trained with this one."""
    return 1 if is_scripted(task) else MAX_BATCH


def train(runs: list[Run], data: Path | None = None) -> Iterator[Result]:
    """Yield the metrics of each run, and the curves of its training loss and test accuracy."""
    split = load_split(data)
    for task in filter(is_scripted, runs):
        on_train, on_test, early = script(split, task)
        scores = metrics(on_train, on_test, split)
        yield task, scores, _accuracy_curve(task, [*early, scores["test_accuracy"]])
    together = [run for run in runs if not is_scripted(run)]
    if not together:
        return
    widths = tuple(together[0].hyperparameters["widths"])
    layout = Layout(widths, torch.sigmoid, torch.sigmoid)
    trained, accuracies = watched(layout, split, together)
    with torch.no_grad():
        on_train, on_test = (
            layout.outputs(trained.after, part) for part in (split.x_train, split.x_test)
        )
    for row, task in enumerate(together):
        scores = metrics(on_train[row], on_test[row], split)
        curves = {"step": trained.moments, "train_loss": trained.curve[:, row]}
        if accuracies:
            own = [float(each[row]) for each in accuracies]
            curves |= _accuracy_curve(task, [*own, scores["test_accuracy"]])
        yield task, scores, curves


def watched(layout: Layout, split: Split, runs: list[Run]) -> tuple[TrainedBatch, list[Tensor]]:
    """Train, and return beside the result the test accuracies (run,) every `WATCHED` steps.

    The mini-batch reference, which no figure of the paper shows, has none.
    """
    problem = Problem(layout, split, cross_entropy)
    if runs[0].hyperparameters.get("batch"):
        return train_nets(problem, runs), []
    accuracies: list[Tensor] = []
    steps, on_train = count(), full_batch(problem)

    def gradient(x: Tensor) -> tuple[Tensor, Tensor]:
        if next(steps) % WATCHED == 0:
            accuracies.append(accuracy(layout.outputs(x, split.x_test), split.y_test))
        return on_train(x)

    x = layout.initial([run.seed for run in runs], torch.float64)
    return descend(x, runs, layout.shapes, gradient, layout), accuracies


def _accuracy_curve(task: Run, accuracies: list[float]) -> dict[str, Any]:
    """Return Figure 3's curve of a run; the last point is after the last step."""
    steps = task.hyperparameters["steps"]
    return {"accuracy_step": [*range(0, steps, WATCHED), steps], "test_accuracy": accuracies}


def accuracy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the accuracy of each net in per cent, at threshold 0.5."""
    return 100.0 * ((outputs > 0.5) == (targets > 0.5)).double().mean(-1)


def metrics(on_train: Tensor, on_test: Tensor, split: Split) -> dict[str, float]:
    """Return accuracies in per cent at threshold 0.5, and the training loss."""
    pairs = {"train": (on_train, split.y_train), "test": (on_test, split.y_test)}
    scores = {f"{name}_accuracy": float(accuracy(p, y)) for name, (p, y) in pairs.items()}
    return scores | {"train_loss": float(cross_entropy(on_train, split.y_train))}


def script(split: Split, task: Run) -> tuple[Tensor, Tensor, list[float]]:
    """Return outputs on train and test as the authors' script trains: one net, float64.

    The Gaussian's part is added to the gradient before the step. Beside the outputs stand the test
    accuracies before every `WATCHED`-th step.
    """
    h, accuracies = task.hyperparameters, []
    with torch.random.fork_rng():
        torch.manual_seed(task.seed)
        pairs = zip(h["widths"][:-1], h["widths"][1:], strict=True)
        layers = [nn.Linear(a, b, dtype=torch.float64) for a, b in pairs]
        net = nn.Sequential(*(part for layer in layers for part in (layer, nn.Sigmoid())))
        for step in range(h["steps"]):
            if step % WATCHED == 0:
                accuracies.append(float(accuracy(net(split.x_test)[:, 0], split.y_test)))
            loss = binary_cross_entropy(net(split.x_train)[:, 0], split.y_train)
            gradient = torch.autograd.grad(loss, list(net.parameters()))
            if h["noise"] == "released_gaussian" and step < h["stop"]:
                gradient = _perturbed(gradient, net, h["mu"], h["sigma"])
            with torch.no_grad():
                for p, g in zip(net.parameters(), gradient, strict=True):
                    p.sub_(h["eta"] * g)
    with torch.no_grad():
        return net(split.x_train)[:, 0], net(split.x_test)[:, 0], accuracies


def _perturbed(
    gradient: tuple[Tensor, ...], net: nn.Module, mu: float, sigma: float
) -> tuple[Tensor, ...]:
    params = [p.detach() for p in net.parameters()]
    drawn = released_gaussian([tuple(p.shape) for p in params], torch.float64)
    parts = [torch.split(v, [p.numel() for p in params]) for v in drawn]
    return tuple(
        g + (sigma * b + mu * a * p.reshape(-1)).view_as(g)
        for g, p, a, b in zip(gradient, params, *parts, strict=True)
    )
