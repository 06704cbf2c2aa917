"""Parameters as rows of integers, all of a group handed to a kernel in one call.

The kernel gets addresses, not tensors, because unpacking an array costs more than displacing a
thousand elements. It trusts them blindly, so everything it relies on is checked here: dtype,
layout, device, length, and that the memory is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import increment_version

from mpgd.noise.driver import Driver
from mpgd.noise.engines import FLOATS, cpu, kernel_for
from mpgd.noise.engines.cpu import Row, Term
from mpgd.optim.displacement.target import Target
from mpgd.optim.distributed import are_overlapping
from mpgd.optim.settings import TWIN, Settings

_PLAIN: Final = (Tensor, nn.Parameter)

Scales = tuple[float, float]


class Numbers(NamedTuple):
    """What a kernel multiplies by, besides a driver's own constants.

    Attributes:
        scales: mu eta^gamma1 and sigma eta^gamma2.
        shared: m of all elements; None if each has its own.
    """

    scales: Scales
    shared: float | None


def displace(
    targets: Sequence[Target], settings: Settings, scales: Scales, shared: float | None
) -> list[Target]:
    """Displace what a kernel takes, and return the rest."""
    kernel = kernel_for(settings.engine, targets[0].x.device)
    if kernel is None:
        return list(targets)
    if len(targets) > 1 and are_overlapping([target.x for target in targets]):
        # threads would race on shared memory: one after the other
        return [rest for target in targets for rest in displace([target], settings, scales, shared)]
    rows: dict[tuple[torch.dtype, int], list[Row]] = {}
    rest: list[Target] = []
    changed: list[Tensor] = []
    for target in targets:
        row = _row(target, settings, FLOATS[kernel])
        if row is None:
            rest.append(target)
        else:
            rows.setdefault((target.x.dtype, target.x.get_device()), []).append(row)
            changed.append(target.x)
    numbers = Numbers(scales, shared)
    for (dtype, device), lines in rows.items():
        if kernel == "triton":
            from mpgd.optim.displacement.launches import launch

            launch(lines, dtype, device, settings, numbers)
        else:
            m, n = _terms(settings, numbers)
            cpu.displace(lines, dtype, m, n, twins=settings.twins)
    if changed:
        increment_version(changed)  # autograd saw nothing of it
    return rest


def _terms(settings: Settings, numbers: Numbers) -> tuple[Term | None, Term | None]:
    """Return m and n for the CPU's kernel; None for a noise that is not in use."""
    m, n = (
        Term(driver, scale) if size else None
        for driver, scale, size in zip(
            settings.drivers, numbers.scales, settings.sizes, strict=True
        )
    )
    return (m if numbers.shared is None else Term(None, numbers.shared)), n


def _row(target: Target, settings: Settings, floats: tuple[torch.dtype, ...]) -> Row | None:
    """Return a part as a row; None if the kernel does not take it."""
    x, offset = target.x, target.place.offset
    if offset is None or x.dtype not in floats or type(x) not in _PLAIN:
        return None
    if not x.is_contiguous() or x.is_neg():
        return None
    addresses = [0] * (2 * TWIN)
    for number, words in target.orbits.items():
        addresses[number] = _address(words, x, number)
    orbits = addresses[0], addresses[1], addresses[2], addresses[3]
    return Row(x.data_ptr(), *orbits, x.numel(), offset, target.key, target.step)


def _address(words: Tensor, x: Tensor, number: int) -> int:
    """Return the address of an orbit, whose length, dtype and layout the kernel trusts."""
    fits = words.dtype is torch.int32 and words.is_contiguous() and words.shape == x.shape
    if not fits or words.get_device() != x.get_device():
        raise RuntimeError(
            f"the orbit of driver {number} of a parameter of shape {tuple(x.shape)} must be a "
            f"contiguous int32 tensor of that shape on {x.device}, got {words.dtype} of shape "
            f"{tuple(words.shape)} with strides {words.stride()} on {words.device}"
        )
    return words.data_ptr()


def both_drivers(settings: Settings) -> tuple[Driver, Driver]:
    """Return both drivers for a kernel; one that is not used is the other."""
    first, second = settings.drivers
    return (first or second, second or first)  # type: ignore[return-value]


@lru_cache(maxsize=64)
def scaled_values(settings: Settings, scales: Scales) -> tuple[Scales, Scales]:
    """Return the scale times c0 and c1 of both drivers."""
    first, second = (
        (scale * driver.laminar_value, scale * driver.burst_value)
        for driver, scale in zip(both_drivers(settings), scales, strict=True)
    )
    return first, second
