"""Batches in worker processes; the batch of a worker that dies is tried again."""

import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process, resource_tracker
from pathlib import Path
from types import FrameType

from mpgd_lab.runner import ATTEMPTS, Batch, Context, Train, train_and_save
from mpgd_lab.store import Store


class WorkerError(OSError):
    """Workers died repeatedly on one batch."""


def in_processes(context: Context, batches: Sequence[Batch], train: Train) -> Iterator[Batch]:
    """Yield finished batches; every worker is its own pool, so that none breaks another."""
    waiting = deque((batch, 1) for batch in batches)
    idle = [_pool() for _ in range(min(context.workers, len(batches)))]
    pools = list(idle)
    running: dict[Future[None], tuple[ProcessPoolExecutor, Batch, int]] = {}
    try:
        while waiting or running:
            while waiting and idle:
                pool, (batch, attempt) = idle.pop(), waiting.popleft()
                # An interrupt while a worker starts would leave it without a parent.
                with _signals_deferred():
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
        raise WorkerError(
            f"workers died {attempt} times at {len(batch)} runs of {batch[0].experiment}; "
            "is there enough memory?"
        )
    context.reporter.say(f"  a worker died; its batch of {len(batch)} runs is tried again")
    return [run for run in batch if context.store.load(run) is None]


def _pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, get_context("spawn"), initializer=_begin)


@contextmanager
def _signals_deferred() -> Iterator[None]:
    """Defer Ctrl-C and SIGTERM until the end of the block.

    Ctrl-C is also blocked: a worker inherits that, so it is not interrupted while it imports.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return
    # Its first start would unblock Ctrl-C, so it is started before.
    resource_tracker.ensure_running()
    came: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda each, frame: came.append(each)) for number in numbers]
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
    if came:
        signal.raise_signal(came[0])


def _begin() -> None:
    """Initialise a worker: it exits with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    signal.signal(signal.SIGTERM, _leave)
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave(number: int, frame: FrameType | None) -> None:
    sys.exit(1)  # an exception, so that a file being written is removed


def _leave_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _task(train: Train, batch: Batch, folder: Path) -> None:
    train_and_save(train, batch, Store(folder, made=True))


def _stop(pools: Iterable[ProcessPoolExecutor]) -> None:
    """Terminate all workers at once, also in the middle of a batch."""
    for pool in pools:
        processes = list((pool._processes or {}).values())
        for process in processes:
            process.terminate()
        pool.shutdown(wait=True, cancel_futures=True)
