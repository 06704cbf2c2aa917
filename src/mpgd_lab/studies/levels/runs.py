"""The runs of `levels`: the paper's settings in units of force and decay, sweeps, and the recipe.

    sweep     decay M alone on ECG5000 (one hidden layer) and airfoil; force F alone in the valley
    paper     the levels of the text on airfoil, ECG5000 of both depths and the valley
    search    candidates of the recipe on airfoil, ECG5000 of both depths and digits
    check     the recipe on the same four, with fresh seeds

All at gamma 0.6, in the sizes of the paper's studies. A recipe is two numbers: what the pushes of
all N perturbed steps come to in units of the weights' RMS w (``push``), and what their
multiplicative counterpart comes to (``stretch``), since a sum of N values grows like N^gamma:

    F = push c0 w / (eta N^gamma),     M = stretch c0 / (eta N^gamma)

The last quarter of the steps has no noise, so that descent settles; ECG5000 has its own stop.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product
from typing import Any, Final

import torch

from mpgd.theory.phases.laminar import levels, unit
from mpgd_lab.nets.layout import Layout
from mpgd_lab.schemes import PLAIN, SYMMETRIC
from mpgd_lab.store import Run
from mpgd_lab.studies.airfoil.runs import FIXED as AIRFOIL_FIXED
from mpgd_lab.studies.airfoil.runs import LEVELS as AIRFOIL_LEVELS
from mpgd_lab.studies.digits.runs import FIXED as DIGITS_FIXED
from mpgd_lab.studies.digits.runs import LEVEL as DIGITS_LEVEL
from mpgd_lab.studies.ecg.runs import DEPTHS
from mpgd_lab.studies.ecg.runs import FIXED as ECG_FIXED
from mpgd_lab.studies.ecg.runs import LEVEL as ECG_LEVEL
from mpgd_lab.studies.valley.runs import FIXED as VALLEY_FIXED
from mpgd_lab.studies.valley.runs import LEVEL as VALLEY_LEVEL
from mpgd_lab.verdicts import Direction

PROTOCOL: Final = "own"  # there is one
GAMMA: Final = 0.6
BETA: Final = 0.0
FRESH: Final = 101  # the first seed of the check
ONE, TWO = DEPTHS["one hidden layer"], DEPTHS["two hidden layers"]


@dataclass(frozen=True)
class Study:
    """A study of the paper in its own size, or digits."""

    title: str
    fixed: Mapping[str, Any]  # hyperparameters
    metric: str  # which is compared
    better: Direction
    digits: int
    levels: tuple[float, float]  # mu, sigma of the text
    beta: float = 0.5  # of the text's row that is run here


STUDIES: Final = {
    "airfoil": Study("airfoil", AIRFOIL_FIXED, "test_rmse", "lower", 4, AIRFOIL_LEVELS[PLAIN]),
    "ecg 1": Study(
        "ECG5000, one hidden layer",
        {**ECG_FIXED, "widths": ONE},
        "test_accuracy",
        "higher",
        2,
        (ECG_LEVEL["mu"], ECG_LEVEL["sigma"]),
    ),
    "ecg 2": Study(
        "ECG5000, two hidden layers",
        {**ECG_FIXED, "widths": TWO},
        "test_accuracy",
        "higher",
        2,
        (ECG_LEVEL["mu"], ECG_LEVEL["sigma"]),
    ),
    "digits": Study(
        "digits",
        DIGITS_FIXED,
        "test_accuracy",
        "higher",
        2,
        (DIGITS_LEVEL["mu"], DIGITS_LEVEL["sigma"]),
    ),
    "valley": Study(
        "valley", VALLEY_FIXED, "trace", "lower", 1, (VALLEY_LEVEL["mu"], VALLEY_LEVEL["sigma"])
    ),
}
NETS: Final = tuple(name for name in STUDIES if name != "valley")
# Every setting of the paper: name, step size, mu, sigma, gammas.
PRINTED: Final = (
    ("valley", 0.01, VALLEY_LEVEL["mu"], VALLEY_LEVEL["sigma"], (0.6, 0.7, 0.8)),
    ("airfoil, plain", 0.1, *AIRFOIL_LEVELS[PLAIN], (0.55, 0.6, 0.65, 0.7)),
    ("airfoil, symmetric", 0.1, *AIRFOIL_LEVELS[SYMMETRIC], (0.55, 0.6, 0.65, 0.7)),
    ("ECG5000", 0.05, ECG_LEVEL["mu"], ECG_LEVEL["sigma"], (0.55, 0.6, 0.65)),
    ("CIFAR-10, input layer", 0.1, 0.03, 0.01, (0.55, 0.6, 0.65)),
)

DECAYS: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.385, 1.0)  # 0.385 is the paper's
AIRFOIL_DECAYS: Final = (0.005, 0.015, 0.05, 0.15, 0.5, 1.5)  # 0.015 is the paper's
FORCES: Final = (0.02, 0.06, 0.18, 0.6, 1.8, 6.0)  # 0.18 is the paper's
CANDIDATES: Final = ((0.1, 0.0), (0.3, 0.0), (1.0, 0.0), (0.3, 0.03), (0.3, 0.1), (1.0, 0.3))
RECIPE: Final = (0.3, 0.0)  # push and stretch


@dataclass(frozen=True)
class Size:
    """How much is run."""

    seeds: int = 10  # of sweeps and of the search
    fresh: int = 20  # of the check
    paths: int = 100  # in the valley
    steps: int | None = None  # at most


FULL: Final = Size()


def tasks(protocol: str, seeds: Sequence[int], size: Size = FULL) -> list[Run]:
    """Return all runs; seeds are those of ``size``."""
    early, fresh = range(1, size.seeds + 1), range(FRESH, FRESH + size.fresh)
    runs = [run for name in NETS for seed in early for run in _early(name, seed, size)]
    runs += [
        run
        for name, seed in product(NETS, fresh)
        for run in (descent(name, seed, size), recipe(name, seed, RECIPE, size))
    ]
    runs += [run for seed in range(1, size.paths + 1) for run in _valley(seed, size)]
    return list({run.key: run for run in runs}.values())


def _early(name: str, seed: int, size: Size) -> list[Run]:
    """Return the runs of a net whose outcome is known before the check."""
    runs = [descent(name, seed, size), printed(name, seed, size)]
    swept = {"ecg 1": DECAYS, "airfoil": AIRFOIL_DECAYS}.get(name, ())
    runs += [perturbed(name, "decay", 0.0, decay, seed, size) for decay in swept]
    return runs + [recipe(name, seed, candidate, size) for candidate in CANDIDATES]


def _valley(seed: int, size: Size) -> list[Run]:
    runs = [descent("valley", seed, size), printed("valley", seed, size)]
    return runs + [perturbed("valley", "force", force, 0.0, seed, size) for force in FORCES]


def descent(name: str, seed: int, size: Size) -> Run:
    """Return a run without noise."""
    return Run("levels", PROTOCOL, "descent", {**_fixed(name, size), "noise": "none"}, seed)


def perturbed(
    name: str,
    scheme: str,
    force: float,
    decay: float,
    seed: int,
    size: Size,
    beta: float = BETA,
) -> Run:
    """Return a run of MPGD with this force and decay."""
    fixed = _fixed(name, size)
    sizes = levels(lr=fixed["eta"], gamma=GAMMA, force=force, decay=decay)
    noise = {"noise": "chaotic", "gamma": GAMMA, "beta": beta, "symmetric": False}
    h = {**fixed, **noise, "mu": sizes.mu, "sigma": sizes.sigma, "force": force, "decay": decay}
    return Run("levels", PROTOCOL, scheme, h, seed)


def printed(name: str, seed: int, size: Size) -> Run:
    """Return a run at the levels of the paper's text."""
    study = STUDIES[name]
    decay, force = (level * unit(study.fixed["eta"], GAMMA) for level in study.levels)
    return perturbed(name, "paper", force, decay, seed, size, study.beta)


