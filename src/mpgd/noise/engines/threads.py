"""Run a kernel on as many threads as torch has.

A kernel of kernels.c takes a job: all there is to do, cut into parts, and the number of the first
element that no thread has taken yet. Every thread calls the kernel with the same job and takes
parts until none is left, so a busy core gets fewer. The parts never overlap, and an element's bits
depend on its index alone, so the result does not depend on the cut.

Torch's own OpenMP threads are best: after a torch operation they spin for a while, ready to go on,
and a thread of ours would have to fight them for the core. OpenMP is not linked, because torch
brings its own copy; `GOMP_parallel` of that copy is called with the address of the kernel. Where it
is not found, plain threads do the work, without the interpreter's lock.

Example: 100,000 elements on two threads are the parts [0, 50176) and [50176, 100000): half of them,
rounded up to a multiple of 512, so that all blocks but the last are whole.

Invariants: all threads have finished when `run` returns or raises, because the caller may free the
memory; in a forked child OpenMP is not used, because its threads stayed in the parent.
"""

from __future__ import annotations

import ctypes
import os
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import lru_cache
from typing import Any, Final

import torch

SMALLEST_PART: Final = 32768  # elements; below this a second thread costs more than it saves
_ALIGNMENT: Final = 512
_HOME: Final = os.getpid()


def run(kernel: Any, job: Any, smallest: int = SMALLEST_PART) -> None:
    """Call ``kernel`` with ``job``, which has the fields ``total``, ``part`` and ``next``.

    Args:
        kernel: a function of a ctypes library that takes a pointer.
        job: a ctypes structure.
        smallest: elements that are worth a thread.
    """
    parts = max(1, min(torch.get_num_threads(), job.total // max(1, smallest)))
    job.part = max(_ALIGNMENT, -(-job.total // (parts * _ALIGNMENT)) * _ALIGNMENT)
    job.next = 0
    pointer = ctypes.byref(job)
    if job.total <= job.part:
        kernel(pointer)
        return
    parallel = openmp() if os.getpid() == _HOME else None
    if parallel is None:
        _run_on_plain_threads(kernel, pointer, parts)
    else:
        parallel(ctypes.cast(kernel, ctypes.c_void_p), pointer, parts, 0)


@lru_cache(maxsize=1)
def openmp() -> Any:
    """Return ``GOMP_parallel`` of the OpenMP that torch uses, or None where it is not found."""
    library = ctypes.CDLL(None) if os.name == "posix" else None
    if "OpenMP" not in torch.__config__.parallel_info() or not hasattr(library, "GOMP_parallel"):
        return None
    call = library.GOMP_parallel  # type: ignore[union-attr]
    call.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
    call.restype = None
    return call


def _run_on_plain_threads(kernel: Any, pointer: Any, count: int) -> None:
    """Call the kernel on this thread and on those of a pool; raise Ctrl-C at the end."""
    pool, others, interrupt = _pool(os.getpid(), count - 1), list[Future[None]](), None
    while True:
        try:
            while len(others) < count - 1:
                others.append(pool.submit(kernel, pointer))
            kernel(pointer)
            wait(others)
            break
        except KeyboardInterrupt as wish:
            interrupt = wish
    if interrupt:
        raise interrupt


@lru_cache(maxsize=8)
def _pool(process: int, size: int) -> ThreadPoolExecutor:
    # One pool per process: threads do not survive a fork.
    return ThreadPoolExecutor(max_workers=size, thread_name_prefix="mpgd")
