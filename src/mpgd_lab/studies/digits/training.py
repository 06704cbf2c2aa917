"""How the nets on digits are trained and measured."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from mpgd_lab.batched_training import Problem, Result
from mpgd_lab.batched_training import train as train_nets
from mpgd_lab.data.sources import Split
from mpgd_lab.data.sources import digits as load_split
from mpgd_lab.nets.layout import Layout, class_entropy
from mpgd_lab.store import Run
from mpgd_lab.studies.digits.runs import FIXED

MAX_BATCH: Final = 50  # runs trained together: larger than usual, for their noise costs most


def train(runs: list[Run], data: Path | None = None) -> Iterator[Result]:
    """Yield the metrics and the curve of the training loss of each run."""
    split, layout = load_split(), Layout(tuple(FIXED["widths"]), torch.relu)
    trained = train_nets(Problem(layout, split, class_entropy), runs)
    on_train, on_test = (
        layout.forward(trained.after, part) for part in (split.x_train, split.x_test)
    )
    for row, task in enumerate(runs):
        curves = {"step": trained.moments, "train_loss": trained.curve[:, row]}
        yield task, metrics(on_train[row], on_test[row], split), curves


def metrics(on_train: Tensor, on_test: Tensor, split: Split) -> dict[str, float]:
    """Return losses, accuracies in per cent, and both gaps; a gap is positive for overfitting."""
    scores = {}
    for name, outputs, y in (("train", on_train, split.y_train), ("test", on_test, split.y_test)):
        scores[f"{name}_loss"] = float(class_entropy(outputs, y))
        scores[f"{name}_accuracy"] = 100.0 * float((outputs.argmax(-1) == y).double().mean())
    return scores | {
        "gap": scores["test_loss"] - scores["train_loss"],
        "accuracy_gap": scores["train_accuracy"] - scores["test_accuracy"],
    }
