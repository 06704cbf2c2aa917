"""Theorem 4.2 and the Hessian, measured: gap, tail index, dimension and trace against gamma.

Small networks are trained on the digits of scikit-learn and, where the file is found, on the
airfoil data, by plain descent, with Gaussian noise and with chaotic noise of several gamma, all at
equal per-step variance: sigma = mu = s / (eta^gamma sqrt(E v^2)). Two claims get a verdict from
the 95 % bootstrap interval of a difference paired by seed:

    smaller alpha, smaller gap   fitted change of the worst gap from the largest to the smallest
                                 alpha = 1/gamma, the slope of a line through each seed's gammas;
                                 along the whole trajectory, and along its second half, since the
                                 worst gap may lie in the first steps, which all schemes share
    MPGD lowers the Hessian      its trace at the end, the mean over gammas, minus that of plain
                                 descent, and minus that of the Gaussian of equal variance

Equal variance of a step is not equal displacement: chaotic values of larger gamma are correlated
over longer times. Tail index and dimension are those of the trajectory's second half, in a few
randomly chosen parameters.

Reference: Lim, Wan & Simsekli (2022), Theorem 4.2 and Section 4.2.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any, Final

import numpy as np
import torch

from mpgd.experiments import Context
from mpgd.experiments.data import AIRFOIL, airfoil, is_available
from mpgd.experiments.generalization_training import (
    Array,
    Data,
    Noise,
    Trained,
    Training,
    train,
)
from mpgd.experiments.store import Record, Run
from mpgd.noise import ChaoticNoise, GaussianNoise
from mpgd.theory import tail_index, trajectory_dimension, worst_gap

GAMMAS: Final = (0.55, 0.65, 0.75, 0.85)
SCHEMES: Final[Mapping[str, Noise | None]] = {
    "descent": None,
    "gaussian": GaussianNoise(1.0),
    **{f"mpgd {gamma:g}": ChaoticNoise(gamma) for gamma in GAMMAS},
}
MPGD: Final = tuple(f"mpgd {gamma:g}" for gamma in GAMMAS)
TRAININGS: Final = {"digits": Training(eta=0.5, strength=0.002),
                    "airfoil": Training(eta=0.1, strength=0.002)}  # fmt: skip
DIGITS_TRAIN: Final = 256  # so few that there is a gap to speak of
SEEDS: Final = 20
RESAMPLES: Final = 10_000
VISIBLE: Final = 1.96 + 0.84  # standard errors: seen with probability 0.8 at level 0.05

Records = dict[str, Record]


def run(
    context: Context,
    trainings: Mapping[str, Training] = TRAININGS,
    seeds: int = SEEDS,
    seed: int = 0,
) -> None:
    """Train what the store lacks, print tables and verdicts, write ``generalization.png``."""
    folder = context.data
    names = [name for name in trainings if name != "airfoil" or is_available(AIRFOIL, folder)]
    if len(names) < len(trainings):
        context.reporter.say("airfoil is left out: set MPGD_DATA to the folder that holds it")
    found = {
        name: _records(context, name, trainings[name], seeds, seed)
        for name in context.reporter.track(names, lambda name: f"{name}, {seeds} seeds")
    }
    for name, records in found.items():
        _print(context, name, records)
    _draw(context, found)


def load_data(name: str, seeds: int, seed: int, context: Context) -> Data:
    """Return digits, split anew for every seed, or airfoil in the paper's one split."""
    if name == "airfoil":
        split = airfoil(context.data)
        parts = [split.x_train.T, split.y_train, split.x_test.T, split.y_test]
        return Data(name, *(part.float().expand(seeds, *part.shape) for part in parts))
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise ImportError('digits need scikit-learn: pip install "mpgd[lab]"') from None
    pixels, labels = load_digits(return_X_y=True)
    orders = [np.random.default_rng([seed, k]).permutation(len(labels)) for k in range(seeds)]
    x = torch.stack([torch.from_numpy(pixels[order].T / 16.0).float() for order in orders])
    y = torch.stack([torch.from_numpy(labels[order]) for order in orders])
    n = DIGITS_TRAIN
    return Data(name, x[..., :n].contiguous(), y[:, :n], x[..., n:].contiguous(), y[:, n:])


def _records(context: Context, name: str, how: Training, seeds: int, seed: int) -> Records:
    """Return the record of every scheme; those the store lacks are trained together."""
    tasks = {scheme: _run(name, scheme, how, seeds, seed) for scheme in SCHEMES}
    found = {scheme: context.store.load(task) for scheme, task in tasks.items()}
    missing = [scheme for scheme, record in found.items() if record is None]
    if missing:
        began = time.perf_counter()
        data = load_data(name, seeds, seed, context)
        trained = train(data, [SCHEMES[scheme] for scheme in missing], how, seed)
        results = [summarise(trained, k, scheme != "descent") for k, scheme in enumerate(missing)]
        seconds = (time.perf_counter() - began) / len(missing)
        for scheme, curves in zip(missing, results, strict=True):
            metrics = {key: float(np.mean(values)) for key, values in curves.items()}
            found[scheme] = context.store.save(tasks[scheme], metrics, curves, seconds)
    return {scheme: record for scheme, record in found.items() if record is not None}


