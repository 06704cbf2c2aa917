"""A warning where two optimizers of one training give different tensors the same noise.

The noise of a tensor is a function of (seed, stream, ordinal), and every optimizer counts its
parameters from 0. So two optimizers with the default seed, as of a GAN, repeat each other's noise.

Two that live at the same time need not train together: a notebook keeps the last run's. They do if
their steps alternate. When an optimizer steps again after another one did, the two are compared,
once. Where all tensors with the same noise have the same shapes too, one optimizer is taken for a
copy, a resumed run or a repetition of the other, which has its noise on purpose: no warning.
"""

from __future__ import annotations

import warnings
from typing import Any, Final

from mpgd.optim.operator import OPTIMIZERS


class _Turn:
    """Whose turn it was, and which pairs were compared."""

    def __init__(self) -> None:
        self.last = -1
        self.seen: set[tuple[int, int]] = set()


TURN: Final = _Turn()
TEXT: Final = (
    "two optimizers that train at the same time have the same seed and stream, and so give "
    "different tensors the same noise: pass stream=, a name or a number of its own, to one of "
    "them (or call mpgd.number_parameters on the model that they share)"
)


def take_turn(optimizer: Any) -> None:
    """Note that an optimizer steps; warn if its noise is that of the one which stepped before."""
    number, last = optimizer._number, TURN.last
    if number == last:
        return
    TURN.last = number
    pair = (number, last)
    if pair in TURN.seen or (last, number) not in TURN.seen:
        TURN.seen.add(pair)  # the first change; another one back makes it an alternation
        return
    TURN.seen.add(pair)
    other: Any = OPTIMIZERS.get(last)
    if other is not None and _collide(optimizer, other):
        warnings.warn(TEXT, UserWarning, stacklevel=5)  # past torch's wrappers of step


def _collide(one: Any, other: Any) -> bool:
    """Return whether two optimizers perturb different tensors by one key."""
    mine, its = _keys(one), _keys(other)
    return any(mine[key].shape != its[key].shape for key in mine.keys() & its.keys())


def _keys(optimizer: Any) -> dict[int, Any]:
    """Return the parameters of an optimizer by the key of their noise."""
    return {int(state["key"]): p for p, state in optimizer._driver_states() if "key" in state}
