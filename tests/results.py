"""A store that holds every experiment: small real runs where they are quick, made-up numbers else.

What is made up has the configuration, the names and the shapes of the real thing.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from mpgd.experiments.airfoil import runs as airfoil
from mpgd.experiments.audit import runs as audit
from mpgd.experiments.cifar10 import runs as cifar10
from mpgd.experiments.digits import runs as digits
from mpgd.experiments.ecg import runs as ecg
from mpgd.experiments.generalization import runs as generalization
from mpgd.experiments.implicit import runs as implicit
from mpgd.experiments.limit import runs as limit
from mpgd.experiments.driver import runs as noise
from mpgd.experiments.valley import runs as valley
from mpgd.experiments.store import Run, Store

EVERYTHING = (
    "noise", "valley", "airfoil", "ecg", "cifar10", "digits", "audit", "limit", "implicit",
    "generalization",
)  # fmt: skip
SEEDS = (1, 2, 3)
SIZES = noise.Sizes(shown=50, steps=(100, 1000), count=2000, orbits=2000, rounds=20)
STUDY = cifar10.REDUCED | {"device": "cpu"}
Made = tuple[dict[str, Any], dict[str, Any]]


def fill(folder: Path, names: Container[str] = EVERYTHING) -> Store:
    """Write the results of these experiments to ``folder/runs``."""
    store = Store(folder / "runs")
    if "noise" in names:
        for run in noise._tasks(SIZES, 0):
            store.save(run, *noise._work(run), seconds=0.5)
    for protocol in ("paper", "released") if "valley" in names else ():
        trained = valley.train(valley.tasks(protocol, SEEDS, 40))
        for finished in chain(trained, valley.follow(valley.landscape(protocol, 40))):
            store.save(*finished, seconds=0.5)
    for run in invented_runs():
        if run.experiment in names:
            rng = np.random.default_rng(int(run.key[:8], 16))
            store.save(run, *MAKERS[run.experiment](run, rng), seconds=1.0)
    return store


def invented_runs() -> Iterator[Run]:
    """Yield the runs whose results are made up."""
    for protocol in ("paper", "released"):
        yield from airfoil.tasks(protocol, SEEDS)
        yield from ecg.tasks(protocol, SEEDS)
        yield from cifar10.tasks(protocol, SEEDS, STUDY)
    yield from digits.tasks(SEEDS)
    yield from limit._tasks(limit.Sizes(m=(10, 30, 100)), 0)
    for name in audit.STUDIES:
        yield from (run for run in audit.tasks(name, SEEDS) if run.experiment == "audit")
    for name in implicit.PROBLEMS:
        for case in implicit.cases(name):
            yield implicit._run(name, case, implicit.Counts(), 0)
    for name, training in generalization.TRAININGS.items():
        for scheme in generalization.SCHEMES:
            yield generalization._run(name, scheme, training, len(SEEDS), 0)


def _net(run: Run, rng: np.random.Generator) -> Made:
    """Return metrics of a net of any experiment, and curves that end there."""
    names = ("test_rmse", "gap", "released_gap", "test_loss", "trace")
    metrics = {name: abs(rng.normal(0.4, 0.05)) for name in names}
    percent = ("test_accuracy", "val_accuracy", "accuracy_gap")
    metrics |= {name: rng.normal(70, 9) for name in percent}
    metrics |= {"training_seconds": 9.0, "cpu_seconds": 8.0}
    rising = np.linspace(10, 70, 6) + rng.normal(size=6)
    curves = {name: np.linspace(0, 50, 6) for name in ("step", "accuracy_step")}
    return metrics, curves | {"test_accuracy": rising, "val_accuracy": rising}


def _limit(run: Run, rng: np.random.Generator) -> Made:
    h = run.hyperparameters
    if h["part"] == "jump":
        return limit.one_jump(run)
    near = 0.5 / np.sqrt(h["m"])
    around = [near, 0.9 * near, 1.1 * near, 0.02]
    if h["part"] == "rotation":
        radii = {name: [0.9, 1.1, 1.5] for name in ("radius", "marcus_radius", "ito_radius")}
        radii |= {"marcus": around, "ito": [0.5, 0.4, 0.6, 0.02]}
        return {"marcus": near, "ito": 0.5}, radii
    if h["part"] == "driver":
        return {"ks": near}, {}
    grid = np.linspace(-1, 1, 20)
    curves: dict[str, Any] = {"times": [0.5, 1.0], "grid": grid}
    curves |= {name: (1 + grid) / 2 for name in ("cdf", "limit_cdf")}
    skewed = run.scheme == "product" and h["beta"]
    for start in ("", "claimed_") if skewed else ("",):
        curves |= {f"{start}{name}": [around, around] for name in ("ks", "wasserstein", "energy")}
    return {"ks": near} | ({"claimed_ks": near + 0.1} if skewed else {}), curves


def _implicit(run: Run, rng: np.random.Generator) -> Made:
    completed = rng.uniform(0.1, 0.2)
    printed = completed * (0.7 if run.hyperparameters["mu0"] else 1.0)
    metrics = {"completed": completed, "measured": completed * 1.001, "printed": printed}
    curves = {"epsilon": [0.2, 0.1, 0.05], "D": [completed] * 3, "stderr": [completed / 100] * 3}
    return metrics | {"stderr": completed / 100}, curves


def _generalization(run: Run, rng: np.random.Generator) -> Made:
    names = ["train", "test", "worst_gap", "late_gap", "dimension", "hessian_trace"]
    names += [] if run.scheme == "descent" else ["tail_index"]
    return {}, {name: rng.normal(1.5, 0.2, len(SEEDS)) for name in names}


MAKERS = {
    "airfoil": _net, "ecg": _net, "cifar10": _net, "digits": _net, "audit": _net,
    "limit": _limit, "implicit": _implicit, "generalization": _generalization,
}  # fmt: skip