def recipe(name: str, seed: int, candidate: tuple[float, float], size: Size) -> Run:
    """Return a run of a candidate of the recipe."""
    push, stretch = candidate
    fixed = _fixed(name, size)
    stop = fixed.get("stop") or max(1, 3 * fixed["steps"] // 4)
    scale = unit(1.0, GAMMA) / (fixed["eta"] * stop**GAMMA)
    force, decay = push * scale * weight(tuple(fixed["widths"])), stretch * scale
    run = perturbed(name, f"push {push:g} stretch {stretch:g}", force, decay, seed, size)
    h = {**run.hyperparameters, "stop": stop, "push": push, "stretch": stretch}
    return Run("levels", PROTOCOL, run.scheme, h, seed)


@lru_cache(maxsize=8)
def weight(widths: tuple[int, ...]) -> float:
    """Return the RMS weight of a net as torch initialises it.

    A weight is uniform within 1/sqrt(inputs), a bias too.

    Examples:
        >>> round(weight((3, 4, 1)), 3)  # within 0.58 and 0.5: 0.333 and 0.289
        0.323
    """
    total = sum((inner + 1) * outer / (3.0 * inner) for inner, outer in pairwise(widths))
    return float((total / Layout(widths, torch.relu).size) ** 0.5)


def _fixed(name: str, size: Size) -> dict[str, Any]:
    fixed = {"data": name, **STUDIES[name].fixed}
    if size.steps:
        fixed["steps"] = min(size.steps, fixed["steps"])
        fixed |= {"stop": size.steps // 2} if "stop" in fixed else {}
    return fixed
