"""The coefficient of eps^2 by simulation, with the same paths for all sizes and signs of eps."""

from collections.abc import Iterator
from math import sqrt
from pathlib import Path
from typing import Final

import torch
from torch import Tensor
from torch.func import grad, vmap

from mpgd.noise import ChaoticNoise
from mpgd.theory import implicit_regularizer
from mpgd_lab.batched_training import Outcome, Result
from mpgd_lab.store import Run
from mpgd_lab.studies.implicit.runs import EPSILONS, GAMMA, PROBLEMS, RATIO, Case, Problem, case_of

RICHARDSON: Final = (1 / 45, -20 / 45, 64 / 45)


def measure(
    problem: Problem, case: Case, count: int, seed: int, epsilons: tuple[float, ...] = EPSILONS
) -> Tensor:
    """Return D(eps) for every path, (eps, path)."""
    noise, d = ChaoticNoise(GAMMA, case.beta), len(problem.x0)
    scale = problem.m**-GAMMA
    v1 = noise.path(problem.steps, (count, 1 if case.shared else d), seed=2 * seed)
    v2 = noise.path(problem.steps, (count, d), seed=2 * seed + 1)
    m, n = case.mu0 * scale * v1, case.sigma0 * scale * v2
    base = problem.loss(_descend(problem, problem.start[None], 0.0, m[:, :1], n[:, :1])[0])

    def excess(eps: float) -> Tensor:
        x = _descend(problem, problem.start.expand(count, d), eps, m, n)
        values: Tensor = vmap(problem.loss)(x)
        return values - base

    return torch.stack([(excess(eps) + excess(-eps)) / (2 * eps**2) for eps in epsilons])


def _descend(problem: Problem, x: Tensor, eps: float, m: Tensor, n: Tensor) -> Tensor:
    """Return x_k of x' = x - grad(x)/m - eps m x + eps n, for every path."""
    gradient = vmap(grad(problem.loss))
    for m_k, n_k in zip(m, n, strict=True):
        x = x - gradient(x) / problem.m + eps * (n_k - m_k * x)
    return x


def train(runs: list[Run], data: Path | None = None) -> Iterator[Result]:
    """Yield metrics and curves of each run."""
    for run in runs:
        yield run, *work(run)


def ratio(task: Run) -> dict[str, float]:
    """Return the parts of the coefficient on the two-parameter quartic, exactly."""
    h, problem = task.hyperparameters, PROBLEMS["pair"]
    result = implicit_regularizer(
        problem.loss,
        problem.start,
        m=h["m"],
        steps=h["steps"],
        mu0=h["mu0"],
        sigma0=h["sigma0"],
        noise=ChaoticNoise(h["gamma"]),
    )
    return {"trace": result.trace, "third": result.third, "cross": result.cross}


def work(task: Run) -> Outcome:
    """Return the measured coefficient and what the theorem says, with D(eps) as curves."""
    if task.scheme == RATIO:
        return ratio(task), {}
    problem, case, count = PROBLEMS[task.scheme], case_of(task), task.hyperparameters["count"]
    D = measure(problem, case, count, task.seed)
    c2 = torch.tensor(RICHARDSON, dtype=torch.float64) @ D
    theory = implicit_regularizer(
        problem.loss,
        problem.start,
        m=problem.m,
        steps=problem.steps,
        mu0=case.mu0,
        sigma0=case.sigma0,
        noise=ChaoticNoise(GAMMA, case.beta),
        shared=case.shared,
    )
    printed = theory.trace + theory.third
    metrics = {"measured": float(c2.mean()), "stderr": float(c2.std()) / sqrt(count)}
    metrics |= {"completed": theory.coefficient, "printed": printed}
    metrics |= {"trace": theory.trace, "third": theory.third, "cross": theory.cross}
    curves = {"epsilon": EPSILONS, "D": D.mean(dim=1), "stderr": D.std(dim=1) / sqrt(count)}
    return metrics, curves
