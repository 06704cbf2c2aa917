"""The rows of the table on CIFAR-10, what the paper prints in them, its claims."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from mpgd_lab.content.tables import Comparison
from mpgd_lab.perturbations.released import SWITCHES
from mpgd_lab.schemes import Scheme, chaotic, matched, mpgd, runs_of
from mpgd_lab.store import Record, Run
from mpgd_lab.verdicts import Measure, grouped, printed_column

GAMMAS: Final = (0.55, 0.6, 0.65, 0.7)
BETA: Final = 0.5
DISPLACED: Final = 0.6  # gamma of the Gaussian that moves as far as plain MPGD
LEVEL: Final[dict[str, Any]] = {"mu": 0.03, "sigma": 0.01}
EPOCHS: Final = 0.3  # of the mini-batch reference, for each step of the full-batch runs
LONGER: Final = 3  # times the steps of the released baseline
ONE_STEP: Final = "one step"  # the study of `cifar10.one_step`
SHORT: Final = Scheme(note="same steps")  # beside it, for a comparison that is fair

FULL: Final[dict[str, Any]] = {
    "study": "full",
    "width": 64,
    "train": 50_000,
    "test": 10_000,
    "pixels": 32,
    "block": 128,
    "eta": 0.1,
    "steps": 1000,
    "moments": 50,
}
REDUCED: Final[dict[str, Any]] = {  # docs/cifar10-protocol.md fixes its rule
    "study": "reduced",
    "width": 8,
    "train": 512,
    "test": 10_000,
    "pixels": 16,
    "block": 128,
    "eta": 0.1,
    "steps": 600,
    "moments": 6,
    "balanced": True,
}
TINY: Final[dict[str, Any]] = REDUCED | {
    "study": "tiny",
    "train": 400,
    "test": 1000,
    "block": 64,
    "steps": 50,
    "moments": 5,
}
SIZES: Final = {"tiny": TINY, "reduced": REDUCED, "full": FULL}
SECONDS: Final = {"tiny": 6.0, "reduced": 102.0}  # CPU time of a run, measured
FULL_STEP: Final = 1850.0  # CPU seconds of a step of the full recipe (`cifar10_step`)
DEVIATIONS: Final = {
    "inert_multiplicative": "the multiplicative term never reaches the gradient",
    "dropped_images": "the images after the last whole block are left out",
    "fading_weights": "block j of B counts (1 - 1/B)^(B - j)",
    "norm_too": "the first batch norm's weight is perturbed beside the stem",
    "no_zero_init": "the last norm of a residual branch starts at one",
    "long_baseline": "descent takes three times as many steps",
    "augmented_gap": "the gap's training accuracy is that of the last step's own pass",
}

PRINTED: Final = {  # scheme: validation accuracy, gap; mean (sample std) of five seeds, per cent
    "gd": ("73.10 (1.75)", "8.99 (1.97)"),
    "gaussian": ("70.58 (1.13)", "8.53 (0.53)"),
    "mpgd plain 0.55 beta 0.5": ("75.97 (2.52)", "6.08 (2.45)"),
    "mpgd plain 0.6 beta 0.5": ("75.78 (1.52)", "5.64 (1.65)"),
    "mpgd plain 0.65 beta 0.5": ("74.39 (1.09)", "6.41 (1.22)"),
    "mpgd plain 0.7 beta 0.5": ("73.72 (4.40)", "6.69 (3.55)"),
    "mpgd symmetric 0.55 beta 0.5": ("74.51 (2.55)", "6.58 (2.21)"),
    "mpgd symmetric 0.6 beta 0.5": ("74.60 (2.44)", "6.15 (2.00)"),
    "mpgd symmetric 0.65 beta 0.5": ("72.96 (2.86)", "6.85 (3.00)"),
    "mpgd symmetric 0.7 beta 0.5": ("73.27 (1.57)", "6.04 (1.10)"),
    "sgd": ("95.70", ""),
}


def describe(study: dict[str, Any]) -> str:
    """Return in words how large a study is."""
    text = (
        f"{study['study']} study on {study['device']}: ResNet-18 of width {study['width']}, "
        f"{study['train']} images of {study['pixels']} x {study['pixels']}, "
        f"blocks of {study['block']}, {study['steps']} steps"
    )
    return f"{text}; a smoke test" if study["study"] == "tiny" else text


def run_seconds(run: Run) -> float:
    """Return about how long a run takes on one core; of a GPU we know nothing."""
    h = run.hyperparameters
    return float(SECONDS.get(h["study"], FULL_STEP * h["steps"]))


def tasks(
    protocol: str,
    seeds: Sequence[int],
    study: dict[str, Any] = TINY | {"device": "cpu"},
    deviations: Sequence[str] | None = None,
) -> list[Run]:
    """Return every row of the paper's table for these seeds, and further baselines.

    ``study`` is the size, such as `FULL`, and the device. ``deviations`` are names in `DEVIATIONS`;
    by default all if ``released``, else none.
    """
    if deviations is None:
        deviations = list(DEVIATIONS) if protocol == "released" else []
    if unknown := set(deviations) - set(DEVIATIONS):
        raise ValueError(f"deviations must be among {list(DEVIATIONS)}, got {sorted(unknown)}")
    rows = schemes(protocol, study["steps"], "long_baseline" in deviations)
    if study["study"] == "reduced":
        rows = [*filter(in_reduced_study, rows), displaced(study["steps"])]
    fixed = study | {"deviations": list(deviations)}
    return runs_of("cifar10", protocol, rows, seeds, fixed)


def in_reduced_study(scheme: Scheme) -> bool:
    """Return whether it is descent, MPGD, or a Gaussian of the plain variant's variance."""
    return scheme.kind in ("gd", "mpgd") or (scheme.kind == "gaussian" and not scheme.symmetric)


