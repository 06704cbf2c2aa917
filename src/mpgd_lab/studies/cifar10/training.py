"""One CIFAR-10 run: the loop, what it measures, and the two ways to take a step.

A step of a full-batch run goes once through the training set, block by block, and moves the
parameters once. A step of the mini-batch reference is an epoch and moves them after every block.
Batch norm sees blocks in both: the gradient is exact for the loss in which every block is
normalised by its own statistics.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from math import cos, isfinite, nan, pi
from pathlib import Path
from typing import Any, Final, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Optimizer

from mpgd.noise.counter_hash import MASK, make_key
from mpgd.optim import full_batch
from mpgd_lab.batched_training import Result
from mpgd_lab.data.cifar10 import Images, cifar10
from mpgd_lab.store import Run
from mpgd_lab.studies.cifar10.augmentation import Blocks, block_weights, standardised
from mpgd_lab.studies.cifar10.checkpoint import EVERY, Checkpoint, Curves, Progress
from mpgd_lab.studies.cifar10.perturbation import make_optimizer, make_perturbation
from mpgd_lab.studies.cifar10.process_group import Processes
from mpgd_lab.studies.cifar10.resnet import ResNet18

ALONE: Final = Processes()
SHUFFLE: Final = 0x6F726465  # keeps the order of mini-batches apart from other draws
WARM_UP: Final = 1 / 60  # of the mini-batch reference's epochs: 5 of 300
MOMENTUM: Final[dict[str, Any]] = {"momentum": 0.9, "weight_decay": 5e-4, "nesterov": True}
EVALUATED: Final = 500  # images at once


def train(
    run: Run,
    data: Path | None,
    folder: Path | None = None,
    processes: Processes = ALONE,
    every: float = EVERY,
    say: Callable[[str], None] | None = None,
) -> tuple[dict[str, float], Curves]:
    """Return the metrics and the curves of a run, going on from its checkpoint if there is one.

    Checkpoints go to ``folder``, ``every`` so many seconds; None keeps none. At each of them
    ``say`` is told how far the run is.
    """
    h = run.hyperparameters
    training, test = load_images(h, data)
    model = make_model(run)
    stepper = make_stepper(run, model, training, processes)
    checkpoint = Checkpoint(run, folder, every)
    progress = checkpoint.load(model, stepper.optimizer)
    with torch.backends.cudnn.flags(benchmark=False, deterministic=True):
        while progress.steps < h["steps"]:
            with progress.timed():
                loss, accuracy = stepper.step(progress.steps)
            if not isfinite(loss):
                return dict.fromkeys(ACCURACIES, nan) | times(progress), progress.curves
            progress.steps += 1
            if is_moment(progress.steps, h["steps"], h["moments"]):
                on_test = accuracy_of(model, test, processes)
                progress.note(train_loss=loss, train_accuracy=accuracy, val_accuracy=on_test)
            if processes.rank == 0 and checkpoint.save(progress, model, stepper.optimizer) and say:
                say(f"    {run.scheme}, seed {run.seed}: {_how_far(progress, h['steps'])}")
        on_train = accuracy_of(model, training, processes)
        recalibrate(model, training, h["block"])
        recalibrated = [accuracy_of(model, part, processes) for part in (training, test)]
    return metrics(h, progress, on_train, *recalibrated), progress.curves


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


def _how_far(progress: Progress, steps: int) -> str:
    left = progress.seconds / progress.steps * (steps - progress.steps)
    return f"step {progress.steps} of {steps}, {left / 60:.0f} minutes left"


ACCURACIES: Final = (
    "val_accuracy",
    "train_accuracy",
    "augmented_accuracy",
    "accuracy_gap",
    "clean_gap",
    "augmented_gap",
    "train_loss",
    "recalibrated_train_accuracy",
    "recalibrated_val_accuracy",
    "recalibrated_gap",
)


def metrics(
    h: Mapping[str, Any],
    progress: Progress,
    on_train: float,
    recalibrated_train: float,
    recalibrated_test: float,
) -> dict[str, float]:
    """Return accuracies in per cent and three gaps; ``accuracy_gap`` is the run's own one.

    The clean gap takes both accuracies with the running statistics of batch norm, the recalibrated
    one with statistics of the final network (`recalibrate`). The augmented gap takes the training
    accuracy of the last step's pass, before the step and in training mode.
    """
    on_test, seen, loss = (
        progress.curves[name][-1] for name in ("val_accuracy", "train_accuracy", "train_loss")
    )
    gap, augmented = recalibrated_train - recalibrated_test, seen - on_test
    own = augmented if "augmented_gap" in h["deviations"] else gap
    running = (on_test, on_train, seen, own, on_train - on_test, augmented, loss)
    values = (*running, recalibrated_train, recalibrated_test, gap)
    return dict(zip(ACCURACIES, values, strict=True)) | times(progress)


def times(progress: Progress) -> dict[str, float]:
    """Return the seconds that the steps took, in all and on a CPU."""
    return {"training_seconds": progress.seconds, "cpu_seconds": progress.cpu_seconds}


def is_moment(step: int, steps: int, moments: int) -> bool:
    """Return whether a curve has a point after ``step`` steps.

    Examples:
        >>> [step for step in range(1, 11) if is_moment(step, 10, moments=3)]
        [1, 4, 7, 10]
    """
    return (steps - step) % max(1, steps // moments) == 0


def device_of(h: Mapping[str, Any]) -> torch.device:
    """Return the run's device; of several GPUs, this process's own."""
    if h["device"] == "cuda":
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device(h["device"])


def load_images(h: Mapping[str, Any], data: Path | None) -> tuple[Images, Images]:
    """Return a run's training and test images on its device; they are read once."""
    balanced = h.get("balanced", False)
    return _images(h["train"], h["test"], h["pixels"], device_of(h), data, balanced)


