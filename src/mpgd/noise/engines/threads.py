"""Cut a pass over a large tensor into as many parts as torch has threads.

The kernels release the interpreter's lock, so plain threads do; the parts never overlap and an
element's bits depend on its index alone, so the result does not depend on the cut.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import lru_cache
from typing import Final

import torch

SMALLEST_PART: Final = 32768  # elements; below this a second thread costs more than it saves
_ALIGNMENT: Final = 512


def in_parts(count: int, run: Callable[[int, int], None], smallest: int = SMALLEST_PART) -> None:
    """Call ``run(first, last)`` for parts that cover ``range(count)``, on torch's thread count."""
    parts = max(1, min(torch.get_num_threads(), count // smallest))
    width = -(-count // (parts * _ALIGNMENT)) * _ALIGNMENT
    cuts = [(first, min(first + width, count)) for first in range(0, count, width or 1)]
    if len(cuts) < 2:  # also where the alignment leaves one part
        run(0, count)
        return
    pool = _pool(os.getpid(), len(cuts) - 1)
    waiting = [pool.submit(run, *cut) for cut in cuts[1:]]
    try:
        run(*cuts[0])
    finally:
        wait(waiting)  # also after Ctrl-C: the parts use memory that the caller would free
    for part in waiting:
        part.result()


@lru_cache(maxsize=8)
def _pool(process: int, size: int) -> ThreadPoolExecutor:
    # One pool per process: threads do not survive a fork.
    return ThreadPoolExecutor(max_workers=size, thread_name_prefix="mpgd")
