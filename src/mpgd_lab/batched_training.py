"""Batched training: many runs of one shape at once, each with its own perturbation.

    x' = x - eta grad(x) - m x + n,     m = mu eta^gamma v1,     n = sigma eta^gamma v2

The parameters of all runs are one matrix (run, element). A run's hyperparameters name its noise,
see `perturbations.batched`; with ``batch`` it descends on random mini-batches of that size.
The noise of a run is bit-identical whatever the batch holds; its parameters are equal up to
rounding, which stays small only in float64. torch splits large products among its threads, which
changes the last bits, so every run is trained on one thread.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from mpgd.optim.displacement.reference import descended
from mpgd_lab.data.sources import Split
from mpgd_lab.nets.backprop import IN_PLACE, Backpropagation
from mpgd_lab.nets.layout import Examples, Layout, Loss, gradients, mean_square
from mpgd_lab.nets.shallow import is_available, shallow_gradient
from mpgd_lab.perturbations.batched import Shapes, Source, perturbations
from mpgd_lab.store import Run

Gradient = Callable[[Tensor], tuple[Tensor, Tensor]]
Outcome = tuple[dict[str, Any], dict[str, Any]]  # metrics, curves
Result = tuple[Run, Mapping[str, Any], Mapping[str, Any]]

MOMENTS: Final = 50  # points of a curve
_NUDGED: Final = ContextVar("_NUDGED", default=False)  # whether starts are changed in the last bit


@dataclass(frozen=True, eq=False)
class Problem:
    """A training problem."""

    layout: Layout  # the shape of the nets
    split: Split  # the data, in the precision of the training
    loss: Loss  # of outputs (net, example) and targets (example,), one number for each net
    start: torch.dtype = torch.float64  # the precision in which nets are initialised


@dataclass(frozen=True, eq=False)
class TrainedBatch:
    """The result of training a batch."""

    before: Tensor  # parameters before the last step, (run, element)
    after: Tensor  # parameters after it
    moments: list[int]  # the steps at which the curve has points
    curve: Tensor  # the monitored value at those steps, (moment, run)


@contextmanager
def one_thread() -> Iterator[None]:
    """Restrict torch to one thread, so that bits do not depend on the machine.

    Examples:
        >>> with one_thread():
        ...     torch.get_num_threads()
        1
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def nudged_starts() -> Iterator[None]:
    """Train from parameters changed by one unit in the last place: does rounding decide a run?

    Examples:
        >>> with nudged_starts():
        ...     bool(nudged(torch.ones(1)) > 1)
        True
    """
    token = _NUDGED.set(True)
    try:
        yield
    finally:
        _NUDGED.reset(token)


def nudged(x: Tensor) -> Tensor:
    """Return ``x``, inside of `nudged_starts` the next larger numbers in magnitude."""
    return x * (1 + torch.finfo(x.dtype).eps) if _NUDGED.get() else x


def train(problem: Problem, runs: Sequence[Run]) -> TrainedBatch:
    """Train one net for every run; they share ``eta``, ``steps``, ``stop`` and ``batch``."""
    layout, dtype = problem.layout, problem.split.x_train.dtype
    x = layout.initial([run.seed for run in runs], problem.start).to(dtype)
    stochastic = runs[0].hyperparameters.get("batch")
    gradient = mini_batch(problem, runs) if stochastic else full_batch(problem)
    return descend(x, runs, layout.shapes, gradient, layout)


