"""A pass over a tensor is cut into parts that cover it once, whatever its size."""

from __future__ import annotations

import os
import signal
import threading
import time
from itertools import pairwise

import pytest
import torch

from mpgd import ChaoticNoise
from mpgd.noise.engines import threads as module
from mpgd.noise.engines.threads import in_parts


@pytest.fixture(params=["openmp", "plain"], autouse=True)
def _threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work on torch's OpenMP threads, and on our own."""
    if request.param == "plain":
        monkeypatch.setattr(module, "openmp", lambda: None)
    elif module.openmp() is None:
        pytest.skip("torch has no OpenMP threads here")


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("smallest", [1, 32, 32768])
@pytest.mark.parametrize("count", [0, 1, 24, 500, 512, 513, 1000, 100_000])
def test_parts_cover_everything_once(threads: int, smallest: int, count: int) -> None:
    torch.set_num_threads(threads)
    seen: list[tuple[int, int]] = []
    in_parts(count, lambda first, last: seen.append((first, last)), smallest)
    ends = sorted(seen)
    assert ends[0][0] == 0
    assert ends[-1][1] == count
    assert all(a[1] == b[0] for a, b in pairwise(ends))


def test_an_error_in_another_thread_is_raised_here() -> None:
    torch.set_num_threads(2)

    def run(first: int, last: int) -> None:
        if first:
            raise ZeroDivisionError(f"from {first} to {last}")

    with pytest.raises(ZeroDivisionError, match="from 50176 to 100000"):
        in_parts(100_000, run)


def test_ctrl_c_while_waiting_waits_on() -> None:
    """Signals come while this thread is done and the other one is not."""
    torch.set_num_threads(2)
    started, done = threading.Event(), []

    def run(first: int, last: int) -> None:
        if threading.current_thread() is threading.main_thread():
            assert started.wait(20)
            return
        started.set()
        for _ in range(3):
            time.sleep(0.05)
            signal.raise_signal(signal.SIGINT)
        done.append(first)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            in_parts(100_000, run)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(done) == 1


def test_a_forked_child_works_too() -> None:
    """The parent's threads are gone in the child, which must not wait for them."""
    torch.set_num_threads(2)
    in_parts(100_000, lambda first, last: None)
    child = os.fork()
    if child == 0:
        seen: list[int] = []
        in_parts(100_000, lambda first, last: seen.append(last - first))
        os._exit(0 if sum(seen) == 100_000 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_two_callers_do_not_mix_their_parts() -> None:
    torch.set_num_threads(2)
    seen: dict[str, list[tuple[int, int]]] = {"a": [], "b": []}

    def call(name: str) -> None:
        for _ in range(200):
            in_parts(100_000, lambda first, last: seen[name].append((first, last)))

    callers = [threading.Thread(target=call, args=(name,)) for name in seen]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    for cuts in seen.values():
        assert sorted(cuts) == [(0, 50176)] * 200 + [(50176, 100_000)] * 200


@pytest.mark.parametrize("count", [0, 1, 5, 500, 513, 3000])
def test_sums_do_not_depend_on_the_threads(count: int) -> None:
    noise = ChaoticNoise(0.6, 0.5, engine="cpu")
    sums = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        sums.append(noise.birkhoff(steps=1000, count=count))
    assert torch.equal(*sums)
