"""Paths at the times asked for, and the checks of starts and times that both solvers share."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from mpgd.parameters import check_integer, check_positive

_SLACK = 1e-9  # of a step: 0.29 * 100 is 28.999999999999996 and means 29
_MOST_STEPS = 2.0**53


@dataclass(frozen=True, eq=False)
class Solution:
    """Paths at given times.

    Attributes:
        times: the times asked for, a tensor (time,).
        x: the states, float64 (time, path, coordinate); between two steps the earlier one holds.
    """

    times: Tensor
    x: Tensor

    @property
    def final(self) -> Tensor:
        """The states at the last time, (path, coordinate)."""
        return self.x[-1]


class Recorder:
    """Keeps the state at the steps that the asked times fall on, and at no others."""

    def __init__(self, times: ArrayLike | Tensor | None, t1: float, rate: float, x: Tensor) -> None:
        self.times = _asked_times(times, check_positive("t1", t1))
        self._slots: dict[int, list[int]] = {}
        for slot, time in enumerate(self.times.tolist()):
            self._slots.setdefault(steps_until(time, rate), []).append(slot)
        self._x = torch.empty((len(self.times), *x.shape), dtype=torch.float64)
        self.keep(0, x)

    def wants(self, step: int) -> bool:
        """Return whether the state after ``step`` steps is asked for."""
        return step in self._slots

    def keep(self, step: int, x: Tensor) -> None:
        """Keep a copy of ``x`` if this step is asked for."""
        for slot in self._slots.get(step, ()):
            self._x[slot] = x

    def solution(self) -> Solution:
        """Return what was kept."""
        return Solution(self.times, self._x)


def steps_until(time: float, rate: float) -> int:
    """Return floor(time * rate), forgiving the rounding of decimal fractions."""
    steps = time * rate + _SLACK
    if not steps < _MOST_STEPS:  # written so that infinity fails too
        raise ValueError(f"time {time:.6g} at {rate:.6g} steps per unit is too many steps")
    return math.floor(steps)


def initial_states(x0: ArrayLike | Tensor, paths: int) -> Tensor:
    """Return the states at time 0, float64 (path, coordinate)."""
    paths = check_integer("paths", paths, 1)
    x = torch.as_tensor(x0, dtype=torch.float64).detach().cpu()
    if x.dim() > 2 or x.numel() == 0:
        raise ValueError(f"x0 must be a number, (d,) or (paths, d), got shape {tuple(x.shape)}")
    if x.dim() == 2 and len(x) != paths:
        raise ValueError(f"x0 has {len(x)} rows but paths is {paths}")
    if not torch.isfinite(x).all():
        raise ValueError("x0 must be finite")
    return x.expand(paths, x.shape[-1] if x.dim() else 1).clone(
        memory_format=torch.contiguous_format
    )


def check_drift(a: Tensor, x: Tensor) -> None:
    """Raise unless the drift ``a`` at ``x`` is a tensor of the same shape."""
    if not isinstance(a, Tensor) or a.shape != x.shape:
        got = f"shape {tuple(a.shape)}" if isinstance(a, Tensor) else repr(type(a).__name__)
        raise ValueError(f"drift(x) must be a tensor of x's shape {tuple(x.shape)}, got {got}")


def refuse_non_finite(x: Tensor, time: float) -> None:
    """Raise, with the time and the first path, if a state is not finite."""
    if math.isfinite(float(x.sum())):  # a sum that overflows is looked at again
        return
    bad = (~torch.isfinite(x)).any(dim=1).nonzero().flatten()
    if len(bad):
        path = int(bad[0])
        raise FloatingPointError(
            f"the state is not finite at time {time:.6g}: path {path} is {x[path].tolist()}"
            f" ({len(bad)} of {len(x)} paths)"
        )


def _asked_times(times: ArrayLike | Tensor | Iterable[float] | None, t1: float) -> Tensor:
    if times is None:
        return torch.tensor([0.0, t1], dtype=torch.float64)
    asked = torch.as_tensor(times, dtype=torch.float64)
    if asked.dim() != 1 or len(asked) == 0:
        raise ValueError(f"times must be a list of numbers, got shape {tuple(asked.shape)}")
    outside = asked[~((asked >= 0.0) & (asked <= t1))]
    if len(outside):
        raise ValueError(f"times must lie in [0, t1] = [0, {t1:g}], got {float(outside[0])!r}")
    return asked
