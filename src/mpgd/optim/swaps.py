"""Parameters that somebody replaced inside an optimizer's groups.

FSDP2 through accelerate, among others, puts new tensors into `param_groups` after the optimizer was
made. A state belongs to a place, which its key tells, the hash of (seed, ordinal): so it is handed
to the tensor that is there now, or that one's state is made anew. No state stays behind of a tensor
that is in no group, since torch's `state_dict` fails on one.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import Any

import torch
from torch import Tensor

from mpgd.noise.counter_hash import make_key
from mpgd.optim.numbering import ordinals_of
from mpgd.optim.orbits import BUFFER, Group, State, orbit_name
from mpgd.optim.settings import TWIN, Settings
from mpgd.optim.shards import is_sharded, like, local, place_of


def follow(
    groups: Iterable[tuple[Group, Settings]], states: MutableMapping[Any, State]
) -> list[tuple[Tensor, Tensor]]:
    """Hand the states of replaced parameters on, and return pairs (replaced, successor)."""
    every = [(p, settings) for group, settings in groups for p in group["params"]]
    present = {id(p) for p, _ in every}
    lost = [p for p in states if isinstance(p, Tensor) and id(p) not in present]
    if not lost:
        return []
    by_key = {int(states[p]["key"]): p for p in lost if "key" in states[p]}
    pairs = []
    for (p, settings), ordinal in zip(every, ordinals_of([p for p, _ in every]), strict=True):
        old = None if states.get(p) else by_key.get(make_key(settings.seed, ordinal))
        if old is not None:
            pairs.append((old, p))
            state = _handed_on(states[old], old, p)
            if state is not None:
                states[p] = state
    for p in lost:
        del states[p]
    return pairs


def _handed_on(state: State, old: Tensor, new: Tensor) -> State | None:
    """Return the state of ``old`` for ``new``; None if its orbits cannot be cut to fit."""
    if old.shape != new.shape:
        return None
    if not is_sharded(old):
        return _cut(state, new)
    same = is_sharded(new) and _cut_of(old) == _cut_of(new)
    return dict(state) if same else None


def _cut_of(parameter: Any) -> tuple[Any, ...]:
    return parameter.device_mesh, tuple(parameter.placements)


def _cut(state: State, parameter: Tensor) -> State:
    """Return the state of a whole parameter for the local part of ``parameter``."""
    place, device = place_of(parameter), parameter.device
    found = dict(state)
    large = {orbit_name(number) for number in range(2 * TWIN)} | {BUFFER}
    for name in large & state.keys():
        word, index = local(state[name]).to(device).reshape(-1), place.index(device)
        size = torch.Size(place.shape).numel()
        part = word[:size] if index is None else word[index.reshape(-1)]
        found[name] = like(parameter, part.reshape(place.shape).clone())
    return found
