"""The step sizes, levels and runs of the paper's two remarks.

    equal time    eta * steps is the paper's, 300 on airfoil and 50 on ECG5000
    equal steps   3000 on airfoil, 1000 on ECG5000
    levels        the paper's eta and steps on ECG5000, mu = sigma from 0.02 to 0.2

Descent has no noise and a matched Gaussian no signs, so the protocols share their runs. At the
paper's own step size equal time and equal steps are the same.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from mpgd_lab.perturbations.released import SWITCHES
from mpgd_lab.schema import Needs
from mpgd_lab.schemes import Scheme, chaotic
from mpgd_lab.store import Run
from mpgd_lab.studies.airfoil.runs import RELEASED_LOWER
from mpgd_lab.studies.levels.runs import STUDIES as OWN_SIZE

GAMMA: Final = 0.6
BETA: Final = 0.5
ETAS: Final = (0.003, 0.01, 0.03, 0.1, 0.3, 0.5)
LOWER: Final = (0.02, 0.05, 0.1, 0.2)  # levels of ECG5000; the last is the paper's
TIME, STEPS = "equal time", "equal steps"
SHARED: Final = "corrected"  # under which descent and matched Gaussians are kept


STUDIES: Final = {
    "airfoil": OWN_SIZE["airfoil"],
    "ecg": replace(OWN_SIZE["ecg 2"], title="ECG5000"),
}
RELEASED: Final = {"airfoil": RELEASED_LOWER, "ecg": STUDIES["ecg"].levels}  # mu, sigma there
TOGETHER: Final = {"airfoil": 100, "ecg": 20}  # runs trained at once


def tasks(protocol: str, seeds: Sequence[int], shorter: int = 1) -> list[Run]:
    """Return the runs under a protocol; all have ``shorter`` times fewer steps."""
    runs = [run for name in STUDIES for run in _swept(name, protocol, seeds, shorter)]
    runs += _lowered(protocol, seeds, shorter)
    return list({run.key: run for run in runs}.values())


def mpgd(name: str, protocol: str) -> Scheme:
    """Return MPGD on a study as a protocol has it."""
    study = STUDIES[name]
    row: dict[str, Any] = {"symmetric": False, "gamma": GAMMA, "beta": BETA}
    if protocol == "released":
        mu, sigma = RELEASED[name]
        return Scheme("switched", **row, mu=mu, sigma=sigma, switches=SWITCHES)
    mu, sigma = study.levels
    return chaotic(protocol, **row, mu=mu, sigma=sigma)


def gaussian(protocol: str, level: float) -> Scheme:
    """Return the Gaussian of a level on ECG5000: of MPGD's variance, or the authors' own."""
    if protocol == "released":
        return Scheme("released_gaussian", mu=level, sigma=level)
    return Scheme("matched", False, GAMMA, mu=level, sigma=level)


def sizes(name: str, shorter: int = 1) -> dict[tuple[str, float], int]:
    """Return the number of steps of each kind of comparison and step size."""
    eta, steps = (STUDIES[name].fixed[key] for key in ("eta", "steps"))
    lengths = {(STEPS, each): steps // shorter for each in ETAS}
    lasting = {(TIME, each): round(eta * steps / each / shorter) for each in ETAS}
    return lengths | {place: max(1, count) for place, count in lasting.items()}


def _swept(name: str, protocol: str, seeds: Sequence[int], shorter: int) -> Iterator[Run]:
    """Yield descent and MPGD at every step size."""
    for (_, eta), steps in sizes(name, shorter).items():
        h = _settings(name, eta, steps, shorter)
        for seed in seeds:
            yield _run(SHARED, Scheme(), h, seed)
            yield _run(protocol, mpgd(name, protocol), h, seed)


def _lowered(protocol: str, seeds: Sequence[int], shorter: int) -> Iterator[Run]:
    """Yield descent, the Gaussian and MPGD on ECG5000 at every level."""
    fixed = STUDIES["ecg"].fixed
    h = _settings("ecg", fixed["eta"], fixed["steps"] // shorter, shorter)
    for seed in seeds:
        yield _run(SHARED, Scheme(), h, seed)
        for level in LOWER:
            whose = protocol if protocol == "released" else SHARED
            yield _run(whose, gaussian(protocol, level), h, seed)
            lowered = replace(mpgd("ecg", protocol), mu=level, sigma=level)
            yield _run(protocol, lowered, h, seed)


def _settings(name: str, eta: float, steps: int, shorter: int) -> dict[str, Any]:
    """Return the settings of a run; ECG5000 is perturbed in the first half of its steps."""
    less = {"shorter": shorter} if shorter > 1 else {}
    fixed = STUDIES[name].fixed
    half = {"stop": max(1, steps // 2)} if "stop" in fixed else {}
    return {**fixed, "data": name, "eta": eta, "steps": steps, **half, **less}


def _run(protocol: str, scheme: Scheme, h: Mapping[str, Any], seed: int) -> Run:
    return Run("steps", protocol, str(scheme), {**h, **scheme.hyperparameters}, seed)


def needs(run: Run) -> Needs:
    """Return what the record of a run must hold."""
    name = run.hyperparameters.get("data")
    metrics = (STUDIES[name].metric, "diverged") if name in STUDIES else ()
    return Needs(metrics, choices={"data": tuple(STUDIES)})


def label(task: Run) -> str:
    """Return how a run is named in the progress."""
    h = task.hyperparameters
    return f"{h['data']}, {task.protocol}, {task.scheme}, eta {h['eta']:g}, {h['steps']} steps"
