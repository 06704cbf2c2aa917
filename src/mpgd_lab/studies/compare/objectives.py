"""The objectives of the comparison: starts of many runs, gradients, and scores.

Positions of all runs are one matrix (run, element). A run on a test function has many independent
starts, one after the other in its row; a run with data has one net.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import torch
from torch import Tensor

from mpgd_lab.batched_training import Outcome, Problem, gradient_of, minibatches
from mpgd_lab.data.sources import Split
from mpgd_lab.nets.backprop import Backpropagation
from mpgd_lab.nets.layout import Examples, Layout, Loss, class_entropy, cross_entropy, mean_square
from mpgd_lab.perturbations.batched import Shapes
from mpgd_lab.store import Run
from mpgd_lab.studies.compare.data_tasks import Sample, sample
from mpgd_lab.studies.compare.functions import FUNCTIONS, Function
from mpgd_lab.studies.compare.tasks import BY_NAME, PRUNED, SHARES, WALKERS, Task

XOR: Final = torch.tensor([[-1, -1], [-1, 1], [1, -1], [1, 1]], dtype=torch.float64)
PARITY: Final = torch.tensor([0.0, 1.0, 1.0, 0.0], dtype=torch.float64)
SURE: Final = 0.3  # the margin by which an output of XOR must be right
BOUND: Final = 1e6  # of a coordinate; what ends there has diverged
DTYPE: Final = torch.float64  # of functions, and of airfoil, where rounding grows
SINGLE: Final = torch.float32  # of the larger nets


class Objective(Protocol):
    """What the runs of one task minimise."""

    start: Tensor  # (run, element)
    shapes: Shapes  # of the tensors in a row, for their noise
    starts: int  # independent parts of a row

    def gradient(self, x: Tensor, chosen: Tensor | None = None) -> Tensor:
        """Return the gradient at x, on ``chosen`` examples (run, example) or on all."""

    def outcomes(self, x: Tensor) -> Iterator[Outcome]:
        """Yield metrics and curves of each run."""


def make_objective(runs: Sequence[Run], data: Path | None = None) -> Objective:
    """Return what these runs, which share their task and their stage, minimise."""
    h = runs[0].hyperparameters
    task, seeds = BY_NAME[h["data"]], [run.seed for run in runs]
    starts = h.get("walkers", WALKERS)
    if task.name in FUNCTIONS:
        return FunctionObjective(FUNCTIONS[task.name], seeds, starts)
    if task.name == "xor":
        return XorObjective(seeds, starts)
    return DataObjective(task, seeds, h["part"], data)


def batches(task: Task, runs: Sequence[Run]) -> Iterator[Tensor | None]:
    """Yield for every step the examples of each run (run, example), or None for all of them."""
    size = runs[0].hyperparameters.get("batch")
    if size is None:
        while True:
            yield None
    streams = {run.seed: minibatches(run.seed, task.examples, size) for run in runs}
    while True:
        drawn = {seed: next(stream) for seed, stream in streams.items()}
        yield torch.stack([drawn[run.seed] for run in runs])


class FunctionObjective:
    """Many starts on a test function."""

    def __init__(self, function: Function, seeds: Sequence[int], starts: int) -> None:
        self.function, self.starts = function, starts
        drawn = [function.draw(np.random.default_rng([seed, 11]), starts) for seed in seeds]
        at, self.secrets = (torch.stack(part) for part in zip(*drawn, strict=True))
        self.start = at.flatten(1)
        self.shapes: Shapes = [(self.start.shape[1],)]

    def gradient(self, x: Tensor, chosen: Tensor | None = None) -> Tensor:
        """Return the gradient (run, element)."""
        at = x.view(len(x), self.starts, -1)
        return self.function.gradient(at, self.secrets, chosen).flatten(1)

    def outcomes(self, x: Tensor) -> Iterator[Outcome]:
        """Yield the share of starts that reached the global minimum."""
        reached = self.function.reached(x.view(len(x), self.starts, -1), self.secrets)
        lost = (x.abs() >= BOUND).view(len(x), self.starts, -1).any(-1)
        yield from _shares(reached & ~lost, lost)


class XorObjective:
    """Many nets that learn XOR."""

    def __init__(self, seeds: Sequence[int], starts: int) -> None:
        self.starts, self.layout = starts, Layout((2, 2, 1), torch.tanh, torch.sigmoid)
        own = [1000 * seed + k for seed, k in product(seeds, range(starts))]
        self.start = self.layout.initial(own, DTYPE).view(len(seeds), -1)
        self.shapes: Shapes = [(self.start.shape[1],)]
        self._gradients: dict[int, Backpropagation] = {}

    def gradient(self, x: Tensor, chosen: Tensor | None = None) -> Tensor:
        """Return the gradient (run, element)."""
        nets = x.reshape(len(x) * self.starts, -1)
        inputs, targets = XOR, PARITY
        if chosen is not None:
            rows = chosen.repeat_interleave(self.starts, 0)
            inputs, targets = XOR[rows], PARITY[rows]
        size = inputs.shape[-2]
        if size not in self._gradients:
            self._gradients[size] = Backpropagation(self.layout, cross_entropy, size, DTYPE)
        return self._gradients[size](nets, Examples.of(inputs, targets))[1].view_as(x)

    def outcomes(self, x: Tensor) -> Iterator[Outcome]:
        """Yield the share of nets that are right about all four, and sure."""
        nets = x.reshape(len(x) * self.starts, -1)
        near = (self.layout.outputs(nets, XOR) - PARITY).abs() < 0.5 - SURE
        lost = (x.abs() >= BOUND).view(len(x), self.starts, -1).any(-1)
        yield from _shares(near.all(-1).view(len(x), -1) & ~lost, lost)


def _shares(reached: Tensor, lost: Tensor) -> Iterator[Outcome]:
    for own, gone in zip(reached, lost, strict=True):
        yield {"score": 100.0 * float(own.double().mean()), "diverged": int(gone.sum())}, {}


Scores = Callable[[Tensor, Tensor], Tensor]


def rmse(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the root mean square error of each net."""
    return mean_square(outputs, targets).sqrt()


