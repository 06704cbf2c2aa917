"""Theorem 4.3 against simulation: the coefficient of eps^2 in E R(x_k) - R(xbar_k).

    D(eps) = (E R(x_k; eps) + E R(x_k; -eps) - 2 R(xbar_k)) / (2 eps^2)
           = c2 + c4 eps^2 + c6 eps^4 + ...

The same paths of the drivers serve eps, -eps and all sizes of eps (odd orders cancel), and three
sizes give c2 without c4 and c6: (64 D(eps/4) - 20 D(eps/2) + D(eps)) / 45. Beside it stand the
theorem as printed and with the term its proof drops (`mpgd.theory.implicit_regularizer`), whose
autocovariances come from the invariant law and not from these paths.

Reference: Lim, Wan & Simsekli (2022), Theorem 4.3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from math import sqrt
from typing import Any, Final

import torch
from torch import Tensor
from torch.func import grad, vmap

from mpgd.experiments import Context
from mpgd.experiments.store import Record, Run
from mpgd.noise import ChaoticNoise
from mpgd.theory import implicit_regularizer

Loss = Callable[[Tensor], Tensor]

GAMMA: Final = 0.6
BETAS: Final = (0.0, 0.5)
SIZES: Final = ((1.0, 0.0), (0.0, 1.0), (1.0, 0.5))  # mu0, sigma0
EPSILONS: Final = (0.2, 0.1, 0.05)  # each half of the one before
RICHARDSON: Final = (1 / 45, -20 / 45, 64 / 45)
HIDDEN, POINTS = 3, 12
AGREE: Final = 3.0  # standard errors
PRECISE: Final = 0.02  # largest relative standard error


def quartic(x: Tensor) -> Tensor:
    """Return (x^2 - 1)^2 / 4, two wells."""
    return ((x**2 - 1) ** 2).sum() / 4


def pair(x: Tensor) -> Tensor:
    """Return p^4/4 + p^2 q^2/2 + q^2/2 + p q/3."""
    p, q = x[0], x[1]
    return p**4 / 4 + (p * q) ** 2 / 2 + q**2 / 2 + p * q / 3


def valley(x: Tensor) -> Tensor:
    """Return v^2 |u|^2 / 2, x = (u, v): the paper's valley of minima."""
    return x[-1] ** 2 * (x[:-1] ** 2).sum() / 2


def network(x: Tensor) -> Tensor:
    """Return the mean squared error of a tanh network 2-3-1 on twelve points of a saddle."""
    angle = torch.arange(POINTS, dtype=x.dtype) * 2.4
    inputs = torch.stack([angle.cos(), angle.sin()], dim=1) * (angle / angle.max()).sqrt()[:, None]
    W, b, w, c = torch.split(x, [2 * HIDDEN, HIDDEN, HIDDEN, 1])
    outputs = torch.tanh(inputs @ W.view(2, HIDDEN) + b) @ w + c
    return ((outputs - inputs.prod(dim=1)) ** 2).mean()


@dataclass(frozen=True)
class Problem:
    """A loss, where descent starts, one over the step size, and how long it goes."""

    loss: Loss
    x0: tuple[float, ...]
    m: float
    steps: int

    @property
    def start(self) -> Tensor:
        """``x0`` as a tensor."""
        return torch.tensor(self.x0, dtype=torch.float64)


NET_START: Final = (0.9, -0.6, 0.4, 0.5, 0.8, -0.7, 0.2, -0.1, 0.3, 1.1, -0.8, 0.9, 0.4)
PROBLEMS: Final = {
    "quartic": Problem(quartic, (1.8,), 40.0, 12),
    "pair": Problem(pair, (1.2, -0.8), 10.0, 12),
    "valley": Problem(valley, (1.0, 0.8, 0.6, 1.0), 10.0, 6),
    "network": Problem(network, NET_START, 5.0, 12),
}


@dataclass(frozen=True)
class Case:
    """Which drivers perturb: a case of the theorem."""

    mu0: float
    sigma0: float
    beta: float
    shared: bool


@dataclass(frozen=True)
class Counts:
    """Numbers of paths, of the small losses and of the network."""

    small: int = 100_000
    network: int = 20_000


FULL: Final = Counts()


def run(context: Context, counts: Counts = FULL, seed: int = 0) -> None:
    """Compute what the store lacks, print the table and write ``implicit.png``."""
    tasks = [_run(name, case, counts, seed) for name in PROBLEMS for case in cases(name)]
    tracked = context.reporter.track(tasks, _label)
    records = [context.store.once(task, partial(_work, task)) for task in tracked]
    columns = ["loss", "drivers", "measured", "s.e.", "completed", "z", "printed", "z", "verdict"]
    title = f"Coefficient of eps^2 in E R(x_k), gamma {GAMMA}"
    context.reporter.table(title, columns, [row(record) for record in records])
    for line in verdict(records):
        context.reporter.say(line)
    _draw(context, records)


