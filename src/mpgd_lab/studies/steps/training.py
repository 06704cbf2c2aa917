"""How runs of `steps` are trained: as those of airfoil and ECG5000, measured at the end."""

from collections.abc import Iterator
from pathlib import Path

import torch

from mpgd_lab.batched_training import Result
from mpgd_lab.batched_training import train as train_nets
from mpgd_lab.store import Run
from mpgd_lab.studies.levels.training import problem_of


def train(runs: list[Run], data: Path | None = None) -> Iterator[Result]:
    """Yield the metrics of each run; the runs share their study, step size and steps."""
    problem, measure = problem_of(runs[0], data)
    layout, split = problem.layout, problem.split
    trained = train_nets(problem, runs).after
    with torch.no_grad():
        on_train, on_test = (
            layout.outputs(trained, part) for part in (split.x_train, split.x_test)
        )
    for row, run in enumerate(runs):
        metrics = measure(on_train[row], on_test[row], split)
        yield run, metrics | {"diverged": int(not trained[row].isfinite().all())}, {}