def accuracy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the accuracy of each net in per cent, of two classes or of several."""
    several = outputs.dim() > targets.dim()
    right = outputs.argmax(-1) == targets if several else (outputs > 0.5) == (targets > 0.5)
    return 100.0 * right.double().mean(-1)


NETS: Final[dict[str, tuple[Any, Any, Loss, Scores]]] = {  # activations, loss, score
    "airfoil": (torch.relu, None, mean_square, rmse),
    "digits": (torch.relu, None, class_entropy, accuracy),
    "pruning": (torch.relu, None, class_entropy, accuracy),
    "ecg": (torch.sigmoid, torch.sigmoid, cross_entropy, accuracy),
    "plateau": (torch.sigmoid, torch.sigmoid, cross_entropy, accuracy),
}


class DataObjective:
    """A net for every run, each with training rows of its seed."""

    starts = 1

    def __init__(self, task: Task, seeds: Sequence[int], part: str, data: Path | None) -> None:
        hidden, output, self.loss, self.score = NETS[task.name]
        self.task, self.layout = task, Layout(task.widths, hidden, output)
        self.dtype = DTYPE if task.name == "airfoil" else SINGLE
        own = sorted(set(seeds))
        self.places = torch.tensor([own.index(seed) for seed in seeds])
        self.start = self.layout.initial(own, self.dtype)[self.places]
        self.shapes: Shapes = self.layout.shapes
        self.sample: Sample = sample(task, own, part, data, self.dtype)
        self._examples = self._of(self.sample.x[self.places], self.sample.y[self.places])
        self._gradients: dict[int, Callable[..., tuple[Tensor, Tensor]]] = {}

    def _of(self, x: Tensor, y: Tensor) -> Examples:
        return Examples.of(x, y)

    def gradient(self, x: Tensor, chosen: Tensor | None = None) -> Tensor:
        """Return the gradient (run, element)."""
        examples, size = self._examples, self.task.examples
        if chosen is not None:
            rows, size = self.places[:, None], chosen.shape[1]
            examples = self._of(self.sample.x[rows, chosen], self.sample.y[rows, chosen])
        if size not in self._gradients:
            split = Split(self.sample.x[0], self.sample.y[0], self.sample.x[0], self.sample.y[0])
            problem = Problem(self.layout, split, self.loss)
            self._gradients[size] = gradient_of(problem, size)
        return self._gradients[size](x, examples)[1]

    def outcomes(self, x: Tensor) -> Iterator[Outcome]:
        """Yield the score on the rows of this stage."""
        lost = (x.abs() >= BOUND).any(1)
        if self.task.kind == "pruning":
            yield from self._pruned(x, lost)
            return
        for score, gone in zip(self._scores(x).tolist(), lost.tolist(), strict=True):
            score = self.task.worst if gone else score
            better = self.task.better == "lower"
            yield (
                {"score": min(score, self.task.worst) if better else score, "diverged": int(gone)},
                {},
            )

    def _scores(self, x: Tensor) -> Tensor:
        shared = len(self.sample.x_scored) == 1
        inputs = self.sample.x_scored if shared else self.sample.x_scored[self.places]
        targets = self.sample.y_scored if shared else self.sample.y_scored[self.places]
        with torch.no_grad():
            return self.score(self.layout.forward(x, inputs), targets)

    def _pruned(self, x: Tensor, lost: Tensor) -> Iterator[Outcome]:
        """Yield the mean accuracy over `PRUNED`, and the accuracy at every share that is kept."""
        scores = torch.stack([self._scores(keep(self.layout, x, share)) for share in SHARES], 1)
        scores[lost] = self.task.worst
        for own, gone in zip(scores, lost.tolist(), strict=True):
            mean = float(own[-len(PRUNED) :].mean())
            metrics = {"score": mean, "whole": float(own[0]), "diverged": int(gone)}
            yield metrics, {"share": SHARES, "accuracy": own}


def keep(layout: Layout, x: Tensor, share: float) -> Tensor:
    """Return nets with one hidden layer, with only a share of its neurons; others are silenced.

    Those with the largest product of the norms of incoming and outgoing weights are kept.

    Examples:
        >>> layout = Layout((1, 2, 1), torch.relu)
        >>> x = torch.tensor([[3.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.5]])
        >>> keep(layout, x, 0.5)
        tensor([[3.0000, 1.0000, 0.0000, 0.0000, 1.0000, 0.0000, 0.5000]])
    """
    x = x.clone()
    (weight, bias), (outgoing, _) = layout.layers(x)
    incoming = torch.cat([weight, bias], 2).norm(dim=2)
    strength = incoming * outgoing.norm(dim=1)
    kept = max(1, round(share * strength.shape[1]))
    weakest = strength.argsort(dim=1, descending=True)[:, kept:]
    outgoing.scatter_(2, weakest[:, None].expand(-1, outgoing.shape[1], -1), 0.0)
    return x


def neurons(layout: Layout) -> Tensor:
    """Return the hidden neuron of every element of a net with one hidden layer; -1 for none.

    Examples:
        >>> neurons(Layout((2, 3, 1), torch.relu))
        tensor([ 0,  0,  1,  1,  2,  2,  0,  1,  2,  0,  1,  2, -1])
    """
    inputs, hidden, outputs = layout.widths
    each = torch.arange(hidden)
    parts = (each.repeat_interleave(inputs), each, each.repeat(outputs))
    return torch.cat([*parts, torch.full((outputs,), -1)])
