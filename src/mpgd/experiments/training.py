"""Many runs of one shape trained at once, each perturbed as it asks and as it would be alone.

    x' = x - eta grad(x) - m x + n,     m = mu eta^gamma v1,     n = sigma eta^gamma v2

The parameters of all runs are one matrix (run, element). A run's hyperparameters name its noise:

    none               plain descent; with ``batch``, on random mini-batches of that size
    chaotic            MPGD with ``gamma``, ``beta``, ``symmetric``
    matched            Gaussian with the prefactor and the per-step variance of that MPGD
    langevin           Gaussian with prefactor eta^(1/2) and unit variance
    switched           the authors' noise with ``switches`` on, see `mpgd.experiments.released`
    released_gaussian  the authors' Gaussian, prefactor eta

Runs with the same driver share its orbits, so a scheme more costs little. Noise does not depend on
who trains beside a run, in bits; parameters do not to rounding, which only in float64 stays small.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from math import prod, sqrt
from typing import Any, Final, Protocol

import torch
from torch import Tensor

from mpgd.experiments.bank import NoiseBank, Shapes
from mpgd.experiments.data import Split
from mpgd.experiments.nets import Layout, gradients
from mpgd.experiments.released import SwitchedNoise, released_gaussian
from mpgd.experiments.store import Run
from mpgd.noise import ChaoticNoise, GaussianNoise
from mpgd.optim.update import descended, strengths, term

Gradient = Callable[[Tensor], tuple[Tensor, Tensor]]
Result = tuple[Run, Mapping[str, Any], Mapping[str, Any]]
Rows = Sequence[tuple[int, Run]]

NOISES: Final = ("none", "chaotic", "matched", "langevin", "switched", "released_gaussian")
MOMENTS: Final = 50  # of a curve


@dataclass(frozen=True, eq=False)
class Problem:
    """What is trained.

    Attributes:
        layout: the shape of the nets.
        split: the data, in the precision of the training.
        loss: of outputs (net, example) and targets (example,), one number for each net.
        start: the precision in which nets are initialised.
    """

    layout: Layout
    split: Split
    loss: Callable[[Tensor, Tensor], Tensor]
    start: torch.dtype = torch.float64


@dataclass(frozen=True, eq=False)
class Trained:
    """What a training leaves.

    Attributes:
        before: parameters before the last step, (run, element).
        after: parameters after it.
        moments: the steps at which the curve was taken.
        curve: what ``gradient`` returned beside the gradient at those steps, (moment, run).
    """

    before: Tensor
    after: Tensor
    moments: list[int]
    curve: Tensor


def train(problem: Problem, runs: Sequence[Run]) -> Trained:
    """Train one net for every run; they share ``eta``, ``steps``, ``stop`` and ``batch``."""
    split, layout = problem.split, problem.layout
    x = layout.initial([run.seed for run in runs], problem.start).to(split.x_train.dtype)
    if runs[0].hyperparameters.get("batch"):
        return descend(x, runs, layout.shapes, _stochastic(problem, runs))

    def full(x: Tensor) -> tuple[Tensor, Tensor]:
        return gradients(lambda p: problem.loss(layout.forward(p, split.x_train), split.y_train), x)

    return descend(x, runs, layout.shapes, full, layout)


def descend(
    x: Tensor,
    runs: Sequence[Run],
    shapes: Shapes,
    gradient: Gradient,
    layout: Layout | None = None,
) -> Trained:
    """Take all steps of all runs from ``x`` (run, element).

    Args:
        x: where they start.
        runs: their hyperparameters.
        shapes: of a run's tensors; their sizes sum to the number of elements.
        gradient: returns a number to watch (run,) and the gradients (run, element).
        layout: of the nets, if they are nets; only the authors' Gaussian asks.
    """
    h = common(runs)
    eta, steps, stop = h["eta"], h["steps"], h["stop"] or h["steps"]
    sources = perturbations(runs, shapes, x.dtype, layout)
    every, moments, curve, before = max(1, steps // MOMENTS), [], [], x
    for k in range(steps):
        watched, g = gradient(x)
        if k % every == 0 or k == steps - 1:
            moments.append(k)
            curve.append(watched)
        m, n = _terms(x, sources) if sources and k < stop else (None, None)
        before, x = x, descended(x, g, eta, m, n)
    return Trained(before, x, moments, torch.stack(curve))


def common(runs: Sequence[Run]) -> dict[str, Any]:
    """Return the settings all runs share; runs that do not share them are an error."""
    names = ("eta", "steps", "stop", "batch")
    shared = [{name: run.hyperparameters.get(name) for name in names} for run in runs]
    if any(other != shared[0] for other in shared):
        raise ValueError(f"runs trained together must share {', '.join(names)}, got {shared}")
    return shared[0]


def _terms(x: Tensor, sources: Iterable[Source]) -> tuple[Tensor, Tensor]:
    m, n = torch.zeros_like(x), torch.zeros_like(x)
    for source in sources:
        m[source.rows], n[source.rows] = source.next()
    return m, n


def _stochastic(problem: Problem, runs: Sequence[Run]) -> Gradient:
    """Return the gradient on a mini-batch of each run's own."""
    split, layout, size = problem.split, problem.layout, runs[0].hyperparameters["batch"]
    batches = [minibatches(run.seed, len(split.x_train), size) for run in runs]

    def gradient(x: Tensor) -> tuple[Tensor, Tensor]:
        pairs = [_one(x[row : row + 1], next(batch)) for row, batch in enumerate(batches)]
        return torch.cat([loss for loss, _ in pairs]), torch.cat([g for _, g in pairs])

    def _one(x: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
        inputs, targets = split.x_train[chosen], split.y_train[chosen]
        return gradients(lambda p: problem.loss(layout.forward(p, inputs), targets), x)

    return gradient


def minibatches(seed: int, count: int, size: int) -> Iterator[Tensor]:
    """Yield the examples of each step for ever: a new random order for every pass."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(count, generator=generator)
        yield from order[: count - count % size].view(-1, size)


class Source(Protocol):
    """The perturbations of some of the runs."""

    rows: Tensor

    def next(self) -> tuple[Tensor, Tensor]:
        """Return m and n of this step, each (row, element)."""


def perturbations(
    runs: Sequence[Run], shapes: Shapes, dtype: torch.dtype, layout: Layout | None = None
) -> list[Source]:
    """Return what perturbs the runs, those with the same drivers together."""
    groups: dict[tuple[Hashable, ...], list[tuple[int, Run]]] = defaultdict(list)
    for row, run in enumerate(runs):
        groups[_driver(run.hyperparameters)].append((row, run))
    sources: list[Source] = []
    for (noise, *_), rows in groups.items():
        if noise == "chaotic":
            sources.append(Orbits(rows, shapes, dtype))
        elif noise == "gaussian":
            sources.append(Normals(rows, shapes, dtype))
        elif noise == "switched":
            sources.append(Tables(rows, shapes, dtype))
        elif noise == "released_gaussian":
            sources.append(ReleasedNormals(rows, shapes, dtype, layout))
    return sources


def _driver(h: Mapping[str, Any]) -> tuple[Hashable, ...]:
    noise = h.get("noise", "none")
    if noise not in NOISES:
        raise ValueError(f"noise must be one of {', '.join(NOISES)}, got {noise!r}")
    if noise == "chaotic":
        return noise, h["gamma"], h["beta"]
    if noise == "switched":
        return noise, h["gamma"], h["beta"], h["symmetric"], tuple(h["switches"])
    return ("gaussian",) if noise in ("matched", "langevin") else (noise,)


def levels(run: Run) -> tuple[float, float]:
    """Return what multiplies v1 and v2: mu eta^gamma and sigma eta^gamma, by the run's noise.

    Examples:
        >>> h = {"noise": "langevin", "eta": 0.25, "mu": 2.0, "sigma": 3.0}
        >>> levels(Run("x", "paper", "langevin", h, seed=1))
        (1.0, 1.5)
    """
    h = run.hyperparameters
    exponent = {"langevin": 0.5, "released_gaussian": 1.0}.get(h["noise"]) or h["gamma"]
    pair = strengths(h["eta"], h["mu"], h["sigma"], (exponent, exponent))
    scale = 1.0
    if h["noise"] == "matched":
        scale = sqrt(ChaoticNoise(h["gamma"]).variance * (2.0 if h["symmetric"] else 1.0))
    return float(pair[0]) * scale, float(pair[1]) * scale


def _columns(rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
    """Return the rows, and the two levels as columns."""
    pairs = torch.tensor([levels(run) for _, run in rows], dtype=torch.float64)
    return torch.tensor([row for row, _ in rows]), pairs[:, :1], pairs[:, 1:]


def stacked(banks: Sequence[NoiseBank]) -> NoiseBank:
    """Return the banks of several drivers as one, advanced in one go; its first axis is theirs."""
    whole = copy(banks[0])
    whole.step = banks[0].step.clone()
    whole._keys = torch.cat([bank._keys for bank in banks])
    whole._index = torch.cat([bank._index for bank in banks])
    states = [bank.s for bank in banks if bank.s is not None]
    whole.s = torch.cat(states) if states else None
    return whole


class Orbits:
    """MPGD's drivers of one gamma and beta; the symmetric variant takes their twins off."""

    def __init__(self, rows: Rows, shapes: Shapes, dtype: torch.dtype) -> None:
        h = rows[0][1].hyperparameters
        noise, self.dtype = ChaoticNoise(h["gamma"], h["beta"]), dtype
        self.rows, self.mu, self.sigma = _columns(rows)
        flags = [float(run.hyperparameters["symmetric"]) for _, run in rows]
        self.symmetric = torch.tensor(flags, dtype=torch.float64)[:, None] if any(flags) else None
        seeds = sorted({run.seed for _, run in rows})
        self.places = torch.tensor([seeds.index(run.seed) for _, run in rows])
        self.drivers = 4 if any(flags) else 2
        banks = [NoiseBank(noise, seeds, shapes, driver) for driver in range(self.drivers)]
        self.bank = stacked(banks)

    def next(self) -> tuple[Tensor, Tensor]:
        """Return m and n of this step."""
        v = self.bank.next()
        v = v.view(self.drivers, -1, v.shape[1])[:, self.places]
        twins = (None, None) if self.symmetric is None else (v[2:] * self.symmetric).unbind()
        pairs = zip((self.mu, self.sigma), v[:2], twins, strict=True)
        m, n = (term(level, value, twin, self.dtype) for level, value, twin in pairs)
        return m, n


class Normals:
    """Gaussian noise; the level holds its standard deviation, so all schemes share the draws."""

    def __init__(self, rows: Rows, shapes: Shapes, dtype: torch.dtype) -> None:
        self.rows, self.mu, self.sigma = _columns(rows)
        seeds = sorted({run.seed for _, run in rows})
        self.places = torch.tensor([seeds.index(run.seed) for _, run in rows])
        banks = [NoiseBank(GaussianNoise(1.0), seeds, shapes, driver) for driver in (0, 1)]
        self.bank, self.dtype = stacked(banks), dtype

    def next(self) -> tuple[Tensor, Tensor]:
        """Return m and n of this step."""
        v = self.bank.next()
        v1, v2 = v.view(2, -1, v.shape[1])[:, self.places]
        return term(self.mu, v1, None, self.dtype), term(self.sigma, v2, None, self.dtype)


class Tables:
    """The authors' noise, tabulated over the perturbed steps, for one set of switches."""

    def __init__(self, rows: Rows, shapes: Shapes, dtype: torch.dtype) -> None:
        h = rows[0][1].hyperparameters
        key = (h["gamma"], h["beta"], h["symmetric"], frozenset(h["switches"]))
        noise, steps = SwitchedNoise(*key), h.get("stop") or h["steps"]
        self.rows, self.mu, self.sigma = _columns(rows)
        self.dtype, self.step = dtype, 0
        seeds, sizes = [run.seed for _, run in rows], [prod(shape) for shape in shapes]
        if noise.has("same_seeds") and noise.has("constant_sign"):
            self.at = _shared_tables(noise, seeds, sizes, steps)
        else:
            self.at = _own_tables(noise, seeds, shapes, steps)

    def next(self) -> tuple[Tensor, Tensor]:
        """Return m and n of this step."""
        v1, v2 = self.at(self.step)
        self.step += 1
        return term(self.mu, v1, None, self.dtype), term(self.sigma, v2, None, self.dtype)


ByStep = Callable[[int], tuple[Tensor, Tensor]]


def _own_tables(noise: SwitchedNoise, seeds: list[int], shapes: Shapes, steps: int) -> ByStep:
    tables = [noise.tables(seed, shapes, steps) for seed in seeds]
    return lambda k: (
        torch.stack([first[k] for first, _ in tables]),
        torch.stack([second[k] for _, second in tables]),
    )


def _shared_tables(noise: SwitchedNoise, seeds: list[int], sizes: list[int], steps: int) -> ByStep:
    """Return views into one table: with same seeds, element i of run s is column s + i of it."""
    transposed = SwitchedNoise(
        noise.gamma, noise.beta, noise.symmetric, noise.switches - {"reshaped"}
    )
    first, width = min(seeds), max(sizes) + max(seeds) - min(seeds)
    v1, v2 = transposed.tables(first, [(width,)], steps)
    if noise.has("reshaped"):  # step k reads consecutive times of one orbit across elements
        flat = v1.T.reshape(-1), v2.T.reshape(-1)
        starts = [(seed - first) * steps for seed in seeds]
        return lambda k: (
            _slices(flat[0], [[(s + k * n, n) for n in sizes] for s in starts]),
            _slices(flat[1], [[(s + k * n, n) for n in sizes] for s in starts]),
        )
    places = [[(seed - first, n) for n in sizes] for seed in seeds]
    return lambda k: (_slices(v1[k], places), _slices(v2[k], places))


def _slices(flat: Tensor, places: list[list[tuple[int, int]]]) -> Tensor:
    """Return rows of neighbouring slices (start, length) of ``flat``."""
    rows = [torch.cat([flat[start : start + n] for start, n in row]) for row in places]
    return torch.stack(rows)


class ReleasedNormals:
    """The authors' Gaussian: from torch's generator as the initialisation of the net left it."""

    def __init__(
        self, rows: Rows, shapes: Shapes, dtype: torch.dtype, layout: Layout | None
    ) -> None:
        if layout is None:
            raise ValueError("released_gaussian follows the initialisation of a net, got no layout")
        self.rows, self.mu, self.sigma = _columns(rows)
        self.shapes, self.dtype = shapes, dtype
        with torch.random.fork_rng():
            self.states = [self._state(layout, run.seed) for _, run in rows]

    def _state(self, layout: Layout, seed: int) -> Tensor:
        layout._initial_one(seed, self.dtype)
        return torch.random.get_rng_state()

    def next(self) -> tuple[Tensor, Tensor]:
        """Return m and n of this step; the additive term enters with -sigma."""
        v1, v2 = [], []
        with torch.random.fork_rng():
            for row, state in enumerate(self.states):
                torch.random.set_rng_state(state)
                multiplicative, additive = released_gaussian(self.shapes, self.dtype)
                self.states[row] = torch.random.get_rng_state()
                v1.append(multiplicative)
                v2.append(-additive)
        m, n = (torch.stack(v).double() for v in (v1, v2))
        return term(self.mu, m, None, self.dtype), term(self.sigma, n, None, self.dtype)
