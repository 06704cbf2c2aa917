"""Damaged checkpoints: refused with nothing changed, or loaded and then a state that goes on."""

from __future__ import annotations

import random
from collections.abc import Iterator
from copy import deepcopy

from tests.optim.checkpoints import KINDS, made
from tests.optim.workers import run, same_bits, small_net, snapshot

COUNT = 700


def attack(seed: int) -> Iterator[str | None]:
    """Damage the state dicts of MPGD and of wrapped optimizers in one to three places."""
    from tests.optim.test_attacked_checkpoints import corrupt, places

    sources = {kind: made(kind, small_net(), symmetric=True, engine="torch") for kind in KINDS}
    for source in sources.values():
        run(source, 3)
    for number in range(COUNT):
        dice = random.Random(f"{seed} {number}")
        kind = dice.choice(KINDS)
        saved = deepcopy(sources[kind].state_dict())
        paths = []
        for _ in range(dice.choice((1, 1, 1, 2, 3))):
            if any(places(saved)):  # else the damage before has left nothing
                paths.append(corrupt(saved, dice))
        problem = load(kind, saved)
        yield problem and f"number {number}, {kind}, {paths}: {problem}"


def load(kind: str, saved: dict[str, object]) -> str | None:
    """Load a state dict into an optimizer that has taken a step; return what went wrong."""
    optimizer = made(kind, small_net(), symmetric=True, engine="torch")
    run(optimizer, 1)
    before = snapshot(optimizer)
    try:
        optimizer.load_state_dict(saved)  # type: ignore[arg-type]
    except ValueError:
        return None if same_bits(snapshot(optimizer), before) else "refused, but changed"
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    try:
        run(optimizer, 10, first=3)
        made(kind, small_net(), symmetric=True, engine="torch").load_state_dict(
            optimizer.state_dict()
        )
    except Exception as problem:
        return f"loaded, then {type(problem).__name__}: {problem}"
    return None
