"""A warning where two optimizers of one training give different tensors the same noise.

The noise of a tensor is a function of (seed, stream, ordinal), and every optimizer counts its
parameters from 0. So two optimizers with the default seed, as of a GAN, repeat each other's noise.

Two that live at the same time need not train together: a notebook keeps the last run's. They do if
their steps alternate. When an optimizer steps again, it is compared with all that stepped since it
last did, once. A copy, or one that has loaded a checkpoint, has the other's noise on purpose if its
tensors have the other's shapes too: no warning.
"""

from __future__ import annotations

import warnings
from itertools import takewhile
from typing import Any, Final

from mpgd.optim.operator import OPTIMIZERS

_ROOM: Final = 64


class _Turn:
    """Whose turn it was, who stepped before, and what was compared and warned of."""

    def __init__(self) -> None:
        self.last = -1
        self.order: dict[int, None] = {}  # by their last steps, the latest at the end
        self.seen: set[tuple[int, int]] = set()
        self.warned: set[int] = set()
        self.restored: set[int] = set()  # from a copy, a pickle or a checkpoint
        self.room = _ROOM  # numbers to keep before those of optimizers that are gone are dropped


TURN: Final = _Turn()
TEXT: Final = (
    "two optimizers that train at the same time have the same seed and stream, and so give "
    "different tensors the same noise: pass stream=, a name or a number of its own, to one of "
    "them (or call mpgd.optim.number_parameters on the model that they share)"
)


def take_turn(optimizer: Any) -> None:
    """Note that an optimizer steps; warn if one that stepped since it last did has its noise."""
    number, last = optimizer._number, TURN.last
    if number == last:
        return
    TURN.last = number
    if number in TURN.order and (number, last) not in TURN.seen:
        TURN.seen.add((number, last))
        order = list(TURN.order)  # at once: other threads may step meanwhile
        since = list(takewhile(lambda other: other != number, reversed(order)))
        if number not in TURN.warned and _collides(optimizer, since):
            TURN.warned |= {number, *since}  # they train together, and are warned of together
            warnings.warn(TEXT, UserWarning, stacklevel=5)  # past torch's wrappers of step
    TURN.order.pop(number, None)
    TURN.order[number] = None
    if len(TURN.order) + len(TURN.restored) > TURN.room:
        _forget_gone()


def _forget_gone() -> None:
    """Drop the numbers of optimizers that are gone; there is room for as many again as are left."""
    for number in list(TURN.order):
        if number not in OPTIMIZERS:
            TURN.order.pop(number, None)
    for pair in list(TURN.seen):
        if not all(number in OPTIMIZERS for number in pair):
            TURN.seen.discard(pair)
    for numbers in (TURN.warned, TURN.restored):
        for number in list(numbers):
            if number not in OPTIMIZERS:
                numbers.discard(number)
    TURN.room = _ROOM + 2 * (len(TURN.order) + len(TURN.restored))


def _collides(optimizer: Any, others: list[int]) -> bool:
    """Return whether an optimizer and one of the others perturb different tensors by one key."""
    mine = _keys(optimizer)
    for number in others:
        other: Any = OPTIMIZERS.get(number)
        its = {} if other is None else _keys(other)
        both = [(mine[key], its[key]) for key in mine.keys() & its.keys()]
        is_restored = not TURN.restored.isdisjoint({number, optimizer._number})
        is_copy = is_restored and all(a.shape == b.shape for a, b in both)
        if not is_copy and any(a is not b for a, b in both):
            return True
    return False


def _keys(optimizer: Any) -> dict[int, Any]:
    """Return the parameters of an optimizer by the key of their noise."""
    return {int(state["key"]): p for p, state in optimizer._driver_states() if "key" in state}
