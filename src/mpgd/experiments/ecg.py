"""The tables on ECG5000: test accuracy in per cent of a sigmoid net, perturbed for 500 steps.

The text says a shallow net of width 32, the authors' script has two hidden layers of that width:
protocol ``paper`` runs both, ``released`` the script's. Protocol ``paper`` has correct noise;
``released`` has the authors' noise with every deviation, and its descent and Gaussian rows, one
net at a time in the script's order of operations, come out as printed to the digit. All is
float64 and measured after the last step. The mini-batch reference takes as many steps, each on 32
examples.

Reference: Lim, Wan & Simsekli (2022), Appendix F.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy

from mpgd.experiments import Context
from mpgd.experiments.data import Split
from mpgd.experiments.data import ecg5000 as load_split
from mpgd.experiments.losses import cross_entropy
from mpgd.experiments.nets import Layout
from mpgd.experiments.released import SWITCHES, released_gaussian
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
from mpgd.experiments.training import Problem, Result, Trained, descend, full_batch
from mpgd.experiments.training import train as train_nets

GAMMAS: Final = (0.55, 0.6, 0.65)
BETAS: Final = (0.0, 0.5)
VARIANTS: Final = ("plain", "symmetric")
LEVEL: Final = {"mu": 0.2, "sigma": 0.2}
FIXED: Final[dict[str, Any]] = {"eta": 0.05, "steps": 1000, "stop": 500}
DEPTHS: Final = {"one hidden layer": [140, 32, 1], "two hidden layers": [140, 32, 32, 1]}
BATCH: Final = 32
SCRIPTED: Final = "script"  # how a run is computed: one net at a time
LARGEST: Final = 20  # in a batch, for the memory of its noise
WATCHED: Final = 40  # steps between two points of the curve of the test accuracy

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


def run(context: Context, fixed: dict[str, Any] = FIXED) -> None:
    """Train what the store lacks, print a table for each depth, and the verdicts."""
    load_split(context.data)  # a missing file is an error before any work
    seeds = range(1, context.seeds + 1)
    wanted = [task for protocol in context.protocols for task in tasks(protocol, seeds, fixed)]
    records = complete(context, wanted, partial(train, data=context.data), largest)
    for protocol in context.protocols:
        for depth, widths in DEPTHS.items():
            own = [record for record in records if record.run.protocol == protocol
                   and record.run.hyperparameters["widths"] == widths]  # fmt: skip
            if own:
                report(context, f"ecg, {protocol}, {depth}", own)


def tasks(protocol: str, seeds: Sequence[int], fixed: dict[str, Any] = FIXED) -> list[Run]:
    """Return every row of the paper's tables for these seeds, and further baselines."""
    if protocol == "paper":
        depths, schemes = list(DEPTHS.values()), _paper()
    else:
        depths, schemes = [DEPTHS["two hidden layers"]], _released()
    return [
        Run("ecg", protocol, name, fixed | {"widths": widths} | h, seed)
        for widths in depths
        for name, h in schemes.items()
        for seed in seeds
    ]


def _paper() -> dict[str, dict[str, Any]]:
    schemes: dict[str, dict[str, Any]] = {
        "gd": {"noise": "none"},
        "langevin": {"noise": "langevin", **LEVEL},
    }
    for variant in VARIANTS:
        for gamma in GAMMAS:
            h = LEVEL | {"noise": "matched", "gamma": gamma, "symmetric": variant == "symmetric"}
            schemes[f"gaussian {variant} {gamma:g}"] = h
    return schemes | _mpgd({"noise": "chaotic"}) | {"sgd": {"noise": "none", "batch": BATCH}}


def _released() -> dict[str, dict[str, Any]]:
    scripted: dict[str, dict[str, Any]] = {
        "gd": {"noise": "none", "how": SCRIPTED},
        "gaussian": {"noise": "released_gaussian", "how": SCRIPTED, **LEVEL},
    }
    return scripted | _mpgd({"noise": "switched", "switches": list(SWITCHES)})


def _mpgd(noise: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"mpgd {variant} {gamma:g} beta {beta:g}": {
            **noise, **LEVEL, "gamma": gamma, "beta": beta, "symmetric": variant == "symmetric"
        }
        for gamma in GAMMAS for beta in BETAS for variant in VARIANTS
    }  # fmt: skip


def largest(task: Run) -> int:
    """Return how many runs may be trained with this one."""
    return 1 if task.hyperparameters.get("how") == SCRIPTED else LARGEST


def train(runs: list[Run], data: Path | None = None) -> Iterator[Result]:
    """Yield the metrics of each run, and the curves of its training loss and test accuracy."""
    split = load_split(data)
    for task in (run for run in runs if run.hyperparameters.get("how") == SCRIPTED):
        on_train, on_test, early = script(split, task)
        found = metrics(on_train, on_test, split)
        yield task, found, _accuracy_curve(task, [*early, found["test_accuracy"]])
    together = [run for run in runs if run.hyperparameters.get("how") != SCRIPTED]
    if not together:
        return
    widths = tuple(together[0].hyperparameters["widths"])
    layout = Layout(widths, torch.sigmoid, torch.sigmoid)
    trained, accuracies = watched(layout, split, together)
    with torch.no_grad():
        on_train, on_test = (
            layout.outputs(trained.after, part) for part in (split.x_train, split.x_test)
        )
    for row, task in enumerate(together):
        found = metrics(on_train[row], on_test[row], split)
        curves = {"step": trained.moments, "train_loss": trained.curve[:, row]}
        if accuracies:
            own = [float(each[row]) for each in accuracies]
            curves |= _accuracy_curve(task, [*own, found["test_accuracy"]])
        yield task, found, curves