def descend(
    x: Tensor, runs: Sequence[Run], shapes: Shapes, gradient: Gradient, layout: Layout | None = None
) -> TrainedBatch:
    """Take all steps of all runs from ``x`` (run, element), whose tensors have these ``shapes``.

    ``gradient`` returns a value to monitor (run,) and the gradients (run, element). ``layout`` is
    that of the nets, if there are any; only the authors' Gaussian needs it.
    """
    h = common_settings(runs)
    eta, steps, stop = h["eta"], h["steps"], h["stop"] or h["steps"]
    sources = perturbations(runs, shapes, x.dtype, layout)
    noise = _Perturbation(x, sources) if sources else None
    x = nudged(x)
    every, moments, curve, before = max(1, steps // MOMENTS), [], [], x

    def step(x: Tensor, g: Tensor, k: int) -> Tensor:
        m, n = noise.next() if noise and k < stop else (None, None)
        return descended(x, g, eta, m, n)

    for k, (following, watched) in enumerate(iterate_steps(x, gradient, step, steps)):
        if k % every == 0 or k == steps - 1:
            moments.append(k)
            curve.append(watched)
        before, x = x, following
    return TrainedBatch(before, x, moments, torch.stack(curve))


def iterate_steps(
    x: Any,
    gradient: Callable[[Any], tuple[Any, Any]],
    step: Callable[[Any, Any, int], Any],
    steps: int,
) -> Iterator[tuple[Any, Any]]:
    """Yield x after every step, and the value monitored before it.

    ``gradient`` returns the monitored value and the gradient; ``step`` returns x' from x, the
    gradient and the number of the step.
    """
    for k in range(steps):
        watched, g = gradient(x)
        x = step(x, g, k)
        yield x, watched


def common_settings(runs: Sequence[Run]) -> dict[str, Any]:
    """Return the settings of the batch; runs that differ in them are an error."""
    names = ("eta", "steps", "stop", "batch")
    shared = [{name: run.hyperparameters.get(name) for name in names} for run in runs]
    if any(other != shared[0] for other in shared):
        raise ValueError(f"runs trained together must share {', '.join(names)}, got {shared}")
    return shared[0]


class _Perturbation:
    """m and n of all runs, zero where a run has no noise."""

    def __init__(self, x: Tensor, sources: Sequence[Source]) -> None:
        self.m, self.n = torch.zeros_like(x), torch.zeros_like(x)
        self.parts = [(source, _place(source.rows)) for source in sources]

    def next(self) -> tuple[Tensor, Tensor]:
        """Return the terms of this step; the next call overwrites them."""
        for source, place in self.parts:
            self.m[place], self.n[place] = source.next()
        return self.m, self.n


def _place(rows: Tensor) -> slice | Tensor:
    """Return contiguous rows as a slice, which is faster to index."""
    first, last = int(rows[0]), int(rows[-1])
    return slice(first, last + 1) if last - first + 1 == len(rows) else rows


def full_batch(problem: Problem) -> Gradient:
    """Return the gradient on all of the training data."""
    split = problem.split
    gradient = gradient_of(problem, len(split.x_train))
    examples = Examples.of(split.x_train, split.y_train)
    return lambda x: gradient(x, examples)


def mini_batch(problem: Problem, runs: Sequence[Run]) -> Gradient:
    """Return the gradient on mini-batches, drawn for each run from its seed."""
    split, size = problem.split, runs[0].hyperparameters["batch"]
    batches = [minibatches(run.seed, len(split.x_train), size) for run in runs]
    gradient = gradient_of(problem, size)

    def next_gradient(x: Tensor) -> tuple[Tensor, Tensor]:
        chosen = torch.stack([next(batch) for batch in batches])
        return gradient(x, Examples.of(split.x_train[chosen], split.y_train[chosen]))

    return next_gradient


def gradient_of(
    problem: Problem, examples: int
) -> Callable[[Tensor, Examples], tuple[Tensor, Tensor]]:
    """Return the gradient in closed form where we have one, else by autograd."""
    layout, loss, dtype = problem.layout, problem.loss, problem.split.x_train.dtype
    if is_shallow(layout, loss, dtype):
        return shallow_gradient
    if IN_PLACE.keys() >= set(layout.activations):
        return Backpropagation(layout, loss, examples, dtype)
    return lambda x, own: gradients(lambda p: loss(layout.forward(p, own.inputs), own.targets), x)


def is_shallow(layout: Layout, loss: Loss, dtype: torch.dtype) -> bool:
    """Return whether the compiled gradient of `nets.shallow` can be used here."""
    one_layer = len(layout.widths) == 3 and layout.widths[-1] == 1
    functions = (layout.hidden, layout.output, loss) == (torch.relu, None, mean_square)
    return one_layer and functions and dtype == torch.float64 and is_available()


def minibatches(seed: int, count: int, size: int) -> Iterator[Tensor]:
    """Yield the examples of each step without end: a new random order for every epoch."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(count, generator=generator)
        yield from order[: count - count % size].view(-1, size)
