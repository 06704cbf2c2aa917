"""The displacement in plain torch operations: the truth that every kernel must match in bits.

    x' = x - eta g - mu eta^gamma1 v1 x + sigma eta^gamma2 v2                (coordinatewise)

An optimizer takes this update in two parts, because the gradient g lies in ``p.grad`` beforehand:

    x <- (x - m x) + n          m = mu eta^gamma1 v1,   n = sigma eta^gamma2 v2
    x <- x - eta g              the inner optimizer's own step

Reference: Lim, Wan & Simsekli (2022), equation (8).
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
from mpgd.noise.stochastic_round import is_half
from mpgd.optim.settings import TWIN, Settings
from mpgd.optim.state import int_scalar
from mpgd.sharding import Place

Scalar = float | Tensor
PIECE: Final = 1 << 16  # elements at a time, so that temporary tensors stay small


def strengths(
    eta: Scalar, mu: float, sigma: float, exponents: tuple[float, float]
) -> tuple[Scalar, Scalar]:
    """Return mu eta^gamma1 and sigma eta^gamma2.

    Examples:
        >>> strengths(0.25, mu=2.0, sigma=3.0, exponents=(0.5, 0.5))
        (1.0, 1.5)
    """
    if isinstance(eta, Tensor):
        eta = eta.to(torch.float64)
    return mu * eta ** exponents[0], sigma * eta ** exponents[1]


def term(strength: Scalar, v: Tensor, twin: Tensor | None, precision: torch.dtype) -> Tensor:
    """Return strength times v, or times v - twin, rounded to ``precision``."""
    scaled = v * strength
    if twin is not None:
        scaled = scaled - twin * strength
    return scaled.to(precision)


def displaced(x: Tensor, m: Tensor | None, n: Tensor | None) -> Tensor:
    """Return (x - m x) + n, in this order of operations, which all engines follow.

    Examples:
        >>> displaced(torch.tensor([2.0]), m=torch.tensor([0.25]), n=torch.tensor([1.0]))
        tensor([2.5000])
    """
    if m is not None:
        x = x - m * x
    return x if n is None else x + n


def descended(x: Tensor, g: Tensor, eta: Scalar, m: Tensor | None, n: Tensor | None) -> Tensor:
    """Return x' in one expression, as the laboratory's batched nets take it.

    Examples:
        >>> x, g = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 1.0])
        >>> descended(x, g, 0.5, m=torch.tensor([0.25, 0.25]), n=torch.tensor([0.0, 1.0]))
        tensor([0.2500, 2.0000])
    """
    new = x - g * eta
    if m is not None:
        new = new - m * x
    return new if n is None else new + n


class Target(NamedTuple):
    """A parameter's local part: what is displaced, and all that its numbers depend on."""

    x: Tensor  # the part, or what stands for it; complex numbers as pairs
    place: Place  # in the whole parameter
    key: int  # the hash of (seed, ordinal)
    steps: Tensor  # how many were taken, an int64 scalar on the CPU
    orbits: dict[int, Tensor]  # the words of each driver number that is in use, contiguous
    shared: dict[str, Tensor] = {}  # noqa: RUF012  # by name, the scalar words of a shared driver


def displace(
    target: Target, settings: Settings, scales: tuple[float, float], shared: float | None
) -> None:
    """Displace one part in place and advance its orbits.

    ``scales`` are mu eta^gamma1 and sigma eta^gamma2; ``shared`` is m of all elements, where one
    driver multiplies them all.
    """
    x = target.x
    precision = torch.float32 if is_half(x.dtype) else x.dtype
    flat = x.reshape(-1)  # a copy, where it is not contiguous
    pairs = zip(settings.drivers, settings.sizes, strict=True)
    # a noise that the kernels do not know draws for the whole part
    is_known = all(driver is not None or not size for driver, size in pairs)
    size = PIECE if is_known else max(1, flat.numel())
    for first in range(0, flat.numel(), size):
        piece = slice(first, min(first + size, flat.numel()))
        m, n = (_term(target, settings, which, scales[which], precision, piece) for which in (0, 1))
        if shared is not None:
            m = torch.tensor(shared, dtype=precision, device=x.device)
        flat[piece] = displaced(flat[piece].to(precision), m, n)
    x.copy_(flat.view(x.shape))


def _term(
    target: Target,
    settings: Settings,
    which: int,
    scale: float,
    precision: torch.dtype,
    piece: slice,
) -> Tensor | None:
    """Return m (``which`` 0) or n (1) of a piece; None if it is 0 or shared."""
    if not settings.sizes[which] or (which == 0 and settings.shared):
        return None
    numbers = (which, which + TWIN) if settings.twins else (which,)
    driver = settings.drivers[which]
    if driver is None:
        values = [_values_of_other(target, settings, which, number) for number in numbers]
        return term(scale, values[0], values[1] if settings.twins else None, precision)
    terms = [_scaled_values(target, driver, number, scale, precision, piece) for number in numbers]
    return terms[0] - terms[1] if settings.twins else terms[0]


def _scaled_values(
    target: Target, driver: Driver, number: int, scale: float, precision: torch.dtype, piece: slice
) -> Tensor:
    """Return scale times the values of a driver that the kernels know, and advance its words."""
    index = target.place.part_index(target.x.device, piece)
    key = step_key(extend_key(target.key, number), int(target.steps))
    values = (scale * driver.laminar_value, scale * driver.burst_value)
    if driver.is_normal:
        unit = index.new_full((), values[0], dtype=precision)
        return integers(index, key, driver).to(precision) * unit
    if driver.is_stable:
        return (stable_numbers(index, key, driver) * scale).to(precision)
    words = target.orbits[number].view(-1)[piece]
    v = torch.empty_like(words, dtype=precision)
    tensor.advance_into(driver, words, v, key, index, values)
    return v


def _values_of_other(target: Target, settings: Settings, which: int, number: int) -> Tensor:
    """Return the values of any noise, by its own `step`, for the whole part."""
    device, noise = target.x.device, settings.noises[which]
    orbit = target.orbits.get(number)
    if orbit is None:
        orbit = torch.zeros((), dtype=torch.float64, device=device).expand(target.place.shape)
    key = int_scalar(extend_key(target.key, number))
    state = NoiseState(orbit, int_scalar(int(target.steps)), key)
    v, following = noise.step(state, index=target.place.index(device))
    if noise.has_orbit:
        orbit.copy_(following.word)
    return v.reshape(-1)