def watched(layout: Layout, split: Split, runs: list[Run]) -> tuple[Trained, list[Tensor]]:
    """Train, and return beside the result the test accuracies (run,) every `WATCHED` steps.

    The mini-batch reference, which no figure of the paper shows, has none.
    """
    problem = Problem(layout, split, cross_entropy)
    if runs[0].hyperparameters.get("batch"):
        return train_nets(problem, runs), []
    accuracies: list[Tensor] = []
    steps, on_train = count(), full_batch(problem)

    def gradient(x: Tensor) -> tuple[Tensor, Tensor]:
        if next(steps) % WATCHED == 0:
            accuracies.append(accuracy(layout.outputs(x, split.x_test), split.y_test))
        return on_train(x)

    x = layout.initial([run.seed for run in runs], torch.float64)
    return descend(x, runs, layout.shapes, gradient, layout), accuracies


def _accuracy_curve(task: Run, accuracies: list[float]) -> dict[str, Any]:
    """Return Figure 3's curve of a run; the last point is after the last step."""
    steps = task.hyperparameters["steps"]
    return {"accuracy_step": [*range(0, steps, WATCHED), steps], "test_accuracy": accuracies}


def accuracy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the accuracy of each net in per cent, at threshold 0.5."""
    return 100.0 * ((outputs > 0.5) == (targets > 0.5)).double().mean(-1)


def metrics(on_train: Tensor, on_test: Tensor, split: Split) -> dict[str, float]:
    """Return accuracies in per cent at threshold 0.5, and the training loss."""
    pairs = {"train": (on_train, split.y_train), "test": (on_test, split.y_test)}
    found = {f"{name}_accuracy": float(accuracy(p, y)) for name, (p, y) in pairs.items()}
    return found | {"train_loss": float(cross_entropy(on_train, split.y_train))}


def script(split: Split, task: Run) -> tuple[Tensor, Tensor, list[float]]:
    """Return outputs on train and test as the authors' script trains: one net, float64.

    The Gaussian's part is added to the gradient before the step. Beside the outputs stand the test
    accuracies before every `WATCHED`-th step.
    """
    h, accuracies = task.hyperparameters, []
    with torch.random.fork_rng():
        torch.manual_seed(task.seed)
        pairs = zip(h["widths"][:-1], h["widths"][1:], strict=True)
        layers = [nn.Linear(a, b, dtype=torch.float64) for a, b in pairs]
        net = nn.Sequential(*(part for layer in layers for part in (layer, nn.Sigmoid())))
        for step in range(h["steps"]):
            if step % WATCHED == 0:
                accuracies.append(float(accuracy(net(split.x_test)[:, 0], split.y_test)))
            loss = binary_cross_entropy(net(split.x_train)[:, 0], split.y_train)
            gradient = torch.autograd.grad(loss, list(net.parameters()))
            if h["noise"] == "released_gaussian" and step < h["stop"]:
                gradient = _perturbed(gradient, net, h["mu"], h["sigma"])
            with torch.no_grad():
                for p, g in zip(net.parameters(), gradient, strict=True):
                    p.sub_(h["eta"] * g)
    with torch.no_grad():
        return net(split.x_train)[:, 0], net(split.x_test)[:, 0], accuracies


def _perturbed(
    gradient: tuple[Tensor, ...], net: nn.Module, mu: float, sigma: float
) -> tuple[Tensor, ...]:
    params = [p.detach() for p in net.parameters()]
    drawn = released_gaussian([tuple(p.shape) for p in params], torch.float64)
    parts = [torch.split(v, [p.numel() for p in params]) for v in drawn]
    return tuple(
        g + (sigma * b + mu * a * p.reshape(-1)).view_as(g)
        for g, p, a, b in zip(gradient, params, *parts, strict=True)
    )


def report(context: Context, title: str, records: list[Record]) -> None:
    """Print the table and the verdicts."""
    columns = Columns("test_accuracy", "test accuracy, %", 2, lambda name: PRINTED.get(name, ""))
    body = rows(records, columns, "gd")
    context.reporter.table(f"{title}: {columns.title}", HEADINGS, body)
    for verdict in verdicts(records):
        context.reporter.say(f"{title}: {verdict.text(2)}")


def verdicts(records: list[Record]) -> list[Verdict]:
    """Return what the runs say of the paper's claims, for the mean over gammas and betas."""
    schemes = by_scheme(records)
    found = []
    for variant in VARIANTS:
        names = [name for name in schemes if name.startswith(f"mpgd {variant}")]
        ours = [schemes[name] for name in names]
        gaussian = [schemes[gaussian_of(name, schemes)] for name in names]
        said = f"MPGD ({variant}) has a higher accuracy than"
        metric = "test_accuracy"
        found.append(claim(f"{said} descent", "higher", ours, [schemes["gd"]], metric))
        found.append(claim(f"{said} the Gaussian", "higher", ours, gaussian, metric))
    return found
