"""One full-batch step of the real ResNet-18 on all 50,000 images, timed.

It shows on a machine without a GPU that the full recipe of `mpgd.experiments.cifar10` runs as it
stands: the same network, blocks, augmentation and noise, stopped after the first step.
"""

from __future__ import annotations

from typing import Any, Final

from mpgd.experiments import Context
from mpgd.experiments.cifar10 import FULL, check_device, scheme, tasks, trainer
from mpgd.experiments.runner import complete

STEP: Final[dict[str, Any]] = FULL | {"study": "one step", "steps": 1, "moments": 1}


def run(context: Context) -> None:
    """Take the step unless it is in the store, and say how long it took."""
    check_device(context.device)
    every = tasks("paper", [1], STEP | {"device": context.device})
    wanted = [task for task in every if task.scheme == scheme("plain", 0.6)]
    (record,) = complete(context, wanted, trainer(context))
    found, h = record.metrics, record.run.hyperparameters
    context.reporter.say(
        f"  {record.run.scheme}, {h['train']} images: {found['training_seconds']:.0f} s for the "
        f"step ({found['cpu_seconds']:.0f} s of CPU time, "
        f"{1e3 * found['cpu_seconds'] / h['train']:.1f} ms an image), loss "
        f"{found['train_loss']:.4f} before it, validation accuracy {found['val_accuracy']:.2f} % "
        "after it"
    )
