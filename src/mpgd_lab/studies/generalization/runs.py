"""The trainings, noises and runs that test Theorem 4.2; a run is a scheme with all its seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import sqrt
from typing import Final

from mpgd.noise import ChaoticNoise, GaussianNoise
from mpgd_lab.data.sources import AIRFOIL, is_available
from mpgd_lab.runner import Context
from mpgd_lab.schema import Needs
from mpgd_lab.store import Run

Noise = ChaoticNoise | GaussianNoise

GAMMAS: Final = (0.55, 0.65, 0.75, 0.85)
SCHEMES: Final[Mapping[str, Noise | None]] = {
    "descent": None,
    "gaussian": GaussianNoise(1.0),
    **{f"mpgd {gamma:g}": ChaoticNoise(gamma) for gamma in GAMMAS},
}
MPGD: Final = tuple(f"mpgd {gamma:g}" for gamma in GAMMAS)
SEEDS: Final = 20
# What is read off a trajectory, and how: a run whose readings are made otherwise is another run.
READINGS: Final = {"dimension_by": "lags", "tails_by": ["order", "blocks", "hill"]}
WATCHED: Final = ("train", "test", "worst_gap", "late_gap", "dimension", "hessian_trace")
TAILS: Final = ("tail_index", "tail_blocks", "tail_hill")


@dataclass(frozen=True)
class Training:
    """How networks are trained and watched."""

    eta: float  # the step size
    strength: float  # s, the per-step standard deviation of both perturbations
    steps: int = 2048  # how many steps
    hidden: int = 16  # units of the hidden layer
    every: int = 16  # steps between two looks at the losses
    points: int = 512  # how many points of the trajectory are kept, two steps apart, at its end
    coordinates: int = 32  # how many parameters of each are kept, chosen at random
    probes: int = 32  # random vectors of the Hessian's trace


TRAININGS: Final = {
    "digits": Training(eta=0.5, strength=0.002),
    "airfoil": Training(eta=0.1, strength=0.002),
}


@dataclass(frozen=True)
class Size:
    """How much is trained: how, on each data set, and with how many seeds."""

    trainings: Mapping[str, Training] = field(default_factory=lambda: TRAININGS)
    seeds: int = SEEDS


FULL: Final = Size()


def needs(run: Run) -> Needs:
    """Return what the record of a run must hold; no noise, no tail."""
    return Needs(curves=(WATCHED + (TAILS if run.scheme != "descent" else ()),))


def tasks(protocol: str, seeds: Sequence[int], size: Size = FULL) -> list[Run]:
    """Return every run; there is one protocol, and a run holds all seeds."""
    return [_run(name, scheme, size) for name in size.trainings for scheme in SCHEMES]


def select_runs(context: Context, size: Size = FULL) -> list[Run]:
    """Return the runs on the data sets that are found."""
    every, available = tasks("paper", (), size), is_available(AIRFOIL, context.data)
    if available or "airfoil" not in size.trainings:
        return every
    context.reporter.say("airfoil is left out: set MPGD_DATA to the folder that holds it")
    return [run for run in every if run.hyperparameters["data"] != "airfoil"]


def _run(name: str, scheme: str, size: Size) -> Run:
    noise, how = SCHEMES[scheme], size.trainings[name]
    h = {"data": name, "seeds": size.seeds, **asdict(how), **READINGS}
    if isinstance(noise, ChaoticNoise):
        sigma = how.strength / (how.eta**noise.gamma * sqrt(noise.variance))
        h |= {"gamma": noise.gamma, "sigma": sigma, "mu": sigma}
    return Run("generalization", "paper", scheme, h, seed=0)
