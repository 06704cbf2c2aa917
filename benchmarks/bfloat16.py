"""Memory and time of an AdamW step on bfloat16 parameters, each case in a process of its own.

80 tensors of 10^6 elements, one thread. Memory is the peak of the resident set from before the
parameters are made until three steps are taken, over the number of parameters: parameters,
gradients, states, and what a step needs for a while. Time is that of the process, so that it counts
no other one, and the cases take turns. Plain AdamW on a CPU is torch's loop over tensors unless one
asks for the fused kernel, which has a row of its own.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from typing import Any, Final

import torch
from torch import nn
from torch.optim import AdamW

from benchmarks.timing import Claim, Table
from mpgd import stochastic_rounding
from mpgd.optim import step_in_backward

TENSORS, SIZE, STEPS = 80, 10**6, 3
FLOAT32, NEAREST = "float32", "bfloat16, to nearest"
FUSED = "bfloat16, to nearest, fused=True"
WIDE, NARROW = "stochastic, moments float32", "stochastic, moments bfloat16"
HOOKED = "stochastic, moments bfloat16, steps in the backward pass"
CASES: Final = (FLOAT32, NEAREST, FUSED, WIDE, NARROW, HOOKED)
BOUNDS: Final = {WIDE: 13.0, NARROW: 9.0}


def made(case: str, tensors: int, size: int) -> tuple[list[nn.Parameter], Any]:
    """Return the parameters and the optimizer of a case."""
    dtype = torch.float32 if case == FLOAT32 else torch.bfloat16
    params = [nn.Parameter(torch.full((size,), 0.01, dtype=dtype)) for _ in range(tensors)]
    optimizer: Any = AdamW(params, lr=1e-3, fused=True if case == FUSED else None)
    if case not in (FLOAT32, NEAREST, FUSED):
        states = None if case == WIDE else torch.bfloat16
        optimizer = stochastic_rounding(optimizer, state_dtype=states)
    if case == HOOKED:
        step_in_backward(optimizer)
    return params, optimizer


def take_step(case: str, params: list[nn.Parameter], optimizer: Any) -> float:
    """Take a step with made-up gradients; return its seconds."""
    if case == HOOKED:  # a sum has the gradient 1, and a backward pass makes it tensor by tensor
        began = time.process_time()
        for p in params:
            p.sum().backward()
        return time.process_time() - began
    for p in params:
        p.grad = torch.full_like(p, 0.001)
    began = time.process_time()
    optimizer.step()
    seconds = time.process_time() - began
    optimizer.zero_grad()
    return seconds


def measure(case: str, tensors: int = TENSORS, size: int = SIZE) -> dict[str, float]:
    """Return bytes and nanoseconds per parameter, measured in this process."""
    torch.set_num_threads(1)
    take_step(case, *made(case, 2, 10))  # modules, tables
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    params, optimizer = made(case, tensors, size)
    seconds = min(take_step(case, params, optimizer) for _ in range(STEPS))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "bytes": 1024 * (peak - before) / (tensors * size),
        "ns": 1e9 * seconds / (tensors * size),
    }


def in_a_process(case: str) -> dict[str, float]:
    """Return what `measure` gives in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.bfloat16", case]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    measured: dict[str, float] = json.loads(output)
    return measured


def together(rounds: int) -> dict[str, float]:
    """Return each case's time over that of rounding to nearest, taking turns in one process."""
    torch.set_num_threads(1)
    cases = {case: made(case, 8, SIZE) for case in (NEAREST, FUSED, WIDE, NARROW)}
    steps = range(2 + rounds)  # the first two make states and memory
    seconds = [{c: take_step(c, *each) for c, each in cases.items()} for _ in steps][2:]
    return {c: statistics.median(s[c] / s[NEAREST] for s in seconds) for c in cases}


def halves(rounds: int) -> Table:
    """Return the table of all cases."""
    results = [{case: in_a_process(case) for case in CASES} for _ in range(max(2, rounds // 5))]
    rows, claims = [], []
    for case in CASES:
        memory = max(result[case]["bytes"] for result in results)
        nanoseconds = statistics.median(result[case]["ns"] for result in results)
        ratio = statistics.median(r[case]["ns"] / r[NEAREST]["ns"] for r in results)
        rows.append([case, f"{memory:.1f}", f"{nanoseconds:.2f}", f"{ratio:.2f}"])
        if case in BOUNDS:
            text = f"{case}: bytes a parameter, at most {BOUNDS[case]:g}"
            claims.append(Claim(text, memory, BOUNDS[case], at_least=False))
            text = f"{case}: step over bfloat16 to nearest, at most 1.3"
            claims.append(Claim(text, ratio, 1.3, at_least=False))
    return Table(
        f"AdamW on {TENSORS} tensors of {SIZE:,} elements, one thread",
        ["", "peak bytes a parameter", "ns a parameter", "of bfloat16 to nearest"],
        rows,
        ["Each case has a process of its own; `python -m benchmarks.bfloat16` prints the table."],
        claims,
    )


TABLES: Final = [halves]


if __name__ == "__main__":
    if sys.argv[1:] == ["together"]:
        print(json.dumps(together(15), indent=1))
    elif len(sys.argv) > 1:
        print(json.dumps(measure(sys.argv[1])))
    else:
        print(halves(25).markdown())