def cases(name: str) -> list[Case]:
    """Return the cases that differ: `shared` says nothing without mu0 or in one dimension."""
    both = (True,) if len(PROBLEMS[name].x0) == 1 else (True, False)
    return [
        Case(mu0, sigma0, beta, shared)
        for beta, (mu0, sigma0), shared in product(BETAS, SIZES, both)
        if mu0 or shared
    ]


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


def _run(name: str, case: Case, counts: Counts, seed: int) -> Run:
    problem = PROBLEMS[name]
    fixed = {"gamma": GAMMA, "x0": problem.x0, "m": problem.m, "steps": problem.steps}
    count = counts.network if name == "network" else counts.small
    drawn = {"epsilons": EPSILONS, "count": count}
    return Run("implicit", "paper", name, fixed | asdict(case) | drawn, seed)


def case_of(run: Run) -> Case:
    """Return the case a run is about."""
    h = run.hyperparameters
    return Case(h["mu0"], h["sigma0"], h["beta"], h["shared"])


def _work(task: Run) -> tuple[dict[str, Any], dict[str, Any]]:
    problem, case, count = PROBLEMS[task.scheme], case_of(task), task.hyperparameters["count"]
    D = measure(problem, case, count, task.seed)
    c2 = torch.tensor(RICHARDSON, dtype=torch.float64) @ D
    theory = implicit_regularizer(
        problem.loss, problem.start, m=problem.m, steps=problem.steps, mu0=case.mu0,
        sigma0=case.sigma0, noise=ChaoticNoise(GAMMA, case.beta), shared=case.shared,
    )  # fmt: skip
    printed = theory.trace + theory.third
    metrics = {"measured": float(c2.mean()), "stderr": float(c2.std()) / sqrt(count)}
    metrics |= {"completed": theory.coefficient, "printed": printed}
    metrics |= {"trace": theory.trace, "third": theory.third, "cross": theory.cross}
    curves = {"epsilon": EPSILONS, "D": D.mean(dim=1), "stderr": D.std(dim=1) / sqrt(count)}
    return metrics, curves


def deviation(record: Record, theory: str) -> float:
    """Return measured minus ``theory``, "completed" or "printed", in standard errors."""
    m = record.metrics
    return float((m["measured"] - m[theory]) / m["stderr"])


def verdict(records: list[Record]) -> list[str]:
    """Return in words in how many cases each form of the theorem holds."""
    lines = []
    for theory in ("completed", "printed"):
        good = sum(abs(deviation(record, theory)) <= AGREE for record in records)
        lines.append(
            f"{theory} theorem: within {AGREE:g} standard errors in {good} of {len(records)} cases"
        )
    with_mu = [record for record in records if record.run.hyperparameters["mu0"]]
    wrong = sum(abs(deviation(record, "printed")) > AGREE for record in with_mu)
    lines.append(f"printed theorem fails in {wrong} of the {len(with_mu)} cases with mu0 > 0")
    largest = max(r.metrics["stderr"] / abs(r.metrics["completed"]) for r in records)
    state = "below" if largest < PRECISE else "NOT below"
    lines.append(f"largest standard error: {largest:.2%} of the coefficient, {state} {PRECISE:.0%}")
    return lines


def describe(case: Case) -> str:
    """Return a case in words."""
    drivers = {(True, True): "mu0, sigma0", (True, False): "mu0", (False, True): "sigma0"}
    text = drivers[case.mu0 > 0, case.sigma0 > 0]
    if case.mu0:
        text += ", shared" if case.shared else ", per coord."
    return f"{text}, beta {case.beta:g}"


def _label(task: Run) -> str:
    return f"{task.scheme}: {describe(case_of(task))}"


def row(record: Record) -> list[str]:
    """Return a row of the table: measured, completed, printed, and which of the two agrees."""
    m = record.metrics
    z = {theory: deviation(record, theory) for theory in ("completed", "printed")}
    words = [name for name in z if abs(z[name]) <= AGREE]
    agree = {0: "neither", 1: f"{words[0]} only" if words else "", 2: "both"}[len(words)]
    numbers = [f"{m['measured']:.5f}", f"{m['stderr']:.5f}", f"{m['completed']:.5f}"]
    numbers += [f"{z['completed']:+.1f}", f"{m['printed']:.5f}", f"{z['printed']:+.1f}"]
    return [record.run.scheme, describe(case_of(record.run)), *numbers, agree]


def _draw(context: Context, records: list[Record]) -> None:
    from mpgd.experiments.implicit_figure import figure

    path = context.out / "implicit.png"
    figure(records).savefig(path, dpi=200)
    context.reporter.say(f"figure: {path}")
