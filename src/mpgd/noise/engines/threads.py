"""Cut a pass over a large tensor into as many parts as torch has threads.

The kernels release the interpreter's lock, so plain threads do; the parts never overlap and an
element's bits depend on its index alone, so the result does not depend on the cut. The threads
wait on bare queues, which wakes them several times sooner than a pool of `concurrent.futures`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Final

import torch

SMALLEST_PART: Final = 32768  # elements; below this a second thread costs more than it saves
_ALIGNMENT: Final = 512

Run = Callable[[int, int], None]


def in_parts(count: int, run: Run, smallest: int = SMALLEST_PART) -> None:
    """Call ``run(first, last)`` for parts that cover ``range(count)``, on torch's thread count."""
    parts = max(1, min(torch.get_num_threads(), count // smallest))
    width = -(-count // (parts * _ALIGNMENT)) * _ALIGNMENT
    cuts = [(first, min(first + width, count)) for first in range(0, count, width or 1)]
    if len(cuts) < 2:  # also where the alignment leaves one part
        run(0, count)
        return
    waiting = [_worker(os.getpid(), number).start(run, cut) for number, cut in enumerate(cuts[1:])]
    try:
        run(*cuts[0])
    finally:
        wait(waiting)
    for part in waiting:
        if part.problem is not None:
            raise part.problem


class Part:
    """A part that another thread works on."""

    def __init__(self, run: Run, cut: tuple[int, int]) -> None:
        self.run, self.cut = run, cut
        self.finished = False
        self.problem: BaseException | None = None
        self.signal: SimpleQueue[None] = SimpleQueue()

    def do(self) -> None:
        """Do the work and tell who waits."""
        try:
            self.run(*self.cut)
        except BaseException as problem:
            self.problem = problem
        self.finished = True
        self.signal.put(None)


class Worker:
    """A thread that does one part after the other."""

    def __init__(self) -> None:
        self.parts: SimpleQueue[Part] = SimpleQueue()
        Thread(target=self._work, name="mpgd", daemon=True).start()

    def start(self, run: Run, cut: tuple[int, int]) -> Part:
        """Hand over a part."""
        part = Part(run, cut)
        self.parts.put(part)
        return part

    def _work(self) -> None:
        while True:
            self.parts.get().do()


def wait(parts: list[Part]) -> None:
    """Wait for all, also through Ctrl-C: they use memory that the caller would free."""
    interrupt = None
    for part in parts:
        while not part.finished:
            try:
                part.signal.get(timeout=1.0)
            except Empty:
                pass
            except KeyboardInterrupt as wish:
                interrupt = wish
    if interrupt:
        raise interrupt


@lru_cache(maxsize=256)
def _worker(process: int, number: int) -> Worker:
    # By process: threads do not survive a fork.
    return Worker()
