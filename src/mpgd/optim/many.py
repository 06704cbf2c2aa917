"""The same update for many parameters at once, with torch's foreach operations.

The drivers of all parameters are advanced in one go on their concatenated states; each element
keeps its own index and key, so the bits are those of the loop.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mpgd.noise.counter_hash import extend_key_tensor, step_key_tensor
from mpgd.noise.driver import Driver
from mpgd.noise.engines import tensor
from mpgd.optim.loop import PART, descend_one
from mpgd.optim.orbits import (
    BUFFER,
    State,
    is_active,
    normal_term,
    orbit_name,
    rounded,
    terms,
)
from mpgd.optim.settings import TWIN, Settings
from mpgd.optim.shards import joined_index, local, per_element, place_of
from mpgd.optim.update import Direction, Scalar, precision_of, strengths

Tensors = list[Tensor]


def descend_many(
    params: Tensors,
    states: list[State],
    settings: Settings,
    eta: float,
    shared: Tensor | None,
    how: Direction,
    fresh: Sequence[bool],
) -> None:
    """Update parameters in place and advance their drivers, all but the step counts.

    The loop that says the same is over `mpgd.optim.loop.descend_one`, which also works on a large
    parameter in parts. Others go together as long as all temporaries stay as small as there.
    """
    together: list[int] = []
    size = 0
    for k, p in enumerate(params):
        if local(p).numel() > PART:
            is_fresh = bool(fresh) and fresh[k]
            descend_one(p, states[k], settings, eta, shared, how, is_fresh)
            continue
        if size + local(p).numel() > PART:
            _descend(params, states, together, settings, eta, shared, how, fresh)
            together, size = [], 0
        together.append(k)
        size += local(p).numel()
    _descend(params, states, together, settings, eta, shared, how, fresh)


def _descend(
    all_params: Tensors,
    all_states: list[State],
    chosen: list[int],
    settings: Settings,
    eta: float,
    shared: Tensor | None,
    how: Direction,
    fresh: Sequence[bool],
) -> None:
    """Update some of the parameters, all at once."""
    if not chosen:
        return
    params, states = [all_params[k] for k in chosen], [all_states[k] for k in chosen]
    xs = [local(p) for p in params]
    precise = [x.to(precision_of(x.dtype)) for x in xs]
    gradients = [local(p.grad).to(x.dtype) for p, x in zip(params, precise, strict=True)]  # type: ignore[arg-type]
    d = _directed(precise, gradients, states, how, [fresh[k] for k in chosen] if fresh else [])
    new = list(torch._foreach_sub(precise, torch._foreach_mul(d, eta)))
    moving = [k for k, state in enumerate(states) if is_active(state["step"], settings, eta)]
    m, n = _terms([params[k] for k in moving], [states[k] for k in moving], settings, eta, shared)
    if m:
        torch._foreach_sub_(
            [new[k] for k in moving], torch._foreach_mul(m, [precise[k] for k in moving])
        )
    if n:
        torch._foreach_add_([new[k] for k in moving], n)
    if settings.rounds:
        every = zip(new, params, states, strict=True)
        new = [rounded(y, p, state, settings) for y, p, state in every]
    torch._foreach_copy_(xs, new)


def _directed(
    xs: Tensors, gradients: Tensors, states: list[State], how: Direction, fresh: list[bool]
) -> Tensors:
    """Return `mpgd.optim.update.directed` of all at once."""
    d = list(torch._foreach_neg(gradients)) if how.maximize else gradients
    if how.weight_decay:
        d = list(torch._foreach_add(d, torch._foreach_mul(xs, how.weight_decay)))
    if not how.momentum:
        return d
    buffers = [local(state[BUFFER]) for state in states]
    old = [b.to(each.dtype) for b, each in zip(buffers, d, strict=True)]
    following = torch._foreach_mul(old, how.momentum)
    torch._foreach_add_(following, torch._foreach_mul(d, 1 - how.dampening))
    first = zip(d, following, fresh, strict=True)
    torch._foreach_copy_(buffers, [each if is_fresh else b for each, b, is_fresh in first])
    kept = [b.to(each.dtype) for b, each in zip(buffers, d, strict=True)]
    return (
        list(torch._foreach_add(d, torch._foreach_mul(kept, how.momentum)))
        if how.nesterov
        else kept
    )


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
    found: list[Tensors] = [[], []]
    for which, driver in enumerate(drivers):
        if not settings.sizes[which] or not params or driver is None:
            continue
        if which == 0 and shared is not None:
            m = scales[0] * shared
            found[0] = [m.to(p.device, precision_of(local(p).dtype)) for p in params]
            continue
        values = (scales[which] * driver.laminar_value, scales[which] * driver.burst_value)
        found[which] = _draw(params, states, driver, which, settings.start, values)
        if settings.twins:
            twins = _draw(params, states, driver, which + TWIN, settings.start, values)
            found[which] = list(torch._foreach_sub(found[which], twins))
    return found[0], found[1]


def _draw(
    params: Tensors,
    states: list[State],
    driver: Driver,
    number: int,
    start: int,
    values: tuple[Scalar, Scalar],
) -> Tensors:
    """Return the terms of one driver for all parameters, and advance it.

    Parameters of one precision are gone through together.
    """
    found: dict[int, Tensor] = {}
    precisions = [precision_of(local(p).dtype) for p in params]
    for dtype in dict.fromkeys(precisions):
        chosen = [k for k, precision in enumerate(precisions) if precision == dtype]
        xs = [local(params[k]) for k in chosen]
        places, sizes = [place_of(params[k]) for k in chosen], [x.numel() for x in xs]
        keys, steps = (torch.stack([states[k][name] for k in chosen]) for name in ("key", "step"))
        mixed = step_key_tensor(extend_key_tensor(keys, number), steps - start)  # of all at once
        key = per_element(mixed, sizes, xs[0].device)
        index = joined_index(places, xs[0].device)
        if driver.is_normal:
            out = normal_term(driver, index, key, values[0], dtype)
        else:
            orbits = [local(states[k][orbit_name(number)]) for k in chosen]
            out = _advance(orbits, driver, key, index, values, dtype)
        parts = torch.split(out, sizes)
        found |= {k: v.view(x.shape) for k, v, x in zip(chosen, parts, xs, strict=True)}
    return [found[k] for k in range(len(params))]


def _advance(
    orbits: Tensors,
    driver: Driver,
    key: Tensor,
    index: Tensor,
    values: tuple[Scalar, Scalar],
    dtype: torch.dtype,
) -> Tensor:
    """Return the flat terms of a chaotic driver for several orbits, and advance them."""
    flat = torch.cat([words.reshape(-1) for words in orbits])
    out = torch.empty(flat.shape, dtype=dtype, device=flat.device)
    tensor.advance_into(driver, flat, out, key, index, values)
    parts = torch.split(flat, [words.numel() for words in orbits])
    new = [part.view(words.shape) for part, words in zip(parts, orbits, strict=True)]
    torch._foreach_copy_(orbits, new)
    return out
