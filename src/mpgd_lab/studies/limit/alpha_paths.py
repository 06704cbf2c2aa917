"""Theorem C.1 in its own topology: alpha_p of MPGD's path and the equation's, on one orbit.

`alpha_p_variation` bounds alpha_p from below, for paths of some hundred steps. From above any time
change does, and here a good one is known: in a phase of the driver W from step a to step b,

    the equation holds, with its drift, until t_b, while MPGD waits at t_a;
    then MPGD takes the steps of the phase while the equation jumps, both at the same share
    of the phase's sum, (W_k - W_a) / (W_b - W_a).

It moves time by no more than the longest phase, which is of order m^(gamma - 1) times the largest
jump. What is left of the difference are the visits to Z: each takes W back by m^(-gamma), and about
m of them have a p-variation of m^(1/p - gamma). So alpha_p falls, but slowly for p near alpha.

Reference: Lim, Wan & Simsekli (2022), Theorem C.1 and Definition B.7.
"""

from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from mpgd.limits import (
    CoupledPaths,
    Coupling,
    FastSlow,
    PathPair,
    alpha_p_variation,
    coupled_paths,
    p_variation,
)
from mpgd_lab.batched_training import Outcome
from mpgd_lab.store import Run
from mpgd_lab.studies.limit.runs import GAMMA, LOSSES, SIZES

Array = NDArray[np.float64]

LOSS: Final = "quadratic"
SHORT: Final = 300  # steps of the longest path bounded from below: time is their square
BETA: Final = 0.5


def alpha_distances(task: Run) -> Outcome:
    """Return bounds of alpha_p for each path."""
    h = task.hyperparameters
    p, m = h["p"], h["m"]
    system = FastSlow.mpgd(LOSSES[LOSS].gradient, *SIZES[h["kind"]], GAMMA, BETA)
    both = coupled_paths(system, LOSSES[LOSS].x0, m, 1.0, h["paths"], task.seed + m)
    coupling = system.couplings_at(m)[0]
    curves: dict[str, Any] = {
        "high": [along_phases(both, coupling, i, p) for i in range(h["paths"])]
    }
    if m <= SHORT:
        curves["low"] = [lower_bound(both, i, p) for i in range(h["paths"])]
    return {name: float(np.median(values)) for name, values in curves.items()}, curves


def lower_bound(both: CoupledPaths, path: int, p: float) -> float:
    """Return what alpha_p is at least, in one dimension, where the flow fills jumps by segments."""
    x, y = (
        PathPair(each[:, path, 0].numpy(), both.times.numpy(), points=2)
        for each in (both.x, both.y)
    )
    return alpha_p_variation(x, y, p).low


def along_phases(both: CoupledPaths, coupling: Coupling, path: int, p: float) -> float:
    """Return the upper bound that the phases' time change gives, in one dimension."""
    W, J = (x[0][:, path, 0].numpy() for x in (both.drivers, both.jumps))
    x, y, t = both.x[:, path, 0].numpy(), both.y[:, path, 0].numpy(), both.times.numpy()
    ends = np.flatnonzero(np.diff(J)) + 1  # where the equation jumps
    gaps, late, a = [x[:1] - y[:1]], 0.0, 0
    for b in ends.tolist():
        jump = J[b] - J[a]
        before = _moved(coupling, y[b], np.array([-jump]))[0]
        gaps.append(x[a] - np.append(y[a:b], before))
        shares = np.maximum.accumulate(np.clip((W[a : b + 1] - W[a]) / jump, 0.0, 1.0))
        shares[-1] = 1.0
        gaps.append(x[a : b + 1] - _moved(coupling, before, shares * jump))
        late, a = max(late, float(t[b] - t[a])), b
    gaps.append(x[a:] - y[a:])
    return max(late, float(p_variation(np.concatenate(gaps), p)))


def _moved(coupling: Coupling, start: float, jumps: Array) -> Array:
    """Return where the flow takes one start for each jump."""
    dL = torch.as_tensor(jumps)[:, None]
    return np.asarray(coupling.flow(torch.full_like(dL, float(start)), dL)[:, 0].numpy())
