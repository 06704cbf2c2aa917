"""A recursion beside the equation on the same orbit: each phase of the driver made into one jump.

During a laminar phase the driver adds the same small value again and again; in the limit the whole
phase, with the visit to Z that ends it, is one jump. So the same orbit gives two paths: that of the
recursion, and that of the Marcus equation along the step path which jumps by the sum of a phase
when the phase ends. Between jumps the drift takes Heun steps of 1/m. If Theorem 4.1 holds in SM1,
the two come near as m grows; in J1 they do not, because no jump of the second path has a jump of
the first to meet.

What is left of a phase at the last time is added there.

Reference: Lim, Wan & Simsekli (2022), Theorem C.1, whose convergence is that of paths.
"""

from dataclasses import dataclass

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from mpgd.limits.fast_slow import Drift, FastSlow
from mpgd.limits.solution import initial_states, refuse_non_finite, steps_until
from mpgd.noise import ChaoticNoise
from mpgd.parameters import check_positive


@dataclass(frozen=True, eq=False)
class CoupledPaths:
    """Two paths on one orbit.

    Attributes:
        times: k / m for every step, (time,).
        x: the recursion, (time, path, coordinate).
        y: the equation with a jump for each phase, of the same shape.
        drivers: W^(m), the sums of each coupling's values, (time, path, r).
        jumps: the same with each phase as one jump.
    """

    times: Tensor
    x: Tensor
    y: Tensor
    drivers: list[Tensor]
    jumps: list[Tensor]


@torch.no_grad()
def coupled_paths(
    system: FastSlow,
    x0: ArrayLike | Tensor,
    m: float,
    t1: float = 1.0,
    paths: int = 1,
    seed: int = 0,
) -> CoupledPaths:
    """Return paths of a recursion, and those of its equation along the same orbits.

    Args:
        system: driven by `ChaoticNoise`.
        x0: the start: a number (d = 1), (d,), or (paths, d).
        m: steps per unit of time.
        t1: the end.
        paths: how many.
        seed: as in `FastSlow.simulate`, whose paths these are.

    Raises:
        TypeError: a driver that is no `ChaoticNoise`, whose phases are not known.

    Examples:
        >>> system = FastSlow.mpgd(lambda x: x, sigma=0.5)
        >>> both = coupled_paths(system, 1.0, m=20, paths=2)
        >>> both.x.shape, torch.equal(both.x[-1], system.simulate(1.0, m=20, paths=2).final)
        (torch.Size([21, 2, 1]), True)
    """
    m, t1, x = check_positive("m", m), check_positive("t1", t1), initial_states(x0, paths)
    bursts = [_burst(i, noise, m) for i, (_, noise) in enumerate(system.couplings)]
    a, couplings = system.drift_at(m), system.couplings_at(m)
    steps, y = steps_until(t1, m), x
    xs, ys, waiting = [x], [x], list[Tensor]()
    moved, jumped = list[list[Tensor]](), list[list[Tensor]]()
    for k, values in enumerate(system.values(couplings, x, m, steps, seed), 1):
        values = [v.clone() for v in values]
        waiting = [w + v for w, v in zip(waiting, values, strict=True)] if waiting else values
        ends = [k == steps or v.abs() > burst for v, burst in zip(values, bursts, strict=True)]
        jumps = [
            torch.where(torch.as_tensor(e), w, 0.0) for e, w in zip(ends, waiting, strict=True)
        ]
        waiting = [w - j for w, j in zip(waiting, jumps, strict=True)]
        new = torch.add(x, a(x), alpha=1.0 / m)
        y = _heun(a, y, 1.0 / m)
        for b, v, jump in zip(couplings, values, jumps, strict=True):
            b.add(new, x, v)
            y = b.flow(y, jump)
        x = new
        xs.append(x)
        ys.append(y)
        moved.append(values)
        jumped.append(jumps)
        refuse_non_finite(x, k / m)
        refuse_non_finite(y, k / m)
    times = torch.arange(steps + 1, dtype=torch.float64) / m
    return CoupledPaths(times, torch.stack(xs), torch.stack(ys), _sums(moved), _sums(jumped))


def _heun(a: Drift, y: Tensor, h: float) -> Tensor:
    slope = a(y)
    return y + 0.5 * h * (slope + a(y + h * slope))


def _burst(i: int, noise: object, m: float) -> float:
    """Return the size above which a scaled value belongs to a visit to Z."""
    if not isinstance(noise, ChaoticNoise):
        raise TypeError(
            f"couplings[{i}] needs a ChaoticNoise, whose phases are known, got {noise!r}"
        )
    return float(m**-noise.gamma * 0.5 * (noise.laminar_value + abs(noise.burst_value)))


def _sums(values: list[list[Tensor]]) -> list[Tensor]:
    """Return running sums of every coupling, from 0."""
    columns = [torch.stack(column) for column in zip(*values, strict=True)]
    return [torch.cat([torch.zeros_like(c[:1]), c.cumsum(0)]) for c in columns]
