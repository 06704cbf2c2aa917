"""What tests of MPGD share: settings, variants, paths through the code, small helpers."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from mpgd import MPGD
from mpgd.noise.engines import has_numba
from tests.optim.workers import ORBITS, run, snapshot

LOUD: dict[str, Any] = {"lr": 0.05, "mu": 0.3, "sigma": 0.2, "gamma": 0.6, "beta": 0.5}
VARIANTS: list[dict[str, Any]] = [
    {},
    {"symmetric": True},
    {"shared_multiplicative": True},
    {"shared_multiplicative": True, "symmetric": True, "signs": "product"},
    {"mu": 0.0},
    {"sigma": 0.0, "gamma": (0.55, 0.7), "beta": (1.0, 0.0)},
    {"start": 2, "stop": 4},
    {"maximize": True},
]
NUMBA: dict[str, Any] = {"engine": "numba", "foreach": False}
PATHS: list[dict[str, Any]] = [
    {"engine": "torch", "foreach": False},
    {"engine": "torch", "foreach": True},
    *([NUMBA] if has_numba() else []),
    {},
]


def parameters(shapes: Any, dtype: torch.dtype = torch.float32) -> list[nn.Parameter]:
    """Return parameters whose values depend on their place alone."""
    found = []
    for place, shape in enumerate(shapes):
        generator = torch.Generator().manual_seed(place)
        found.append(nn.Parameter(torch.randn(shape, generator=generator, dtype=dtype)))
    return found


def orbits(optimizer: MPGD, number: int = 0) -> dict[str, Tensor]:
    """Return copies of the orbits of one parameter."""
    state = list(optimizer.state.values())[number]
    return {name: state[name].clone() for name in ORBITS if name in state}


def ends(shapes: Any, settings: dict[str, Any], steps: int, **rest: Any) -> dict[str, Any]:
    """Return state and parameters after some steps."""
    optimizer = MPGD(parameters(shapes, **rest), **{**LOUD, **settings})
    run(optimizer, steps)
    return core(optimizer)


def core(optimizer: MPGD) -> dict[str, Any]:
    """Return what must not depend on the path taken: state and parameters, not the settings."""
    found = snapshot(optimizer)
    del found["param_groups"]
    return found


def resumed(shapes: list[Any], dtype: torch.dtype, given: dict[str, Any]) -> list[Any]:
    """Return where two optimizers end, of which one took the state of the other after 3 of 6."""
    one = MPGD(parameters(shapes, dtype), **given)
    run(one, 3)
    other = MPGD([deepcopy(p) for p in one.param_groups[0]["params"]], **given)
    other.load_state_dict(deepcopy(one.state_dict()))
    for optimizer in (one, other):
        run(optimizer, 3, first=3)
    return [core(one), core(other)]
