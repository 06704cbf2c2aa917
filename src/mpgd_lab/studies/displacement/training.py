"""How the rows at equal displacement are trained: as those of the studies they stand beside."""

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Final

import numpy as np

from mpgd.noise import ChaoticNoise, GaussianNoise
from mpgd.theory import worst_gap
from mpgd_lab.batched_training import Result
from mpgd_lab.store import Run
from mpgd_lab.studies.displacement.runs import CHAOTIC, NETWORKS
from mpgd_lab.studies.generalization.runs import Training
from mpgd_lab.studies.generalization.training import load_data
from mpgd_lab.studies.generalization.trajectories import Data, descend
from mpgd_lab.studies.steps.training import train as train_nets

TOGETHER: Final = {"airfoil": 100, "ecg": 20, "digits": 50}  # runs trained at once


def max_batch(run: Run) -> int:
    """Return how many runs may be trained with this one."""
    return TOGETHER.get(run.hyperparameters["data"], 1)


def train(runs: list[Run], data: Path | None = None) -> Iterator[Result]:
    """Yield the metrics of each run; those of networks have a number for each seed."""
    name = runs[0].hyperparameters["data"]
    if name not in NETWORKS:
        yield from train_nets(runs, data)
        return
    sample = load_data(NETWORKS[name], runs[0].hyperparameters["seeds"], runs[0].seed, data)
    for run in runs:
        curves = _watched(run, sample)
        yield run, {key: float(np.mean(values)) for key, values in curves.items()}, curves


def _watched(run: Run, sample: Data) -> dict[str, np.ndarray]:
    """Return losses, gaps and trace at the end, one number for each seed."""
    h = run.hyperparameters
    how = Training(**{field.name: h[field.name] for field in fields(Training)})
    noise = ChaoticNoise(h["gamma"]) if h["noise"] == CHAOTIC else GaussianNoise(1.0)
    trained = descend(sample, [noise], how, run.seed)
    losses = (trained.train[0], trained.test[0])
    half = losses[0].shape[1] // 2
    pairs = list(zip(*losses, strict=True))
    return {
        "train": losses[0][:, -1],
        "test": losses[1][:, -1],
        "worst_gap": np.array([worst_gap(a, b).value for a, b in pairs]),
        "late_gap": np.array([worst_gap(a[half:], b[half:]).value for a, b in pairs]),
        "hessian_trace": trained.hessian_trace[0],
    }
