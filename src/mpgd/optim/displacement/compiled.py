"""The displacement of a group as one operator that `torch.compile` does not look into.

A compiler that took it apart would make a kernel of its own. That takes seconds, and it would fuse
multiplications and additions, which changes bits. So a compiled step hands the parameters of a
group to this operator, which does what the plain step does.

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

from mpgd.optim.displacement import displace, next_shared
from mpgd.optim.settings import SIZES, check_learning_rate
from mpgd.optim.state import check_orbits
from mpgd.sharding import local

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
    for number, group in enumerate(groups):
        # the sizes are read only where there are no drivers: each new number is compiled anew
        has_drivers = any([p in optimizer._orbits for p in group["params"]])
        if has_drivers or any([group[prefix + name] for name in SIZES]):
            places = [k for k, p in enumerate(group["params"]) if p.grad is not None]
            xs = [local(group["params"][k]) for k in places]
            lr = group["lr"] if isinstance(group["lr"], Tensor) else None
            displace_group(xs, lr, places, optimizer._number, number)
    hooked = optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks
    if optimizer._bare is not None and not hooked:
        type(optimizer)._bare(optimizer)
    else:
        optimizer._inner_step()
    return loss


@torch.library.custom_op("mpgd::displace_group", mutates_args=("xs",), tags=_TAGS)
def displace_group(
    xs: list[Tensor], lr: Tensor | None, places: list[int], number: int, group_number: int
) -> None:
    """Displace local parts of parameters and advance their drivers, step counts included.

    Args:
        xs: the parts.
        lr: the learning rate; None reads it from the group.
        places: of the parameters in their group.
        number: of the optimizer.
        group_number: of the group.
    """
    optimizer: Any = OPTIMIZERS[number]
    group = optimizer.param_groups[group_number]
    settings = optimizer._cache.of(group_number, group)
    eta = float(check_learning_rate(group["lr"] if lr is None else lr))
    if optimizer._cache.has_changed:
        optimizer._fit()
    if settings.is_perturbed and eta and xs:
        params = [group["params"][place] for place in places]
        check_orbits(xs, [optimizer._orbits[p] for p in params], settings)
        m = next_shared(optimizer._orbits[group["params"][0]], settings)
        pairs = zip(params, xs, strict=True)
        displace([optimizer._target(p, settings, x) for p, x in pairs], settings, eta, m)
        optimizer.count_steps(params)


@displace_group.register_fake
def _(*_: Any) -> None:
    return None
