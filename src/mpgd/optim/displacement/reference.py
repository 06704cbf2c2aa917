"""The displacement in plain torch operations: the truth that every kernel must match in bits.

A large part of a kernel's known noise is worked on in pieces, so that temporary tensors stay small.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import torch
from torch import Tensor

from mpgd.noise import NoiseState
from mpgd.noise.counter_hash import extend_key, step_key
from mpgd.noise.driver import Driver
from mpgd.noise.engines import tensor
from mpgd.noise.memoryless import integers, stable_numbers
from mpgd.optim.distributed import Place
from mpgd.optim.settings import TWIN, Settings
from mpgd.optim.state import int_scalar
from mpgd.optim.update import displaced, precision_of, term

PIECE: Final = 1 << 16  # elements at a time


class Target(NamedTuple):
    """A parameter's local part: what is displaced, and all that its numbers depend on.

    Attributes:
        x: the local part of a parameter, or what stands for it; complex numbers as pairs.
        place: of the part in the whole parameter.
        key: the hash of (seed, ordinal).
        step: the number of the step.
        orbits: the words of each driver number that is in use, contiguous.
    """

    x: Tensor
    place: Place
    key: int
    step: int
    orbits: dict[int, Tensor]


def displace(
    target: Target, settings: Settings, scales: tuple[float, float], shared: float | None
) -> None:
    """Displace one part in place and advance its orbits.

    Args:
        target: the part.
        settings: of its group.
        scales: mu eta^gamma1 and sigma eta^gamma2.
        shared: m of all elements, where one driver multiplies them all.
    """
    x, precision = target.x, precision_of(target.x.dtype)
    pairs = zip(settings.drivers, settings.sizes, strict=True)
    cuts = all(driver is not None or not size for driver, size in pairs)
    flat = x.reshape(-1)  # a copy, where it is not contiguous
    size = PIECE if cuts else max(1, flat.numel())
    for first in range(0, flat.numel(), size):
        piece = slice(first, min(first + size, flat.numel()))
        m, n = (
            _term(target, settings, which, scales[which], precision, shared, piece)
            for which in (0, 1)
        )
        flat[piece] = displaced(flat[piece].to(precision), m, n)
    x.copy_(flat.view(x.shape))


def _term(
    target: Target,
    settings: Settings,
    which: int,
    scale: float,
    precision: torch.dtype,
    shared: float | None,
    piece: slice,
) -> Tensor | None:
    """Return m (``which`` 0) or n (1) of a piece; None if that noise is not in use."""
    if not settings.sizes[which]:
        return None
    if which == 0 and shared is not None:
        return torch.tensor(shared, dtype=precision, device=target.x.device)
    numbers = (which, which + TWIN) if settings.twins else (which,)
    driver = settings.drivers[which]
    if driver is None:
        values = [_other(target, settings, which, number) for number in numbers]
        return term(scale, values[0], values[1] if settings.twins else None, precision)
    draw = _normal if driver.is_normal else _stable if driver.is_stable else _chaotic
    terms = [draw(target, driver, number, scale, precision, piece) for number in numbers]
    return terms[0] - terms[1] if settings.twins else terms[0]


def _chaotic(
    target: Target, driver: Driver, number: int, scale: float, precision: torch.dtype, piece: slice
) -> Tensor:
    values = (scale * driver.laminar_value, scale * driver.burst_value)
    words = target.orbits[number].view(-1)[piece]
    v = torch.empty_like(words, dtype=precision)
    index = target.place.part_index(words.device, piece)
    tensor.advance_into(driver, words, v, _key(target, number), index, values)
    return v


def _normal(
    target: Target, driver: Driver, number: int, scale: float, precision: torch.dtype, piece: slice
) -> Tensor:
    index = target.place.part_index(target.x.device, piece)
    unit = index.new_full((), scale * driver.laminar_value, dtype=precision)
    return integers(index, _key(target, number), driver).to(precision) * unit


def _stable(
    target: Target, driver: Driver, number: int, scale: float, precision: torch.dtype, piece: slice
) -> Tensor:
    index = target.place.part_index(target.x.device, piece)
    return (stable_numbers(index, _key(target, number), driver) * scale).to(precision)


def _key(target: Target, number: int) -> int:
    return step_key(extend_key(target.key, number), target.step)


def _other(target: Target, settings: Settings, which: int, number: int) -> Tensor:
    """Return the values of any noise, by its own `step`, for the whole part."""
    device, noise = target.x.device, settings.noises[which]
    orbit = target.orbits.get(number)
    if orbit is None:
        orbit = torch.zeros((), dtype=torch.float64, device=device).expand(target.place.shape)
    key = int_scalar(extend_key(target.key, number))
    v, following = noise.step(
        NoiseState(orbit, int_scalar(target.step), key), index=target.place.index(device)
    )
    if noise.has_orbit:
        orbit.copy_(following.word)
    return v.reshape(-1)
