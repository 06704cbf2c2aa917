"""The displacement of a group as one operator that `torch.compile` does not look into.

A compiler that took it apart would make a kernel of its own. That takes seconds, and it would fuse
multiplications and additions, which changes bits. So a compiled step hands the tensors of a group
to this operator, which does what the plain step does.

Numbers are not arguments: the compiler would take them for constants and start again for every new
one. The operator gets the number of the optimizer, and reads its settings and learning rate when it
runs. A learning rate that is a tensor is an argument, because a graph may change it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, Final
from weakref import WeakValueDictionary

import torch
from torch import Tensor
from torch.optim import Optimizer

from mpgd.optim.diagnostics import SIZES
from mpgd.optim.displacement import displace as apply
from mpgd.optim.displacement import next_shared
from mpgd.optim.displacement.target import Target
from mpgd.optim.distributed import local, place_of
from mpgd.optim.settings import check_learning_rate
from mpgd.optim.state import ELEMENTS, SCALARS, State, cut_phases

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
    if any(group[optimizer._prefix + "rounding"] != "nearest" for group in optimizer.param_groups):
        return optimizer._untraced_step(closure)
    loss = None
    if closure is not None:
        with torch.enable_grad():
            loss = closure()
    for number in range(len(optimizer.param_groups)):
        displace(optimizer, number)
    hooked = optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks
    if optimizer._bare is not None and not hooked:
        type(optimizer)._bare(optimizer)
    else:
        optimizer._inner_step()
    return loss


def displace(optimizer: Any, number: int) -> None:
    """Hand the tensors of a group to the operator; a compiler traces this."""
    group, states = optimizer.param_groups[number], optimizer._orbits
    if not any([p in states for p in group["params"]]):
        if not any([group[optimizer._prefix + name] for name in SIZES]):
            return
        optimizer._fit()  # a size was raised
    places = [
        place for place, p in enumerate(group["params"]) if p.grad is not None and p in states
    ]
    if not places:
        return
    params = [group["params"][place] for place in places]
    leader = states[group["params"][0]]
    displace_group(
        [local(p) for p in params],
        [local(states[p][name]) for p in params for name in states[p] if name in ELEMENTS],
        [states[p]["step"] for p in params],
        [leader[name] for name in _shared_names(leader)],
        group["lr"] if isinstance(group["lr"], Tensor) else None,
        places,
        optimizer._number,
        number,
    )


def _shared_names(leader: State) -> list[str]:
    return [name for name in ("shared_step", *SCALARS) if name in leader]


@torch.library.custom_op(
    "mpgd::displace_group", mutates_args=("xs", "orbits", "steps", "shared"), tags=_TAGS
)
def displace_group(
    xs: list[Tensor],
    orbits: list[Tensor],
    steps: list[Tensor],
    shared: list[Tensor],
    lr: Tensor | None,
    places: list[int],
    number: int,
    group_number: int,
) -> None:
    """Displace local parts of parameters and advance their drivers, step counts included.

    ``places`` are the parameters' numbers in the group.
    """
    optimizer: Any = OPTIMIZERS[number]
    group = optimizer.param_groups[group_number]
    settings = optimizer._cache.of(group_number, group)
    eta = float(check_learning_rate(group["lr"] if lr is None else lr))
    if not settings.is_perturbed or not eta:
        return
    states, first = optimizer._orbits, group["params"][0]
    params = [group["params"][place] for place in places]
    names = [[name for name in states[p] if name in ELEMENTS] for p in params]
    leader = dict(zip(_shared_names(states[first]), shared, strict=True))
    has_changed = optimizer._cache.has_changed
    if has_changed:  # drivers that are new are not among the arguments
        optimizer._fit()
        leader = {**{name: states[first][name] for name in _shared_names(states[first])}, **leader}
        cut_phases(leader, settings)
    m = next_shared(leader, settings)
    targets, words = [], iter(orbits)
    for p, x, step, known in zip(params, xs, steps, names, strict=True):
        own = {name: next(words) for name in known}
        if has_changed:
            own = {**{n: local(y) for n, y in states[p].items() if n in ELEMENTS}, **own}
            cut_phases(own, settings)
        used = {k: own[name] for name, _, k in settings.orbits}
        key = optimizer._key_of(p, settings)
        targets.append(Target(x, place_of(p), key, int(step), used))
    apply(targets, settings, eta, m)
    torch._foreach_add_(steps, 1)


@displace_group.register_fake
def _(*_: Any) -> None:
    return None
