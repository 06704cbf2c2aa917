"""How CIFAR-10 is reproduced: on one device, or by several processes that share a full batch."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from mpgd_lab.batched_training import Result, one_thread
from mpgd_lab.runner import Context, SilentReporter, complete, print_items
from mpgd_lab.store import Record, Run
from mpgd_lab.studies.cifar10.checkpoint import Checkpoint
from mpgd_lab.studies.cifar10.process_group import Processes, processes
from mpgd_lab.studies.cifar10.runs import SIZES, comparison_of, describe, tasks
from mpgd_lab.studies.cifar10.training import load_images, train, train_all


def run(context: Context, study: dict[str, Any] | None = None) -> None:
    """Train what the store lacks, print a table for each metric, and the verdicts."""
    check_device(context.device)
    study = (study or SIZES[context.size]) | {"device": context.device}
    wanted = select_runs(context, study)
    with processes(context.device) as group:
        load_images(study, context.data)  # a missing file is an error before any work
        own = context if group.rank == 0 else replace(context, reporter=SilentReporter())
        own.reporter.say(f"  {describe(study)}")
        if group.count > 1:
            with one_thread():
                records = _together(own, wanted, group)
        else:
            records = complete(own, wanted, trainer(own), lambda task: 1)
        print_items(own, comparison_of(study["study"]).printout(records))


def select_runs(context: Context, study: dict[str, Any] | None = None) -> list[Run]:
    """Return the runs that a context asks for."""
    study = (study or SIZES[context.size]) | {"device": context.device}
    seeds = range(1, context.seeds + 1)
    return [task for protocol in context.protocols for task in tasks(protocol, seeds, study)]


def check_device(device: str) -> None:
    """Raise where a GPU is asked for and none is found."""
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("--device cuda: torch finds no GPU; --size reduced runs on a CPU")


def trainer(context: Context) -> Callable[[list[Run]], Iterator[Result]]:
    """Return what trains runs, with checkpoints beside the store; in this process it speaks."""
    alone = context.workers == 1 and context.cluster is None
    say = context.reporter.say if alone else None
    return partial(train_all, data=context.data, folder=context.out / "checkpoints", say=say)


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
