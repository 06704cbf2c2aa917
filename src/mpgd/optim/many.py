"""The same update for many parameters at once, with torch's foreach operations.

The drivers of all parameters are advanced in one go on their concatenated states; each element
keeps its own index and key, so the bits are those of the loop.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mpgd.noise.counter import extend_key_tensor, flat_index, step_key_tensor
from mpgd.noise.driver import Driver
from mpgd.noise.engines import tensor
from mpgd.optim.orbits import State, is_active, orbit_name, terms
from mpgd.optim.settings import TWIN, Settings
from mpgd.optim.shards import local, place_of
from mpgd.optim.update import precision_of, strengths, term

Tensors = list[Tensor]


def descend_many(
    params: Tensors,
    states: list[State],
    settings: Settings,
    eta: float,
    shared: Tensor | None,
    maximize: bool,
) -> None:
    """Update parameters in place and advance their drivers, all but the step counts.

    The loop that says the same is over `descent.descend_one`.
    """
    if not params:
        return
    xs = [local(p) for p in params]
    precise = [x.to(precision_of(x.dtype)) for x in xs]
    gradients = [local(p.grad).to(x.dtype) for p, x in zip(params, precise, strict=True)]  # type: ignore[arg-type]
    if maximize:
        gradients = list(torch._foreach_neg(gradients))
    new = list(torch._foreach_sub(precise, torch._foreach_mul(gradients, eta)))
    moving = [k for k, state in enumerate(states) if is_active(state["step"], settings, eta)]
    m, n = _terms([params[k] for k in moving], [states[k] for k in moving], settings, eta, shared)
    if m:
        torch._foreach_sub_(
            [new[k] for k in moving], torch._foreach_mul(m, [precise[k] for k in moving])
        )
    if n:
        torch._foreach_add_([new[k] for k in moving], n)
    torch._foreach_copy_(xs, new)


def _terms(
    params: Tensors, states: list[State], settings: Settings, eta: float, shared: Tensor | None
) -> tuple[Tensors, Tensors]:
    """Return the lists of m and of n; empty where the group has no such term."""
    drivers = settings.drivers
    if any(size and driver is None for size, driver in zip(settings.sizes, drivers, strict=True)):
        pairs = zip(params, states, strict=True)
        both = [terms(p, state, settings, eta, shared) for p, state in pairs]
        return [m for m, _ in both if m is not None], [n for _, n in both if n is not None]
    scales = strengths(eta, *settings.sizes, settings.exponents)
    dtypes = [precision_of(local(p).dtype) for p in params]
    found: list[Tensors] = [[], []]
    for which, driver in enumerate(drivers):
        if not settings.sizes[which] or not params or driver is None:
            continue
        if which == 0 and shared is not None:
            places = zip((p.device for p in params), dtypes, strict=True)
            found[0] = [(scales[0] * shared).to(*place) for place in places]
            continue
        v = _draw(params, states, driver, which, settings.start)
        w: list[Tensor | None] = [None] * len(v)
        if settings.twins:
            w = [*_draw(params, states, driver, which + TWIN, settings.start)]
        found[which] = [term(scales[which], *each) for each in zip(v, w, dtypes, strict=True)]
    return found[0], found[1]


def _draw(params: Tensors, states: list[State], driver: Driver, number: int, start: int) -> Tensors:
    """Return the values of one driver for all parameters, and advance it."""
    orbits = [local(state[orbit_name(number)]) for state in states]
    keys, indices = [], []
    for p, state, s in zip(params, states, orbits, strict=True):
        key = step_key_tensor(extend_key_tensor(state["key"], number), state["step"] - start)
        place = place_of(p)
        index = place.index(p.device)
        indices.append((flat_index(place.shape, p.device) if index is None else index).reshape(-1))
        keys.append(key.to(p.device).expand(s.numel()))
    flat = torch.cat([s.reshape(-1) for s in orbits])
    value, following = tensor.advance(driver, flat, torch.cat(keys), torch.cat(indices))
    sizes = [s.numel() for s in orbits]
    for s, new in zip(orbits, torch.split(following, sizes), strict=True):
        s.copy_(new.view(s.shape))
    return [v.view(s.shape) for v, s in zip(torch.split(value, sizes), orbits, strict=True)]
