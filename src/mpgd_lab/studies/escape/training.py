"""One run: its walkers, and beside them what theory says."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mpgd.theory.phases.exits import exit_rate
from mpgd_lab.batched_training import Outcome, Result
from mpgd_lab.store import Run
from mpgd_lab.studies.escape import predictions
from mpgd_lab.studies.escape.walkers import Count, count_exits, make_noise, time_right
from mpgd_lab.studies.escape.well_shapes import NARROW, WELLS, WIDE, rotation, two_slopes

Array = NDArray[np.float64]

SPAN: Final = (1e-5, 0.2), (1e-3, 10.0)  # of eta and sigma in the map


def train(runs: list[Run], data: Path | None = None) -> Iterator[Result]:
    """Yield metrics and curves of each run."""
    for run in runs:
        yield run, *work(run)


def work(task: Run) -> Outcome:
    """Return metrics and curves of a run."""
    parts = {"rate": rate, "share": share, "dimension": dimension, "map": regimes}
    return parts[task.hyperparameters["part"]](task)


def rate(task: Run) -> Outcome:
    """Return how often walkers leave a well, and the predictions."""
    h = task.hyperparameters
    well = WELLS[h["well"]]
    low, high = well.walls
    count = count_exits(
        make_noise(h["kind"], h["gamma"], h["beta"], h["longest"]),
        well.slope,
        lambda x: ((x < low) | (x > high))[:, 0],
        well.minimum,
        h,
        task.seed,
    )
    return _counted(count, h) | predictions.rates(h), {}


def dimension(task: Run) -> Outcome:
    """Return how often walkers leave a box, aligned with the coordinates or rotated."""
    h = task.hyperparameters
    Q = rotation(h["dimension"], h["rotation"]).T
    count = count_exits(
        make_noise(h["kind"], h["gamma"], h["beta"]),
        lambda x: x,
        lambda x: np.asarray((np.abs(x @ Q) > 1.0).any(axis=1)),
        0.0,
        h,
        task.seed,
        h["dimension"],
    )
    return _counted(count, h) | predictions.boxes(h), {}


def _counted(count: Count, h: Any) -> dict[str, float]:
    low, high = count.interval
    time = count.clock * h["eta"]
    metrics = {"rate": count.exits / time, "low": low / time, "high": high / time}
    return metrics | {"exits": count.exits, "clock": count.clock}


def share(task: Run) -> Outcome:
    """Return the share of time in the wide well, half of the walkers started in each."""
    h = task.hyperparameters
    starts = np.where(np.arange(h["walkers"]) % 2, WIDE, -NARROW)
    each = time_right(
        make_noise(h["kind"], h["gamma"], h["beta"]), two_slopes, starts, h, task.seed
    )
    each, wide = each[np.isfinite(each)], starts[np.isfinite(each)] == WIDE
    half = 1.96 * each.std(ddof=1) / np.sqrt(len(each))
    metrics = {"share": each.mean(), "low": each.mean() - half, "high": each.mean() + half}
    curves = {"started_wide": [each[wide].mean()], "started_narrow": [each[~wide].mean()]}
    return {k: float(v) for k, v in metrics.items()} | predictions.shares(h), curves


def regimes(task: Run) -> Outcome:
    """Return the one-phase rate over the Levy rate in the quadratic well, over eta and sigma."""
    h = task.hyperparameters
    etas, sigmas = (np.geomspace(*ends, h["rows"]) for ends in SPAN)
    ratio = np.zeros((len(sigmas), len(etas)))
    for i, sigma in enumerate(sigmas):
        for j, eta in enumerate(etas):
            rate = exit_rate(
                lambda x: x, (-1.0, 1.0), lr=eta, sigma=sigma, gamma=h["gamma"], start=0.0
            )
            ratio[i, j] = rate.per_time / rate.levy
    return {}, {"eta": etas, "sigma": sigmas, "ratio": ratio}
