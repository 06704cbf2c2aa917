"""The loop that reproduces an experiment, and its `Context`.

    runs -> those the store lacks -> batches of one shape -> train(batch) -> store, one by one
         -> tables, verdicts and figures of all records

A study has its own loop only where it is not trained run by run. Batches are trained in this
process, in worker processes or on a cluster.

A batch is the unit of work: if a worker dies, its batch is tried again. Local workers write their
results themselves, so that a killed parent loses no finished run; results of a cluster are written
by this process.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from mpgd.parameters import check_choice, check_integer
from mpgd_lab.batched_training import Result, one_thread
from mpgd_lab.catalogue import PROTOCOLS, USUAL
from mpgd_lab.content.blocks import Plate
from mpgd_lab.content.style import save
from mpgd_lab.data.sources import obtain
from mpgd_lab.experiment import MAX_BATCH, Experiment, PrintItem
from mpgd_lab.perturbations.batched import driver
from mpgd_lab.store import Record, Run, Store

T = TypeVar("T")
Train = Callable[[list[Run]], Iterable[Result]]
TimedResult = tuple[Run, Any, Any, float]
Batch = list[Run]

ATTEMPTS: Final = 3  # to train a batch if workers die
TASKS: Final = 4  # batches per thread of a cluster, if there are enough runs
SHARED_SETTINGS: Final = (
    "widths",
    "eta",
    "steps",
    "stop",
    "batch",
    "data",
    "part",
    "study",
)  # in a batch


class Reporter(Protocol):
    """Shows the progress and the results of an experiment."""

    def say(self, text: str) -> None:
        """Show one line."""

    def track(
        self, items: Sequence[T], label: Callable[[T], str], size: Callable[[T], int] = ...
    ) -> Iterable[T]:
        """Yield ``items`` and show how far the loop is, counted by their sizes."""

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Show a table."""


