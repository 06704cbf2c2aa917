"""A pass over a tensor is cut into parts that cover it once, whatever its size."""

from __future__ import annotations

import signal
import threading
import time
from itertools import pairwise

import pytest
import torch

from mpgd import ChaoticNoise
from mpgd.noise.engines.threads import in_parts


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
    """Every signal comes while the first part is done and the others are not."""
    torch.set_num_threads(3)
    done = []

    def run(first: int, last: int) -> None:
        if first:
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
    assert len(done) == 2


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
    noise = ChaoticNoise(0.6, 0.5, engine="numba")
    sums = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        sums.append(noise.birkhoff(steps=1000, count=count))
    assert torch.equal(*sums)
