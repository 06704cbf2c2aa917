"""The valley with every deviation of the authors' script as a switch of its own.

    u' = u - eta v^2 u   - m_u u + n_u
    v' = v - eta |u|^2 v - m_v v + n_v

    scalar_u         u is one number, 17.28 at the start
    u_first          u moves before v, whose step then sees the new u
    noise_times_u    v's multiplicative noise multiplies u, not v; of a vector, sum(u) / sqrt(d)
    one_multiplier   one multiplicative driver serves u and v
    iterated_start, constant_sign, early_sign    of the orbits, see `perturbations.released`
    bare_gaussian    the Gaussian has prefactor 1 and unit variance
    gaussian_means   its means are 10 (u, additive) and 1 (v, and the multiplicative one)

With all of them this is `mpgd_lab.studies.valley`'s script, but for the seeds of its noise.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import sqrt
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from mpgd_lab.batched_training import Result
from mpgd_lab.perturbations.batched import levels, perturbations
from mpgd_lab.store import Run
from mpgd_lab.studies.valley.training import RELEASED_MEANS, RELEASED_START, start, trace

Terms = tuple[Tensor, Tensor]

ORBITS: Final = ("iterated_start", "constant_sign", "early_sign")
GAUSSIAN: Final = ("bare_gaussian", "gaussian_means")
MOTION: Final = ("scalar_u", "u_first", "noise_times_u", "one_multiplier")
SCALAR_START: Final = torch.tensor([RELEASED_START, 0.0], dtype=torch.float64)


def train(runs: Sequence[Run], data: Path | None = None) -> Iterator[Result]:
    """Yield the final trace of each run; its ``deviations`` name the switches."""
    groups: dict[bool, list[Run]] = defaultdict(list)
    for run in runs:
        groups[_has(run, "scalar_u")].append(run)
    for scalar, group in groups.items():
        x = SCALAR_START.expand(len(group), 2) if scalar else start([run.seed for run in group])
        final = trace(moved(x, group, noise(group, x.shape[1] - 1)))
        for run, result in zip(group, final, strict=True):
            yield run, {"trace": float(result)}, {}


def moved(x: Tensor, runs: Sequence[Run], noise: Iterable[Terms]) -> Tensor:
    """Return (u, v) of every run, (run, element), moved from ``x`` by all of ``noise``."""
    eta, (u, v) = runs[0].hyperparameters["eta"], (x[:, :-1], x[:, -1:])
    u_first, times_u, shared = (_column(runs, name) for name in MOTION[1:])
    for m, n in noise:
        m = torch.where(shared, m[:, :1], m)
        new = u - eta * v.square() * u - m[:, :-1] * u + n[:, :-1]
        seen = torch.where(u_first, new, u)
        factor = torch.where(times_u, seen.sum(1, keepdim=True) / sqrt(u.shape[1]), v)
        slope = v * seen.square().sum(1, keepdim=True)
        u, v = new, v - eta * slope - m[:, -1:] * factor + n[:, -1:]
    return torch.cat([u, v], dim=1)


def noise(runs: Sequence[Run], d: int) -> Iterator[Terms]:
    """Yield m and n of every step, each (run, element), for u in R^d."""
    perturbed = [_perturbed(run) for run in runs]
    sources = perturbations(perturbed, [(d,), (1,)], torch.float64)
    on_u, on_v, multiplicative = RELEASED_MEANS
    level = torch.tensor([levels(run) for run in perturbed], dtype=torch.float64)
    shift = level * _column(runs, "gaussian_means")
    shift_m = shift[:, :1] * multiplicative
    shift_n = shift[:, 1:] * torch.tensor([on_u] * d + [on_v], dtype=torch.float64)
    for _ in range(runs[0].hyperparameters["steps"]):
        m, n = torch.zeros(2, len(runs), d + 1, dtype=torch.float64)
        for source in sources:
            m[source.rows], n[source.rows] = source.next()
        yield m + shift_m, n + shift_n


def _perturbed(run: Run) -> Run:
    """Return the run with the noise its switches ask for."""
    h, on = dict(run.hyperparameters), run.hyperparameters["deviations"]
    if switches := [name for name in ORBITS if name in on]:
        h |= {"noise": "switched", "switches": switches}
    if "control" in on:
        h |= {"noise": "switched", "switches": []}
    if "bare_gaussian" in on:  # Langevin's prefactor is eta^(1/2), its variance 1
        root = sqrt(h["eta"])
        h |= {"noise": "langevin", "mu": h["mu"] / root, "sigma": h["sigma"] / root}
    return replace(run, hyperparameters=h)


def _has(run: Run, switch: str) -> bool:
    return switch in run.hyperparameters["deviations"]


def _column(runs: Sequence[Run], switch: str) -> Tensor:
    return torch.tensor([[_has(run, switch)] for run in runs])
