"""What a number of `mpgd.counter` costs beside `torch.randn`, and a shift of a model.

One thread, 10^6 numbers, the cases taking turns.
"""

from __future__ import annotations

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

if __name__ == "__main__":
    print(numbers(21).markdown())
