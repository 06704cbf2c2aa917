"""The rows of the tables on ECG5000, what the paper prints in them, its claims."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mpgd_lab.content.tables import Comparison
from mpgd_lab.perturbations.released import SWITCHES
from mpgd_lab.schemes import SCRIPTED, Scheme, chaotic, matched, mpgd, runs_of
from mpgd_lab.store import Record, Run
from mpgd_lab.verdicts import Measure, grouped

GAMMAS: Final = (0.55, 0.6, 0.65)
BETAS: Final = (0.0, 0.5)
LEVEL: Final[dict[str, Any]] = {"mu": 0.2, "sigma": 0.2}
FIXED: Final[dict[str, Any]] = {"eta": 0.05, "steps": 1000, "stop": 500}
DEPTHS: Final = {  # the first is primary: the printed numbers are of two hidden layers
    "two hidden layers": [140, 32, 32, 1],
    "one hidden layer": [140, 32, 1],
}
PRIMARY: Final = DEPTHS["two hidden layers"]
BATCH: Final = 32

PRINTED: Final = {  # mean (sample std) of five seeds
    "gd": "58.38 (0.00)",
    "gaussian": "65.68 (16.34)",
    "mpgd plain 0.55 beta 0": "93.48 (1.17)",
    "mpgd plain 0.6 beta 0": "94.87 (0.78)",
    "mpgd plain 0.65 beta 0": "92.61 (0.99)",
    "mpgd symmetric 0.55 beta 0": "88.65 (9.16)",
    "mpgd symmetric 0.6 beta 0": "90.52 (6.69)",
    "mpgd symmetric 0.65 beta 0": "91.72 (4.28)",
    "mpgd plain 0.55 beta 0.5": "88.22 (13.99)",
    "mpgd plain 0.6 beta 0.5": "94.27 (1.06)",
    "mpgd plain 0.65 beta 0.5": "94.63 (1.13)",
    "mpgd symmetric 0.55 beta 0.5": "93.13 (2.20)",
    "mpgd symmetric 0.6 beta 0.5": "91.77 (2.85)",
    "mpgd symmetric 0.65 beta 0.5": "83.87 (23.69)",
}


ACCURACY: Final = Measure(
    "test_accuracy", "test accuracy, %", 2, lambda name: PRINTED.get(name, ""), "higher", "accuracy"
)


def tasks(protocol: str, seeds: Sequence[int], fixed: Mapping[str, Any] = FIXED) -> list[Run]:
    """Return every row of the paper's tables for these seeds, and further baselines."""
    depths = [PRIMARY] if protocol == "released" else DEPTHS.values()
    return [
        run
        for widths in depths
        for run in runs_of("ecg", protocol, schemes(protocol), seeds, {**fixed, "widths": widths})
    ]


def schemes(protocol: str) -> list[Scheme]:
    """Return the schemes of a protocol, in the order of its tables; ``text`` has no extras."""
    if protocol == "released":
        scripted = [Scheme(how=SCRIPTED), Scheme("released_gaussian", how=SCRIPTED, **LEVEL)]
        return [*scripted, *mpgd(GAMMAS, BETAS, Scheme("switched", switches=SWITCHES, **LEVEL))]
    chaotics = mpgd(GAMMAS, BETAS, chaotic(protocol, **LEVEL))
    if protocol == "text":
        return [Scheme(), *matched(GAMMAS, **LEVEL), *chaotics]
    langevin = Scheme("langevin", **LEVEL)
    return [Scheme(), langevin, *matched(GAMMAS, **LEVEL), *chaotics, Scheme(batch=BATCH)]


def groups(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Return the records of each protocol and depth."""
    names = {str(widths): depth for depth, widths in DEPTHS.items()}
    return grouped(
        records, lambda run: f"ecg, {run.protocol}, {names[str(run.hyperparameters['widths'])]}"
    )


COMPARISON: Final = Comparison(groups, schemes, lambda protocol: (ACCURACY,), 2)
