"""The noises of many runs at once: m and n of every step, zero where a run has none.

    chaotic     v of the driver                     gaussian   normal, of the driver's variance
    stable      of index 1/gamma and scale 1        anti       xi_(k+1) - xi_k of that normal xi
    telegraph   a sign, value c0 = 1                annealed   gaussian, falling linearly to 0
    coloured    Ornstein-Uhlenbeck of variance 1    matched    gaussian that moves as far as chaotic

n, or m, is level lr v / c0: the level is a force in units of the gradient, or a decay in units of
curvature. Runs that differ only in their level share the draws of their seed.
"""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from math import ceil, sqrt
from typing import Any

import torch
from torch import Tensor

from mpgd.noise import ChaoticNoise, ColouredNoise, GaussianNoise, StableNoise, TelegraphNoise
from mpgd_lab.perturbations.batched import Noise, NoiseBank
from mpgd_lab.store import Run
from mpgd_lab.studies.compare.objectives import DataObjective, Objective, neurons

KINDS = (
    *("chaotic", "gaussian", "anti", "stable"),
    *("annealed", "matched", "telegraph", "coloured"),
)
NOISY = 0.75  # the share of the steps with noise
DRIVERS = {"multiplicative": 0, "additive": 1}  # their numbers in the optimizer


def noise_of(h: Any) -> Noise:
    """Return the noise that hyperparameters name, before it is scaled."""
    if h["noise"] == "chaotic":
        capped = {"longest": h["longest"]} if h.get("longest") else {}
        return ChaoticNoise(h["gamma"], h["beta"], burst=h.get("burst", True), **capped)
    if h["noise"] == "telegraph":
        return TelegraphNoise(h["dwell"])
    if h["noise"] == "coloured":
        return ColouredNoise(h["time"])
    return StableNoise(1.0 / h["gamma"]) if h["noise"] == "stable" else GaussianNoise(1.0)


def level(h: Any) -> float:
    """Return what multiplies a value of `noise_of`.

    Examples:
        >>> h = {"noise": "chaotic", "gamma": 0.6, "beta": 0.0, "level": 2.0, "lr": 0.1}
        >>> round(level(h) * ChaoticNoise(0.6).laminar_value, 12)  # a phase pushes by F lr
        0.2
    """
    push: float = h["level"] * h["lr"]
    if h["noise"] in ("telegraph", "coloured"):
        return push
    driver = ChaoticNoise(h["gamma"])
    scale = push / driver.laminar_value
    if h["noise"] == "matched":
        return scale * sqrt(GaussianNoise.matched(driver, steps=noisy_steps(h)).variance)
    is_normal = h["noise"] in ("gaussian", "anti", "annealed")
    return scale * sqrt(driver.variance) if is_normal else scale


def noisy_steps(h: Any) -> int:
    """Return how many steps have noise."""
    steps: int = h["steps"]
    return ceil(NOISY * steps)


class Noises:
    """The noises of some runs."""

    def __init__(self, runs: Sequence[Run], objective: Objective, x: Tensor) -> None:
        groups: dict[Hashable, list[int]] = defaultdict(list)
        for row, run in enumerate(runs):
            if run.hyperparameters.get("noise", "none") != "none":
                groups[_kind(run.hyperparameters)].append(row)
        self.parts = [
            _Part([(row, runs[row]) for row in rows], objective) for rows in groups.values()
        ]
        places = {part.place for part in self.parts}
        self.m = torch.zeros_like(x) if "multiplicative" in places else None
        self.n = torch.zeros_like(x) if "additive" in places else None

    def next(self) -> tuple[Tensor | None, Tensor | None]:
        """Return the terms of this step; the next call overwrites them."""
        for part in self.parts:
            terms = self.n if part.place == "additive" else self.m
            assert terms is not None
            terms[part.rows] = part.next().to(terms.dtype)
        return self.m, self.n


def _kind(h: Any) -> Hashable:
    names = ("noise", "gamma", "beta", "longest", "burst", "dwell", "time", "place", "per")
    return tuple(h.get(name) for name in names)


class _Part:
    """Runs that share the kind of their noise."""

    def __init__(self, rows: Sequence[tuple[int, Run]], objective: Objective) -> None:
        h = rows[0][1].hyperparameters
        self.place, self.is_anti = h["place"], h["noise"] == "anti"
        self.rows = torch.tensor([row for row, _ in rows])
        scales = [[level(run.hyperparameters)] for _, run in rows]
        self.level = torch.tensor(scales, dtype=torch.float64)
        seeds = sorted({run.seed for _, run in rows})
        self.seeds = torch.tensor([seeds.index(run.seed) for _, run in rows])
        self.neurons, shapes = None, objective.shapes
        if h["per"] == "neuron":
            assert isinstance(objective, DataObjective)
            self.neurons = neurons(objective.layout)
            shapes = [(int(self.neurons.max()) + 1,)]
        self.bank = NoiseBank(noise_of(h), seeds, shapes, [DRIVERS[h["place"]]])
        self.last = self._draw() if self.is_anti else None
        self.left = noisy_steps(h) if h["noise"] == "annealed" else None  # steps with noise to come
        self.noisy = noisy_steps(h)

    def _draw(self) -> Tensor:
        """Return the values of this step, (seed, element)."""
        values = self.bank.next()[0]
        if self.neurons is None:
            return values
        none = values.new_zeros(len(values), 1)  # the neuron -1, of elements that have none
        return torch.cat([values, none], 1)[:, self.neurons]

    def next(self) -> Tensor:
        """Return the term of this step, (row, element)."""
        values = self._draw()
        if self.last is not None:
            values, self.last = values - self.last, values
        if self.left is not None:
            values, self.left = values * (self.left / self.noisy), self.left - 1
        return values[self.seeds] * self.level
