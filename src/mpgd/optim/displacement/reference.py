"""The displacement in plain torch operations: the truth that every kernel must match in bits.

A large part of a kernel's known noise is worked on in pieces, so that temporary tensors stay small.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from mpgd.noise import NoiseState
from mpgd.noise.counter_hash import extend_key, flat_index, step_key
from mpgd.noise.driver import Driver
from mpgd.noise.engines import tensor
from mpgd.noise.memoryless import integers
from mpgd.optim.displacement.target import Target
from mpgd.optim.settings import TWIN, Settings
from mpgd.optim.state import int_scalar
from mpgd.optim.update import displaced, precision_of, term

PIECE: Final = 1 << 16  # elements at a time


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
    x, known = target.x, settings.drivers
    cuts = x.numel() > PIECE and all(
        known[k] is not None or not size for k, size in enumerate(settings.sizes)
    )
    cuts = cuts and all(words.is_contiguous() for words in target.orbits.values())
    flat = x.reshape(-1)  # a copy, where it is not contiguous
    for first in range(0, flat.numel(), PIECE if cuts else max(1, flat.numel())):
        piece = slice(first, min(first + PIECE, flat.numel())) if cuts else None
        old = x if piece is None else flat[piece]
        precision = precision_of(x.dtype)
        m, n = (
            _term(target, settings, which, scales[which], precision, shared, piece)
            for which in (0, 1)
        )
        new = displaced(old.to(precision), m, n)
        old.copy_(new)
    if cuts and not x.is_contiguous():
        x.copy_(flat.view(x.shape))


def _term(
    target: Target,
    settings: Settings,
    which: int,
    scale: float,
    precision: torch.dtype,
    shared: float | None,
    piece: slice | None,
) -> Tensor | None:
    """Return m (``which`` 0) or n (1); None if that noise is not in use."""
    if not settings.sizes[which]:
        return None
    if which == 0 and shared is not None:
        return torch.tensor(shared, dtype=precision, device=target.x.device)
    numbers = (which, which + TWIN) if settings.twins else (which,)
    driver = settings.drivers[which]
    if driver is None:
        values = [_other(target, settings, which, number) for number in numbers]
        return term(scale, values[0], values[1] if settings.twins else None, precision)
    draw = _normal if driver.is_normal else _chaotic
    terms = [draw(target, driver, number, scale, precision, piece) for number in numbers]
    return terms[0] - terms[1] if settings.twins else terms[0]


def _index(target: Target, piece: slice | None) -> Tensor:
    index = target.place.index(target.x.device, piece)
    return flat_index(target.place.shape, target.x.device) if index is None else index


def _key(target: Target, number: int) -> int:
    return step_key(extend_key(target.key, number), target.step)


def _chaotic(
    target: Target,
    driver: Driver,
    number: int,
    scale: float,
    precision: torch.dtype,
    piece: slice | None,
) -> Tensor:
    values = (scale * driver.laminar_value, scale * driver.burst_value)
    words, index = target.orbits[number], target.place.index(target.x.device, piece)
    if piece is None:
        v, following = tensor.advance(driver, words, _key(target, number), index, values, precision)
        words.copy_(following)
        return v
    words = words.view(-1)[piece]
    v = torch.empty_like(words, dtype=precision)
    tensor.advance_into(driver, words, v, _key(target, number), index, values)
    return v


def _normal(
    target: Target,
    driver: Driver,
    number: int,
    scale: float,
    precision: torch.dtype,
    piece: slice | None,
) -> Tensor:
    index = _index(target, piece)
    unit = index.new_full((), scale * driver.laminar_value, dtype=precision)
    return integers(index, _key(target, number), driver).to(precision) * unit


def _other(target: Target, settings: Settings, which: int, number: int) -> Tensor:
    """Return the values of any noise, by its own `step`."""
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
    return v
