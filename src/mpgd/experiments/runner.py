"""Runs that the store lacks, computed together, here, in processes of their own or on a cluster.

    runs -> those the store lacks -> batches of one shape -> train(batch) -> store, one by one

A batch is the unit of work: a worker that dies costs only its batch, which is tried again. Local
workers write their results themselves, so that a killed parent loses nothing that was finished;
results of a cluster come back and are written here.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, as_completed, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from pathlib import Path
from types import FrameType
from typing import Any, Final

from mpgd.experiments import Context
from mpgd.experiments.sources import driver
from mpgd.experiments.store import Record, Run, Store
from mpgd.experiments.training import Result

Train = Callable[[list[Run]], Iterable[Result]]
Finished = tuple[Run, Any, Any, float]
Batch = list[Run]

LARGEST: Final = 40  # runs in a batch
ATTEMPTS: Final = 3  # at a batch whose worker dies
SHARED: Final = ("widths", "eta", "steps", "stop", "batch")  # of runs that are trained together


class WorkerError(OSError):
    """Workers died again and again at one batch."""


def complete(
    context: Context, runs: Sequence[Run], train: Train, largest: Callable[[Run], int] | None = None
) -> list[Record]:
    """Return the records of ``runs``, in order, after computing those the store lacks.

    Args:
        context: the store, the workers and where progress is shown.
        runs: what is wanted.
        train: yields a run's metrics and curves; a function that another process can import, or
            a `functools.partial` of one.
        largest: how many runs like this one may be trained together; by default `LARGEST`.
    """
    store = context.store
    found = {run.key: store.load(run) for run in runs}
    missing = list({run.key: run for run in runs if found[run.key] is None}.values())
    if len(missing) < len(found):
        context.reporter.say(f"  {len(found) - len(missing)} of {len(found)} runs are in the store")
    batches = split(missing, largest or (lambda run: LARGEST))
    done = _spread(context, batches, train)
    label = Labels()
    for _ in context.reporter.track(batches, label):  # batches finish in an order of their own
        label.batch = next(done)
    for run in missing:
        found[run.key] = store.load(run)
    return [_present(found[run.key], run) for run in runs]


class Labels:
    """Names the batch that has just finished, whichever the progress loop thinks it was."""

    batch: Batch | None = None

    def __call__(self, item: Batch) -> str:
        """Return what a line of progress says."""
        batch = self.batch or item
        runs = "1 run" if len(batch) == 1 else f"{len(batch)} runs"
        return f"{batch[0].experiment}, {batch[0].protocol}: {runs}"


def split(runs: Iterable[Run], largest: Callable[[Run], int]) -> list[Batch]:
    """Return the runs in batches that can be trained together, those that share noise side by side.

    Examples:
        >>> runs = [Run("x", "paper", "gd", {"steps": n}, seed=s) for s in (1, 2) for n in (10, 20)]
        >>> [len(batch) for batch in split(runs, lambda run: 40)]
        [2, 2]
    """
    batches: list[Batch] = []
    last: dict[str, Batch] = {}
    for run in sorted(runs, key=lambda run: (str(driver(run)), run.seed)):
        size = largest(run)
        shared = [run.hyperparameters.get(name) for name in SHARED]
        kind = json.dumps([run.experiment, run.protocol, size, *shared])
        if kind not in last or len(last[kind]) >= size:
            last[kind] = []
            batches.append(last[kind])
        last[kind].append(run)
    return batches


def _present(record: Record | None, run: Run) -> Record:
    if record is None:
        raise RuntimeError(f"training returned no result for {run.canonical}")
    return record


def _spread(context: Context, batches: Sequence[Batch], train: Train) -> Iterator[Batch]:
    """Yield each batch when its runs are in the store."""
    if context.cluster:
        yield from _on_cluster(context, batches, train)
    elif context.workers > 1 and len(batches) > 1:
        yield from _in_processes(context, batches, train)
    else:
        for batch in batches:
            _train_and_save(train, batch, context.store)
            yield batch


def _finished(train: Train, batch: Batch) -> Iterator[Finished]:
    """Yield results; runs that are trained together share the time."""
    began = time.perf_counter()
    for run, metrics, curves in train(batch):
        yield run, metrics, curves, (time.perf_counter() - began) / len(batch)


def _train_and_save(train: Train, batch: Batch, store: Store) -> None:
    for finished in _finished(train, batch):
        store.save(*finished)


# Processes of our own -----------------------------------------------------------------------------


def _in_processes(context: Context, batches: Sequence[Batch], train: Train) -> Iterator[Batch]:
    """Yield finished batches; every worker is a pool of its own, so that none breaks another."""
    waiting = deque((batch, 1) for batch in batches)
    idle = [_pool() for _ in range(min(context.workers, len(batches)))]
    pools = list(idle)
    running: dict[Future[None], tuple[ProcessPoolExecutor, Batch, int]] = {}
    try:
        while waiting or running:
            while waiting and idle:
                pool, (batch, attempt) = idle.pop(), waiting.popleft()
                with _undisturbed():  # a worker that is just being started must not get lost
                    future = pool.submit(_task, train, batch, context.store.folder)
                running[future] = pool, batch, attempt
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                pool, batch, attempt = running.pop(future)
                try:
                    future.result()
                except (BrokenProcessPool, SystemExit):  # the latter where it was asked to end
                    waiting.append((_again(context, batch, attempt), attempt + 1))
                    pool.shutdown(wait=False)
                    idle.append(_pool())
                    pools.append(idle[-1])
                else:
                    idle.append(pool)
                    yield batch
    finally:
        _stop(pools)


def _again(context: Context, batch: Batch, attempt: int) -> Batch:
    """Return what the store still lacks of a batch whose worker died."""
    if attempt >= ATTEMPTS:
        raise WorkerError(f"workers died {attempt} times at {len(batch)} runs of "
                          f"{batch[0].experiment}; is there enough memory?")  # fmt: skip
    context.reporter.say(f"  a worker died; its batch of {len(batch)} runs is tried again")
    return [run for run in batch if context.store.load(run) is None]


def _pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, get_context("spawn"), initializer=_begin)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Put off Ctrl-C and SIGTERM until the block is done."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return
    came: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda each, frame: came.append(each)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
    if came:
        signal.raise_signal(came[0])


def _begin() -> None:
    """Make this process a worker: one torch thread, and no life without its parent."""
    import torch

    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    signal.signal(signal.SIGTERM, _leave)
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave(number: int, frame: FrameType | None) -> None:
    sys.exit(1)  # an exception, so that a file being written is taken away


def _leave_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _task(train: Train, batch: Batch, folder: Path) -> None:
    _train_and_save(train, batch, Store(folder))


def _stop(pools: Iterable[ProcessPoolExecutor]) -> None:
    """End our workers at once, also those in the middle of a batch."""
    for pool in pools:
        processes = list((pool._processes or {}).values())
        for process in processes:
            process.terminate()
        pool.shutdown(wait=True, cancel_futures=True)


# A Dask cluster -----------------------------------------------------------------------------------


def _on_cluster(context: Context, batches: Sequence[Batch], train: Train) -> Iterator[Batch]:
    try:
        from distributed import Client
    except ImportError:
        raise ImportError('a cluster needs distributed: pip install "mpgd[cluster]"') from None
    with Client(context.cluster) as client:  # type: ignore[no-untyped-call]
        executor = client.get_executor(retries=ATTEMPTS - 1)
        tasks = {executor.submit(_remote, train, batch): batch for batch in batches}
        try:
            for future in as_completed(tasks):
                for finished in future.result():
                    context.store.save(*finished)
                yield tasks[future]
        finally:
            executor.shutdown(wait=False)  # which cancels what has not begun


def _remote(train: Train, batch: Batch) -> list[Finished]:
    import torch

    torch.set_num_threads(1)
    return list(_finished(train, batch))
