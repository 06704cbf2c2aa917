"""Damaged checkpoints: an error and nothing changed, or a state that is one and goes on."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor

from mpgd.optim.settings import NAMES, PREFIX
from mpgd.optim.state import ENTRIES
from tests.optim.checkpoints import KINDS, drivers_state, made
from tests.optim.workers import run, same_bits, small_net, snapshot

CORRUPTIONS = 125  # of each of the four kinds
OURS = {prefix + name for prefix in ("", PREFIX) for name in (*NAMES, *ENTRIES)} - {"step"}
JUNK = [None, "x", -1, -0.5, float("nan"), float("inf"), [], {}, True, (1.0, 2.0, 3.0), 2.5]
EDITS: list[Callable[[Tensor], Any]] = [
    lambda x: x.reshape(-1).to_sparse(),
    lambda x: x.to("meta"),
    lambda x: x.reshape(-1)[:1].expand(2),
    lambda x: x[..., None],
    lambda x: x.to(torch.complex64),
    lambda x: x.to(torch.float32),
    lambda x: x.to(torch.int64),
    lambda x: -1 - x.abs(),
    lambda x: torch.full_like(x.double(), float("nan")),
    lambda x: x.reshape(-1).tolist(),
    lambda x: x.new_empty(0),
]


def places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to every entry that is ours, or holds some, of a state dict."""
    items = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in items:
        is_nest = isinstance(value, (dict, list)) and key not in OURS
        if is_nest or key in OURS:
            yield (*path, key)
        if is_nest and key != "params":
            yield from places(value, (*path, key))


def corrupt(saved: Any, dice: random.Random) -> tuple[Any, ...]:
    """Change one entry of a state dict; return the way to it."""
    path = dice.choice(list(places(saved)))
    parent = saved
    for key in path[:-1]:
        parent = parent[key]
    value = parent[path[-1]]
    is_plain = isinstance(value, Tensor) and value.layout == torch.strided  # not damaged before
    if is_plain and value.device.type == "cpu" and dice.random() < 0.6:
        parent[path[-1]] = dice.choice(EDITS)(value)
    elif dice.random() < 0.3:
        del parent[path[-1]]
    else:
        parent[path[-1]] = dice.choice(JUNK)
    return path


@pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_state_is_refused_whole_or_is_a_state(kind: str) -> None:
    source = made(kind, small_net(), symmetric=True, engine="torch")
    run(source, 3)
    refused = 0
    for number in range(CORRUPTIONS):
        dice = random.Random(f"{kind} {number}")
        saved = deepcopy(source.state_dict())
        path = corrupt(saved, dice)
        optimizer = made(kind, small_net(), symmetric=True, engine="torch")
        run(optimizer, 1)
        before = snapshot(optimizer)
        try:
            optimizer.load_state_dict(saved)
        except ValueError:
            refused += 1
            assert same_bits(snapshot(optimizer), before), path
            continue
        run(optimizer, 10, first=3)
        for own in drivers_state(optimizer).values():
            assert 10 <= int(own["step"]) < 2**62, path
            assert own["additive"].dtype == torch.int32, path
        again = made(kind, small_net(), symmetric=True, engine="torch")
        again.load_state_dict(optimizer.state_dict())  # what it holds is a whole state
    assert CORRUPTIONS // 3 < refused < CORRUPTIONS  # both ends are met
