"""Small training sets, every seed its own; what they are scored on depends on the stage.

    tune      validation rows, drawn from the pool like the training rows
    report    the test rows, which no other stage loads

The pool of airfoil and of ECG5000 is the paper's training part, and their test part is the paper's.
Half of the digits are pool, half test.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor

from mpgd_lab.data import sources
from mpgd_lab.data.sources import Split
from mpgd_lab.studies.compare.tasks import Task

TUNE, REPORT = "tune", "report"
DIGITS_POOL: Final = 900
CLASSES: Final = 10


@dataclass(frozen=True, eq=False)
class Sample:
    """Training rows of each seed, and the rows they are scored on."""

    x: Tensor  # (seed, row, feature)
    y: Tensor  # (seed, row)
    x_scored: Tensor  # (seed, row, feature), or (1, row, feature) where all share them
    y_scored: Tensor  # (seed or 1, row)


def sample(
    task: Task,
    seeds: Sequence[int],
    part: str,
    data: Path | None = None,
    dtype: torch.dtype = torch.float64,
) -> Sample:
    """Return the data of some seeds; numbers have this ``dtype``, classes stay integers."""
    x, y = _in(dtype, POOLS[task.name](data))
    n, last = task.examples, task.examples + task.validation
    orders = [_rng(seed).permutation(len(x)) for seed in seeds]
    rows = torch.from_numpy(np.stack(orders))
    each = zip(rows, seeds, strict=True)
    labels = torch.stack([_replaced(y[own[:n]], task.flipped, seed) for own, seed in each])
    if part == TUNE:
        return Sample(x[rows[:, :n]], labels, x[rows[:, n:last]], y[rows[:, n:last]])
    x_test, y_test = _in(dtype, TESTS[task.name](data))
    return Sample(x[rows[:, :n]], labels, x_test[None], y_test[None])


def _in(dtype: torch.dtype, rows: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    x, y = rows
    return x.to(dtype), y.to(dtype) if y.is_floating_point() else y


def _rng(seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, 13])


def _replaced(y: Tensor, share: float, seed: int) -> Tensor:
    """Return the labels with a share of them drawn anew."""
    if not share:
        return y
    rng = np.random.default_rng([seed, 17])
    chosen = torch.from_numpy(rng.random(len(y)) < share)
    return torch.where(chosen, torch.from_numpy(rng.integers(CLASSES, size=len(y))), y)


def _digits() -> tuple[Tensor, Tensor]:
    split = sources.digits()
    return torch.cat([split.x_train, split.x_test]), torch.cat([split.y_train, split.y_test])


Rows = Callable[[Path | None], tuple[Tensor, Tensor]]


def _training(load: Callable[[Path | None], Split]) -> Rows:
    return lambda data: (load(data).x_train, load(data).y_train)


def _held_out(load: Callable[[Path | None], Split]) -> Rows:
    return lambda data: (load(data).x_test, load(data).y_test)


def _digits_pool(data: Path | None) -> tuple[Tensor, Tensor]:
    x, y = _digits()
    return x[:DIGITS_POOL], y[:DIGITS_POOL]


def _digits_test(data: Path | None) -> tuple[Tensor, Tensor]:
    x, y = _digits()
    return x[DIGITS_POOL:], y[DIGITS_POOL:]


POOLS: Final[dict[str, Rows]] = {
    "airfoil": _training(sources.airfoil),
    "digits": _digits_pool,
    "ecg": _training(sources.ecg5000),
    "plateau": _training(sources.ecg5000),
    "pruning": _digits_pool,
}
TESTS: Final[dict[str, Rows]] = {
    "airfoil": _held_out(sources.airfoil),
    "digits": _digits_test,
    "ecg": _held_out(sources.ecg5000),
    "plateau": _held_out(sources.ecg5000),
    "pruning": _digits_test,
}
