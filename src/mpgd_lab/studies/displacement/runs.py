"""The rows at equal displacement, and what they are compared with.

Persistent noise moves parameters farther than independent noise of the same variance: over n steps

    ratio(n) = d_chaotic(n) / d_Gaussian(n),     d(n)^2 = E (v_1 + ... + v_n)^2

times as far. Two rows for every row of MPGD with beta = 0.5 and fresh signs:

    gaussian   moves as far in the n perturbed steps as MPGD at the study's own level
    mpgd       at the level divided by ratio(n): moves as far as the Gaussian of the study's level

Beside airfoil, ECG5000 (two hidden layers) and digits stand the networks of `generalization`, on
digits and airfoil: of those a run holds all seeds, and its level is a strength.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Final

from mpgd.noise import ChaoticNoise, GaussianNoise
from mpgd_lab.data.sources import AIRFOIL, ECG5000, Source, is_available
from mpgd_lab.runner import Context
from mpgd_lab.schema import Needs
from mpgd_lab.schemes import SYMMETRIC, VARIANTS, Scheme, runs_of
from mpgd_lab.store import Run
from mpgd_lab.studies.airfoil import runs as airfoil
from mpgd_lab.studies.digits import runs as digits
from mpgd_lab.studies.ecg import runs as ecg
from mpgd_lab.studies.generalization import runs as nets
from mpgd_lab.verdicts import Measure

BETA: Final = 0.5
Level = tuple[float, float]  # mu, sigma


@dataclass(frozen=True)
class Part:
    """A study of which there are rows at equal displacement."""

    title: str
    fixed: Mapping[str, Any]  # hyperparameters
    gammas: tuple[float, ...]
    levels: Mapping[str, Level]  # by variant
    measures: tuple[Measure, ...]
    seeds: int  # at most
    sources: tuple[Source, ...] = ()

    @property
    def steps(self) -> int:
        """How many steps are perturbed."""
        return int(self.fixed.get("stop") or self.fixed["steps"])


def _same(level: Mapping[str, float]) -> dict[str, Level]:
    return dict.fromkeys(VARIANTS, (level["mu"], level["sigma"]))


PARTS: Final = {
    "ecg": Part(
        "ECG5000",
        {**ecg.FIXED, "widths": ecg.PRIMARY},
        ecg.GAMMAS,
        _same(ecg.LEVEL),
        (ecg.ACCURACY,),
        100,
        (ECG5000,),
    ),
    "airfoil": Part(
        "Airfoil",
        airfoil.FIXED,
        airfoil.GAMMAS,
        airfoil.LEVELS,
        airfoil.measures("corrected"),
        100,
        (AIRFOIL,),
    ),
    "digits": Part("Digits", digits.FIXED, digits.GAMMAS, _same(digits.LEVEL), digits.MEASURES, 20),
}
NETWORKS: Final = {f"networks on {name}": name for name in nets.TRAININGS}
GAUSSIAN, CHAOTIC = "matched", "chaotic"
# Ratios by beta, steps and gamma: to compute them takes ten seconds, and a test does.
RATIOS: Final[dict[tuple[float, int], dict[float, float]]] = {
    (BETA, 500): {0.55: 2.700048561, 0.6: 3.141591803, 0.65: 3.610928159},
    (BETA, 1000): {0.55: 2.993138746, 0.6: 3.605719241, 0.65: 4.285524712, 0.7: 4.995039248},
    (BETA, 3000): {0.55: 3.478067481, 0.6: 4.443568966, 0.65: 5.589423622, 0.7: 6.862088319},
    (0.0, 2048): {0.55: 3.295450770, 0.65: 5.068520160, 0.75: 7.081681658, 0.85: 8.483190388},
}


def ratio(gamma: float, beta: float, steps: int) -> float:
    """Return how many times as far chaotic noise moves as Gaussian noise of its variance.

    Examples:
        >>> round(ratio(0.6, 0.0, 500), 2)
        3.11
    """
    return RATIOS.get((beta, steps), {}).get(gamma) or computed_ratio(gamma, beta, steps)


@lru_cache(maxsize=64)
def computed_ratio(gamma: float, beta: float, steps: int) -> float:
    """Return the ratio from the autocovariance."""
    noise = ChaoticNoise(gamma, beta)
    return noise.displacement(steps) / GaussianNoise.matched(noise).displacement(steps)


def rounded(level: float) -> float:
    """Return a level with six digits: the last bits of a displacement depend on the CPU."""
    return float(f"{level:.6g}")


def tasks(protocol: str, seeds: Sequence[int]) -> list[Run]:
    """Return the runs for these seeds; there is one protocol only."""
    runs = []
    for name, part in PARTS.items():
        fixed = {**part.fixed, "data": name}
        own = [seed for seed in seeds if seed <= part.seeds]
        runs += runs_of("displacement", "corrected", schemes(part), own, fixed)
    return runs + [run for name in NETWORKS for run in _networks(name)]


def schemes(part: Part) -> list[Scheme]:
    """Return both rows for every gamma and variant."""
    rows = []
    for variant, (mu, sigma) in part.levels.items():
        for gamma in part.gammas:
            row: dict[str, Any] = {"symmetric": variant == SYMMETRIC, "gamma": gamma, "beta": BETA}
            rows.append(Scheme(GAUSSIAN, **row, mu=mu, sigma=sigma, matched_over=part.steps))
            farther = ratio(gamma, BETA, part.steps)
            near = (rounded(mu / farther), rounded(sigma / farther))
            rows.append(Scheme(CHAOTIC, **row, mu=near[0], sigma=near[1]))
    return rows


def _networks(name: str) -> list[Run]:
    """Return the runs of `generalization`'s networks, each of all seeds."""
    how = nets.TRAININGS[NETWORKS[name]]
    runs = []
    for gamma in nets.GAMMAS:
        farther = ratio(gamma, 0.0, how.steps)
        for noise, strength in (
            (GAUSSIAN, how.strength * farther),
            (CHAOTIC, how.strength / farther),
        ):
            h = {"data": name, "seeds": nets.SEEDS, **asdict(how), "strength": rounded(strength)}
            scheme = f"{'gaussian' if noise == GAUSSIAN else 'mpgd'} {gamma:g}"
            h |= {"noise": noise, "gamma": gamma}
            runs.append(Run("displacement", "corrected", scheme, h, seed=0))
    return runs


def sources(run: Run) -> tuple[Source, ...]:
    """Return the data sets of a run."""
    name = run.hyperparameters["data"]
    if name in PARTS:
        return PARTS[name].sources
    return (AIRFOIL,) * (NETWORKS.get(name) == "airfoil")


def select_runs(context: Context) -> list[Run]:
    """Return the runs whose data is found."""
    every = tasks("corrected", range(1, context.seeds + 1))
    found = [run for run in every if all(is_available(one, context.data) for one in sources(run))]
    if lacking := {run.hyperparameters["data"] for run in every} - {
        run.hyperparameters["data"] for run in found
    }:
        context.reporter.say(f"displacement: no data for {', '.join(sorted(lacking))}")
    return found


def needs(run: Run) -> Needs:
    """Return what the record of a run must hold."""
    name = run.hyperparameters.get("data")
    choices = {"data": (*PARTS, *NETWORKS)}
    if name in NETWORKS:
        return Needs(curves=(("worst_gap", "late_gap", "hessian_trace"),), choices=choices)
    metrics = tuple(one.metric for one in PARTS[name].measures) if name in PARTS else ()
    return Needs(metrics, choices=choices)
