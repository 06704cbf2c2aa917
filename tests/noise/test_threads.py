"""A job is cut into parts that cover it once, on any threads, and the bits do not depend on it."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from mpgd import ChaoticNoise
from mpgd.noise.engines import cpu
from mpgd.noise.engines import threads as module
from mpgd.noise.engines.threads import run


class Job(ctypes.Structure):
    """The fields that every job has."""

    _fields_ = (("total", ctypes.c_int64), ("part", ctypes.c_int64), ("next", ctypes.c_int64))


class Kernel:
    """A kernel in Python: takes parts like one in C, and notes them."""

    def __init__(self, work: Any = None) -> None:
        self.seen: list[tuple[int, int]] = []
        self.lock, self.work = threading.Lock(), work
        self.entry = ctypes.CFUNCTYPE(None, ctypes.POINTER(Job))(self.call)

    def call(self, pointer: Any) -> None:
        """Take parts until none is left."""
        job = getattr(pointer, "contents", None) or pointer._obj
        while True:
            with self.lock:
                first = job.next
                job.next += job.part
            if first >= job.total:
                return
            self.seen.append((first, min(first + job.part, job.total)))
            if self.work:
                self.work()


@pytest.fixture(params=["openmp", "plain"], autouse=True)
def _threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work on torch's OpenMP threads, and on our own."""
    if request.param == "plain":
        monkeypatch.setattr(module, "openmp", lambda: None)
    elif module.openmp() is None:
        pytest.skip("torch has no OpenMP threads here")


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("smallest", [0, 1, 32, 32768])
@pytest.mark.parametrize("count", [1, 24, 500, 512, 513, 1000, 100_000])
def test_parts_cover_everything_once(threads: int, smallest: int, count: int) -> None:
    torch.set_num_threads(threads)
    kernel = Kernel()
    run(kernel.entry, Job(total=count), smallest)
    ends = sorted(kernel.seen)
    assert ends[0][0] == 0
    assert ends[-1][1] == count
    assert all(a[1] == b[0] and b[0] % 512 == 0 for a, b in pairwise(ends))
    assert len(ends) <= threads


def test_nothing_to_do_is_no_error() -> None:
    torch.set_num_threads(2)
    kernel = Kernel()
    run(kernel.entry, Job(total=0))
    assert kernel.seen == []


def test_two_threads_share_the_parts() -> None:
    torch.set_num_threads(2)
    both = threading.Barrier(2, timeout=20)
    kernel = Kernel(both.wait)  # passes only when both threads have come
    run(kernel.entry, Job(total=100_000))
    assert sorted(kernel.seen) == [(0, 50176), (50176, 100_000)]


def test_ctrl_c_while_waiting_waits_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signals come while this thread is done and the other one is not."""
    monkeypatch.setattr(module, "openmp", lambda: None)  # OpenMP returns when all have finished
    torch.set_num_threads(2)
    started, done = threading.Event(), []

    def work() -> None:
        if threading.current_thread() is threading.main_thread():
            assert started.wait(20)
            return
        started.set()
        for _ in range(3):
            time.sleep(0.05)
            signal.raise_signal(signal.SIGINT)
        done.append(True)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(Kernel(work).call, Job(total=100_000))
    finally:
        signal.signal(signal.SIGINT, before)
    assert done == [True]


@pytest.mark.skipif(not cpu.is_available(), reason="needs kernels, a C compiler")
def test_a_forked_child_works_too() -> None:
    """The parent's threads are gone in the child, which must not wait for them."""
    torch.set_num_threads(2)
    noise, out = ChaoticNoise(0.6), torch.empty(2, 100_000)
    words, expected = noise.init(100_000).word, noise.path(2, (100_000,), dtype=torch.float32)
    child = os.fork()
    if child == 0:  # without torch's operations, which may wait for those threads
        cpu.advance(noise.driver, words, out, int(noise.init(1).key), steps=2)
        os._exit(0 if np.array_equal(out.numpy(), expected.numpy()) else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.skipif(not cpu.is_available(), reason="needs kernels, a C compiler")
def test_two_callers_do_not_mix_their_parts() -> None:
    torch.set_num_threads(2)
    noise = ChaoticNoise(0.6, 0.5)
    expected = [noise.path(3, (100_003,), seed=seed) for seed in (1, 2)]
    found: dict[int, list[bool]] = {1: [], 2: []}

    def call(seed: int) -> None:
        for _ in range(10):
            again = noise.path(3, (100_003,), seed=seed)
            found[seed].append(torch.equal(again, expected[seed - 1]))

    callers = [threading.Thread(target=call, args=(seed,)) for seed in found]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert found == {1: [True] * 10, 2: [True] * 10}


@pytest.mark.skipif(not cpu.is_available(), reason="needs kernels, a C compiler")
@pytest.mark.parametrize("count", [0, 1, 5, 500, 513, 3000])
def test_sums_do_not_depend_on_the_threads(count: int) -> None:
    noise = ChaoticNoise(0.6, 0.5, engine="cpu")
    sums = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        sums.append(noise.birkhoff(steps=1000, count=count))
    assert torch.equal(*sums)
