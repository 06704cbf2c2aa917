"""Hand a contiguous CPU parameter to the numba kernels; the same bits as the torch operations."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from mpgd.noise import ChaoticNoise
from mpgd.noise.counter import extend_key, step_key
from mpgd.noise.engines import use_fused
from mpgd.noise.engines.threads import in_parts
from mpgd.optim.orbits import NAMES, Group, State
from mpgd.optim.settings import exponents, noises
from mpgd.optim.shards import Place, local
from mpgd.optim.update import strengths

_NONE = np.empty(0)


def can_fuse(parameter: Tensor, group: Group, place: Place) -> bool:
    """Return whether the kernels take this parameter; otherwise torch operations do."""
    if group["noise"] != "chaotic" or parameter.device.type != "cpu" or place.offset is None:
        return False
    part = local(parameter)
    if part.dtype not in (torch.float32, torch.float64) or not part.is_contiguous():
        return False
    return use_fused(group["engine"], parameter.device)


def descend(
    parameter: Tensor, gradient: Tensor, state: State, group: Group, eta: float,
    shared: Tensor | None, place: Place,
) -> None:  # fmt: skip
    """Update a parameter in place and advance its drivers."""
    from mpgd.optim import kernels

    x, g = _flat(parameter), _flat(gradient)
    number = x.dtype.type
    scalar, cut = _prepare(state, group, eta, shared, place, number)

    def run(first: int, last: int) -> None:
        rest = cut(first, last)
        kernels.descend(x[first:last], g[first:last], number(eta), scalar, *rest)

    in_parts(len(x), run)


def displace(
    parameter: Tensor, state: State, group: Group, eta: float, shared: Tensor | None, place: Place
) -> Tensor:
    """Return the perturbation of a parameter and advance its drivers."""
    from mpgd.optim import kernels

    out = torch.empty_like(local(parameter))
    x, p = _flat(parameter), _flat(out)
    scalar, cut = _prepare(state, group, eta, shared, place, x.dtype.type)

    def run(first: int, last: int) -> None:
        kernels.displace(x[first:last], p[first:last], scalar, *cut(first, last))

    in_parts(len(x), run)
    return out


def _flat(tensor: Tensor) -> Any:
    return local(tensor).detach().contiguous().view(-1).numpy()


def _prepare(
    state: State, group: Group, eta: float, shared: Tensor | None, place: Place, number: Any
) -> tuple[Any, Any]:
    """Return the shared scalar term, and a function that gives a part's kernel arguments."""
    scales = strengths(eta, group["mu"], group["sigma"], exponents(group))
    drivers = [_driver(state, group, which, float(scales[which])) for which in (0, 1)]
    scalar = number(0.0 if shared is None else scales[0] * float(shared))
    offset = place.offset or 0

    def cut(first: int, last: int) -> list[Any]:
        arguments: list[Any] = [offset + first]
        for s, twin, *rest in drivers:
            arguments += [s[first:last], twin[first:last], *rest]
        return arguments

    return scalar, cut


def _driver(state: State, group: Group, which: int, scale: float) -> tuple[Any, ...]:
    """Return one driver's orbits, keys, table, sign rule and scaled values for the kernels."""
    noise = noises(group)[which]
    assert isinstance(noise, ChaoticNoise)
    driver, key, turn = noise.driver, int(state["key"]), int(state["step"]) - group["start"]
    used = group["sigma"] if which else group["mu"] and not group["shared_multiplicative"]
    orbits = [
        _flat(state[name]) if used and name in state else _NONE
        for name in (NAMES[which], f"{NAMES[which]}_twin")
    ]
    if not group["symmetric"]:
        orbits[1] = _NONE
    keys = tuple(
        np.uint64(step_key(extend_key(key, number), turn) % 2**64) for number in (which, which + 2)
    )
    rule = (np.int64(driver.threshold), np.int64(-(2**63) if driver.product else 0))
    scaled = (scale * driver.laminar_value, scale * driver.burst_value)
    return (*orbits, keys, driver.returns.rows.reshape(-1), rule, scaled)
