"""Cut a pass over a large tensor into as many parts as torch has threads.

The kernels release the interpreter's lock, so any threads do; the parts never overlap and an
element's bits depend on its index alone, so the result does not depend on the cut. Torch's own
OpenMP threads are best: after a torch operation they spin for a while, ready to go on, and a
thread of ours would have to fight them for the core. Elsewhere plain threads do the work.

Example: 100,000 elements on two threads are the parts [0, 50176) and [50176, 100000): half of them,
rounded up to a multiple of 512, so that all blocks but the last are whole. A thread takes the next
part that nobody has, so a busy core gets fewer.

Invariants: nobody works any more when `in_parts` returns or raises, because the caller may free the
memory; in a forked child OpenMP is not used, because its threads stayed in the parent; an exception
in one part is raised here after all parts have ended. The bits would break if a kernel took an
element's index from its part and not from the whole, or if it carried anything from one block on to
the next.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import lru_cache
from typing import Any, Final

import torch

SMALLEST_PART: Final = 32768  # elements; below this a second thread costs more than it saves
_ALIGNMENT: Final = 512
_HOME: Final = os.getpid()

Work = Callable[[Any], None]
Spread = Callable[[Work, int], None]  # call the work on so many threads at once, and wait


def in_parts(count: int, run: Callable[[int, int], None], smallest: int = SMALLEST_PART) -> None:
    """Call ``run(first, last)`` for parts that cover ``range(count)``, on torch's thread count.

    It returns or raises only when nobody works any more, also after Ctrl-C: the parts use memory
    that the caller may free.
    """
    parts = max(1, min(torch.get_num_threads(), count // smallest))
    width = -(-count // (parts * _ALIGNMENT)) * _ALIGNMENT
    cuts = [(first, min(first + width, count)) for first in range(0, count, width or 1)]
    if len(cuts) < 2:  # also where the alignment leaves one part
        run(0, count)
        return
    left, problems = cuts[::-1], list[BaseException]()

    def work(_: Any) -> None:
        try:
            while (cut := _taken(left)) is not None:
                run(*cut)
        except BaseException as problem:
            problems.append(problem)

    spread = openmp() if os.getpid() == _HOME else None  # its threads do not survive a fork
    (spread or plain_threads)(work, len(cuts))
    if problems:
        raise problems[0]
    work(None)  # nothing is left, unless Ctrl-C came between two threads' first words


def _taken(left: list[tuple[int, int]]) -> tuple[int, int] | None:
    try:
        return left.pop()
    except IndexError:
        return None


@lru_cache(maxsize=1)
def openmp() -> Spread | None:
    """Return how to work on torch's OpenMP threads, or None where torch has none to be found."""
    library = ctypes.CDLL(None) if os.name == "posix" else None
    if "OpenMP" not in torch.__config__.parallel_info() or not hasattr(library, "GOMP_parallel"):
        return None
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    call = library.GOMP_parallel  # type: ignore[union-attr]
    call.argtypes, call.restype = [kind, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint], None
    works: dict[int, Work] = {}
    entry = kind(lambda number: works[number](number))  # made once: a new one takes long

    def spread(work: Work, count: int) -> None:
        number = id(work)
        works[number] = work
        try:
            call(entry, number, count, 0)
        finally:
            del works[number]

    return spread


def plain_threads(work: Work, count: int) -> None:
    """Do the work on this thread and on those of a pool."""
    pool = _pool(os.getpid(), count - 1)
    others = [pool.submit(work, None) for _ in range(count - 1)]
    work(None)
    interrupt = None
    while not all(other.done() for other in others):
        try:
            wait(others)
        except KeyboardInterrupt as wish:
            interrupt = wish
    if interrupt:
        raise interrupt


@lru_cache(maxsize=8)
def _pool(process: int, size: int) -> ThreadPoolExecutor:
    # One pool per process: threads do not survive a fork.
    return ThreadPoolExecutor(max_workers=size, thread_name_prefix="mpgd")
