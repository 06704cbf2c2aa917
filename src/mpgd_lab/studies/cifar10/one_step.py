"""One full-batch step of the real ResNet-18 on all 50,000 images, timed.

It shows on a machine without a GPU that the full recipe of `cifar10.runs` runs as it stands:
the same network, blocks, augmentation and noise, stopped after the first step.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from mpgd_lab.data.cifar10 import BINARY
from mpgd_lab.experiment import Experiment
from mpgd_lab.runner import Context, complete, print_items
from mpgd_lab.schemes import Scheme
from mpgd_lab.store import Record, Run
from mpgd_lab.studies.cifar10 import TIMED
from mpgd_lab.studies.cifar10.reproduction import check_device, trainer
from mpgd_lab.studies.cifar10.runs import BETA, FULL, ONE_STEP, tasks
from mpgd_lab.studies.cifar10.training import train_all

STEP: Final[dict[str, Any]] = FULL | {"study": ONE_STEP, "steps": 1, "moments": 1}
SCHEME: Final = Scheme("chaotic", gamma=0.6, beta=BETA)


def step_tasks(
    protocol: str, seeds: Sequence[int], study: dict[str, Any] | None = None
) -> list[Run]:
    """Return the one run."""
    every = tasks("corrected", [1], study or STEP | {"device": "cpu"})
    return [run for run in every if run.scheme == str(SCHEME)]


def run(context: Context, study: dict[str, Any] | None = None) -> None:
    """Take the step unless it is in the store, and say how long it took."""
    check_device(context.device)
    wanted = step_tasks("corrected", [1], (study or STEP) | {"device": context.device})
    print_items(context, printout(complete(context, wanted, trainer(context))))


def printout(records: Sequence[Record]) -> Iterator[str]:
    """Yield how long the step took."""
    for record in records:
        result, h = record.metrics, record.run.hyperparameters
        yield (
            f"  {record.run.scheme}, {h['train']} images: {result['training_seconds']:.0f} s for "
            f"the step ({result['cpu_seconds']:.0f} s of CPU time, "
            f"{1e3 * result['cpu_seconds'] / h['train']:.1f} ms an image), loss "
            f"{result['train_loss']:.4f} before it, validation accuracy "
            f"{result['val_accuracy']:.2f} % after it"
        )


EXPERIMENT: Final = Experiment(
    name="cifar10_step",
    runs=step_tasks,
    train=train_all,
    printout=printout,
    needs=lambda run: TIMED,
    data=(BINARY,),
    on_request=True,
    seeded=False,
    seconds=1850.0,
    run=run,
)
