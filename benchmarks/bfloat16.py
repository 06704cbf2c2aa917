"""Memory and time of an AdamW step on bfloat16 parameters, each case in a process of its own.

80 tensors of 10^6 elements, one thread. Memory is the peak of the resident set from before the
parameters are made until three steps are taken, over the number of parameters: parameters,
gradients, states, and what a step needs for a while. Time is that of the process, so that it counts
no other one, and the cases take turns. Plain AdamW on a CPU is torch's loop over tensors unless one
asks for the fused kernel, which has a row of its own.

`python -m benchmarks.bfloat16 together` measures time in one process, where the loop's temporaries
may meet other holes in memory: it counts page faults too. `python -m benchmarks.bfloat16 rounding`
rounds some numbers a million times each.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn
from torch.optim import AdamW

from benchmarks.timing import Claim, Table
from mpgd import stochastic_rounding
from mpgd.optim import step_in_backward, stochastic_round

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


def peak_bytes() -> int:
    """Return the largest resident set so far; that of getrusage begins with the parent's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    [line] = [each for each in lines if each.startswith("VmHWM")]
    return 1024 * int(line.split()[1])


def measure(case: str, tensors: int = TENSORS, size: int = SIZE) -> dict[str, float]:
    """Return bytes and nanoseconds per parameter, measured in this process."""
    torch.set_num_threads(1)
    take_step(case, *made(case, 2, 10))  # modules, tables
    before = peak_bytes()
    params, optimizer = made(case, tensors, size)
    seconds = min(take_step(case, params, optimizer) for _ in range(STEPS))
    return {
        "bytes": (peak_bytes() - before) / (tensors * size),
        "ns": 1e9 * seconds / (tensors * size),
    }


def in_a_process(case: str) -> dict[str, float]:
    """Return what `measure` gives in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.bfloat16", case]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    measured: dict[str, float] = json.loads(output)
    return measured


def together(rounds: int) -> dict[str, dict[str, float]]:
    """Return each case's time over that to nearest in one process, and page faults in 10^6."""
    torch.set_num_threads(1)
    cases = {case: made(case, 8, SIZE) for case in (NEAREST, FUSED, WIDE, NARROW)}
    found: dict[str, list[tuple[float, int]]] = {case: [] for case in cases}
    for _ in range(2 + rounds):  # the first two make states and memory
        for case, (params, optimizer) in cases.items():
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            seconds = take_step(case, params, optimizer)
            after = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            found[case].append((seconds, after - before))
    results = {}
    for case, each in found.items():
        ratios = [
            own[0] / plain[0] for own, plain in zip(each[2:], found[NEAREST][2:], strict=True)
        ]
        faults = statistics.median(count for _, count in each[2:]) / 8
        results[case] = {"of to nearest": statistics.median(ratios), "faults": faults}
    return results


def roundings() -> list[str]:
    """Return a table of numbers that were rounded a million times."""
    low, top = 2.0**-133, torch.finfo(torch.bfloat16).max  # the least and the largest bfloat16
    cases = [(torch.bfloat16, x) for x in (1.001, 1e-40, low / 4, top, 3.3961e38, 3.4e38)]
    cases += [(torch.float16, x) for x in (1.0001, 3.1e-8, 1e-6, 65504.0, 65519.0, 65520.0)]
    cases += [(torch.bfloat16, x) for x in (torch.inf, -torch.inf, torch.nan)]
    lines = ["| type | number | becomes | mean less number, in standard errors |"]
    lines.append("| --- | ---: | --- | ---: |")
    for k, (dtype, number) in enumerate(cases):  # another step: other random bits
        x = torch.full((10**6,), number)
        y = stochastic_round(x, dtype, seed=0, step=k).double()
        values = y[:1] if y.isnan().all() else y.unique()
        d = y - x.double()
        errors = (
            f"{float(d.mean() / d.std() * 1000):+.1f}"
            if bool(d.isfinite().all()) and len(values) > 1
            else ""
        )
        becomes = ", ".join(f"{float(v):.6g}" for v in values)
        lines.append(f"| {str(dtype)[6:]} | {number:.6g} | {becomes} | {errors} |")
    return lines


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
    elif sys.argv[1:] == ["rounding"]:
        print("\n".join(roundings()))
    elif len(sys.argv) > 1:
        print(json.dumps(measure(sys.argv[1])))
    else:
        print(halves(15).markdown())
