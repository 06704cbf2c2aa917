"""The displacement x <- (x - m x) + n of a group's parameters, before the optimizer's own step.

    reference   plain torch operations, on any device and for any noise: the truth
    compiled    the whole as one operator that `torch.compile` does not look into

The kernels of `mpgd.noise.engines` take all parameters of a group in one call. They get rows of
addresses, not tensors, because unpacking an array costs more than displacing a thousand elements.
They trust them, so `mpgd.optim.state.check_orbits` comes first. All give the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from operator import is_
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.graph import increment_version

from mpgd.noise import NoiseState
from mpgd.noise.counter_hash import make_key
from mpgd.noise.engines import FLOATS, cpu, kernel_for
from mpgd.noise.engines.cpu import Row, Term
from mpgd.optim.displacement import reference
from mpgd.optim.displacement.reference import Target, strengths
from mpgd.optim.settings import TWIN, Settings
from mpgd.optim.state import SHARED, State, int_scalar
from mpgd.sharding import PLAIN, are_overlapping

_STEP: Final = Row._fields.index("step")
Part = tuple[Mapping[int, int], float | None]  # the steps of some targets, and the shared m


def displace(targets: Sequence[Target], settings: Settings, eta: float) -> None:
    """Displace local parts of parameters that are due, and advance their orbits; eta is above 0."""
    steps = [int(target.steps) for target in targets]
    due = {k: step for k, step in enumerate(steps) if settings.is_active(step)}
    Batch(targets, settings).displace(due, eta)


class Rows(NamedTuple):
    """Targets of one dtype on one device that a kernel takes."""

    kernel: str
    dtype: torch.dtype
    device: torch.device
    numbers: list[int]  # of the targets
    table: NDArray[np.int64]  # (row, field of `mpgd.noise.engines.cpu.Row`)


class Batch:
    """The parts of a group's parameters, as the kernels see them.

    Addresses, keys and lengths are the same in the next step, so an optimizer keeps a batch as long
    as it `fits`: only the numbers of the steps are written anew.
    """

    def __init__(self, targets: Sequence[Target], settings: Settings) -> None:
        self.targets, self.settings = targets, settings
        self._is_overlapping = are_overlapping([target.x for target in targets])
        self._others: list[int] = []  # what is left to torch operations
        alike: dict[tuple[str, torch.dtype, torch.device], tuple[list[int], list[Row]]] = {}
        for number, target in enumerate(targets):
            dtype, device = target.x.dtype, target.x.device
            kernel = kernel_for(settings.engine, device)
            takes = kernel is not None and dtype in FLOATS[kernel]
            if kernel == "triton" and any(d and d.is_stable for d in settings.drivers):
                takes = False  # that kernel has float32 only
            row = _row(target) if takes else None
            if kernel is None or row is None:
                self._others.append(number)
            else:
                numbers, rows = alike.setdefault((kernel, dtype, device), ([], []))
                numbers.append(number)
                rows.append(row)
        self._rows = [
            Rows(*kind, numbers, np.array(rows, dtype=np.int64))
            for kind, (numbers, rows) in alike.items()
        ]

    def keep(self, params: Sequence[Tensor], states: Sequence[State]) -> Batch:
        """Note what the parameters and their states are now, for `fits`."""
        self._params, self._states = list(params), states
        # the local part of a sharded or complex parameter is another object each time
        is_kept = all(type(p) in PLAIN and not p.is_complex() for p in params)
        self._layout = self._find_layout() if is_kept else None
        return self

    def fits(self, params: Sequence[Tensor], settings: Settings) -> bool:
        """Return whether nothing has changed but the numbers in the tensors."""
        return (
            self._layout is not None
            and settings is self.settings
            and len(params) == len(self._params)
            and all(map(is_, params, self._params))
            and self._layout == self._find_layout()
        )

    def _find_layout(self) -> list[Any]:
        names = ["step", *(name for name, _, _ in self.settings.orbits)]
        words = [state[name].data_ptr() for state in self._states for name in names]
        return words + [(p.data_ptr(), p.dtype, p.shape, p.stride()) for p in self._params]

    @cached_property
    def _counts(self) -> list[memoryview]:
        # ten times as fast as `item` and `add_`
        return [target.steps.numpy().data for target in self.targets]

    def step(self, is_moved: Sequence[bool], eta: float) -> None:
        """Displace the parts that are moved, and count their step; ``eta`` is above 0."""
        start, stop = self.settings.start, self.settings.stop
        end = math.inf if stop is None else stop
        moved = [k for k, is_one in enumerate(is_moved) if is_one]
        steps = {k: self._counts[k][()] for k in moved}
        self.displace({k: step for k, step in steps.items() if start <= step < end}, eta)
        for k in moved:
            self._counts[k][()] = steps[k] + 1

    def displace(self, due: Mapping[int, int], eta: float) -> None:
        """Displace some targets, given the step of each; ``eta`` is above 0."""
        scales = _scales(self.settings, eta)
        parts: list[Part] = [(due, None)]
        if self.settings.shared:
            parts = self._shared_parts(due, scales[0])
        for part, shared in parts:
            # threads would race on shared memory: then one after the other
            one_by_one = len(part) > 1 and self._is_overlapping
            for each in [{k: step} for k, step in part.items()] if one_by_one else [part]:
                self._displace(each, scales, shared)

    def _shared_parts(self, due: Mapping[int, int], scale: float) -> list[Part]:
        """Return the targets with one value of the shared driver, and m there; advance it."""
        parts: dict[Any, tuple[dict[int, int], float, list[Tensor]]] = {}
        for k, step in due.items():
            words = [self.targets[k].shared[name] for name, _ in self.settings.shared_orbits]
            place = step, *(word.item() for word in words)
            if place not in parts:
                parts[place] = {}, *_shared_value(self.settings, step, words)
            parts[place][0][k] = step
            for word, following in zip(words, parts[place][2], strict=True):
                word.copy_(following)
        return [(part, scale * value) for part, value, _ in parts.values()]

    def _displace(
        self, due: Mapping[int, int], scales: tuple[float, float], shared: float | None
    ) -> None:
        settings, targets = self.settings, self.targets
        for kernel, dtype, device, every, table in self._rows:
            numbers = [k for k in every if k in due]
            if not numbers:
                continue
            if len(numbers) < len(every):
                table = table[[k in due for k in every]]
            table[:, _STEP] = [due[k] for k in numbers]
            terms = _terms(settings, scales, shared)
            if kernel == "triton":
                from mpgd.noise.engines import gpu_displacement

                gpu_displacement.displace(table, dtype, device, *terms, twins=settings.twins)
            else:
                cpu.displace(table, dtype, *terms, twins=settings.twins)
            increment_version([targets[k].x for k in numbers])  # autograd saw nothing of it
        for k in self._others:
            if k in due:
                reference.displace(targets[k], settings, scales, shared)


@lru_cache(maxsize=256)
def _scales(settings: Settings, eta: float) -> tuple[float, float]:
    m, n = strengths(eta, *settings.sizes, settings.exponents)
    return float(m), float(n)


@lru_cache(maxsize=256)
def _terms(
    settings: Settings, scales: tuple[float, float], shared: float | None
) -> tuple[Term | None, Term | None]:
    """Return m and n for a kernel; None for a noise that is not in use."""
    m, n = (
        Term(driver, scale) if size else None
        for driver, scale, size in zip(settings.drivers, scales, settings.sizes, strict=True)
    )
    return (m if shared is None else Term(None, shared)), n


def _row(target: Target) -> Row | None:
    """Return a part as a row; None if its elements are not one after the other."""
    x, offset = target.x, target.place.offset
    if offset is None or type(x) not in PLAIN or not x.is_contiguous():
        return None
    words = [0] * (2 * TWIN)
    for number, orbit in target.orbits.items():
        words[number] = orbit.data_ptr()
    m, n, twin_m, twin_n = words
    return Row(x.data_ptr(), m, n, twin_m, twin_n, x.numel(), offset, target.key, step=0)


def _shared_value(
    settings: Settings, step: int, words: Sequence[Tensor]
) -> tuple[float, list[Tensor]]:
    """Return the value of a shared driver, and its next words."""
    value, following, noise = 0.0, list[Tensor](), settings.noises[0]
    for sign, number in ((1.0, 0), (-1.0, TWIN)) if settings.twins else ((1.0, 0),):
        none = torch.zeros((), dtype=torch.float64, device="cpu")  # of a noise without orbits
        word = words[len(following)] if words else none
        key = int_scalar(make_key(settings.seed, SHARED, number))
        v, state = noise.step(NoiseState(word, int_scalar(step), key))
        value += sign * float(v)
        if words:
            following.append(state.word)
    return value, following
