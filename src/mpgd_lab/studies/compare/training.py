"""Many runs of one task at once, each moved as its method moves.

Runs of a batch share their task, stage, rule, batch size and number of steps; step sizes, levels
and noises may differ from row to row. The noise of a run is bit-identical whatever the batch holds;
its parameters are equal up to rounding, which in float32 can change a score.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from mpgd.optim.displacement.reference import descended
from mpgd_lab.batched_training import Result, nudged
from mpgd_lab.store import Run
from mpgd_lab.studies.compare.noise_terms import NOISY, Noises
from mpgd_lab.studies.compare.objectives import BOUND, Objective, batches, make_objective
from mpgd_lab.studies.compare.tasks import BY_NAME

MAX_BATCH: Final = 60  # runs trained together
BETAS, EPS = (0.9, 0.999), 1e-8  # of Adam


def train(runs: list[Run], data: Path | None = None) -> Iterator[Result]:
    """Yield the score of each run, on the validation or on the test part, as its stage asks."""
    objective = make_objective(runs, data)
    x = descend(objective, runs)
    for run, (metrics, curves) in zip(runs, objective.outcomes(x), strict=True):
        yield run, metrics, curves


def descend(objective: Objective, runs: Sequence[Run]) -> Tensor:
    """Return where all runs end, (run, element)."""
    h = runs[0].hyperparameters
    x, steps = nudged(objective.start), h["steps"]
    noises, move = Noises(runs, objective, x), RULES[h["study"]](runs, objective)
    examples = batches(BY_NAME[h["data"]], runs)
    for k in range(steps):
        m, n = noises.next() if k < NOISY * steps else (None, None)
        x = descended(x, move(x, next(examples)), 1.0, m, n)
        x.nan_to_num_(BOUND, BOUND, -BOUND).clamp_(-BOUND, BOUND)
    return x


def column(runs: Sequence[Run], name: str, dtype: torch.dtype) -> Tensor:
    """Return a hyperparameter of every run as a column, 0 where a run has none."""
    values = [[float(run.hyperparameters.get(name, 0.0))] for run in runs]
    return torch.tensor(values, dtype=dtype)


class Descent:
    """lr (g + w x)."""

    def __init__(self, runs: Sequence[Run], objective: Objective) -> None:
        self.objective, dtype = objective, objective.start.dtype
        self.lr, self.decay, self.rho = (
            column(runs, name, dtype) for name in ("lr", "weight_decay", "rho")
        )
        self.has_decay = bool(self.decay.any())

    def __call__(self, x: Tensor, chosen: Tensor | None) -> Tensor:
        """Return what is subtracted from x."""
        g = self.objective.gradient(x, chosen)
        return self.lr * (g + self.decay * x) if self.has_decay else self.lr * g


class Sharpness(Descent):
    """The gradient at x + rho g / |g|, the norm taken over each start of a run."""

    def __call__(self, x: Tensor, chosen: Tensor | None) -> Tensor:
        """Return what is subtracted from x."""
        g = self.objective.gradient(x, chosen)
        own = g.view(len(g), self.objective.starts, -1)
        unit = (own / own.norm(dim=2, keepdim=True).clamp(min=1e-12)).view_as(g)
        return super().__call__(x + self.rho * unit, chosen)


class Adam(Descent):
    """AdamW's step, decay taken off the parameters themselves."""

    def __init__(self, runs: Sequence[Run], objective: Objective) -> None:
        super().__init__(runs, objective)
        self.first, self.second = (
            torch.zeros_like(objective.start),
            torch.zeros_like(objective.start),
        )
        self.count = 0

    def __call__(self, x: Tensor, chosen: Tensor | None) -> Tensor:
        """Return what is subtracted from x."""
        g = self.objective.gradient(x, chosen)
        self.count += 1
        self.first.lerp_(g, 1 - BETAS[0])
        self.second.mul_(BETAS[1]).addcmul_(g, g, value=1 - BETAS[1])
        free = [1 - beta**self.count for beta in BETAS]  # of the bias of the zero start
        step = self.first / free[0] / ((self.second / free[1]).sqrt() + EPS)
        return self.lr * (step + self.decay * x)


RULES: Final[dict[str, Callable[[Sequence[Run], Objective], Any]]] = {
    "descent": Descent,
    "sharpness": Sharpness,
    "adam": Adam,
}
