"""The networks of Theorem 4.2's test: their data, and what is kept of their training."""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Final

import numpy as np
import torch

from mpgd.theory import tail_index, trajectory_dimension, worst_gap
from mpgd_lab.batched_training import Result
from mpgd_lab.data.sources import airfoil
from mpgd_lab.store import Run
from mpgd_lab.studies.generalization.runs import SCHEMES, TAILS, Training
from mpgd_lab.studies.generalization.trajectories import Array, Data, TrainedNetworks, descend

DIGITS_TRAIN: Final = 256  # so few that there is a gap to speak of


def train(runs: list[Run], data: Path | None = None) -> Iterator[Result]:
    """Yield means over seeds and one number for each seed; the runs share all but the scheme."""
    h, seed = runs[0].hyperparameters, runs[0].seed
    how = Training(**{field.name: h[field.name] for field in fields(Training)})
    sample = load_data(h["data"], h["seeds"], seed, data)
    trained = descend(sample, [SCHEMES[run.scheme] for run in runs], how, seed)
    for k, run in enumerate(runs):
        curves = summarise(trained, k, SCHEMES[run.scheme] is not None)
        yield run, {key: float(np.mean(values)) for key, values in curves.items()}, curves


def load_data(name: str, seeds: int, seed: int, folder: Path | None = None) -> Data:
    """Return digits, split anew for every seed, or airfoil in the paper's one split."""
    if name == "airfoil":
        split = airfoil(folder)
        parts = [split.x_train.T, split.y_train, split.x_test.T, split.y_test]
        return Data(name, *(part.float().expand(seeds, *part.shape) for part in parts))
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise ImportError('digits need scikit-learn: pip install "mpgd[lab]"') from None
    pixels, labels = load_digits(return_X_y=True)
    orders = [np.random.default_rng([seed, k]).permutation(len(labels)) for k in range(seeds)]
    x = torch.stack([torch.from_numpy(pixels[order].T / 16.0).float() for order in orders])
    y = torch.stack([torch.from_numpy(labels[order]) for order in orders])
    n = DIGITS_TRAIN
    return Data(name, x[..., :n].contiguous(), y[:, :n], x[..., n:].contiguous(), y[:, n:])


def summarise(trained: TrainedNetworks, k: int, noisy: bool) -> dict[str, Array]:
    """Return what is reported of scheme k, one number for each seed; no noise, no tail."""
    losses, points = (trained.train[k], trained.test[k]), trained.points[k]
    half = losses[0].shape[1] // 2
    pairs = list(zip(*losses, strict=True))
    result = {
        "train": losses[0][:, -1],
        "test": losses[1][:, -1],
        "worst_gap": np.array([worst_gap(a, b).value for a, b in pairs]),
        "late_gap": np.array([worst_gap(a[half:], b[half:]).value for a, b in pairs]),
        "dimension": np.array([trajectory_dimension(each).value for each in points]),
        "hessian_trace": trained.hessian_trace[k],
    }
    return result | (tails([np.diff(each, axis=0) for each in points]) if noisy else {})


def tails(increments: Sequence[Array]) -> dict[str, Array]:
    """Return the tail index in order of time, of increments far apart, and Hill's."""
    ways = (("log_moments", "ignore"), ("log_moments", "blocks"), ("hill", "ignore"))
    return {
        name: np.array([tail_index(x, method, dependence=how).value for x in increments])
        for name, (method, how) in zip(TAILS, ways, strict=True)
    }
