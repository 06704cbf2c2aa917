"""The table on CIFAR-10: validation accuracy and accuracy gap of ResNet-18, full batch.

    mpgd reproduce cifar10 --device cuda            the full recipe, on one GPU
    torchrun --nproc-per-node 4 --local-ranks-filter 0 \
        -m mpgd.cli reproduce cifar10 --device cuda  the same, each run on four GPUs
    mpgd reproduce cifar10                          the reduced study, on a CPU
    mpgd reproduce cifar10_step                     one step of the full recipe, on a CPU

Full recipe: ResNet-18, all 50,000 images in blocks of 128, flips and crops, eta 0.1, 1000 steps,
no momentum, no weight decay, perturbations of the input layer with mu 0.03, sigma 0.01, beta 0.5.
The mini-batch reference has Nesterov momentum 0.9, weight decay 0.0005, a warm-up of 5 epochs and
a cosine over 300. Reduced study: `REDUCED`, a narrow network and few small images; its numbers are
no estimate of the paper's. A killed run goes on from its last checkpoint with the same bits.

Protocol ``paper`` follows the text: correct noise, the gap of the final network on images as they
are. Protocol ``released`` has the authors' noise, and every deviation of their script that
`DEVIATIONS` names; descent of as many steps as the others stands beside their longer one. Its
Gaussian comes from our generator, so that only its law is theirs.

Reference: Lim, Wan & Simsekli (2022), Section 5.3 and Appendix F.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch

from mpgd.experiments import Context, Silent
from mpgd.experiments.cifar10_checkpoint import Checkpoint
from mpgd.experiments.cifar10_processes import Processes, processes
from mpgd.experiments.cifar10_training import load_images, train
from mpgd.experiments.released import SWITCHES
from mpgd.experiments.runner import complete
from mpgd.experiments.statistics import (
    HEADINGS,
    Columns,
    Verdict,
    by_scheme,
    claim,
    gaussian_of,
    rows,
)
from mpgd.experiments.store import Record, Run
from mpgd.experiments.training import Result

GAMMAS: Final = (0.55, 0.6, 0.65, 0.7)
VARIANTS: Final = ("plain", "symmetric")
LEVEL: Final = {"mu": 0.03, "sigma": 0.01}
BETA: Final = 0.5
EPOCHS: Final = 0.3  # of the mini-batch reference, for each step of the full-batch runs
LONGER: Final = 3  # times the steps of the released baseline
SHORT: Final = "gd same steps"  # beside it, for a comparison that is fair

FULL: Final[dict[str, Any]] = {
    "study": "full", "width": 64, "train": 50_000, "test": 10_000, "pixels": 32, "block": 128,
    "eta": 0.1, "steps": 1000, "moments": 50,
}  # fmt: skip
REDUCED: Final[dict[str, Any]] = {
    "study": "reduced", "width": 8, "train": 400, "test": 1000, "pixels": 16, "block": 64,
    "eta": 0.1, "steps": 50, "moments": 5,
}  # fmt: skip
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


def run(context: Context, study: dict[str, Any] | None = None) -> None:
    """Train what the store lacks, print a table for each metric, and the verdicts."""
    check_device(context.device)
    study = study or (REDUCED if context.device == "cpu" else FULL)
    study = study | {"device": context.device}
    seeds = range(1, context.seeds + 1)
    wanted = [task for protocol in context.protocols for task in tasks(protocol, seeds, study)]
    with processes(context.device) as group:
        load_images(study, context.data)  # a missing file is an error before any work
        own = context if group.rank == 0 else replace(context, reporter=Silent())
        own.reporter.say(f"  {describe(study)}")
        if group.count > 1:
            records = _together(own, wanted, group)
        else:
            records = complete(own, wanted, trainer(own), lambda task: 1)
        for protocol in context.protocols:
            report(own, protocol, [each for each in records if each.run.protocol == protocol])


def check_device(device: str) -> None:
    """Raise where a GPU is asked for and none is found."""
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("--device cuda: torch finds no GPU; --device cpu runs the reduced study")


def describe(study: dict[str, Any]) -> str:
    """Return in words how large a study is."""
    said = (
        f"{study['study']} study on {study['device']}: ResNet-18 of width {study['width']}, "
        f"{study['train']} images of {study['pixels']} x {study['pixels']}, "
        f"blocks of {study['block']}, {study['steps']} steps"
    )
    return said if study["study"] == "full" else f"{said}; the full recipe wants --device cuda"


def tasks(
    protocol: str,
    seeds: Sequence[int],
    study: dict[str, Any],
    deviations: Sequence[str] | None = None,
) -> list[Run]:
    """Return every row of the paper's table for these seeds, and further baselines.

    Args:
        protocol: whose noise.
        seeds: of the runs.
        study: the size, such as `FULL`, and the device.
        deviations: names in `DEVIATIONS`; by default all if ``released``, none if ``paper``.
    """
    released = protocol == "released"
    if deviations is None:
        deviations = list(DEVIATIONS) if released else []
    if unknown := set(deviations) - set(DEVIATIONS):
        raise ValueError(f"deviations must be among {list(DEVIATIONS)}, got {sorted(unknown)}")
    schemes = _released() if released else _paper(study["steps"])
    if "long_baseline" in deviations:
        schemes = {"gd": schemes["gd"] | {"steps": LONGER * study["steps"]}, SHORT: schemes["gd"],
                   **{name: h for name, h in schemes.items() if name != "gd"}}  # fmt: skip
    common = study | {"deviations": list(deviations)}
    return [Run("cifar10", protocol, name, common | h, seed) for name, h in schemes.items()
            for seed in seeds]  # fmt: skip


def _paper(steps: int) -> dict[str, dict[str, Any]]:
    schemes: dict[str, dict[str, Any]] = {
        "gd": {"noise": "none"},
        "langevin": {"noise": "langevin", **LEVEL},
    }
    for variant in VARIANTS:
        for gamma in GAMMAS:
            h = LEVEL | {"noise": "matched", "gamma": gamma, "symmetric": variant == "symmetric"}
            schemes[f"gaussian {variant} {gamma:g}"] = h
    reference = {"noise": "mini-batches", "steps": round(EPOCHS * steps)}
    return schemes | _mpgd({"noise": "chaotic"}) | {"sgd": reference}


def _released() -> dict[str, dict[str, Any]]:
    baselines: dict[str, dict[str, Any]] = {
        "gd": {"noise": "none"},
        "gaussian": {"noise": "released_gaussian", **LEVEL},
    }
    return baselines | _mpgd({"noise": "switched", "switches": list(SWITCHES)})


def _mpgd(noise: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        scheme(variant, gamma): {
            **noise, **LEVEL, "gamma": gamma, "beta": BETA, "symmetric": variant == "symmetric"
        }
        for gamma in GAMMAS for variant in VARIANTS
    }  # fmt: skip


def scheme(variant: str, gamma: float) -> str:
    """Return the name of an MPGD row.

    Examples:
        >>> scheme("plain", 0.6)
        'mpgd plain 0.6 beta 0.5'
    """
    return f"mpgd {variant} {gamma:g} beta {BETA:g}"


def trainer(context: Context) -> Callable[[list[Run]], Iterator[Result]]:
    """Return what trains runs, with checkpoints beside the store; in this process it speaks."""
    alone = context.workers == 1 and context.cluster is None
    say = context.reporter.say if alone else None
    return partial(train_all, data=context.data, folder=context.out / "checkpoints", say=say)


def train_all(
    runs: list[Run],
    data: Path | None = None,
    folder: Path | None = None,
    say: Callable[[str], None] | None = None,
) -> Iterator[Result]:
    """Yield the metrics and the curves of each run; its checkpoint stays until that is stored."""
    for task in runs:
        yield task, *train(task, data, folder, say=say)
        Checkpoint(task, folder).remove()


def _together(context: Context, wanted: Sequence[Run], group: Processes) -> list[Record]:
    """Train as one of several processes: all share a full batch, mini-batch runs are dealt out."""
    store, folder = context.store, context.out / "checkpoints"
    missing = group.same([task for task in wanted if store.load(task) is None])
    dealt = [task for task in missing if task.hyperparameters["noise"] == "mini-batches"]
    shared = [task for task in missing if task not in dealt]
    for task in context.reporter.track(shared, lambda task: f"{task.protocol}, {task.scheme}"):
        metrics, curves = train(task, context.data, folder, group, say=context.reporter.say)
        if group.rank == 0:
            store.save(task, metrics, curves, metrics["training_seconds"])
            Checkpoint(task, folder).remove()
    for finished in trainer(context)(dealt[group.rank :: group.count]):
        store.save(*finished, finished[1]["training_seconds"])
    group.same(None)  # all results are written
    return [record for task in wanted if (record := store.load(task))]


def report(context: Context, protocol: str, records: list[Record]) -> None:
    """Print a table for each metric, and the verdicts."""
    title = f"cifar10 ({records[0].run.hyperparameters['study']}), {protocol}"
    tables = [Columns("val_accuracy", "validation accuracy, %", 2, _printed(0)),
              Columns("accuracy_gap", "accuracy gap, %", 2, _printed(1))]  # fmt: skip
    for columns in tables:
        body = rows(records, columns, "gd")
        context.reporter.table(f"{title}: {columns.title}", HEADINGS, body)
    for verdict in verdicts(records):
        context.reporter.say(f"{title}: {verdict.text(2)}")


def _printed(place: int) -> Callable[[str], str]:
    return lambda name: PRINTED.get(name, ("", ""))[place]


def verdicts(records: list[Record]) -> list[Verdict]:
    """Return what the runs say of the paper's claims, for the mean over gammas."""
    schemes = by_scheme(records)
    found = []
    for variant in VARIANTS:
        names = [scheme(variant, gamma) for gamma in GAMMAS]
        ours = [schemes[name] for name in names]
        others = {"descent": [schemes["gd"]]}
        if SHORT in schemes:
            others["descent of as many steps"] = [schemes[SHORT]]
        others["the Gaussian"] = [schemes[gaussian_of(name, schemes)] for name in names]
        for other, theirs in others.items():
            said = f"MPGD ({variant}) has a higher validation accuracy than {other}"
            found.append(claim(said, "higher", ours, theirs, "val_accuracy"))
            said = f"MPGD ({variant}) has a lower accuracy gap than {other}"
            found.append(claim(said, "lower", ours, theirs, "accuracy_gap"))
    return found