class SilentReporter:
    """A reporter that shows nothing."""

    def say(self, text: str) -> None:
        """Show nothing."""

    def track(
        self, items: Sequence[T], label: Callable[[T], str], size: Callable[[T], int] = lambda _: 1
    ) -> Iterable[T]:
        """Return ``items``."""
        return items

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Show nothing."""


@dataclass(frozen=True)
class Context:
    """The settings of a reproduction."""

    out: Path  # the folder of figures
    reporter: Reporter = field(default_factory=SilentReporter)  # shows progress and results
    protocols: tuple[str, ...] = USUAL  # of `catalogue.PROTOCOLS`, those to run
    seeds: int = 5  # how many seeds of each scheme, from 1 on
    data: Path | None = None  # the folder of data sets that is searched first
    workers: int = 1  # how many processes train
    cluster: str | None = None  # the address of a Dask scheduler that trains instead
    device: str = "cpu"  # ``cpu`` or ``cuda``; for cifar10
    size: str = "tiny"  # ``tiny``, ``reduced`` or ``full``; for cifar10
    verbose: bool = True  # whether tables, verdicts and the names of figures are printed

    def __post_init__(self) -> None:
        for protocol in self.protocols:
            check_choice("protocol", protocol, PROTOCOLS)
        check_integer("seeds", self.seeds, 1)
        check_integer("workers", self.workers, 1)
        check_choice("device", self.device, ("cpu", "cuda"))
        check_choice("size", self.size, ("tiny", "reduced", "full"))
        if self.data is not None and not self.data.is_dir():
            raise ValueError(f"data must be a folder, got {str(self.data)!r}")

    @cached_property
    def store(self) -> Store:
        """The store of finished runs, in ``out/runs``."""
        return Store(self.out / "runs", self.reporter.say)


def reproduce(experiment: Experiment, context: Context, *size: Any) -> None:
    """Train what the store lacks, print tables and verdicts, and draw the figures.

    ``size`` is handed to the study's ``runs``; without it they have the size of the paper.
    """
    if experiment.run:
        experiment.run(context, *size)
        return
    obtain(experiment.data, context.data)
    runs = runs_of(experiment, context, *size)
    train: Train = partial(experiment.train, data=context.data)
    records = complete(context, runs, train, experiment.max_batch, experiment.label)
    print_items(context, experiment.printout(records))
    draw(context, experiment, records)


def runs_of(experiment: Experiment, context: Context, *size: Any) -> list[Run]:
    """Return the runs of a study, each once; by default for all protocols and seeds."""
    if experiment.select_runs:
        return experiment.select_runs(context, *size)
    seeds = range(1, context.seeds + 1)
    every = [
        run for protocol in context.protocols for run in experiment.runs(protocol, seeds, *size)
    ]
    return list({run.key: run for run in every}.values())


def complete(
    context: Context,
    runs: Sequence[Run],
    train: Train,
    max_batch: Callable[[Run], int] | None = None,
    label: Callable[[Run], str] | None = None,
) -> list[Record]:
    """Return the records of ``runs``, in order, after computing those the store lacks.

    ``train`` yields a run's metrics and curves; another process must be able to import it.
    ``max_batch`` says how many runs like this one may be trained together, by default `MAX_BATCH`;
    ``label`` names a run in the progress, where runs are trained one by one.
    """
    store = context.store
    store.make()
    records = {run.key: store.load(run) for run in runs}
    missing = list({run.key: run for run in runs if records[run.key] is None}.values())
    if len(missing) < len(records) and context.verbose:
        context.reporter.say(
            f"  {len(records) - len(missing)} of {len(records)} runs are in the store"
        )
    batches = split(
        missing, _batch_limit(context, len(missing), max_batch or (lambda run: MAX_BATCH))
    )
    done = _dispatch(context, batches, train)
    labels = Labels(label)
    # Batches finish in an order of their own.
    for _ in context.reporter.track(batches, labels, len):
        labels.batch = next(done)
    for run in missing:
        records[run.key] = store.load(run)
    return [_require(store, records[run.key], run) for run in runs]


def _batch_limit(
    context: Context, runs: int, max_batch: Callable[[Run], int]
) -> Callable[[Run], int]:
    """Return ``max_batch``, or less where a cluster would have idle workers."""
    if not (context.cluster and runs):
        return max_batch
    from mpgd_lab.runner.cluster import places

    size = max(1, runs // (TASKS * places(context)))
    return lambda run: min(max_batch(run), size)


class Labels:
    """Labels of the progress: of the batch that has just finished, in any order."""

    def __init__(self, label: Callable[[Run], str] | None = None) -> None:
        self.label = label
        self.batch: Batch | None = None

    def __call__(self, item: Batch) -> str:
        """Return the label of a batch."""
        batch = self.batch or item
        if self.label:
            return self.label(batch[0])
        runs = "1 run" if len(batch) == 1 else f"{len(batch)} runs"
        return f"{batch[0].experiment}, {batch[0].protocol}: {runs}"


def split(runs: Iterable[Run], max_batch: Callable[[Run], int]) -> list[Batch]:
    """Return the runs in batches that can be trained together, runs with the same noise adjacent.

    Examples:
        >>> runs = [Run("x", "paper", "gd", {"steps": n}, seed=s) for s in (1, 2) for n in (10, 20)]
        >>> [len(batch) for batch in split(runs, lambda run: 40)]
        [2, 2]
    """
    batches: list[Batch] = []
    last: dict[str, Batch] = {}
    for run in sorted(runs, key=lambda run: (str(driver(run)), run.seed)):
        size = max_batch(run)
        shared = [run.hyperparameters.get(name) for name in SHARED_SETTINGS]
        kind = json.dumps([run.experiment, run.protocol, size, *shared])
        if kind not in last or len(last[kind]) >= size:
            last[kind] = []
            batches.append(last[kind])
        last[kind].append(run)
    return batches


def _require(store: Store, record: Record | None, run: Run) -> Record:
    if record is None and not store.folder.is_dir():
        raise store.missing_folder()
    if record is None:
        raise RuntimeError(f"training returned no result for {run.canonical}")
    return record


def _dispatch(context: Context, batches: Sequence[Batch], train: Train) -> Iterator[Batch]:
    """Yield each batch when its runs are in the store."""
    if context.cluster:
        from mpgd_lab.runner.cluster import on_cluster

        yield from on_cluster(context, batches, train)
    elif context.workers > 1 and len(batches) > 1:
        from mpgd_lab.runner.processes import in_processes

        yield from in_processes(context, batches, train)
    else:
        for batch in batches:
            train_and_save(train, batch, context.store)
            yield batch


def timed_results(train: Train, batch: Batch) -> Iterator[TimedResult]:
    """Yield results with their time; the runs of a batch share it equally."""
    began = time.perf_counter()
    with one_thread():
        for run, metrics, curves in train(batch):
            yield run, metrics, curves, (time.perf_counter() - began) / len(batch)


def train_and_save(train: Train, batch: Batch, store: Store) -> None:
    """Train a batch and write each result as soon as it is there."""
    for result in timed_results(train, batch):
        store.save(*result)


def print_items(context: Context, said: Iterable[PrintItem]) -> None:
    """Print lines and tables, if the context asks for them."""
    for item in said if context.verbose else ():
        if isinstance(item, str):
            context.reporter.say(item)
        else:
            context.reporter.table(*item)


def draw(context: Context, experiment: Experiment, records: list[Record]) -> None:
    """Write the figures."""
    blocks = experiment.figures(records) if experiment.figures else ()
    for plate in (block for block in blocks if isinstance(block, Plate)):
        path = context.out / f"{plate.name}.png"
        save(plate, path)
        if context.verbose:
            context.reporter.say(f"figure: {path}")
