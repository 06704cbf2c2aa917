"""What tests of the optimizers share: settings, variants, engines, small helpers."""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from mpgd import MPGD, ChaoticNoise, perturb
from mpgd.noise.engines import has_cpu
from tests.optim.workers import ORBITS, run, snapshot
from tests.optim.wrapped import flat

LOUD: dict[str, Any] = {"lr": 0.05, "mu": 0.3, "sigma": 0.2, "gamma": 0.6, "beta": 0.5}
SHARED = ChaoticNoise(0.6, 0.5, shared=True)
VARIANTS: list[dict[str, Any]] = [
    {},
    {"symmetric": True},
    {"noise": SHARED},
    {"noise": ChaoticNoise(0.6, 0.5, signs="product", shared=True), "symmetric": True},
    {"mu": 0.0},
    {"sigma": 0.0, "gamma": (0.55, 0.7), "beta": (1.0, 0.0)},
    {"start": 2, "stop": 4},
]
KERNELS: dict[str, Any] = {"engine": "cpu"}
PATHS: list[dict[str, Any]] = [{"engine": "torch"}, *([KERNELS] if has_cpu() else []), {}]
INNERS: dict[str, Any] = {
    "sgd": partial(torch.optim.SGD, momentum=0.9, nesterov=True),
    "adamw": partial(torch.optim.AdamW, weight_decay=0.1, amsgrad=True),
    "adagrad": torch.optim.Adagrad,
    "rmsprop": torch.optim.RMSprop,
}
KINDS = ["mpgd", "adamw"]


def loud(**changes: Any) -> dict[str, Any]:
    """Return `LOUD` with changes; a noise says gamma and beta itself."""
    says = ("gamma", "beta") if "noise" in changes else ()
    return {k: v for k, v in LOUD.items() if k not in says} | changes


def made(kind: str, params: Any, **changes: Any) -> Any:
    """Return MPGD, or another optimizer perturbed, with loud settings."""
    given = loud(**changes)
    if kind == "mpgd":
        return MPGD(params, **given)
    return perturb(INNERS[kind](params, lr=given.pop("lr")), **given)


def parameters(shapes: Any, dtype: torch.dtype = torch.float32) -> list[nn.Parameter]:
    """Return parameters whose values depend on their place alone."""
    found = []
    for place, shape in enumerate(shapes):
        generator = torch.Generator().manual_seed(place)
        found.append(nn.Parameter(torch.randn(shape, generator=generator, dtype=dtype)))
    return found


def set_keyword(optimizer: Any, number: int = 0, **keywords: Any) -> None:
    """Change keywords of the perturbation in a group, as a schedule does."""
    group = optimizer.param_groups[number]
    group.update({optimizer._prefix + name: value for name, value in keywords.items()})


def drivers(optimizer: Any, number: int = 0) -> dict[str, Tensor]:
    """Return the drivers of one parameter: the tensors themselves."""
    return optimizer._orbits[flat(optimizer)[number]]


def orbits(optimizer: Any, number: int = 0) -> dict[str, Tensor]:
    """Return copies of the orbits of one parameter."""
    return {k: x.clone() for k, x in drivers(optimizer, number).items() if k in ORBITS}


def ends(shapes: Any, settings: dict[str, Any], steps: int, **rest: Any) -> dict[str, Any]:
    """Return state and parameters of MPGD after some steps."""
    optimizer = MPGD(parameters(shapes, **rest), **loud(**settings))
    run(optimizer, steps)
    return core(optimizer)


def core(optimizer: Optimizer) -> dict[str, Any]:
    """Return what must not depend on the path taken: state and parameters, not the settings."""
    found = snapshot(optimizer)
    del found["param_groups"]
    return found


def resumed(make: Any, params: list[nn.Parameter]) -> list[Any]:
    """Return the ends of a run and of another one, which took up its state after 3 of 6 steps."""
    one = make(params)
    run(one, 3)
    other = make([deepcopy(p) for p in flat(one)])
    other.load_state_dict(deepcopy(one.state_dict()))
    for optimizer in (one, other):
        run(optimizer, 3, first=3)
    return [snapshot(one), snapshot(other)]
