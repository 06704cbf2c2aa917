"""The displacement of a group as one operator that `torch.compile` does not look into.

A compiler that took it apart would make a kernel of its own. That takes seconds, and it would fuse
multiplications and additions, which changes bits. So a compiled step hands the tensors of a group
to this operator, which does what the plain step does.

Numbers are not arguments: the compiler would take them for constants and start again for every new
one. The operator gets the number of the optimizer, and reads its settings and learning rate when it
runs. A learning rate that is a tensor is an argument, because a graph may change it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any, Final
from weakref import WeakValueDictionary

import torch
from torch import Tensor
from torch.optim import Optimizer

from mpgd.optim.displacement import displace as apply
from mpgd.optim.displacement import next_shared
from mpgd.optim.displacement.target import Target
from mpgd.optim.distributed import local, place_of
from mpgd.optim.settings import check_learning_rate
from mpgd.optim.state import ELEMENTS, SCALARS, State, is_complete

OPTIMIZERS: Final[WeakValueDictionary[int, Optimizer]] = WeakValueDictionary()
_numbers = count()
_LEADING: Final = ("shared_step", *SCALARS)
# Addresses and the step differ at every call, so no CUDA graph may hold one.
_TAGS: Final = [tag] if (tag := getattr(torch.Tag, "cudagraph_unsafe", None)) else []


def register(optimizer: Optimizer) -> int:
    """Return the number under which the operator finds an optimizer, as long as it lives."""
    number = next(_numbers)
    OPTIMIZERS[number] = optimizer
    return number


def displace(optimizer: Any, number: int) -> None:
    """Hand the tensors of a group to the operator; a compiler traces this."""
    group, states = optimizer.param_groups[number], optimizer._orbits
    if not group["params"]:
        return
    places = [place for place, p in enumerate(group["params"]) if p.grad is not None]
    params = [group["params"][place] for place in places]
    given = [states.get(p, {}) for p in params]
    leader = states.get(group["params"][0], {})
    displace_group(
        [local(p) for p in params],
        [local(state[name]) for state in given for name in ELEMENTS if name in state],
        [state["step"] for state in given if "step" in state],
        [leader[name] for name in _LEADING if name in leader],
        group["lr"] if isinstance(group["lr"], Tensor) else None,
        places,
        [_mask(state, (*ELEMENTS, "step")) for state in given],
        _mask(leader, _LEADING),
        optimizer._number,
        number,
    )


def _mask(state: State, names: tuple[str, ...]) -> int:
    """Return which of some entries a state has, as bits."""
    return sum([1 << k for k, name in enumerate(names) if name in state])


def _named(mask: int, names: tuple[str, ...], tensors: Iterator[Tensor]) -> dict[str, Tensor]:
    return {name: next(tensors) for k, name in enumerate(names) if mask >> k & 1}


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
    given: list[int],
    given_shared: int,
    number: int,
    group_number: int,
) -> None:
    """Displace local parts of parameters and advance their drivers, step counts included.

    What a graph hands over may be copies of the tensors in the optimizer's states, which it writes
    back; so these are worked on. Drivers that a setting asks for since it was compiled are made
    here, and the next call compiles anew.

    Args:
        xs: local parts of the parameters that have a gradient.
        orbits: their orbits.
        steps: their step counts.
        shared: the step count and the orbits of the group's shared driver.
        lr: the learning rate, if it is a tensor.
        places: the parameters' numbers in the group.
        given: of each, which entries are among ``orbits`` and ``steps``, see `_mask`.
        given_shared: which entries ``shared`` are.
        number: of the optimizer.
        group_number: of the group.
    """
    optimizer: Any = OPTIMIZERS[number]
    group = optimizer.param_groups[group_number]
    settings = optimizer._cache.of(group_number, group)
    eta = float(check_learning_rate(group["lr"] if lr is None else lr))
    if not settings.is_perturbed or not eta:
        return
    states = optimizer._orbits
    if not is_complete(group, settings, states):
        optimizer._fit()
    leader = {**states[group["params"][0]], **_named(given_shared, _LEADING, iter(shared))}
    m = next_shared(leader, settings)
    words, counts, targets, counted = iter(orbits), iter(steps), [], []
    for place, x, mask in zip(places, xs, given, strict=True):
        p = group["params"][place]
        own = {**states[p], **_named(mask, ELEMENTS, words)}
        own |= _named(mask >> len(ELEMENTS), ("step",), counts)
        used = {k: local(own[name]) for name, _, k in settings.orbits}
        key = optimizer._key_of(p, settings)
        targets.append(Target(x, place_of(p), key, int(own["step"]), used))
        counted.append(own["step"])
    if targets:
        apply(targets, settings, eta, m)
        torch._foreach_add_(counted, 1)


@displace_group.register_fake
def _(*_: Any) -> None:
    return None
