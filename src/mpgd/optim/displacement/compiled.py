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

from mpgd.optim.displacement import displace, next_shared
from mpgd.optim.displacement.reference import Target
from mpgd.optim.distributed import local, place_of
from mpgd.optim.settings import SIZES, check_learning_rate
from mpgd.optim.state import ELEMENTS, SCALARS, State, check_orbits, cut_phases

OPTIMIZERS: Final[WeakValueDictionary[int, Optimizer]] = WeakValueDictionary()
SHARED_NAMES: Final = ("shared_step", *SCALARS)
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
        _call_operator(optimizer, number)
    hooked = optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks
    if optimizer._bare is not None and not hooked:
        type(optimizer)._bare(optimizer)
    else:
        optimizer._inner_step()
    return loss


def _call_operator(optimizer: Any, number: int) -> None:
    """Hand the tensors of a group to the operator; a compiler traces this."""
    group, states = optimizer.param_groups[number], optimizer._orbits
    if not any([p in states for p in group["params"]]):
        if not any([group[optimizer._prefix + name] for name in SIZES]):
            return
        optimizer._fit()  # a size was raised
    every = list(enumerate(group["params"]))
    places = [place for place, p in every if p.grad is not None and p in states]
    if not places:
        return
    params = [group["params"][place] for place in places]
    leader = states[group["params"][0]]
    displace_group(
        [local(p) for p in params],
        [local(states[p][name]) for p in params for name in ELEMENTS if name in states[p]],
        [states[p]["step"] for p in params],
        [leader[name] for name in SHARED_NAMES if name in leader],
        group["lr"] if isinstance(group["lr"], Tensor) else None,
        places,
        [_mask_of(ELEMENTS, states[p]) for p in params],
        _mask_of(SHARED_NAMES, leader),
        optimizer._number,
        number,
    )


def _mask_of(names: tuple[str, ...], state: State) -> int:
    """Return which of the names a state holds, as bits: operators take no texts in lists."""
    return sum([1 << k for k, name in enumerate(names) if name in state])


def _masked(names: tuple[str, ...], mask: int) -> list[str]:
    return [name for k, name in enumerate(names) if mask >> k & 1]


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
    held: list[int],
    held_shared: int,
    number: int,
    group_number: int,
) -> None:
    """Displace local parts of parameters and advance their drivers, step counts included.

    ``places`` are the parameters' numbers in the group; ``held`` and ``held_shared`` say which
    orbits are among the arguments. Others were made since the graph was.
    """
    optimizer: Any = OPTIMIZERS[number]
    group = optimizer.param_groups[group_number]
    settings = optimizer._cache.of(group_number, group)
    eta = float(check_learning_rate(group["lr"] if lr is None else lr))
    has_changed = optimizer._displaced.get(group_number) is not settings
    optimizer._displaced[group_number] = settings
    if has_changed:
        optimizer._fit()
    if not settings.is_perturbed or not eta:
        return
    states, params = optimizer._orbits, [group["params"][place] for place in places]
    leader = states[group["params"][0]]
    leader = {name: leader[name] for name in SHARED_NAMES if name in leader}
    leader |= dict(zip(_masked(SHARED_NAMES, held_shared), shared, strict=True))
    if has_changed:
        cut_phases(leader, settings)
    m = next_shared(leader, settings)
    targets, words = [], iter(orbits)
    for p, x, step, mask in zip(params, xs, steps, held, strict=True):
        own = {name: local(y) for name, y in states[p].items() if name in ELEMENTS}
        own |= {name: next(words) for name in _masked(ELEMENTS, mask)}
        if has_changed:
            cut_phases(own, settings)
        check_orbits([x], [own], settings)
        used = {k: own[name] for name, _, k in settings.orbits}
        key = optimizer._key_of(p, settings)
        targets.append(Target(x, place_of(p), key, step, used))
    displace(targets, settings, eta, m)
    torch._foreach_add_(steps, 1)


@displace_group.register_fake
def _(*_: Any) -> None:
    return None
