"""The step of a group as one operator that `torch.compile` does not look into.

A compiler that took the step apart would make a kernel of its own. That takes seconds, and it would
fuse multiplications and additions, which changes bits. So a compiled step hands all tensors of a
group to this operator, which calls the same kernel as the plain step.

Numbers are not arguments: the compiler would take them for constants and start again for every new
learning rate. The operator gets the number of the optimizer, and reads its settings and learning
rate when it runs. A learning rate that is a tensor is an argument, because a graph may change it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any, Final
from weakref import WeakValueDictionary

import torch
from torch import Tensor
from torch.optim import Optimizer

from mpgd.noise.engines import FLOATS, kernel_for
from mpgd.optim import kernel_rows
from mpgd.optim.loop import keep_direction
from mpgd.optim.orbits import BUFFER, State, count_steps, next_shared
from mpgd.optim.settings import Current, Settings, check_learning_rate
from mpgd.optim.shards import local, place_of

OPTIMIZERS: Final[WeakValueDictionary[int, Optimizer]] = WeakValueDictionary()
_numbers = count()


def enrol(optimizer: Optimizer) -> int:
    """Return the number under which the operator finds an optimizer, as long as it lives."""
    number = next(_numbers)
    OPTIMIZERS[number] = optimizer
    return number


def send(
    place: tuple[int, int],
    group: dict[str, Any],
    params: Sequence[Tensor],
    others: Sequence[Tensor],
    states: Sequence[State],
    settings: Settings,
    leader: State,
    fresh: Sequence[bool] = (),
) -> bool:
    """Leave the whole step of a group to the operator, if a kernel takes all its parameters.

    Args:
        place: the number of the optimizer, and of the group in it.
        group: the parameter group.
        params: those of its parameters that have gradients.
        others: their gradients, or what they were before another optimizer's step.
        states: of their drivers.
        settings: of the group.
        leader: the state of the group's first parameter, which holds a shared driver.
        fresh: which of the momentum's buffers were never written to; empty without momentum.
    """
    parts = [(local(p), place_of(p).offset) for p in params]
    if not parts or not all(_is_taken(x, offset, settings) for x, offset in parts):
        return False
    if any(x.dtype != other.dtype for (x, _), other in zip(parts, others, strict=bool(others))):
        return False
    names = [name for name, _, _ in settings.orbits]
    shared = ["shared_step", *(name for name, _ in settings.shared_orbits)]
    step_group(
        [x for x, _ in parts],
        [local(other) for other in others],
        [local(state[name]) for state in states for name in names],
        [state["step"] for state in states],
        [state["key"] for state in states],
        [leader[name] for name in shared] if settings.shared else [],
        [local(state[BUFFER]) for state in states] if fresh else [],
        [int(is_fresh) for is_fresh in fresh],
        [offset for _, offset in parts if offset is not None],
        group["lr"] if isinstance(group["lr"], Tensor) else None,
        *place,
    )
    return True


def _is_taken(x: Tensor, offset: int | None, settings: Settings) -> bool:
    kernel = kernel_for(settings.engine, x.device)
    return (
        kernel is not None
        and offset is not None
        and x.dtype in FLOATS[kernel]
        and x.is_contiguous()
    )


@torch.library.custom_op(
    "mpgd::step_group",
    mutates_args=("xs", "orbits", "steps", "shared", "buffers"),
    tags=[torch.Tag.cudagraph_unsafe],  # the addresses and the step differ at every call
)
def step_group(
    xs: list[Tensor],
    others: list[Tensor],
    orbits: list[Tensor],
    steps: list[Tensor],
    keys: list[Tensor],
    shared: list[Tensor],
    buffers: list[Tensor],
    fresh: list[int],
    offsets: list[int],
    lr: Tensor | None,
    number: int,
    group_number: int,
) -> None:
    """Update local parts of parameters and advance their drivers, step counts included."""
    optimizer: Any = OPTIMIZERS[number]
    group = optimizer.param_groups[group_number]
    eta = float(check_learning_rate(group["lr"] if lr is None else lr))
    how = optimizer._gradient_step(group)
    if eta == 0:  # nothing but a buffer changes, and the orbits wait
        for x, g, buffer, is_fresh in zip(xs, others, buffers, fresh, strict=bool(buffers)):
            keep_direction(x, g, buffer, bool(is_fresh), how)
        return
    current: Current = optimizer._current
    settings = current.of(group_number, group)
    states = _states(settings, orbits, steps, keys)
    for state, buffer in zip(states, buffers, strict=bool(buffers)):
        state[BUFFER] = buffer
    names = ["shared_step", *(name for name, _ in settings.shared_orbits)]
    leader = dict(zip(names, shared, strict=True)) if shared else {}
    value = next_shared(leader, settings, eta)
    again = [bool(is_fresh) for is_fresh in fresh]
    kernel_rows.step_rows(xs, others or xs, states, settings, eta, value, how, offsets, again)
    count_steps(states, eta)


@step_group.register_fake
def _(*_: Any) -> None:
    return None


def _states(
    settings: Settings, orbits: list[Tensor], steps: list[Tensor], keys: list[Tensor]
) -> list[State]:
    """Return the states that `send` took apart."""
    names = [name for name, _, _ in settings.orbits]
    found: list[State] = []
    for k, (step, key) in enumerate(zip(steps, keys, strict=True)):
        own = orbits[k * len(names) : (k + 1) * len(names)]
        found.append({"step": step, "key": key, **dict(zip(names, own, strict=True))})
    return found
