"""What a number of `mpgd.counter` costs beside `torch.randn`, and a shift of a model.

One thread, 10^6 numbers, the cases taking turns. `python -m benchmarks.counter pairs` moves weights
10,000 times by `mpgd.shifted` and compares their bits each time that they come back.
"""

from __future__ import annotations

import sys
from typing import Final

import torch
from torch import nn

from benchmarks.timing import Claim, Table, interleaved, threads
from mpgd import counter, shifted

SIZE: Final = 10**6
RANDN = "`torch.randn`"


def shift(dtype: torch.dtype) -> None:
    """Move a tensor and move it back."""
    with shifted([nn.Parameter(torch.ones(SIZE, dtype=dtype))], seed=0, scale=1e-3):
        pass


def numbers(rounds: int) -> Table:
    """Return the table of all functions."""
    x, place = torch.empty(SIZE), {"seed": 0, "step": 0}
    out = torch.empty(SIZE)
    cases = {
        RANDN: lambda: torch.randn(SIZE),
        "`counter.normal`": lambda: counter.normal(x, **place),
        "`counter.normal(out=...)`": lambda: counter.normal(x, **place, out=out),
        "`counter.add_`": lambda: counter.add_(out, 1e-3, **place),
        "`counter.uniform`": lambda: counter.uniform(x, **place),
        "`counter.bits`": lambda: counter.bits(x, **place),
        "`counter.stable`": lambda: counter.stable(x, 1.5, **place),
        "`shifted`, there and back, float32": lambda: shift(torch.float32),
        "`shifted`, there and back, bfloat16": lambda: shift(torch.bfloat16),
    }
    with threads(1):
        timings = interleaved(cases, rounds)
    rows = [
        [name, f"{1e9 * t.median / SIZE:.2f}", f"{t.over(timings[RANDN]):.2f}"]
        for name, t in timings.items()
    ]
    names = ["`counter.normal`", "`counter.add_`", "`counter.uniform`", "`counter.bits`"]
    claims = [
        Claim(f"{n} over torch.randn, at most 1.2", timings[n].over(timings[RANDN]), 1.2, False)
        for n in names
    ]
    columns = ["", "ns a number", "of `torch.randn`"]
    return Table("Random numbers of the counter, one thread", columns, rows, (), claims)


TABLES: Final = [numbers]


def unequal_pairs(dtype: torch.dtype, count: int) -> tuple[int, int]:
    """Return how many of ``count`` shifts changed weights, and after how many bits differed."""
    numbers_of = torch.Generator().manual_seed(0)
    sizes = torch.logspace(-8, 3, 2000)
    weights = [torch.randn(2000, generator=numbers_of) * sizes for _ in range(2)]
    special = [0.0, -0.0, torch.finfo(dtype).max, torch.finfo(dtype).tiny / 4, torch.inf, torch.nan]
    params = [nn.Parameter(w.to(dtype)) for w in (*weights, torch.tensor(special))]
    bits = torch.int32 if dtype == torch.float32 else torch.int16

    def now() -> torch.Tensor:
        return torch.cat([p.detach().view(bits) for p in params])

    before, moved, unequal = now(), 0, 0
    for k in range(count):
        with shifted(params, seed=k, scale=(1e-3, 0.1, -30.0)[k % 3]):
            moved += not torch.equal(now(), before)
        unequal += not torch.equal(now(), before)
    return moved, unequal


if __name__ == "__main__":
    if sys.argv[1:] == ["pairs"]:
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            moved, unequal = unequal_pairs(dtype, 10_000)
            print(f"{dtype}: {moved:,} shifts moved the weights, {unequal} did not come back")
    else:
        print(numbers(21).markdown())
