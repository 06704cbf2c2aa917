"""The displacement of all groups as one operator that `torch.compile` does not look into.

A compiler that took it apart would make a kernel of its own. That takes seconds, and it would fuse
multiplications and additions, which changes bits. So a compiled step hands the parameters to this
operator, which does what the plain step does.

Numbers are not arguments: the compiler would take them for constants and start again for every new
one. The operator gets the number of the optimizer, reads its settings and learning rate when it
runs, and advances its drivers, which nothing else in the graph reads. A learning rate that is a
tensor is an argument, because a graph may change it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, Final
from weakref import WeakValueDictionary

import torch
from torch import Tensor
from torch.optim import Optimizer

from mpgd.optim.displacement import displace
from mpgd.optim.settings import SIZES, check_learning_rate
from mpgd.optim.state import check_orbits
from mpgd.sharding import local, local_part

OPTIMIZERS: Final[WeakValueDictionary[int, Optimizer]] = WeakValueDictionary()
_numbers = count()
# Addresses and the step differ at every call, so no CUDA graph may hold one.
_TAGS: Final = [tag] if (tag := getattr(torch.Tag, "cudagraph_unsafe", None)) else []


def register(optimizer: Optimizer) -> int:
    """Return the number under which the operator finds an optimizer, as long as it lives."""
    number = next(_numbers)
    OPTIMIZERS[number] = optimizer
    return number


@torch.no_grad()
def step(optimizer: Any, closure: Callable[[], Any] | None) -> Any:
    """Take a step under torch.compile: one operator displaces, the inner step is traced."""
    groups, prefix = optimizer.param_groups, optimizer._prefix
    if any(group[prefix + "rounding"] != "nearest" for group in groups):
        return optimizer._untraced_step(closure)
    loss = None
    if closure is not None:
        with torch.enable_grad():
            loss = closure()
    xs: list[Tensor] = []
    places: list[int] = []
    for number, group in enumerate(groups):
        # the sizes are read only where there are no drivers: each new number is compiled anew
        has_drivers = any([p in optimizer._orbits for p in group["params"]])
        if has_drivers or any([group[prefix + name] for name in SIZES]):
            for place, p in enumerate(group["params"]):
                if p.grad is not None:
                    xs.append(local_part(p))
                    places.extend((number, place))
    if xs:
        lrs = [group["lr"] for group in groups if isinstance(group["lr"], Tensor)]
        displace_groups(xs, lrs, places, optimizer._number)
    hooked = optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks
    if optimizer._bare is not None and not hooked:
        type(optimizer)._bare(optimizer)
    else:
        optimizer._inner_step()
    return loss


@torch.library.custom_op("mpgd::displace_groups", mutates_args=("xs",), tags=_TAGS)
def displace_groups(xs: list[Tensor], lrs: list[Tensor], places: list[int], number: int) -> None:
    """Displace local parts of parameters and advance their drivers, step counts included.

    Args:
        xs: the parts, of parameters that have a gradient.
        lrs: the learning rates that are tensors, in the order of their groups.
        places: of each part, the number of its group and its parameter's place in that.
        number: of the optimizer.
    """
    optimizer: Any = OPTIMIZERS[number]
    optimizer._opt_called = True  # what a scheduler wants to know
    groups, given = optimizer.param_groups, iter(lrs)
    rates = [next(given) if isinstance(group["lr"], Tensor) else group["lr"] for group in groups]
    settings = [optimizer._cache.of(k, group) for k, group in enumerate(groups)]
    pairs = zip(rates, settings, strict=True)
    etas = [float(check_learning_rate(lr)) if each.is_perturbed else 0.0 for lr, each in pairs]
    moved: list[dict[Tensor, Tensor]] = [{} for _ in groups]
    for x, k, place in zip(xs, places[::2], places[1::2], strict=True):
        if etas[k]:
            moved[k][groups[k]["params"][place]] = local(x)
    is_new = any(p not in optimizer._orbits for own in moved for p in own)
    if is_new or optimizer._cache.has_changed:
        optimizer._fit()
    for own, each in zip(moved, settings, strict=True):
        check_orbits([*own.values()], [optimizer._orbits[p] for p in own], each)
    for own, each, eta in zip(moved, settings, etas, strict=True):
        if own:
            displace([optimizer._target(p, each, x) for p, x in own.items()], each, eta)
            optimizer.count_steps([*own])


@displace_groups.register_fake
def _(*_: Any) -> None:
    return None