def _run(name: str, scheme: str, how: Training, seeds: int, seed: int) -> Run:
    noise = SCHEMES[scheme]
    h = {"data": name, "seeds": seeds, **asdict(how)}
    if isinstance(noise, ChaoticNoise):
        sigma = how.strength / (how.eta**noise.gamma * sqrt(noise.variance))
        h |= {"gamma": noise.gamma, "sigma": sigma, "mu": sigma}
    return Run("generalization", "paper", scheme, h, seed)


def summarise(trained: Trained, k: int, noisy: bool) -> dict[str, Array]:
    """Return what is reported of scheme k, one number for each seed; no noise, no tail."""
    losses, points = (trained.train[k], trained.test[k]), trained.points[k]
    half = losses[0].shape[1] // 2
    pairs = list(zip(*losses, strict=True))
    result = {
        "train": losses[0][:, -1],
        "test": losses[1][:, -1],
        "worst_gap": np.array([worst_gap(a, b).value for a, b in pairs]),
        "late_gap": np.array([worst_gap(a[half:], b[half:]).value for a, b in pairs]),
        "dimension": np.array([trajectory_dimension(each).value for each in points]),
        "hessian_trace": trained.hessian_trace[k],
    }
    if noisy:
        tails = [tail_index(np.diff(each, axis=0)).value for each in points]
        result["tail_index"] = np.array(tails)
    return result


@dataclass(frozen=True)
class Verdict:
    """What a paired difference says about a claim that it is negative.

    Attributes:
        claim: the claim in words.
        effect: the mean difference.
        low: the lower end of its 95 % bootstrap interval.
        high: the upper end.
        visible: the smallest difference seen with probability 0.8.
    """

    claim: str
    effect: float
    low: float
    high: float
    visible: float

    @property
    def word(self) -> str:
        """Supported, contradicted or undecided."""
        if self.low <= 0.0 <= self.high:
            return "undecided"
        return "supported" if self.high < 0.0 else "contradicted"

    def __str__(self) -> str:
        text = f"{self.claim}: {self.word}; {self.effect:+.3g} [{self.low:+.3g}, {self.high:+.3g}]"
        if self.word == "undecided":
            text += f"; a difference of {self.visible:.3g} would have been seen (power 0.8)"
        return text


def judge(claim: str, differences: Array) -> Verdict:
    """Return the verdict from one difference for each seed."""
    n = len(differences)
    draws = np.random.default_rng(0).integers(n, size=(RESAMPLES, n))
    low, high = np.quantile(differences[draws].mean(axis=1), [0.025, 0.975])
    visible = VISIBLE * float(np.std(differences, ddof=1)) / sqrt(n)
    return Verdict(claim, float(differences.mean()), float(low), float(high), visible)


def verdicts(records: Records) -> list[Verdict]:
    """Return the verdicts on the paper's two claims for one data set."""
    gaps, late = (np.array([records[scheme].curves[key] for scheme in MPGD])
                  for key in ("worst_gap", "late_gap"))  # fmt: skip
    traces = {scheme: np.array(records[scheme].curves["hessian_trace"]) for scheme in records}
    mpgd = np.mean([traces[scheme] for scheme in MPGD], axis=0)
    return [
        judge("smaller alpha, smaller gap", fitted_change(gaps)),
        judge("smaller alpha, smaller gap, second half", fitted_change(late)),
        judge("MPGD lowers the Hessian, against descent", mpgd - traces["descent"]),
        judge("MPGD lowers the Hessian, against Gaussian noise", mpgd - traces["gaussian"]),
    ]


def fitted_change(gaps: Array) -> Array:
    """Return for every seed a line's change from the largest alpha to the smallest."""
    alpha = 1.0 / np.array(GAMMAS)
    centered = alpha - alpha.mean()
    slope = centered @ gaps / (centered @ centered)
    return np.asarray(slope * (alpha.min() - alpha.max()))


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean of a scheme's seeds and the ends of its bootstrap interval."""
    judged = judge("", np.asarray(values, dtype=np.float64))
    return judged.effect, judged.low, judged.high


def _print(context: Context, name: str, records: Records) -> None:
    columns = ["scheme", "alpha", "sigma, mu", "train", "test", "worst gap", "second half",
               "tail index", "dimension", "Hessian"]  # fmt: skip
    title = f"{name}: mean over seeds ± half the 95 % interval"
    context.reporter.table(title, columns, [row(record) for record in records.values()])
    for verdict in verdicts(records):
        context.reporter.say(f"{name}: {verdict}")


def row(record: Record) -> list[str]:
    """Return a row of the table of schemes."""
    h, c = record.run.hyperparameters, record.curves
    noise = [f"{1 / h['gamma']:.2f}", f"{h['sigma']:.4f}"] if "gamma" in h else ["", ""]
    losses = [f"{np.mean(c[key]):.4f}" for key in ("train", "test")]
    watched = ("worst_gap", "late_gap", "tail_index", "dimension", "hessian_trace")
    with_ends = [_ends(c[key]) if key in c else "" for key in watched]
    return [record.run.scheme, *noise, *losses, *with_ends]


def _ends(values: Sequence[float]) -> str:
    mean, low, high = interval(values)
    return f"{mean:.3g}±{(high - low) / 2:.2g}"


def _draw(context: Context, found: Mapping[str, Mapping[str, Any]]) -> None:
    from mpgd.experiments.generalization_figure import figure

    path = context.out / "generalization.png"
    figure(found).savefig(path, dpi=200)
    context.reporter.say(f"figure: {path}")