def displaced(steps: int) -> Scheme:
    """Return the Gaussian that moves as far as plain MPGD in all steps; no verdict is on it."""
    return Scheme("matched", False, DISPLACED, BETA, **LEVEL, matched_over=steps)


def schemes(protocol: str, steps: int = FULL["steps"], longer: bool | None = None) -> list[Scheme]:
    """Return the schemes of a protocol; ``longer`` is whether descent takes more steps."""
    released = protocol == "released"
    baselines = _released() if released else _ours(protocol, steps)
    if longer if longer is not None else released:
        baselines = [replace(Scheme(), steps=LONGER * steps), SHORT, *baselines[1:]]
    return baselines


def _ours(protocol: str, steps: int) -> list[Scheme]:
    chaotics = mpgd(GAMMAS, [BETA], chaotic(protocol, **LEVEL))
    if protocol == "text":
        return [Scheme(), *matched(GAMMAS, **LEVEL), *chaotics]
    return [
        Scheme(),
        Scheme("langevin", **LEVEL),
        *matched(GAMMAS, **LEVEL),
        *chaotics,
        Scheme("mini-batches", steps=round(EPOCHS * steps)),
    ]


def _released() -> list[Scheme]:
    switched = Scheme("switched", switches=SWITCHES, **LEVEL)
    return [Scheme(), Scheme("released_gaussian", **LEVEL), *mpgd(GAMMAS, [BETA], switched)]


VALIDATION, GAP = "validation accuracy", "accuracy gap"  # as claims name them
TRAINING_MODE: Final = f"{GAP} in training mode"
MEASURES: Final = (
    Measure(
        "val_accuracy", f"{VALIDATION}, %", 2, printed_column(PRINTED, 0), "higher", VALIDATION
    ),
    Measure("accuracy_gap", f"{GAP}, %", 2, printed_column(PRINTED, 1), "lower", GAP),
)
BESIDE: Final = Measure(  # the other definition of the gap, which no verdict counts
    "augmented_gap", f"{TRAINING_MODE}, %", 2, better="lower", noun=TRAINING_MODE
)


def groups(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Return the records of each study and protocol."""
    return grouped(records, lambda run: f"cifar10 ({run.hyperparameters['study']}), {run.protocol}")


COMPARISON: Final = Comparison(groups, schemes, lambda protocol: MEASURES, 2)
IN_REDUCED: Final = replace(
    COMPARISON, schemes=lambda protocol: [*filter(in_reduced_study, schemes(protocol))]
)


def comparison_of(study: str) -> Comparison:
    """Return how a study of some size compares its schemes."""
    return IN_REDUCED if study == "reduced" else COMPARISON
