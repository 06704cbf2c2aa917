"""What one run of the airfoil table costs, among others of its batch and done the plain way.

The plain way is what one writes first: the noise of each coordinate is tabulated by iterating T
by powers in Python, from a uniform draw and 10,000 iterates; then one model is trained by autograd
and `torch.optim.SGD`. Nothing is extrapolated. The data are random numbers in the shape of the
airfoil data, on whose values no time depends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.timing import Case, Claim, Table, interleaved, threads
from mpgd import ThalerMap
from mpgd.noise.driver import values
from mpgd_lab.batched_training import Problem, train
from mpgd_lab.data.sources import Split
from mpgd_lab.nets.layout import Layout, mean_square
from mpgd_lab.runner import split as batches
from mpgd_lab.store import Run
from mpgd_lab.studies.airfoil import runs as airfoil
from mpgd_lab.studies.airfoil.training import max_batch

ITERATES: Final = 10_000
SEEDS: Final = range(1, 6)
LAYOUT: Final = Layout((5, 16, 1), torch.relu)
PLAIN, TOGETHER = "the plain way", "in its batch"
BOUND: Final = 10.0


def data() -> Split:
    """Return random data in the shape of the airfoil data."""
    generator = torch.Generator().manual_seed(0)
    shapes = ((1202, 5), (1202,), (301, 5), (301,))
    return Split(*(torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes))


def orbit(seed: int, gamma: float, beta: float, steps: int) -> list[float]:
    """Return chi v along one orbit, in plain floats."""
    rng, e, (c0, c1) = np.random.default_rng(seed), 1 - gamma, values(gamma)
    y_star, y, chi, found = ThalerMap(gamma).y_star, float(rng.random()), 1.0, []
    signs = iter(np.where(rng.random(steps + 1) < (1 + beta) / 2, 1.0, -1.0).tolist())
    for k in range(ITERATES + steps):
        in_Z = y > y_star
        if k >= ITERATES:
            found.append(chi * (c1 if in_Z else c0))
            chi = next(signs) if in_Z else chi
        z = (y**e + (1 + y) ** e - 1) ** (1 / e)
        y = z - 1 if z > 1 else z
    return found


def noise_table(first: int, h: Any) -> Tensor:
    """Return the noise of all coordinates, (time, coordinate)."""
    seeds = range(first, first + LAYOUT.size)
    return torch.tensor([orbit(seed, h["gamma"], h["beta"], h["steps"]) for seed in seeds]).T


def plain_run(split: Split, h: Any) -> None:
    """Train one model with MPGD's perturbations out of two tables."""
    v1, v2 = noise_table(0, h), noise_table(10_000, h)
    net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1)).double()
    optimizer, loss_of = torch.optim.SGD(net.parameters(), lr=h["eta"]), nn.MSELoss()
    sizes, scale = [p.numel() for p in net.parameters()], h["eta"] ** h["gamma"]
    for k in range(h["steps"]):
        optimizer.zero_grad()
        loss_of(net(split.x_train)[:, 0], split.y_train).backward()
        m, n = h["mu"] * scale * v1[k], h["sigma"] * scale * v2[k]
        old = [p.detach().clone() for p in net.parameters()]
        optimizer.step()
        with torch.no_grad():
            parts = zip(net.parameters(), old, m.split(sizes), n.split(sizes), strict=True)
            for p, x, own_m, own_n in parts:
                p.add_(own_n.view_as(p) - own_m.view_as(p) * x)


def batch() -> list[Run]:
    """Return a batch of MPGD's runs as `mpgd reproduce airfoil` trains them."""
    runs = [
        run
        for run in airfoil.tasks("corrected", SEEDS)
        if run.hyperparameters["noise"] == "chaotic"
    ]
    return batches(runs, max_batch)[0]


def one_run(rounds: int) -> Table:
    """Return the seconds of one run, with the promised ratio."""
    split, runs = data(), batch()
    plain = next(run for run in runs if not run.hyperparameters["symmetric"])
    cases: dict[str, Case] = {
        PLAIN: partial(plain_run, split, plain.hyperparameters),
        TOGETHER: partial(train, Problem(LAYOUT, split, mean_square), runs),
    }
    with threads(1):
        t = interleaved(cases, max(1, rounds // 7))
    shares = {PLAIN: 1, TOGETHER: len(runs)}
    rows = [
        [name, *(f"{seconds / shares[name]:.3f}" for seconds in (t[name].median, t[name].best))]
        for name in cases
    ]
    ratio = t[PLAIN].over(t[TOGETHER]) * len(runs)
    claim = Claim(f"one run the plain way / in its batch, at least {BOUND:g}", ratio, BOUND)
    steps = plain.hyperparameters["steps"]
    remark = f"A batch is {len(runs)} runs, half of them symmetric; its time is divided by that."
    title = f"One MPGD run of airfoil, {steps:,} steps, one thread"
    return Table(title, ["seconds", "median", "best"], rows, [remark], [claim])


TABLES: Sequence[Callable[[int], Table]] = (one_run,)
