"""A parameter's local part as a displacement sees it."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from mpgd.optim.distributed import Place


class Target(NamedTuple):
    """What is displaced, and all that its numbers depend on.

    Attributes:
        x: the local part of a parameter, or what stands for it; complex numbers as pairs.
        place: of the part in the whole parameter.
        key: the hash of (seed, ordinal).
        step: the number of the step.
        orbits: the words of each driver number that is in use.
    """

    x: Tensor
    place: Place
    key: int
    step: int
    orbits: dict[int, Tensor]
