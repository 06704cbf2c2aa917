"""What the tests compare with: the numpy reference's words and values, keyed as torch keys them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mpgd.noise.counter_hash import make_key, step_key
from mpgd.noise.driver import values
from tests.noise.integer_reference import Reference, Words

Array = NDArray[np.float64]
SHARED = 2**40  # the number of the shared driver's tensor


@dataclass
class Orbits:
    """One driver of one tensor; `step` returns its values and moves on."""

    reference: Reference
    shape: tuple[int, ...]
    key: int
    words: Words
    turn: int = 0

    def step(self) -> Array:
        """Return the values, float64, in the tensor's shape."""
        c0, c1 = values(self.reference.gamma, self.reference.longest)
        index = np.arange(self.words.size)
        units, self.words = self.reference.step(self.words, index, step_key(self.key, self.turn))
        self.turn += 1
        return (np.where(np.abs(units) == 2, c1, c0) * np.sign(units)).reshape(self.shape)


def orbits(
    reference: Reference,
    shape: tuple[int, ...],
    seed: int,
    tensor: int,
    driver: int,
    first_sign: str = "drawn",
) -> Orbits:
    """Return the orbits of driver number ``driver`` of tensor number ``tensor`` at their start."""
    key = make_key(seed, tensor, driver)
    sign_key = make_key(key, 1) if first_sign == "drawn" else None
    words = reference.start(np.arange(int(np.prod(shape))), make_key(key, 0), sign_key)
    return Orbits(reference, shape, key, words)
