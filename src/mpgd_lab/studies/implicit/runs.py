"""The losses and cases of the test of Theorem 4.3."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Final

import torch
from torch import Tensor

from mpgd_lab.schema import Needs
from mpgd_lab.store import Run

Loss = Callable[[Tensor], Tensor]

GAMMA: Final = 0.6
BETAS: Final = (0.0, 0.5)
SIZES: Final = ((1.0, 0.0), (0.0, 1.0), (1.0, 0.5))  # mu0, sigma0
EPSILONS: Final = (0.2, 0.1, 0.05)  # each half of the one before
HIDDEN, POINTS = 3, 12
NEEDS: Final = Needs(
    ("measured", "completed", "printed", "stderr"),
    (("epsilon", "D", "stderr"),),
    choices={"shared": (True, False)},
)


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
    """Numbers of paths, of the small losses and of the network; m of the study of the ratio."""

    small: int = 100_000
    network: int = 20_000
    ratio: tuple[int, ...] = (5, 20, 80, 160)


FULL: Final = Counts()
RATIO: Final = "ratio"  # the scheme of the study of a remark
RATIO_SIZES: Final = ((0.0, 1.0), (1.0, 0.0))  # mu0, sigma0
RATIO_NEEDS: Final = Needs(("trace", "third", "cross"), choices={"regime": ("fixed", "limit")})
FIXED_STEPS: Final = 10


def tasks(protocol: str, seeds: Sequence[int], counts: Counts = FULL) -> list[Run]:
    """Return every run; there is one protocol, and one seed."""
    runs = [_run(name, case, counts) for name in PROBLEMS for case in cases(name)]
    return runs + ratio_runs(counts)


def ratio_runs(counts: Counts = FULL) -> list[Run]:
    """Return the runs for the remark that the lambda term is at most C/m times the trace term.

    At a fixed number of steps, and at k = 2 m, the regime of Theorem 4.1.
    """
    return [
        Run(
            "implicit",
            "paper",
            RATIO,
            {
                "gamma": GAMMA,
                "mu0": mu0,
                "sigma0": sigma0,
                "m": m,
                "regime": regime,
                "steps": steps,
            },
            seed=0,
        )
        for mu0, sigma0 in RATIO_SIZES
        for m in counts.ratio
        for regime, steps in (("fixed", FIXED_STEPS), ("limit", 2 * m))
    ]


def cases(name: str) -> list[Case]:
    """Return the cases that differ: `shared` says nothing without mu0 or in one dimension."""
    both = (True,) if len(PROBLEMS[name].x0) == 1 else (True, False)
    return [
        Case(mu0, sigma0, beta, shared)
        for beta, (mu0, sigma0), shared in product(BETAS, SIZES, both)
        if mu0 or shared
    ]


def _run(name: str, case: Case, counts: Counts) -> Run:
    problem = PROBLEMS[name]
    fixed = {"gamma": GAMMA, "x0": problem.x0, "m": problem.m, "steps": problem.steps}
    count = counts.network if name == "network" else counts.small
    drawn = {"epsilons": EPSILONS, "count": count}
    return Run("implicit", "paper", name, fixed | asdict(case) | drawn, seed=0)


def case_of(run: Run) -> Case:
    """Return the case a run is about."""
    h = run.hyperparameters
    return Case(h["mu0"], h["sigma0"], h["beta"], h["shared"])


def describe(case: Case) -> str:
    """Return a case in words."""
    drivers = {(True, True): "mu0, sigma0", (True, False): "mu0", (False, True): "sigma0"}
    text = drivers[case.mu0 > 0, case.sigma0 > 0]
    if case.mu0:
        text += ", shared" if case.shared else ", per coord."
    return f"{text}, beta {case.beta:g}"


def label(task: Run) -> str:
    """Return how a run is named in the progress."""
    if task.scheme == RATIO:
        h = task.hyperparameters
        return f"ratio, mu0 {h['mu0']:g}, sigma0 {h['sigma0']:g}, m {h['m']}, {h['steps']} steps"
    return f"{task.scheme}: {describe(case_of(task))}"
