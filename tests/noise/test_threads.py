"""A pass over a tensor is cut into parts that cover it once, whatever its size."""

from __future__ import annotations

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


@pytest.mark.parametrize("count", [0, 1, 5, 500, 513, 3000])
def test_sums_do_not_depend_on_the_threads(count: int) -> None:
    noise = ChaoticNoise(0.6, 0.5, engine="numba")
    sums = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        sums.append(noise.birkhoff(steps=1000, count=count))
    assert torch.equal(*sums)
