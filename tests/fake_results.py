"""A store that holds every experiment: small real runs where they are quick, made-up numbers else.

What is made up has the configuration, the names and the shapes of the real thing.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mpgd_lab.catalogue import EXPERIMENTS, PROTOCOLS, catalogue, load
from mpgd_lab.report.page import studies_with_section
from mpgd_lab.runner import split
from mpgd_lab.store import Run, Store
from mpgd_lab.studies.cifar10.runs import TINY
from mpgd_lab.studies.compare import runs as compare
from mpgd_lab.studies.compare.methods import configurations, methods_of
from mpgd_lab.studies.compare.tasks import BY_NAME, SHARES
from mpgd_lab.studies.driver.runs import Sizes
from mpgd_lab.studies.escape.runs import Sizes as EscapeSizes
from mpgd_lab.studies.generalization.runs import Size
from mpgd_lab.studies.levels.runs import Size as LevelsSize
from mpgd_lab.studies.limit.runs import Sizes as LimitSizes
from mpgd_lab.studies.limit.training import one_jump

SEEDS = (1, 2, 3)
STUDY = TINY | {"device": "cpu"}
SMALL: dict[str, tuple[Any, ...]] = {  # sizes, where the paper's are too large for a test
    "noise": (Sizes(shown=50, steps=(100, 1000), count=2000, orbits=2000, rounds=20),),
    "valley": (40, 40),
    "limit": (LimitSizes(m=(10, 30, 100)),),
    "generalization": (Size(seeds=len(SEEDS)),),
    "escape": (EscapeSizes(rows=5),),
    "compare": (compare.Size(("xor", "airfoil", "pruning"), 3, tuning=1, configurations=2),),
    "levels": (LevelsSize(seeds=3, fresh=3, paths=3),),
    "steps": (100,),
}
PARTS = tuple(study.name for study in studies_with_section(catalogue()))
Made = tuple[dict[str, Any], dict[str, Any]]


def fill(folder: Path, names: Container[str] = EXPERIMENTS) -> Store:
    """Write the results of these experiments to ``folder/runs``."""
    store = Store(folder / "runs")
    for name in EXPERIMENTS:
        if name in names:
            for result in real(name) if name in REAL else invented(name):
                store.save(*result, seconds=1.0)
    return store


def real(name: str) -> Iterator[tuple[Run, Any, Any]]:
    """Yield the runs of an experiment with their results."""
    study = load(name)
    for batch in split(runs_of(name), study.max_batch):
        yield from study.train(batch)


def invented(name: str) -> Iterator[tuple[Run, Any, Any]]:
    """Yield the runs of an experiment with made-up results; the audit has runs of others too."""
    for run in runs_of(name):
        if run.experiment == name:
            rng = np.random.default_rng(int(run.key[:8], 16))
            yield run, *MAKERS.get(name, _net)(run, rng)


def runs_of(name: str) -> list[Run]:
    """Return the runs of an experiment for three seeds, each once."""
    runs = [run for p in PROTOCOLS for run in load(name).runs(p, SEEDS, *SMALL.get(name, ()))]
    runs += later_stages() if name == "compare" else []
    return list({run.key: run for run in runs}.values())


def later_stages() -> list[Run]:
    """Return the runs of `compare` that depend on others, as if the first had been the best."""
    (size,) = SMALL["compare"]
    chosen: dict[tuple[str, str], Any] = {}
    for task in map(BY_NAME.__getitem__, size.tasks):
        for method in methods_of(task):
            base = chosen.get((task.name, method.base or ""), {"lr": 0.1, "steps": 9})
            chosen[task.name, method.name] = configurations(task, method, base)[0]
    return [*compare.stage(size, chosen, first=False), *compare.report_runs(size, chosen)]


def _net(run: Run, rng: np.random.Generator) -> Made:
    """Return metrics of a net of any experiment, and curves that end there."""
    names = ("test_rmse", "gap", "released_gap", "test_loss", "trace")
    metrics = {name: abs(rng.normal(0.4, 0.05)) for name in names}
    percent = ("test_accuracy", "val_accuracy", "accuracy_gap", "augmented_gap")
    metrics |= {name: rng.normal(70, 9) for name in percent}
    metrics |= {"training_seconds": 9.0, "cpu_seconds": 8.0}
    rising = np.linspace(10, 70, 6) + rng.normal(size=6)
    curves = {name: np.linspace(0, 50, 6) for name in ("step", "accuracy_step")}
    return metrics, curves | {"test_accuracy": rising, "val_accuracy": rising}


def _limit(run: Run, rng: np.random.Generator) -> Made:
    h = run.hyperparameters
    if h["part"] == "jump":
        return one_jump(run)
    near = 0.5 / np.sqrt(h["m"])
    around = [near, 0.9 * near, 1.1 * near, 0.02]
    if h["part"] == "rotation":
        radii = {name: [0.9, 1.1, 1.5] for name in ("radius", "marcus_radius", "ito_radius")}
        radii |= {"marcus": around, "ito": [0.5, 0.4, 0.6, 0.02]}
        return {"marcus": near, "ito": 0.5}, radii
    if h["part"] == "driver":
        return {"ks": near}, {}
    if h["part"] == "paths":
        sizes = {"sm1": rng.uniform(0.1, 0.2, 9), "j1": rng.uniform(0.2, 0.3, 9)}
        return {"energy": near, "p_variation": 3.0, "squares": near}, sizes
    if h["part"] == "alpha":
        bounds = {"high": rng.uniform(0.9, 1.1, 9) * near, "low": rng.uniform(0.4, 0.6, 9) * near}
        return {name: float(np.median(values)) for name, values in bounds.items()}, bounds
    if h["part"] in ("two drivers", "gamma", "points"):
        return {name: near for name in ("ks", "noise", "driver", "own_ks", "holder")}, {}
    grid = np.linspace(-1, 1, 20)
    curves: dict[str, Any] = {"times": [0.5, 1.0], "grid": grid}
    curves |= {name: (1 + grid) / 2 for name in ("cdf", "limit_cdf")}
    skewed = run.scheme == "product" and h["beta"]
    for start in ("", "claimed_") if skewed else ("",):
        curves |= {f"{start}{name}": [around, around] for name in ("ks", "wasserstein", "energy")}
    return {"ks": near} | ({"claimed_ks": near + 0.1} if skewed else {}), curves


def _implicit(run: Run, rng: np.random.Generator) -> Made:
    if run.scheme == "ratio":
        return {"trace": 0.2, "third": 0.05, "cross": 0.1}, {}
    completed = rng.uniform(0.1, 0.2)
    printed = completed * (0.7 if run.hyperparameters["mu0"] else 1.0)
    metrics = {"completed": completed, "measured": completed * 1.001, "printed": printed}
    curves = {"epsilon": [0.2, 0.1, 0.05], "D": [completed] * 3, "stderr": [completed / 100] * 3}
    return metrics | {"stderr": completed / 100}, curves


def _generalization(run: Run, rng: np.random.Generator) -> Made:
    names = ["train", "test", "worst_gap", "late_gap", "dimension", "hessian_trace"]
    names += [] if run.scheme == "descent" else ["tail_index", "tail_blocks", "tail_hill"]
    return {}, {name: rng.normal(1.5, 0.2, len(SEEDS)) for name in names}


def _escape(run: Run, rng: np.random.Generator) -> Made:
    h, near = run.hyperparameters, rng.uniform(0.01, 0.02)
    if h["part"] == "map":
        spans = {"eta": np.geomspace(1e-5, 0.2, 5), "sigma": np.geomspace(1e-3, 10.0, 5)}
        return {}, spans | {"ratio": np.linspace(0, 1, 25).reshape(5, 5)}
    metrics = {"rate": near, "low": 0.9 * near, "high": 1.1 * near, "exits": 3000.0}
    metrics |= {"force": 0.3 * h["eta"] ** -0.4, "threshold": 1.0, "burst": 0.03}
    if h["part"] == "share":
        metrics = {"share": 0.4, "low": 0.38, "high": 0.42, "force": metrics["force"]}
    names = ("levy", "kramers", "theory", "one_phase", "long_run", "by_rates")
    return metrics | {name: near for name in names}, {}


def _compare(run: Run, rng: np.random.Generator) -> Made:
    curves = {"share": SHARES, "accuracy": rng.normal(70, 5, len(SHARES))}
    pruned = run.hyperparameters["data"] == "pruning"
    return {"score": rng.uniform(0.3, 0.5), "diverged": 0}, curves if pruned else {}


def _levels(run: Run, rng: np.random.Generator) -> Made:
    metrics, _ = _net(run, rng)
    metrics |= {"growth": rng.uniform(1, 30), "diverged": 0, "curvature": 9.0, "free": 80.0}
    return metrics, {"weights": rng.standard_normal(5)}


REAL = ("noise", "valley")  # quick enough
MAKERS = {
    "limit": _limit,
    "implicit": _implicit,
    "generalization": _generalization,
    "escape": _escape,
    "compare": _compare,
    "levels": _levels,
    "lyapunov": lambda run, rng: ({"exponent": rng.normal(-0.1, 0.05)}, {}),
    "steps": lambda run, rng: (_net(run, rng)[0] | {"diverged": 0}, {}),
}
