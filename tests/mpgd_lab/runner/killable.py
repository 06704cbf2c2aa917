"""A sweep that is killed again and again; a fork server imports this file once for all of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch

from mpgd_lab.batched_training import Result
from mpgd_lab.perturbations.batched import perturbations
from mpgd_lab.runner import Context, complete
from mpgd_lab.store import Run
from mpgd_lab.studies.valley import runs as valley
from mpgd_lab.studies.valley import training

SIZE = 4  # of a batch


def tasks(steps: int = 200) -> list[Run]:
    """Return 160 runs with eight kinds of noise."""
    return valley.tasks("corrected", range(1, 21), steps)


def train(runs: list[Run], log: Path) -> Iterator[Result]:
    """Train the valley, note which runs were begun, and add each run's noise to its metrics."""
    with log.open("a") as file:
        file.write("".join(f"{run.key}\n" for run in runs))
    noises = noise_of(runs)
    for run, metrics, curves in training.train(runs):
        yield run, {**metrics, "noise": noises[run.key]}, curves


def noise_of(runs: list[Run]) -> dict[str, str]:
    """Return a digest of the bits of every run's noise, as it is in this batch."""
    sums = [hashlib.sha256() for _ in runs]
    for source in perturbations(runs, training.SHAPES, torch.float64):
        for _ in range(10):
            terms = torch.stack(source.next())
            for place, row in enumerate(source.rows.tolist()):
                sums[row].update(terms[:, place].numpy().tobytes())
    return {run.key: digest.hexdigest() for run, digest in zip(runs, sums, strict=True)}


def sweep(folder: Path, log: Path, workers: int) -> None:
    """Complete all runs."""
    complete(Context(folder, workers=workers), tasks(), partial(train, log=log), lambda run: SIZE)


torch.set_num_threads(1)
list(training.train(tasks(2)))  # loads the compiled kernels and the tables of the maps