@lru_cache(maxsize=1)
def _images(
    train: int, test: int, pixels: int, device: torch.device, data: Path | None, balanced: bool
) -> tuple[Images, Images]:
    training, validation = cifar10(10_000 if balanced else train, test, data)
    if balanced:
        training = training.balanced(train)
    first, second = (part.shrunk(pixels).to(device) for part in (training, validation))
    return first, second


def make_model(run: Run) -> ResNet18:
    """Return the network as the run's seed starts it."""
    h = run.hyperparameters
    model = ResNet18(h["width"], zero_init="no_zero_init" not in h["deviations"], seed=run.seed)
    model.to(device_of(h), memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model


@torch.no_grad()
def accuracy_of(model: nn.Module, images: Images, processes: Processes = ALONE) -> float:
    """Return the accuracy in per cent on the images as they are, with running statistics."""
    model.eval()
    part = processes.part(len(images))
    right = torch.zeros((), dtype=torch.float64, device=images.x.device)
    for start in range(part.start, part.stop, EVALUATED):
        chosen = slice(start, min(start + EVALUATED, part.stop))
        right += (model(standardised(images.x[chosen])).argmax(1) == images.y[chosen]).sum()
    return 100.0 * float(processes.total(right)) / len(images)


@torch.no_grad()
def recalibrate(model: nn.Module, images: Images, block: int) -> None:
    """Replace the running statistics of batch norm by those of the present weights.

    They are means over blocks of the images as they are. During training the running statistics
    lag some steps behind the weights, which matters where noise moves the weights at every step.
    """
    norms = [part for part in model.modules() if isinstance(part, nn.BatchNorm2d)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a cumulative mean
    model.train()
    for start in range(0, len(images), block):
        model(standardised(images.x[start : start + block]))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum


class Tally:
    """The loss of a block times the block's weight; remembers what it has seen."""

    def __init__(self, device: torch.device) -> None:
        self.sums = torch.zeros(3, dtype=torch.float64, device=device)

    def __call__(self, outputs: Tensor, targets: tuple[Tensor, float]) -> Tensor:
        """Return the weighted mean cross-entropy of a block."""
        classes, weight = targets
        loss = cross_entropy(outputs, classes)
        size = len(classes)
        right = (outputs.argmax(1) == classes).sum()
        self.sums += torch.stack([loss.detach() * size, right, torch.full_like(right, size)])
        return loss * weight

    def collect(self, processes: Processes = ALONE) -> tuple[float, float]:
        """Return the mean loss and the accuracy in per cent since last time."""
        loss, right, count = processes.total(self.sums).tolist()
        self.sums.zero_()
        return loss / count, 100.0 * right / count


class Stepper(Protocol):
    """A way to take a step."""

    optimizer: Optimizer

    def step(self, k: int) -> tuple[float, float]:
        """Take step ``k``; return mean loss and accuracy of its pass over augmented images."""


def make_stepper(run: Run, model: ResNet18, training: Images, processes: Processes) -> Stepper:
    """Return the run's way to take a step."""
    if run.hyperparameters["noise"] == "mini-batches":
        return MiniBatch(run, model, training)
    return FullBatch(run, model, training, processes)


class FullBatch:
    """Descent with the whole training set in every step, perturbed as the run asks."""

    def __init__(self, run: Run, model: ResNet18, training: Images, processes: Processes) -> None:
        h, self.model, self.processes = run.hyperparameters, model, processes
        drop, fade = (name in h["deviations"] for name in ("dropped_images", "fading_weights"))
        weights = block_weights(len(training), h["block"], drop=drop, fade=fade)
        part = processes.part(len(weights))
        self.blocks = Blocks(training, h["block"], run.seed, weights, part)
        self.later = len(weights) - part.stop
        self.tally = Tally(training.x.device)
        self.optimizer: Optimizer = make_optimizer(model, h, run.seed)
        self.perturb = make_perturbation(model, h, run.seed)
        self.gradient = full_batch(model, self.tally, self.blocks, group=processes.group)

    def step(self, k: int) -> tuple[float, float]:
        """Take one step."""
        self.model.train()
        self.blocks.step = k
        self.processes.begin_statistics(self.model)
        self.gradient()
        self.processes.end_statistics(self.model, self.later)
        if self.perturb:
            self.perturb(k)
        self.optimizer.step()
        return self.tally.collect(self.processes)


class MiniBatch:
    """The reference: Nesterov momentum, weight decay, a warm-up, then a cosine to zero."""

    def __init__(self, run: Run, model: ResNet18, training: Images) -> None:
        self.h, self.seed, self.model = run.hyperparameters, run.seed, model
        self.blocks = Blocks(training, self.h["block"], run.seed, [])
        self.tally = Tally(training.x.device)
        self.optimizer: Optimizer = SGD(model.parameters(), self.h["eta"], **MOMENTUM)

    def step(self, k: int) -> tuple[float, float]:
        """Take the steps of one epoch."""
        self.model.train()
        self.blocks.step = k
        batches = self._order(k)
        for number, index in enumerate(batches):
            done = (k + number / len(batches)) / self.h["steps"]
            self.optimizer.param_groups[0]["lr"] = self.h["eta"] * schedule(done)
            self.optimizer.zero_grad()
            outputs = self.model(self.blocks.batch(index))
            self.tally(outputs, (self.blocks.images.y[index], 1.0)).backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
        return self.tally.collect()

    def _order(self, epoch: int) -> Tensor:
        """Return the images of an epoch's batches, (batch, image): without replacement."""
        generator = torch.Generator().manual_seed(make_key(self.seed, SHUFFLE, epoch) & MASK >> 1)
        images = self.blocks.images
        order = torch.randperm(len(images), generator=generator).to(images.x.device)
        return order[: len(order) - len(order) % self.blocks.size].view(-1, self.blocks.size)


def schedule(done: float) -> float:
    """Return the factor of the step size after a part ``done`` of the training.

    Examples:
        >>> [round(schedule(t), 3) for t in (0.0, 1 / 120, 1 / 60, 0.5, 1.0)]
        [0.0, 0.5, 1.0, 0.513, 0.0]
    """
    if done < WARM_UP:
        return done / WARM_UP
    return (1 + cos(pi * (done - WARM_UP) / (1 - WARM_UP))) / 2
